//! Notes from outside of any call: each for whoever wants to hear of it, in either era.

use serde_json::{Value, json};

use super::*;

const TOOLS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";

fn note(method: &str, params: &Value) -> OutsideNote {
    OutsideNote::new(method, params).expect("good parameters")
}

fn updated(uri: &str) -> OutsideNote {
    note(UPDATED, &json!({ "uri": uri }))
}

fn push(rig: &mut Rig, note: &OutsideNote) -> bool {
    let sent = rig.session.push_outside_note(rig.now, &rig.config, note);
    rig.drain();
    sent
}

/// A subscription that its app has not acknowledged.
fn listening(delivery: Delivery) -> (Rig, RequestKey, ConnectionKey) {
    let mut rig = Rig::new(delivery);
    rig.session = Session::sessionless(delivery, Kind::Modern);
    let listen = r#"{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen"}"#;
    let (request, connection) = rig.request(listen, ResponseMode::Sse);
    (rig, request, connection)
}

fn acknowledged(filter: &Value) -> String {
    let params = json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": "s" }, "notifications": filter });
    json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params }).to_string()
}

#[test]
fn a_session_hears_on_its_standalone_stream_where_notes_wait_for_a_reader() {
    let mut rig = Rig::open();
    assert!(push(&mut rig, &note(TOOLS, &Value::Null)));
    let get = rig.get();
    assert!(push(&mut rig, &note("notifications/message", &json!({ "data": 1 }))));
    assert!(rig.told(Effect::WakeConnection(get)));
    assert_eq!(
        rig.read(get),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}"#
        ]
    );
    assert_eq!(rig.session.counters().notes_dropped, 0);
}

#[test]
fn what_waits_for_a_session_is_bounded_and_what_is_dropped_is_counted() {
    let mut rig = Rig::open();
    rig.config.log_count = 3;
    for number in 0..10 {
        assert!(push(&mut rig, &note("notifications/message", &json!({ "data": number }))));
    }
    assert_eq!(rig.session.counters().notes_dropped, 7);
    let get = rig.get();
    assert_eq!(rig.read(get).len(), 3);
}

#[test]
fn nobody_hears_before_the_beginning_or_after_the_end() {
    let mut rig = Rig::new(Delivery::Inbox);
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));
    let (request, _) = rig.request(INITIALIZE, ResponseMode::Auto);
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));
    rig.respond(request, INITIALIZED);
    assert!(push(&mut rig, &note(TOOLS, &Value::Null)));
    rig.end(EndReason::Closed);
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));

    let mut rig = Rig::open();
    rig.shut();
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));
    assert_eq!(rig.session.counters().notes_dropped, 1);
}

