//! The table of outcomes, row by row.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;

/// An outcome, its status, its JSON-RPC code, its `Retry-After` and a part of its message.
type Row = (Outcome, u16, Option<i32>, Option<&'static str>, &'static str);

fn table() -> Vec<Row> {
    let table = vec![
        (Outcome::Accepted, 202, None, None, "Accepted"),
        (Outcome::AlreadyInitialized, 400, Some(-32600), None, "already initialized"),
        (Outcome::AppFailed, 500, Some(-32603), None, "could not answer"),
        (Outcome::BodyTooLarge, 413, Some(-32600), None, "too large"),
        (Outcome::BodyTooSlow, 408, Some(-32600), None, "in time"),
        (
            Outcome::CapabilityMissing { required: vec![ClientCapability::Sampling] },
            400,
            Some(-32021),
            None,
            "declared: sampling",
        ),
        (Outcome::CredentialsRefused { given: false }, 401, Some(-32600), None, "Credentials are missing"),
        (Outcome::CredentialsRefused { given: true }, 401, Some(-32600), None, "credentials are wrong"),
        (Outcome::Deleted, 204, None, None, "deleted"),
        (Outcome::DuplicateRequestId, 400, Some(-32600), None, "still in flight"),
        (Outcome::HeaderMalformed { name: "Origin" }, 400, Some(-32600), None, "Header Origin"),
        (
            Outcome::HeaderMismatch { name: "Mcp-Name".into(), fault: HeaderFault::Missing },
            400,
            Some(-32020),
            None,
            "Header mismatch: Mcp-Name is missing",
        ),
        (Outcome::HostNotAllowed, 403, Some(-32600), None, "Host not allowed"),
        (Outcome::InboxFull { request: false }, 503, Some(-32603), Some("1"), "messages waiting"),
        (Outcome::InboxFull { request: true }, 429, Some(-32603), Some("1"), "messages waiting"),
        (Outcome::InitializeIncomplete, 400, Some(-32602), None, "clientInfo"),
        (Outcome::MetaMissing { key: "a/key" }, 400, Some(-32602), None, "_meta needs a/key"),
        (Outcome::MethodNotAllowed { era: Era::Legacy }, 405, Some(-32600), None, "Method not allowed"),
        (Outcome::MissingSession, 400, Some(-32600), None, "Mcp-Session-Id"),
        (Outcome::NotAcceptable, 406, Some(-32600), None, "text/event-stream"),
        (Outcome::NotJson, 400, Some(-32700), None, "Parse error"),
        (Outcome::NotOneMessage { why: "the reason" }, 400, Some(-32600), None, "the reason"),
        (Outcome::NotResumable, 400, Some(-32600), None, "cannot be resumed"),
        (Outcome::NotTheEndpoint, 404, None, None, "Not found"),
        (Outcome::OriginNotAllowed, 403, Some(-32600), None, "Origin not allowed"),
        (Outcome::Preflight, 204, None, None, "may be sent"),
        (Outcome::RequestExpired, 500, Some(-32603), None, "took longer"),
        (Outcome::SessionEnded, 500, Some(-32603), None, "ended before"),
        (Outcome::SessionNotFound, 404, Some(-32600), None, "Session not found"),
        (Outcome::ShuttingDown, 503, Some(-32603), Some("5"), "shutting down"),
        (Outcome::StoreUnavailable, 503, Some(-32603), Some("5"), "can't be read now"),
        (Outcome::StreamOver, 204, None, None, "over"),
        (Outcome::TableFull { retry_after: 37 }, 503, Some(-32603), Some("37"), "Too many sessions"),
        (Outcome::TooManyRequests, 429, Some(-32603), Some("1"), "Too many requests"),
        (Outcome::UnknownMethod, 404, Some(-32601), None, "Method not found"),
        (
            Outcome::UnsupportedVersion { requested: "2027-01-01".into(), era: Era::Modern },
            400,
            Some(-32022),
            None,
            "Unsupported protocol version: 2027-01-01 (served: 2026-07-28)",
        ),
        (
            Outcome::UnsupportedVersion { requested: "2026-07-28".into(), era: Era::Legacy },
            400,
            Some(-32600),
            None,
            "Unsupported protocol version: 2026-07-28",
        ),
        (Outcome::WrongContentType, 415, Some(-32600), None, "application/json"),
    ];
    let rows: BTreeSet<_> = table.iter().map(|(outcome, ..)| row(outcome)).collect();
    assert_eq!(rows.len(), 35, "an outcome is not in the table");
    table
}

