//! The modern era: whose turn it is, and what a request without a session must say.

use super::*;
use crate::outcome::HeaderFault;

/// A change of a head, as [`head`] takes it.
type Field<'a> = (&'a str, Option<&'a str>);

const MARK: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const META: &str =
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
const VERSION: (&str, Option<&str>) = ("mcp-protocol-version", Some("2026-07-28"));

/// A request with this method, these further parameters and this `_meta`.
fn request(method: &str, params: &str, meta: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}"_meta":{meta}}}}}"#)
}

/// The headers of a good request with this method and name, changed by `fields`.
fn fields<'a>(
    method: &'a str,
    name: Option<&'a str>,
    fields: &[(&'a str, Option<&'a str>)],
) -> Vec<(&'a str, Option<&'a str>)> {
    let mut all = vec![VERSION, ("mcp-method", Some(method)), ("mcp-name", name)];
    all.extend_from_slice(fields);
    all
}

/// What comes of a POST, with its era.
fn posted_at(gate: &Gate, served: Eras, fields: &[(&str, Option<&str>)], body: &str) -> Result<BodyAction, Outcome> {
    let head = head("POST", fields);
    match gate.head(served, &head) {
        HeadAction::Answer { outcome, .. } => Err(outcome),
        HeadAction::Post(post) => Ok(gate.body(
            served,
            &head.headers,
            &post,
            post.look_up().map(|_| None),
            Bytes::copy_from_slice(body.as_bytes()),
        )),
        other @ (HeadAction::Delete(_) | HeadAction::Get(_)) => panic!("{other:?}"),
    }
}

/// `sessionless`, `create`, `deliver` or the outcome; modern answers repeat the id of a request.
fn posted(served: Eras, fields: &[(&str, Option<&str>)], body: &str) -> Result<&'static str, Outcome> {
    match posted_at(&gate(), served, fields, body)? {
        BodyAction::Answer { era, id, outcome } => {
            let is_request = body.contains(r#""id":7,"method""#);
            assert_eq!(id, is_request.then_some(RequestId::Number(7)), "{era:?} {body}");
            Err(outcome)
        }
        BodyAction::Batch(_) => Ok("batch"),
        BodyAction::Create(_) => Ok("create"),
        BodyAction::Deliver(_) => Ok("deliver"),
        BodyAction::Sessionless(request) => {
            assert_eq!(request.version, ProtocolVersion::V2026_07_28);
            assert_eq!(request.message.raw(), body);
            Ok("sessionless")
        }
        BodyAction::Stateless(_) => panic!("not served"),
    }
}

fn mismatch(name: &'static str, fault: HeaderFault) -> Outcome {
    Outcome::HeaderMismatch { name: name.into(), fault }
}

fn unsupported_here(requested: &str) -> Outcome {
    Outcome::UnsupportedVersion { requested: requested.into(), era: Era::Modern }
}

const DIFFERS: HeaderFault = HeaderFault::Differs;
const MALFORMED: HeaderFault = HeaderFault::Malformed;
const MISSING: HeaderFault = HeaderFault::Missing;
const TWICE: HeaderFault = HeaderFault::Twice;
const NO_VERSION: Outcome = Outcome::MetaMissing { key: "io.modelcontextprotocol/protocolVersion" };
const NO_CAPABILITIES: Outcome = Outcome::MetaMissing { key: "io.modelcontextprotocol/clientCapabilities" };

