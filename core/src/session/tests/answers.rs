//! Requests, their ids, their answers and their cancellation.

use super::*;

// R065, R067
#[test]
fn a_second_request_with_an_id_in_flight_is_refused_and_cannot_disturb_the_first() {
    let mut rig = Rig::open();
    let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
    rig.inbox();
    assert_eq!(rig.refused(&call("1")), Outcome::DuplicateRequestId);
    assert!(rig.inbox().is_empty(), "the app does not see it");
    rig.says(&answer("1"));
    assert_eq!(rig.json(connection), answer("1"));
}

// R065
#[test]
fn an_id_keeps_its_type() {
    let mut rig = Rig::open();
    let (_, number) = rig.request(&call("1"), ResponseMode::Auto);
    let (_, string) = rig.request(&call(r#""1""#), ResponseMode::Auto);
    rig.says(&answer(r#""1""#));
    assert!(matches!(rig.head(number), Head::Hold { .. }));
    assert_eq!(rig.json(string), answer(r#""1""#));
}

// R068
#[test]
fn an_id_is_free_again_once_answered_or_cancelled() {
    let mut rig = Rig::open();
    for round in 0..4 {
        let (request, connection) = rig.request(&call("1"), ResponseMode::Auto);
        if round % 2 == 0 {
            rig.says(&answer("1"));
        } else {
            rig.accepted(&cancelled("1"));
            assert!(!rig.session.is_in_flight(request));
            assert_eq!(rig.session.request_id(request), None);
        }
        // Not even the head of the first needs to have left.
        let (_, second) = rig.request(&call("1"), ResponseMode::Auto);
        rig.says(&answer("1"));
        assert_eq!(rig.json(second), answer("1"));
        assert!(matches!(rig.head(connection), Head::Json(_) | Head::Refuse(Outcome::Accepted)));
    }
}

#[test]
fn a_response_to_nothing_in_flight_is_counted_and_dropped() {
    let mut rig = Rig::open();
    rig.says(&answer("9"));
    let (request, connection) = rig.request(&call("1"), ResponseMode::Auto);
    rig.says(&answer("1"));
    rig.says(&answer("1"));
    rig.respond(request, &answer("1"));
    assert_eq!(rig.session.counters().responses_unmatched, 3);
    assert_eq!(rig.json(connection), answer("1"));
}

#[test]
fn the_late_response_and_the_late_progress_of_a_cancelled_request_are_dropped() {
    let mut rig = Rig::open();
    let get = rig.get();
    rig.read(get);
    let (request, connection) = rig.streaming("1");
    rig.accepted(&cancelled("1"));
    rig.says(&progress("1", 1));
    rig.relates(&progress("1", 2), Relation::Request(request));
    rig.relates(&progress("1", 3), Relation::Over);
    rig.says(&answer("1"));
    assert!(rig.read(connection).is_empty() && rig.read(get).is_empty());
    assert_eq!(rig.session.counters().notes_dropped, 3);
    assert_eq!(rig.session.counters().responses_unmatched, 1);
}

#[test]
fn an_error_without_an_id_ends_the_only_request_in_flight_under_its_id() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":1.0}}"#;
    let mut rig = Rig::open();
    rig.says(error);
    let (_, first) = rig.request(&call(r#""a""#), ResponseMode::Auto);
    let (_, second) = rig.request(&call("2"), ResponseMode::Auto);
    rig.says(error);
    assert_eq!(rig.session.counters().responses_unmatched, 2, "whose it is can't be said");
    rig.says(&answer("2"));
    rig.says(error);
    assert_eq!(rig.json(first), error.replace("null", r#""a""#));
    assert_eq!(rig.json(second), answer("2"));
}

#[test]
fn a_cancelled_request_whose_head_is_held_is_202_and_the_app_is_told() {
    for mode in [ResponseMode::Auto, ResponseMode::Json] {
        let mut rig = Rig::open();
        let (request, connection) = rig.request(&call("1"), mode);
        rig.inbox();
        rig.accepted(&cancelled("1"));
        assert_eq!(rig.inbox(), [cancelled("1")]);
        let effects = rig.effects();
        assert!(effects.contains(&Effect::WakeCall(request)));
        assert!(effects.contains(&Effect::WakeConnection(connection)));
        assert_eq!(rig.head(connection), Head::Refuse(Outcome::Accepted));
    }
}

#[test]
fn a_cancelled_stream_ends_without_a_response() {
    let mut rig = Rig::open();
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.accepted(&cancelled("1"));
    assert!(rig.told(Effect::WakeConnection(connection)));
    assert_eq!(rig.poll(connection), (String::new(), ReaderOutput::Finished));
    assert_eq!(rig.leave(connection), Disconnect::Done);
}

#[test]
fn a_cancellation_of_nothing_in_flight_is_taken_in_and_counted() {
    let mut rig = Rig::open();
    rig.accepted(&cancelled("5"));
    rig.accepted(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    assert_eq!(rig.session.counters().cancellations_unmatched, 2);
    assert_eq!(rig.inbox().len(), 2);
}

#[test]
fn initialize_cannot_be_cancelled_and_the_app_does_not_hear_of_the_attempt() {
    let mut rig = Rig::new(Delivery::Inbox);
    let (_, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
    rig.inbox();
    rig.accepted(&cancelled("0"));
    assert!(rig.inbox().is_empty());
    rig.says(INITIALIZED);
    assert_eq!(rig.json(connection), INITIALIZED);
}

#[test]
fn initialize_comes_once() {
    let mut rig = Rig::open();
    assert_eq!(rig.refused(&INITIALIZE.replace(":0", ":5")), Outcome::AlreadyInitialized);
}

#[test]
fn requests_are_bounded_in_number() {
    let mut rig = Rig::open();
    rig.config.max_in_flight = 2;
    rig.request(&call("1"), ResponseMode::Auto);
    rig.request(&call("2"), ResponseMode::Auto);
    assert_eq!(rig.refused(&call("3")), Outcome::TooManyRequests);
    rig.says(&answer("1"));
    rig.request(&call("3"), ResponseMode::Auto);
}

#[test]
fn an_app_that_is_called_gets_its_messages_back() {
    let mut rig = Rig::new(Delivery::Call).opened();
    let MessageAction::Open { call: Some(inbound), .. } = rig.post(&call("1"), ResponseMode::Auto) else {
        panic!("not opened")
    };
    assert_eq!((inbound.context, inbound.message.method()), (Some(7), Some("tools/call")));
    assert!(rig.accepted(&cancelled("1")).is_some());
    assert!(rig.inbox().is_empty());
}