/// Does not compile when an outcome is added, which then needs a line in the table and the next number here.
const fn row(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Accepted => 0,
        Outcome::AlreadyInitialized => 1,
        Outcome::AppFailed => 2,
        Outcome::BodyTooLarge => 3,
        Outcome::BodyTooSlow => 4,
        Outcome::Deleted => 5,
        Outcome::DuplicateRequestId => 6,
        Outcome::HeaderMalformed { .. } => 7,
        Outcome::HostNotAllowed => 8,
        Outcome::InboxFull { .. } => 9,
        Outcome::InitializeIncomplete => 10,
        Outcome::MethodNotAllowed { .. } => 11,
        Outcome::MissingSession => 12,
        Outcome::NotAcceptable => 13,
        Outcome::NotJson => 14,
        Outcome::NotOneMessage { .. } => 15,
        Outcome::NotResumable => 16,
        Outcome::NotTheEndpoint => 17,
        Outcome::OriginNotAllowed => 18,
        Outcome::SessionEnded => 19,
        Outcome::SessionNotFound => 20,
        Outcome::ShuttingDown => 21,
        Outcome::StreamOver => 22,
        Outcome::TableFull { .. } => 23,
        Outcome::TooManyRequests => 24,
        Outcome::UnsupportedVersion { .. } => 25,
        Outcome::WrongContentType => 26,
        Outcome::RequestExpired => 27,
        Outcome::Preflight => 33,
        Outcome::CapabilityMissing { .. } => 28,
        Outcome::HeaderMismatch { .. } => 29,
        Outcome::MetaMissing { .. } => 30,
        Outcome::UnknownMethod => 31,
        Outcome::CredentialsRefused { .. } => 32,
        Outcome::StoreUnavailable => 34,
    }
}

/// What the documentation says of outcomes is what they are.
#[test]
fn the_documented_table_has_every_outcome_with_its_status_and_code() {
    let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let documented: Vec<_> = include_str!("table.md").lines().skip(2).map(cells).collect();
    let mut held: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    for (outcome, status, code, ..) in table() {
        let name: String = format!("{outcome:?}").chars().take_while(char::is_ascii_alphanumeric).collect();
        let [statuses, codes] = held.entry(name).or_default();
        statuses.insert(status.to_string());
        codes.insert(code.map_or_else(|| "–".to_owned(), |code| code.to_string()));
    }
    let list = |cell: &str| cell.split(", ").map(str::to_owned).collect::<BTreeSet<_>>();
    for row in &documented {
        let [_, name, status, code, ..] = row[..] else { panic!("{row:?}") };
        let expected = held.remove(name.trim_matches('`'));
        assert_eq!(expected, Some([list(status), list(code)]), "{name}");
    }
    assert_eq!(held, BTreeMap::new(), "not documented");
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// R035, R037, R040, R049, R053: one table decides every status, and a 404 for a session says so in JSON-RPC.
#[test]
fn every_outcome_has_its_status_headers_and_body() {
    for (outcome, status, code, retry_after, message) in table() {
        let response = outcome.respond(None);
        assert_eq!(response.status().as_u16(), status, "{outcome:?}");
        let mut headers = Vec::new();
        if code.is_some() {
            headers.push(("content-type", "application/json"));
        }
        if status == 405 {
            headers.push(("allow", "GET, POST, DELETE"));
        }
        if let Outcome::CredentialsRefused { given } = outcome {
            let challenges = [r#"Bearer realm="sessile""#, r#"Bearer realm="sessile", error="invalid_token""#];
            headers.push(("www-authenticate", challenges[usize::from(given)]));
        }
        headers.extend(retry_after.map(|seconds| ("retry-after", seconds)));
        // Exactly these: no session id, no challenge beside a 401, nothing that differs between two that must look the same.
        let found: Vec<_> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("visible characters")))
            .collect();
        assert_eq!(found, headers, "{outcome:?}");
        assert_eq!(outcome.code(), code, "{outcome:?}");
        assert!(outcome.message().contains(message), "{outcome:?}");
        let Some(code) = code else {
            assert!(response.body().is_empty(), "{outcome:?}");
            continue;
        };
        let mut body = json_of(response.body());
        let error = body["error"].as_object_mut().expect("an error");
        let data = error.remove("data");
        let has_data = matches!(outcome, Outcome::UnsupportedVersion { .. } | Outcome::CapabilityMissing { .. });
        assert_eq!(data.is_some(), has_data, "{outcome:?}");
        assert_eq!(
            body,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": outcome.message()}}),
            "{outcome:?}"
        );
    }
}

/// R052: the id that could be read goes back, with its type.
#[test]
fn the_id_of_the_request_is_repeated() {
    for (outcome, _, code, ..) in table() {
        for (id, expected) in [
            (RequestId::Number(1), json!(1)),
            (RequestId::Number(-RequestId::MAX_NUMBER), json!(-RequestId::MAX_NUMBER)),
            (RequestId::String("1".into()), json!("1")),
            (RequestId::String("\"}\u{2028}\n".into()), json!("\"}\u{2028}\n")),
        ] {
            let message = outcome.to_message(&id);
            assert_eq!(json_of(&message)["id"], expected, "{outcome:?}");
            if code.is_some() {
                assert_eq!(outcome.respond(Some(&id)).body(), &message, "{outcome:?}");
            } else {
                assert!(outcome.respond(Some(&id)).body().is_empty(), "{outcome:?}");
            }
        }
    }
}