#[test]
fn a_good_request_needs_no_session_and_heeds_none() {
    for served in [Eras::BOTH, Eras::MODERN] {
        for (method, params, name) in [
            ("server/discover", "", None),
            ("tools/list", "", None),
            ("tools/call", r#""name":"echo","#, Some("echo")),
            ("prompts/get", r#""name":"greet","#, Some("greet")),
            ("resources/read", r#""uri":"file:///a","name":"x","#, Some("file:///a")),
            ("tasks/get", r#""taskId":"t-1","name":"x","#, Some("t-1")),
            ("subscriptions/listen", "", None),
            // The app knows better which methods there are.
            ("no/such", "", None),
        ] {
            let body = request(method, params, META);
            for extra in [
                &[][..],
                // R255: whatever session is named, or none, or several.
                &[("mcp-session-id", Some(ID))],
                &[("mcp-session-id", Some("x"))],
                &[("mcp-session-id", Some(ID)), ("+mcp-session-id", Some(ID))],
                &[("last-event-id", Some("1-1")), ("+last-event-id", Some("1-1"))],
            ] {
                assert_eq!(
                    posted(served, &fields(method, name, extra), &body),
                    Ok("sessionless"),
                    "{method} {extra:?}"
                );
            }
        }
    }
}

/// R254, R257: each message has its own era, on one endpoint. R256, R259: `initialize` is legacy.
#[test]
fn the_body_decides_the_era_where_both_are_served() {
    let both = |fields: &[(&str, Option<&str>)], body: &str| posted(Eras::BOTH, fields, body);
    let live = ("mcp-session-id", Some(ID));
    let legacy = ("mcp-protocol-version", Some("2025-11-25"));
    // Without a mark, and with a header that is absent or legacy, all is as ever.
    assert_eq!(both(&[], INITIALIZE), Ok("create"));
    for header in ["2025-11-25", "2026-07-28", "1999-01-01", ""] {
        assert_eq!(both(&[("mcp-protocol-version", Some(header))], INITIALIZE), Ok("create"), "{header}");
    }
    for body in [CALL, NOTE, RESPONSE] {
        assert_eq!(both(&[live], body), Ok("deliver"));
        assert_eq!(both(&[live, legacy, ("mcp-method", Some("x")), ("mcp-name", Some("x"))], body), Ok("deliver"));
        assert_eq!(both(&[], body), Err(Outcome::MissingSession));
    }
    // That it names a session is wrong there, whose existence the header kept from being looked up.
    assert_eq!(both(&[live, VERSION], INITIALIZE), Err(Outcome::SessionNotFound));
    // With a mark the request is modern, whatever its header and session say.
    let marked = request("tools/list", "", META);
    let version = |why| Err(mismatch("MCP-Protocol-Version", why));
    assert_eq!(both(&[], &marked), version(MISSING));
    assert_eq!(both(&[live], &marked), version(MISSING));
    assert_eq!(both(&[live, legacy], &marked), version(DIFFERS));
    let initialize =
        request("initialize", r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{},"#, META);
    assert_eq!(both(&[], &initialize), version(MISSING));
    assert_eq!(both(&fields("initialize", None, &[]), &initialize), Err(Outcome::UnknownMethod));
    // So it is without a mark, by a header beyond the legacy versions.
    assert_eq!(both(&[VERSION], CALL), Err(NO_VERSION));
    // R132: what no server knows is told with the words for which clients look.
    for header in ["1999-01-01", "x", "", "2025-11-25, 2025-11-25"] {
        let found = both(&[live, ("mcp-protocol-version", Some(header))], CALL);
        assert_eq!(found, Err(unsupported_here(header)), "{header}");
    }
    // Twice the same legacy version is as wrong as ever.
    let twice = [legacy, ("+mcp-protocol-version", Some("2025-11-25"))];
    assert_eq!(both(&twice, CALL), Err(Outcome::HeaderMalformed { name: "MCP-Protocol-Version" }));
}

/// R258: where the modern era is off, its requests are refused in the words of the legacy one.
#[test]
fn a_legacy_endpoint_does_not_pass_for_a_modern_one() {
    let request = request("tools/list", "", META);
    let found = posted(Eras::LEGACY, &fields("tools/list", None, &[]), &request).expect_err("not served");
    assert_eq!(found, unsupported("2026-07-28"));
    assert_eq!((found.status().as_u16(), found.code()), (400, Some(-32600)));
    // And so they are by an endpoint that learns only then that it is one.
    let post = post_at(Eras::BOTH, &fields("tools/list", None, &[]));
    let action = gate().body(Eras::LEGACY, &HeaderMap::new(), &post, None, Bytes::from(request));
    let BodyAction::Answer { era: Era::Legacy, id, outcome } = action else { panic!("{action:?}") };
    assert_eq!((outcome, id), (found, Some(RequestId::Number(7))));
    let action = gate().body(Eras::LEGACY, &HeaderMap::new(), &post, None, Bytes::from_static(b"{"));
    assert!(matches!(action, BodyAction::Answer { era: Era::Legacy, outcome: Outcome::NotJson, .. }), "{action:?}");
}

/// The version is not asked of a legacy client alone: without any, it is the header that is missing.
#[test]
fn a_modern_endpoint_tells_legacy_clients_what_it_serves() {
    let modern = |fields: &[(&str, Option<&str>)], body: &str| posted(Eras::MODERN, fields, body);
    let live = ("mcp-session-id", Some(ID));
    let legacy = ("mcp-protocol-version", Some("2025-11-25"));
    // The handshake names its version in its parameters.
    assert_eq!(modern(&[], INITIALIZE), Err(unsupported_here("9999-01-01")));
    assert_eq!(modern(&[VERSION], INITIALIZE), Err(unsupported_here("9999-01-01")));
    assert_eq!(modern(&[live, legacy], CALL), Err(unsupported_here("2025-11-25")));
    assert_eq!(modern(&[legacy], NOTE), Err(unsupported_here("2025-11-25")));
    let missing = mismatch("MCP-Protocol-Version", MISSING);
    assert_eq!(modern(&[live], CALL), Err(missing.clone()));
    assert_eq!(modern(&[], r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#), Err(missing));
    // Sessions mean nothing here, and POST is all there is.
    assert_eq!(post_at(Eras::MODERN, &[live]).look_up(), None);
    for method in ["GET", "DELETE", "PUT"] {
        for version in [None, Some("2025-11-25"), Some("2026-07-28"), Some("x")] {
            let head = head(method, &[("mcp-protocol-version", version), live]);
            let answer =
                HeadAction::Answer { era: Era::Modern, outcome: Outcome::MethodNotAllowed { era: Era::Modern } };
            assert_eq!(gate().head(Eras::MODERN, &head), answer, "{method} {version:?}");
        }
    }
}

fn post_at(served: Eras, fields: &[(&str, Option<&str>)]) -> PostHead {
    match gate().head(served, &head("POST", fields)) {
        HeadAction::Post(post) => post,
        other @ (HeadAction::Answer { .. } | HeadAction::Delete(_) | HeadAction::Get(_)) => panic!("{other:?}"),
    }
}

/// GET and DELETE belong to sessions.
#[test]
fn both_eras_share_get_and_delete_as_far_as_they_have_them() {
    for method in ["GET", "DELETE"] {
        let asked = |version: Option<&str>| {
            let head = head(method, &[("mcp-protocol-version", version), ("mcp-session-id", Some(ID))]);
            match gate().head(Eras::BOTH, &head) {
                HeadAction::Answer { era, outcome } => Err((era, outcome)),
                HeadAction::Delete(_) | HeadAction::Get(_) | HeadAction::Post(_) => Ok(()),
            }
        };
        assert_eq!(asked(None), Ok(()));
        assert_eq!(asked(Some("2025-06-18")), Ok(()));
        let refused = Outcome::MethodNotAllowed { era: Era::Modern };
        assert_eq!(asked(Some("2026-07-28")), Err((Era::Modern, refused)), "{method}");
        // R133.
        assert_eq!(asked(Some("1999-01-01")), Err((Era::Modern, unsupported_here("1999-01-01"))), "{method}");
    }
    // What is wrong for other reasons says so in the words of the era that the head speaks of.
    for (version, era) in [(None, Era::Legacy), (Some("2025-11-25"), Era::Legacy), (Some("2026-07-28"), Era::Modern)] {
        let fields = [("mcp-protocol-version", version), ("origin", Some("null"))];
        let answer = HeadAction::Answer { era, outcome: Outcome::OriginNotAllowed };
        assert_eq!(gate().head(Eras::BOTH, &head("POST", &fields)), answer, "{version:?}");
        let put = HeadAction::Answer { era, outcome: Outcome::MethodNotAllowed { era } };
        assert_eq!(gate().head(Eras::BOTH, &head("PUT", &fields)), put, "{version:?}");
    }
}

/// Each fault of the ladder, and its answer. Behaviours of 2026-07-28, transports, server validation, and basic, `_meta`.
#[test]
fn every_rung_has_its_answer() {
    let name = |value: &str| format!(r#""name":{value},"#);
    let with = |meta: &str| request("tools/list", "", meta);
    let list = |extra: &[(&'static str, Option<&'static str>)]| fields("tools/list", None, extra);
    let call = |value: &'static str, extra: &[(&'static str, Option<&'static str>)]| {
        (fields("tools/call", Some(value), extra), request("tools/call", &name(r#""echo""#), META))
    };
    let table: Vec<(Vec<_>, String, Result<&str, Outcome>)> = vec![
        // The version's header.
        (list(&[("mcp-protocol-version", None)]), with(META), Err(mismatch("MCP-Protocol-Version", MISSING))),
        (
            list(&[("mcp-protocol-version", Some("2025-11-25"))]),
            with(META),
            Err(mismatch("MCP-Protocol-Version", DIFFERS)),
        ),
        (
            list(&[("mcp-protocol-version", Some("2027-01-01"))]),
            with(META),
            Err(mismatch("MCP-Protocol-Version", DIFFERS)),
        ),
        (list(&[("mcp-protocol-version", Some(""))]), with(META), Err(mismatch("MCP-Protocol-Version", DIFFERS))),
        (list(&[("mcp-protocol-version", Some(" \t2026-07-28 "))]), with(META), Ok("sessionless")),
        (
            list(&[("+mcp-protocol-version", Some("2026-07-28"))]),
            with(META),
            Err(mismatch("MCP-Protocol-Version", TWICE)),
        ),
        (
            list(&[("+mcp-protocol-version", Some("2025-11-25"))]),
            with(META),
            Err(mismatch("MCP-Protocol-Version", TWICE)),
        ),
        // What its `_meta` must have.
        (list(&[]), r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.to_owned(), Err(NO_VERSION)),
        (list(&[]), with("null"), Err(NO_VERSION)),
        (list(&[]), with("{}"), Err(NO_VERSION)),
        (list(&[]), with(r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#), Err(NO_VERSION)),
        (list(&[]), with(&format!("{{{MARK}}}")), Err(NO_CAPABILITIES)),
        (
            list(&[]),
            with(&format!(r#"{{{MARK},"io.modelcontextprotocol/clientCapabilities":null}}"#)),
            Err(NO_CAPABILITIES),
        ),
        (
            list(&[]),
            with(&format!(r#"{{{MARK},"io.modelcontextprotocol/clientCapabilities":[]}}"#)),
            Err(NO_CAPABILITIES),
        ),
        (
            list(&[]),
            with(
                r#"{"io.modelcontextprotocol/protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":{}}"#,
            ),
            Err(mismatch("MCP-Protocol-Version", DIFFERS)),
        ),
        // Who the client is, is its own affair.
        (
            list(&[]),
            with(&format!(
                r#"{{{MARK},"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":1}}"#
            )),
            Ok("sessionless"),
        ),
        // An unknown version, or one of sessions, in both places.
        (
            list(&[("mcp-protocol-version", Some("v999.0.0"))]),
            with(r#"{"io.modelcontextprotocol/protocolVersion":"v999.0.0"}"#),
            Err(unsupported_here("v999.0.0")),
        ),
        (
            list(&[("mcp-protocol-version", Some("2025-11-25")), ("mcp-method", None)]),
            with(r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}"#),
            Err(unsupported_here("2025-11-25")),
        ),
        // The method's header: its value has a case, its name has none.
        (list(&[("mcp-method", None)]), with(META), Err(mismatch("Mcp-Method", MISSING))),
        (list(&[("mcp-method", Some(""))]), with(META), Err(mismatch("Mcp-Method", DIFFERS))),
        (list(&[("mcp-method", Some("prompts/list"))]), with(META), Err(mismatch("Mcp-Method", DIFFERS))),
        (list(&[("mcp-method", Some("TOOLS/LIST"))]), with(META), Err(mismatch("Mcp-Method", DIFFERS))),
        (list(&[("mcp-method", None), ("MCP-METHOD", Some("tools/list"))]), with(META), Ok("sessionless")),
        (list(&[("mcp-method", Some("  tools/list\t"))]), with(META), Ok("sessionless")),
        (
            list(&[("mcp-method", Some("=?base64?dG9vbHMvbGlzdA==?="))]),
            with(META),
            Err(mismatch("Mcp-Method", DIFFERS)),
        ),
        (list(&[("+mcp-method", Some("tools/list"))]), with(META), Err(mismatch("Mcp-Method", TWICE))),
        // The name's header, for three methods alone.
        (list(&[("mcp-name", Some("x"))]), with(META), Ok("sessionless")),
        {
            let (fields, body) = call("echo", &[("mcp-name", None)]);
            (fields, body, Err(mismatch("Mcp-Name", MISSING)))
        },
        {
            let (fields, body) = call("ECHO", &[]);
            (fields, body, Err(mismatch("Mcp-Name", DIFFERS)))
        },
        {
            let (fields, body) = call("", &[]);
            (fields, body, Err(mismatch("Mcp-Name", DIFFERS)))
        },
        {
            let (fields, body) = call("  echo  ", &[]);
            (fields, body, Ok("sessionless"))
        },
        {
            let (fields, body) = call("=?base64?ZWNobw==?=", &[]);
            (fields, body, Ok("sessionless"))
        },
        {
            let (fields, body) = call("=?base64?ZWNobw?=", &[]);
            (fields, body, Err(mismatch("Mcp-Name", MALFORMED)))
        },
        {
            let (fields, body) = call("echo", &[("+mcp-name", Some("echo"))]);
            (fields, body, Err(mismatch("Mcp-Name", TWICE)))
        },
        (
            fields("tools/call", Some("caf\u{e9}"), &[]),
            request("tools/call", &name("\"caf\u{e9}\""), META),
            Err(mismatch("Mcp-Name", MALFORMED)),
        ),
        (
            fields("tools/call", Some("=?base64?Y2Fmw6k=?="), &[]),
            request("tools/call", &name(r#""caf\u00e9""#), META),
            Ok("sessionless"),
        ),
        (
            fields("resources/read", Some("a"), &[]),
            request("resources/read", r#""uri":"b","name":"a","#, META),
            Err(mismatch("Mcp-Name", DIFFERS)),
        ),
        (fields("tools/call", Some("echo"), &[]), request("tools/call", "", META), Err(mismatch("Mcp-Name", DIFFERS))),
        (
            fields("tools/call", Some("1"), &[]),
            request("tools/call", &name("1"), META),
            Err(mismatch("Mcp-Name", DIFFERS)),
        ),
        // The app says better that its parameters are wrong.
        (fields("tools/call", None, &[]), request("tools/call", "", META), Ok("sessionless")),
    ];
    for served in [Eras::BOTH, Eras::MODERN] {
        for (fields, body, expected) in &table {
            assert_eq!(&posted(served, fields, body), expected, "{fields:?} {body}");
        }
    }
}

/// What earlier revisions had is unknown, also to an app that would know it.
#[test]
fn removed_methods_are_unknown() {
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
    ] {
        for served in [Eras::BOTH, Eras::MODERN] {
            let found = posted(served, &fields(method, None, &[]), &request(method, "", META));
            assert_eq!(found, Err(Outcome::UnknownMethod), "{method}");
        }
    }
}

/// R137: a request with two faults is answered for the earlier one.
#[test]
fn the_rungs_have_an_order() {
    let faults: [(&[Field<'_>], &str, Outcome); 6] = [
        (&[("mcp-protocol-version", Some("2025-11-25"))], "", mismatch("MCP-Protocol-Version", DIFFERS)),
        (&[("mcp-method", None)], "", mismatch("Mcp-Method", MISSING)),
        (&[("mcp-name", Some("x"))], "", mismatch("Mcp-Name", DIFFERS)),
        (&[], "capabilities", NO_CAPABILITIES),
        (&[], "", Outcome::UnknownMethod),
        (&[("accept", Some("application/json"))], "", Outcome::NotAcceptable),
    ];
    // A method that has a name and one that is removed are never the same, and neither is one that streams.
    let compatible = |one: usize, other: usize| !matches!((one, other), (2, 4 | 5) | (4, 5));
    for (at, (first, meta, outcome)) in faults.iter().enumerate() {
        for (later, (second, meta_later, _)) in faults.iter().enumerate().skip(at) {
            if !compatible(at, later) {
                continue;
            }
            let (method, params) = match (at, later) {
                (2, _) | (_, 2) => ("tools/call", r#""name":"echo","#),
                (4, _) | (_, 4) => ("ping", ""),
                (5, _) | (_, 5) => ("subscriptions/listen", ""),
                _ => ("tools/list", ""),
            };
            let bare = format!("{{{MARK}}}");
            let meta = if meta.is_empty() && meta_later.is_empty() { META } else { &bare };
            let name = (method == "tools/call").then_some("echo");
            let all: Vec<_> = fields(method, name, &[])
                .into_iter()
                .chain(second.iter().copied())
                .chain(first.iter().copied())
                .collect();
            let found = posted(Eras::BOTH, &all, &request(method, params, meta));
            assert_eq!(found.as_ref(), Err(outcome), "{at} and {later}");
        }
    }
}

#[test]
fn messages_that_are_no_request_get_no_app() {
    let note = |meta: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"_meta":{meta}}}}}"#);
    let marked = note(&format!("{{{MARK}}}"));
    let other = note(r#"{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}"#);
    for served in [Eras::BOTH, Eras::MODERN] {
        for (fields, body, expected) in [
            // A notification is taken in and dropped; nothing is asked of its headers.
            (&[VERSION][..], NOTE, Outcome::Accepted),
            (&[VERSION, ("mcp-method", Some("x"))], NOTE, Outcome::Accepted),
            (&[VERSION, ("mcp-session-id", Some(ID))], &marked, Outcome::Accepted),
            (&[], &marked, Outcome::Accepted),
            (&[("mcp-protocol-version", Some("2025-11-25"))], &marked, mismatch("MCP-Protocol-Version", DIFFERS)),
            (&[("mcp-protocol-version", Some("2027-01-01"))], NOTE, unsupported_here("2027-01-01")),
            (&[], &other, unsupported_here("2027-01-01")),
            (&[VERSION, ("+mcp-protocol-version", Some("2026-07-28"))], NOTE, mismatch("MCP-Protocol-Version", TWICE)),
            (&[VERSION], RESPONSE, Outcome::NotOneMessage { why: "a response belongs to a session" }),
            (&[VERSION], "[]", Outcome::NotOneMessage { why: "batches are not supported" }),
            (&[VERSION], "7", Outcome::NotOneMessage { why: "a JSON-RPC message is an object" }),
            (&[VERSION], "{", Outcome::NotJson),
        ] {
            assert_eq!(posted(served, fields, body), Err(expected), "{served:?} {fields:?} {body}");
        }
    }
    // A notification of sessions, on the endpoint that has none.
    assert_eq!(posted(Eras::MODERN, &[], NOTE), Err(Outcome::Accepted));
}

/// What stands for an id that nobody could read is decided by the head.
#[test]
fn answers_without_an_id_know_their_era() {
    for (served, version, era) in [
        (Eras::LEGACY, Some("2026-07-28"), Era::Legacy),
        (Eras::BOTH, None, Era::Legacy),
        (Eras::BOTH, Some("2025-11-25"), Era::Legacy),
        (Eras::BOTH, Some("2026-07-28"), Era::Modern),
        (Eras::BOTH, Some("x"), Era::Modern),
        (Eras::MODERN, None, Era::Modern),
    ] {
        let fields = [("mcp-protocol-version", version)];
        assert_eq!(post_at(served, &fields).era, era, "{served:?} {version:?}");
        let action = posted_at(&gate(), served, &fields, "{");
        let Ok(BodyAction::Answer { era: found, id: None, outcome }) = action else { panic!("{action:?}") };
        assert_eq!((found, outcome), (era, Outcome::NotJson), "{served:?} {version:?}");
    }
}

/// R138: the configured mode, narrowed to what is accepted; a subscription is a stream in every mode.
#[test]
fn accept_decides_the_mode_of_a_modern_request() {
    use ResponseMode::{Auto, Json, Sse};
    for (configured, accept, usual, listen) in [
        (Auto, Some(BOTH), Some(Auto), Some(Sse)),
        (Auto, None, Some(Auto), Some(Sse)),
        (Auto, Some("application/json"), Some(Json), None),
        (Auto, Some("text/event-stream"), Some(Sse), Some(Sse)),
        (Auto, Some("text/html"), None, None),
        (Sse, Some(BOTH), Some(Sse), Some(Sse)),
        (Sse, Some("application/json"), Some(Json), None),
        (Json, Some(BOTH), Some(Json), Some(Sse)),
        (Json, Some("application/json"), Some(Json), None),
        (Json, Some("text/event-stream"), None, None),
    ] {
        let gate = Gate::new(&GateConfig { response_mode: configured, ..GateConfig::default() }).expect("good");
        for (method, expected) in [("tools/list", usual), ("subscriptions/listen", listen)] {
            let fields = fields(method, None, &[("accept", accept)]);
            let mode = match posted_at(&gate, Eras::BOTH, &fields, &request(method, "", META)) {
                Ok(BodyAction::Sessionless(request)) => Some(request.mode),
                Ok(BodyAction::Answer { outcome: Outcome::NotAcceptable, .. }) | Err(Outcome::NotAcceptable) => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(mode, expected, "{configured:?} {accept:?} {method}");
        }
    }
}

#[test]
fn size_and_encoding_have_the_limits_of_all_bodies() {
    let fields = fields("tools/list", None, &[]);
    let body = request("tools/list", "", META);
    assert_eq!(posted(Eras::BOTH, &fields, &format!("{body:1000}")), Ok("sessionless"));
    let large = posted_at(&gate(), Eras::BOTH, &fields, &format!("{body:1001}"));
    let Ok(BodyAction::Answer { era: Era::Modern, id: None, outcome: Outcome::BodyTooLarge }) = large else {
        panic!("{large:?}")
    };
}

#[test]
fn no_bytes_make_the_ladder_panic_or_let_a_lie_pass() {
    let mut random = Random(0x0dd_ba11);
    let alphabet = b"=?base64tools/cal\"{},:_\\u0 \t\xff2026-07-28";
    let seeds = ["echo", "=?base64?ZWNobw==?=", "tools/call", "2026-07-28"];
    let call = request("tools/call", r#""name":"echo","#, META);
    let bodies = [call.as_str(), CALL, NOTE, RESPONSE];
    let gate = gate();
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut head = head("POST", &fields("tools/call", Some("echo"), &[]));
        for name in ["mcp-name", "mcp-method", "mcp-protocol-version"] {
            let Ok(value) = HeaderValue::from_bytes(&random.mutate(&seeds, alphabet)) else { continue };
            match random.below(12) {
                0 => drop(head.headers.append(name, value)),
                1 => drop(head.headers.insert(name, value)),
                _ => {}
            }
        }
        let HeadAction::Post(post) = gate.head(Eras::BOTH, &head) else { continue };
        let body = match random.below(2) {
            0 => call.clone().into_bytes(),
            _ => random.mutate(&bodies, alphabet),
        };
        match gate.body(Eras::BOTH, &head.headers, &post, None, Bytes::from(body)) {
            BodyAction::Sessionless(request) => {
                passed += 1;
                let only = |name: &str| {
                    let mut values = head.headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
                    values.next().filter(|_| values.next().is_none())
                };
                let asked = request.message.as_request().expect("a request");
                assert_eq!(only("mcp-protocol-version"), Some(&b"2026-07-28"[..]));
                assert_eq!(only("mcp-method"), Some(asked.method.as_bytes()));
                let name = asked.modern.as_ref().and_then(|modern| modern.name.as_deref());
                let header = only("mcp-name");
                let encoded = name == Some("echo") && header == Some(b"=?base64?ZWNobw==?=");
                assert!(asked.method != "tools/call" || header == name.map(str::as_bytes) || encoded, "{asked:?}");
            }
            BodyAction::Answer { era, id, outcome } => {
                refused += 1;
                drop(outcome.respond_in(era, id.as_ref()));
            }
            BodyAction::Batch(messages) => panic!("{messages:?}"),
            BodyAction::Create(message) | BodyAction::Deliver(message) | BodyAction::Stateless(message) => {
                panic!("{message:?}")
            }
        }
    }
    assert!(passed > 1_000 && refused > 1_000, "{passed} {refused}");
}