#[test]
fn a_session_hears_of_the_resources_that_it_has_subscribed_to() {
    for delivery in [Delivery::Call, Delivery::Inbox] {
        let mut rig = Rig::new(delivery).opened();
        let ask = |rig: &mut Rig, what: &str, uri: &str, answer: &str| {
            let params = json!({ "uri": uri });
            let text = json!({ "jsonrpc": "2.0", "id": 5, "method": format!("resources/{what}"), "params": params });
            let (request, _) = rig.request(&text.to_string(), ResponseMode::Auto);
            let early = push(rig, &updated("a:new"));
            rig.respond(request, &format!(r#"{{"jsonrpc":"2.0","id":5,{answer}}}"#));
            early
        };
        let (good, bad) = (r#""result":{}"#, r#""error":{"code":-32601,"message":"no"}"#);
        assert!(!push(&mut rig, &updated("a:1")));
        assert!(!ask(&mut rig, "subscribe", "a:new", good), "before the answer");
        ask(&mut rig, "subscribe", "a:1", good);
        ask(&mut rig, "subscribe", "a:2", bad);
        let heard = ["a:1", "a:2", "a:1/b", "a:new"].map(|uri| push(&mut rig, &updated(uri)));
        assert_eq!(heard, [true, false, false, true], "{delivery:?}");
        ask(&mut rig, "unsubscribe", "a:1", bad);
        assert!(push(&mut rig, &updated("a:1")));
        ask(&mut rig, "unsubscribe", "a:1", good);
        assert!(!push(&mut rig, &updated("a:1")));
        assert_eq!(rig.session.counters().notes_dropped, 0, "what nobody wants is not dropped");
    }
}

#[test]
fn a_session_that_subscribes_to_too_much_hears_of_all() {
    let long = "a".repeat(5_000);
    for uris in [&["a:1", "a:2", "a:3"][..], &[&long]] {
        let mut rig = Rig::open();
        rig.config.max_resource_subscriptions = 2;
        for uri in uris {
            assert!(!push(&mut rig, &updated("a:other")));
            let params = json!({ "uri": uri });
            let text = json!({ "jsonrpc": "2.0", "id": 5, "method": "resources/subscribe", "params": params });
            let (request, _) = rig.request(&text.to_string(), ResponseMode::Auto);
            rig.respond(request, &answer("5"));
        }
        assert!(push(&mut rig, &updated("a:other")));
    }
}

#[test]
fn a_subscription_hears_of_what_was_acknowledged_and_of_nothing_before() {
    let all = [
        note("notifications/prompts/list_changed", &Value::Null),
        note("notifications/resources/list_changed", &json!({})),
        note(TOOLS, &json!({ "_meta": { "x": 1 } })),
        updated("a:1"),
        updated("a:2"),
        note("notifications/message", &json!({ "level": "info", "data": 1 })),
        note(UPDATED, &json!({ "uri": 7 })),
    ];
    for (filter, expected) in [
        (json!({}), [false; 7]),
        (json!({ "promptsListChanged": true }), [true, false, false, false, false, false, false]),
        (json!({ "resourcesListChanged": true }), [false, true, false, false, false, false, false]),
        (
            json!({ "toolsListChanged": true, "promptsListChanged": false }),
            [false, false, true, false, false, false, false],
        ),
        (json!({ "resourceSubscriptions": ["a:1", "a:3"] }), [false, false, false, true, false, false, false]),
    ] {
        for delivery in [Delivery::Call, Delivery::Inbox] {
            let (mut rig, request, connection) = listening(delivery);
            assert_eq!(all.each_ref().map(|note| push(&mut rig, note)), [false; 7]);
            let word = acknowledged(&filter);
            match delivery {
                Delivery::Call => {
                    rig.session.push_call_note(rig.now, &rig.config, word.clone().into(), Some(request));
                }
                Delivery::Inbox => rig.says(&word),
            }
            assert_eq!(all.each_ref().map(|note| push(&mut rig, note)), expected, "{filter} {delivery:?}");
            assert_eq!(rig.head(connection), Head::Stream);
            let heard = rig.read(connection);
            assert_eq!(heard[0], word, "first the acknowledgement");
            assert_eq!(heard.len() - 1, expected.iter().filter(|heard| **heard).count());
            for text in &heard[1..] {
                let note: Value = serde_json::from_str(text).expect("JSON");
                assert_eq!(note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s", "{text}");
            }
            assert_eq!(rig.session.counters().notes_dropped, 0);
            rig.shut();
            assert_eq!(all.each_ref().map(|note| push(&mut rig, note)), [false; 7]);
        }
    }
}

#[test]
fn what_is_no_acknowledgement_promises_nothing() {
    let filter = json!({ "toolsListChanged": true });
    for word in [
        log_note("x"),
        acknowledged(&filter).replace("acknowledged", "other"),
        acknowledged(&json!({ "toolsListChanged": "yes" })),
        acknowledged(&json!([1])),
    ] {
        let (mut rig, request, _) = listening(Delivery::Call);
        rig.relates(&word, Relation::Request(request));
        assert!(!push(&mut rig, &note(TOOLS, &Value::Null)), "{word}");
        // The first that is one counts, and no later one.
        rig.relates(&acknowledged(&json!({})), Relation::Request(request));
        rig.relates(&acknowledged(&filter), Relation::Request(request));
        assert!(!push(&mut rig, &note(TOOLS, &Value::Null)), "{word}");
    }
    // Nor does one on another request.
    let mut rig = Rig::new(Delivery::Call);
    rig.session = Session::sessionless(Delivery::Call, Kind::Modern);
    let (request, _) = rig.request(&call("1"), ResponseMode::Sse);
    rig.relates(&acknowledged(&filter), Relation::Request(request));
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));
}

#[test]
fn a_subscription_that_is_over_or_a_request_without_a_session_hears_nothing() {
    let (mut rig, request, connection) = listening(Delivery::Call);
    rig.relates(&acknowledged(&json!({ "toolsListChanged": true })), Relation::Request(request));
    assert!(push(&mut rig, &note(TOOLS, &Value::Null)));
    assert_eq!(rig.head(connection), Head::Stream);
    let _ = rig.leave(connection);
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));

    let mut rig = Rig::new(Delivery::Call);
    rig.session = Session::sessionless(Delivery::Call, Kind::Stateless);
    rig.request(&call("1"), ResponseMode::Sse);
    assert!(!push(&mut rig, &note(TOOLS, &Value::Null)));
}

#[test]
fn a_note_is_written_for_each_with_what_it_says() {
    let tagged = |params: Value| {
        let text = note(UPDATED, &params).tagged(&RequestId::String("a\"b".into()));
        let text = String::from_utf8(text.to_vec()).expect("UTF-8");
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((&value["jsonrpc"], &value["method"]), (&json!("2.0"), &json!(UPDATED)));
        value["params"].clone()
    };
    const ID: &str = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(tagged(Value::Null), json!({ "_meta": { ID: "a\"b" } }));
    assert_eq!(tagged(json!({ "uri": "x" })), json!({ "uri": "x", "_meta": { ID: "a\"b" } }));
    assert_eq!(
        tagged(json!({ "uri": "x", "_meta": { "k": [1], ID: "other" } })),
        json!({ "uri": "x", "_meta": { "k": [1], ID: "a\"b" } })
    );
    assert_eq!(tagged(json!({ "_meta": 7 })), json!({ "_meta": { ID: "a\"b" } }));
    for wrong in [json!([1]), json!(1), json!("x"), json!(true)] {
        assert!(matches!(OutsideNote::new(UPDATED, &wrong), Err(OutsideNoteError::NotAnObject)), "{wrong}");
    }
    let keys = std::collections::BTreeMap::from([((), 1)]);
    assert!(matches!(OutsideNote::new(UPDATED, &keys), Err(OutsideNoteError::Json(_))));
}
