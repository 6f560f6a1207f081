//! Requests that belong to no session.

use super::*;

fn rig(delivery: Delivery, kind: Kind) -> Rig {
    let mut rig = Rig::new(delivery);
    rig.session = Session::sessionless(delivery, kind);
    rig
}

const FAILURE: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;

#[test]
fn any_request_is_answered_without_a_handshake_or_an_id() {
    for kind in [Kind::Modern, Kind::Stateless] {
        for text in [call("0"), INITIALIZE.to_owned()] {
            let mut rig = rig(Delivery::Call, kind);
            let (request, connection) = rig.request(&text, ResponseMode::Auto);
            assert!(!rig.session.announces_id());
            rig.respond(request, INITIALIZED);
            assert!(!rig.session.announces_id());
            assert_eq!(rig.json(connection), INITIALIZED);
            assert_eq!(rig.effects.iter().filter(|effect| **effect == Effect::Established).count(), 0);
        }
    }
}

#[test]
fn a_modern_head_waits_for_the_first_word_of_the_app_in_every_mode() {
    for mode in [ResponseMode::Auto, ResponseMode::Sse] {
        let mut rig = rig(Delivery::Inbox, Kind::Modern);
        let (_, connection) = rig.request(&call("1"), mode);
        let keep_alive = rig.config.keep_alive;
        assert_eq!(rig.head(connection), Head::Hold { until: Some(rig.now.saturating_add(keep_alive)) });
        rig.says(&log_note("first"));
        assert_eq!(rig.head(connection), Head::Stream);

        let mut rig = self::rig(Delivery::Inbox, Kind::Modern);
        let (_, connection) = rig.request(&call("1"), mode);
        rig.wait(keep_alive);
        assert_eq!(rig.head(connection), Head::Stream);
    }
}

#[test]
fn a_modern_error_is_one_body_even_where_a_stream_was_wanted() {
    let mut rig = rig(Delivery::Call, Kind::Modern);
    let (request, connection) = rig.request(&call("1"), ResponseMode::Sse);
    rig.respond(request, FAILURE);
    assert_eq!(rig.json(connection), FAILURE);

    let (request, connection) = rig.request(&call("1"), ResponseMode::Sse);
    rig.respond(request, &answer("1"));
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.read(connection), [answer("1")]);
}

// R079
#[test]
fn a_client_that_goes_cancels_in_the_modern_era_only() {
    for streaming in [false, true] {
        let mut rig = rig(Delivery::Call, Kind::Modern);
        let (request, connection) = rig.request(&call("1"), ResponseMode::Auto);
        if streaming {
            rig.relates(&log_note("x"), Relation::Request(request));
            assert_eq!(rig.head(connection), Head::Stream);
        }
        rig.effects.clear();
        assert_eq!(rig.leave(connection), Disconnect::Done);
        assert!(!rig.session.is_in_flight(request));
        assert!(rig.effects.contains(&Effect::WakeCall(request)));
        assert!(!rig.effects.contains(&Effect::Release));
    }
    let mut rig = rig(Delivery::Call, Kind::Stateless);
    let (request, connection) = rig.request(&call("1"), ResponseMode::Auto);
    assert_eq!(rig.leave(connection), Disconnect::Detached);
    assert!(rig.session.is_in_flight(request));
}

#[test]
fn the_app_cannot_ask_a_client_that_has_no_session() {
    for kind in [Kind::Modern, Kind::Stateless] {
        let mut rig = rig(Delivery::Call, kind);
        let (request, _) = rig.request(&call("1"), ResponseMode::Sse);
        assert_eq!(rig.ask(request), Err(AnswerError::NoWire));

        let mut rig = self::rig(Delivery::Inbox, kind);
        rig.request(&call("1"), ResponseMode::Sse);
        rig.inbox();
        rig.says(&question("9"));
        let answers = rig.inbox();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

#[test]
fn every_note_belongs_to_the_one_request() {
    let mut rig = rig(Delivery::Inbox, Kind::Modern);
    let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    rig.says(changed);
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.read(connection), [changed]);
    rig.relates(&log_note("to nobody"), Relation::Unrelated);
    assert_eq!(rig.session.counters().notes_dropped, 1);
}

#[test]
fn draining_ends_a_subscription_with_its_closing_result() {
    let listen = r#"{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen"}"#;
    for delivery in [Delivery::Call, Delivery::Inbox] {
        let mut rig = rig(delivery, Kind::Modern);
        let (request, connection) = rig.request(listen, ResponseMode::Sse);
        rig.relates(&log_note("acknowledged"), Relation::Request(request));
        assert_eq!(rig.head(connection), Head::Stream);
        rig.read(connection);
        rig.effects.clear();
        rig.shut();
        assert!(rig.effects.contains(&Effect::WakeConnection(connection)));
        assert!(rig.effects.contains(&Effect::WakeCall(request)));
        let (text, output) = rig.poll(connection);
        assert_eq!(output, ReaderOutput::Finished);
        let result = r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}"#;
        assert!(text.contains(&format!(r#""id":"s","result":{result}"#)), "{text}");
    }
    // Other requests go on.
    let mut rig = rig(Delivery::Call, Kind::Modern);
    let (request, _) = rig.request(&call("1"), ResponseMode::Auto);
    rig.shut();
    assert!(rig.session.is_in_flight(request));
}
