//! What the envelope says of good, bad and hostile messages.

use super::*;

fn parse(text: &str) -> Result<Message, MessageError> {
    Message::parse(Bytes::copy_from_slice(text.as_bytes()))
}

fn refused(text: &str) -> (Option<RequestId>, &'static str) {
    match parse(text) {
        Err(MessageError::NotAMessage { id, why }) => (id, why),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_three_kinds_are_told_apart() {
    let request = parse(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"_meta":{"progressToken":7}}}"#)
        .expect("valid");
    assert_eq!(
        request.as_request(),
        Some(&Request {
            id: RequestId::String("a".into()),
            method: Cow::Borrowed("tools/call"),
            progress_token: Some(RequestId::Number(7)),
            initialize: None,
            modern: None,
            resource: None,
        })
    );
    let note =
        parse(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).expect("valid");
    let MessageKind::Notification(note) = note.kind() else { panic!("{note:?}") };
    assert_eq!(note.request_id, Some(RequestId::Number(3)));
    for (text, id, is_error) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Some(RequestId::Number(1)), false),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Some(RequestId::Number(1)), false),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}"#, None, true),
    ] {
        assert_eq!(*parse(text).expect("valid").kind(), MessageKind::Response(Response { id, is_error }), "{text}");
    }
}

#[test]
fn bytes_that_are_no_json_are_told_from_json_that_is_no_message() {
    for text in [
        "",
        " ",
        "{",
        "nonsense",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
        r#"{"jsonrpc":"2.0","id":1e,"method":"ping"}"#,
        r#"{"id":1,}"#,
        "[1",
    ] {
        assert_eq!(parse(text).unwrap_err(), MessageError::NotJson, "{text}");
    }
    assert_eq!(Message::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err(), MessageError::NotJson);
    assert_eq!(parse(" [ ] ").unwrap_err(), MessageError::Batch);
    for text in ["1", "null", "\"x\"", "{}", r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
        refused(text);
    }
}

#[test]
fn a_refused_request_still_tells_its_id() {
    let id = Some(RequestId::Number(4));
    for text in [
        r#"{"id":4,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":4,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":"x"}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":{"_meta":{},"_meta":{}}}"#,
    ] {
        assert_eq!(refused(text).0, id, "{text}");
    }
}

#[test]
fn ids_that_a_peer_would_change_are_refused() {
    for id in ["null", "1.5", "1e3", "9007199254740992", "{}", "[]", "true", r#""\ud800""#] {
        assert_eq!(refused(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).0, None, "{id}");
    }
    refused(r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#);
    refused(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
    refused(r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#);
    refused(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#);
}

#[test]
fn members_written_with_escapes_are_the_same_members() {
    let message =
        parse(r#"{"jsonrpc":"2.0","\u0069d":1,"method":"pi\u006eg","params":{"\u005fmeta":{"progressToken":"t"}}}"#)
            .expect("valid");
    let request = message.as_request().expect("request");
    assert_eq!((&request.id, &*request.method), (&RequestId::Number(1), "ping"));
    assert_eq!(request.progress_token, Some(RequestId::String("t".into())));
}

#[test]
fn only_a_whole_initialize_is_complete() {
    let with = |params: &str| {
        let message = parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize"{params}}}"#)).expect("valid");
        message.as_request().and_then(|request| request.initialize.as_ref().map(|init| init.complete))
    };
    assert_eq!(
        with(r#","params":{"protocolVersion":"x","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#),
        Some(true)
    );
    for params in [
        "",
        r#","params":{}"#,
        r#","params":null"#,
        r#","params":{"protocolVersion":1,"capabilities":{},"clientInfo":{}}"#,
        r#","params":{"protocolVersion":"x","capabilities":[],"clientInfo":{}}"#,
        r#","params":{"protocolVersion":"x","capabilities":{},"clientInfo":"c"}"#,
        r#","params":{"protocolVersion":"x","capabilities":{}}"#,
    ] {
        assert_eq!(with(params), Some(false), "{params}");
    }
}

#[test]
fn the_mark_of_the_modern_era_is_seen() {
    let message = parse(
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    assert_eq!(message.expect("valid").modern_version(), Some("2026-07-28"));
    let note = parse(
        r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":[1],"io.modelcontextprotocol/subscriptionId":"s"}}}"#,
    )
    .expect("valid");
    assert_eq!(note.modern_version(), Some("[1]"));
    let MessageKind::Notification(note) = note.kind() else { panic!("{note:?}") };
    assert_eq!(note.subscription_id, Some(RequestId::String("s".into())));
}

#[test]
fn a_modern_request_says_what_it_is_about() {
    let modern = |method: &str, rest: &str| {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"v",{rest}}}}}"#
        );
        parse(&text).expect(&text).as_request().and_then(|request| request.modern.clone()).expect("marked")
    };
    for (method, rest, name) in [
        ("tools/call", r#""x":1},"name":"a\u0062","uri":"u""#, Some("ab")),
        ("prompts/get", r#""x":1},"name":"a""#, Some("a")),
        ("resources/read", r#""x":1},"name":"a","uri":"file:///u""#, Some("file:///u")),
        ("tools/call", r#""x":1},"name":1"#, None),
        ("tools/call", r#""x":1},"uri":"u""#, None),
        ("tools/list", r#""x":1},"name":"a""#, None),
    ] {
        assert_eq!(modern(method, rest).name.as_deref(), name, "{method} {rest}");
    }
    for (capabilities, has) in
        [("{}", true), (r#"{"sampling":{}}"#, true), ("null", false), ("[]", false), ("1", false)]
    {
        let rest = format!(r#""io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#);
        assert_eq!(modern("tools/list", &rest).has_capabilities, has, "{capabilities}");
    }
    // Two of what a header repeats would let one of them pass unseen.
    refused(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#);
}

#[test]
fn deep_nesting_and_long_numbers_neither_overflow_nor_hide_the_message() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(parse(&deep).expect("valid").method(), Some("x"));
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}}}}}"#, "9".repeat(100_000));
    assert!(parse(&long).is_ok());
}

#[test]
fn parameters_read_straight_from_the_bytes() {
    #[derive(Deserialize)]
    struct Call<'a> {
        name: &'a str,
    }
    let message =
        parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#)
            .expect("valid");
    assert_eq!(message.params::<Call<'_>>().expect("fits").name, "echo");
    assert!(parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#).expect("valid").params::<Call<'_>>().is_err());
}