/// Some clients take 401 for lost credentials (R037), a code of the modern era for a modern server, and -32000
/// to -32019 for whatever an earlier server meant by them.
#[test]
fn no_outcome_says_what_clients_would_misread() {
    for (outcome, status, code, retry_after, _) in table() {
        assert_eq!(status == 401, matches!(outcome, Outcome::CredentialsRefused { .. }), "{outcome:?}");
        let modern = matches!(
            outcome,
            Outcome::CapabilityMissing { .. }
                | Outcome::HeaderMismatch { .. }
                | Outcome::UnknownMethod
                | Outcome::UnsupportedVersion { era: Era::Modern, .. }
        );
        let codes: &[i32] = if modern { &[-32601, -32020, -32021, -32022] } else { &[-32600, -32602, -32603, -32700] };
        assert!(code.is_none_or(|code| codes.contains(&code)), "{outcome:?}");
        // The app's own error gets the same status as ours.
        if let Some(code) = code.filter(|_| modern) {
            assert_eq!(modern_status(Some(code.into())).as_u16(), status, "{outcome:?}");
        }
        // Who should come back is told when, and nobody else is.
        assert_eq!(retry_after.is_some(), matches!(status, 429 | 503), "{outcome:?}");
        assert_eq!(outcome.retry_after().is_some(), retry_after.is_some(), "{outcome:?}");
        // -32603 is our fault or our limit, and the status agrees.
        assert_eq!(code == Some(-32603), status == 429 || status >= 500, "{outcome:?}");
    }
}

#[test]
fn no_two_outcomes_read_the_same() {
    let messages: BTreeSet<_> = table().iter().map(|(outcome, ..)| outcome.message()).collect();
    // The two statuses of a full inbox share theirs.
    assert_eq!(messages.len(), table().len() - 1);
}

#[test]
fn an_unsupported_version_lists_the_served_ones() {
    let outcome = Outcome::UnsupportedVersion { requested: "\"<x>\\".into(), era: Era::Legacy };
    let body = json_of(outcome.respond(Some(&RequestId::Number(3))).body());
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("Unsupported protocol version"), "{message}");
    for version in ProtocolVersion::LEGACY {
        assert!(message.contains(version.as_str()), "{message}");
    }
    assert_eq!(
        body["error"]["data"],
        json!({"requested": "\"<x>\\", "supported": ["2025-11-25", "2025-06-18", "2025-03-26"]})
    );
    assert_eq!(body["id"], 3);
}

/// R261: the id goes back in the modern era too; one that nobody could read is not there at all.
#[test]
fn an_id_that_is_not_known_is_null_or_absent_as_the_era_has_it() {
    for (outcome, _, code, ..) in table() {
        let id = RequestId::String("a".into());
        assert_eq!(outcome.respond_in(Era::Modern, Some(&id)).body(), outcome.respond(Some(&id)).body());
        let (legacy, modern) = (outcome.respond(None), outcome.respond_in(Era::Modern, None));
        assert_eq!((legacy.status(), legacy.headers()), (modern.status(), modern.headers()), "{outcome:?}");
        if code.is_some() {
            let mut legacy = json_of(legacy.body());
            assert_eq!(legacy.as_object_mut().and_then(|body| body.remove("id")), Some(Value::Null), "{outcome:?}");
            assert_eq!(json_of(modern.body()), legacy, "{outcome:?}");
        }
    }
}

#[test]
fn each_era_allows_its_own_methods() {
    for (era, allow) in [(Era::Legacy, "GET, POST, DELETE"), (Era::Modern, "POST")] {
        assert_eq!(Outcome::MethodNotAllowed { era }.respond_in(era, None).headers()["allow"], allow);
    }
}

#[test]
fn modern_errors_say_what_a_client_can_do() {
    let data = |outcome: Outcome| json_of(outcome.respond(None).body())["error"]["data"].clone();
    assert_eq!(
        data(Outcome::UnsupportedVersion { requested: "2027-01-01".into(), era: Era::Modern }),
        json!({"requested": "2027-01-01", "supported": ["2026-07-28"]})
    );
    assert_eq!(
        data(Outcome::CapabilityMissing {
            required: vec![ClientCapability::Sampling, ClientCapability::ElicitationForm]
        }),
        json!({"requiredCapabilities": {"sampling": {}, "elicitation": {"form": {}}}})
    );
}

#[test]
fn the_status_of_a_modern_answer_follows_the_code_of_the_app() {
    for (code, status) in [
        (None, 200),
        (Some(-32601), 404),
        (Some(-32020), 400),
        (Some(-32021), 400),
        (Some(-32022), 400),
        (Some(-32600), 200),
        (Some(-32602), 200),
        (Some(-32603), 200),
        (Some(-32700), 200),
        (Some(-32019), 200),
        (Some(-32023), 200),
        (Some(0), 200),
        (Some(i64::from(-32601) + (1 << 32)), 200),
        (Some(i64::MIN), 200),
        (Some(i64::MAX), 200),
    ] {
        assert_eq!(modern_status(code).as_u16(), status, "{code:?}");
    }
}
