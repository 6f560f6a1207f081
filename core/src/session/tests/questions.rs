//! Requests of the app to the client.

use super::*;

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;

// R121
#[test]
fn the_answer_of_the_client_reaches_an_app_that_runs() {
    let mut rig = Rig::open();
    let (_, connection) = rig.streaming("1");
    rig.says(&question("1"));
    assert_eq!(rig.read(connection), [question("1")], "the ids of the two directions are separate spaces");
    rig.inbox();
    rig.effects();
    rig.accepted(&answer("1"));
    assert_eq!(rig.effects(), [Effect::WakeApp]);
    assert_eq!(rig.inbox(), [answer("1")]);
    assert_eq!(rig.session.requests_in_flight(), 1);
    rig.accepted(&answer("1"));
    assert_eq!(rig.session.counters().client_responses_unmatched, 1, "once");
}

#[test]
fn the_answer_of_the_client_reaches_a_call() {
    let mut rig = Rig::new(Delivery::Call).opened();
    let (request, connection) = rig.streaming("1");
    let asked = rig.ask(request).expect("a wire");
    assert!(rig.session.poll_answer(asked).is_none());
    let sent: serde_json::Value = serde_json::from_str(&rig.read(connection)[0]).expect("JSON");
    let id = sent["id"].to_string();
    rig.accepted(&answer(&id));
    assert!(rig.told(Effect::WakeAnswer(asked)));
    // A second answer changes nothing.
    rig.accepted(&answer(&id).replace("result", "error"));
    let answered = rig.session.poll_answer(asked).expect("an answer").expect("of the client");
    assert_eq!(answered.raw(), answer(&id).as_bytes());
    assert_eq!(rig.session.counters().client_responses_unmatched, 1);
}

#[test]
fn an_answer_to_what_no_connection_has_taken_is_no_answer() {
    let mut rig = Rig::open();
    rig.says(r#"{"jsonrpc":"2.0","id":70,"method":"ping"}"#);
    rig.accepted(&answer("70"));
    assert_eq!(rig.session.counters().client_responses_unmatched, 1);
    assert!(rig.inbox().is_empty());
    let get = rig.get();
    assert_eq!(rig.read(get).len(), 1);
    rig.accepted(&answer("70"));
    assert_eq!(rig.inbox(), [answer("70")]);
}

// R123, R127
#[test]
fn without_a_wire_the_app_gets_an_error_at_once() {
    let mut rig = Rig::open();
    rig.request(&call("1"), ResponseMode::Json);
    rig.inbox();
    rig.says(&question("70"));
    let answers = rig.inbox();
    assert_eq!(error_of(&answers[0]), (70.into(), AnswerError::NoWire.as_str().into()));
    // An open GET has to do for an answer that is one body.
    let get = rig.get();
    rig.says(&question("71"));
    assert_eq!(rig.read(get), [question("71")]);

    let mut rig = Rig::new(Delivery::Call).opened();
    let (request, _) = rig.request(&call("1"), ResponseMode::Json);
    assert_eq!(rig.ask(request), Err(AnswerError::NoWire));
    assert_eq!(rig.session.counters().server_requests_failed, 1);
}

#[test]
fn a_request_about_something_that_is_over_is_an_error_at_once() {
    let mut rig = Rig::open();
    let (request, connection) = rig.streaming("1");
    rig.says(&answer("1"));
    rig.inbox();
    for relation in [Relation::Request(request), Relation::Over] {
        rig.relates(&question("70"), relation);
        assert_eq!(error_of(&rig.inbox()[0]).1, AnswerError::Ended.as_str());
    }
    assert_eq!(rig.read(connection), [answer("1")]);
    assert_eq!(rig.ask(request), Err(AnswerError::Ended));
}

#[test]
fn an_id_of_the_app_that_still_waits_is_refused() {
    let mut rig = Rig::open();
    let (_, connection) = rig.streaming("1");
    rig.inbox();
    rig.says(&question("70"));
    rig.says(&question("70"));
    assert!(error_of(&rig.inbox()[0]).1.contains("still waiting"));
    assert_eq!(rig.read(connection), [question("70")]);
}

#[test]
fn requests_of_the_app_are_bounded_in_number_and_bytes() {
    let mut rig = Rig::open();
    rig.config.max_server_requests = 1;
    rig.streaming("1");
    rig.inbox();
    rig.says(&question("70"));
    rig.says(&question("71"));
    assert_eq!(error_of(&rig.inbox()[0]), (71.into(), AnswerError::TooMany.as_str().into()));

    let mut rig = Rig::open();
    rig.config.log_bytes = question("70").len() + 10;
    let (_, connection) = rig.streaming("1");
    rig.says(&progress("1", 1));
    rig.inbox();
    rig.says(&question("70"));
    rig.says(&question("71"));
    assert_eq!(error_of(&rig.inbox()[0]), (71.into(), AnswerError::TooMany.as_str().into()));
    assert_eq!(rig.read(connection), [question("70")], "a note makes room for a request");
}

// R126
#[test]
fn a_request_that_no_connection_takes_in_time_is_taken_back() {
    let mut rig = Rig::open();
    rig.says(&question("70"));
    assert_eq!(rig.alarm(), Some(rig.now.saturating_add(rig.config.server_request_timeout)));
    rig.wait(rig.config.server_request_timeout - Duration::from_nanos(1));
    assert!(rig.inbox().is_empty());
    rig.wait(Duration::from_nanos(1));
    assert_eq!(error_of(&rig.inbox()[0]), (70.into(), AnswerError::NotTaken.as_str().into()));
    let get = rig.get();
    assert!(rig.read(get).is_empty());
}

#[test]
fn once_taken_it_waits_for_the_client() {
    let mut rig = Rig::open();
    let get = rig.get();
    rig.says(&question("70"));
    rig.read(get);
    rig.wait(rig.config.server_request_timeout * 100);
    assert!(rig.inbox().is_empty());
    rig.accepted(&answer("70"));
    assert_eq!(rig.inbox(), [answer("70")]);
}

#[test]
fn the_end_of_its_request_ends_it_taken_or_not() {
    for taken in [true, false] {
        for cancel in [true, false] {
            let mut rig = Rig::open();
            let (request, connection) = rig.streaming("1");
            rig.inbox();
            rig.relates(&question("70"), Relation::Request(request));
            if taken {
                rig.read(connection);
            }
            if cancel {
                rig.accepted(&cancelled("1"));
            } else {
                rig.says(&answer("1"));
            }
            assert_eq!(error_of(&rig.inbox()[0]), (70.into(), AnswerError::Ended.as_str().into()));
            assert_eq!(rig.read(connection).len(), usize::from(!cancel), "the answer alone");

            let mut rig = Rig::new(Delivery::Call).opened();
            let (request, connection) = rig.streaming("1");
            let asked = rig.ask(request).expect("a wire");
            if taken {
                rig.read(connection);
            }
            rig.effects();
            rig.accepted(&cancelled("1"));
            assert!(rig.told(Effect::WakeAnswer(asked)));
            assert!(matches!(rig.session.poll_answer(asked), Some(Err(AnswerError::Ended))));
        }
    }
}

/// `roots/list`, sent on `notifications/initialized`, travels with whatever is in flight and must not die with it.
#[test]
fn a_guess_does_not_end_with_the_request_that_it_travelled_with() {
    let mut rig = Rig::open();
    let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
    rig.says(&question("70"));
    rig.says(&answer("1"));
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.read(connection), [question("70"), answer("1")]);
    rig.inbox();
    rig.accepted(&answer("70"));
    assert_eq!(rig.inbox(), [answer("70")]);
}

#[test]
fn a_guess_whose_carrier_goes_is_answered_with_an_error() {
    for cancel in [true, false] {
        let mut rig = Rig::open();
        let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
        rig.says(&question("70"));
        if cancel {
            rig.accepted(&cancelled("1"));
            assert_eq!(rig.head(connection), Head::Refuse(Outcome::Accepted));
        } else {
            assert_eq!(rig.leave(connection), Disconnect::Detached);
        }
        let answers = rig.inbox();
        assert_eq!(error_of(answers.last().expect("an answer")), (70.into(), AnswerError::NoWire.as_str().into()));
    }
}

#[test]
fn the_app_takes_back_what_no_connection_has_taken() {
    for relation in [Relation::Derived, Relation::Unrelated] {
        let mut rig = Rig::open();
        let (_, connection) = rig.streaming("1");
        rig.says(&question("70"));
        rig.relates(&cancelled("70"), relation);
        assert!(rig.read(connection).is_empty());
        assert_eq!(rig.session.counters().notes_dropped, 0, "it has done its work");
        rig.says(&question("70"));
        assert_eq!(rig.read(connection), [question("70")], "its id is free");
    }
}

#[test]
fn a_cancellation_of_the_app_follows_what_it_cancels() {
    for relation in [Relation::Derived, Relation::Unrelated] {
        let mut rig = Rig::open();
        let (_, first) = rig.streaming("1");
        rig.says(&question("70"));
        rig.read(first);
        let (_, second) = rig.streaming("2");
        let get = rig.get();
        rig.relates(&cancelled("70"), relation);
        assert_eq!(rig.read(first), [cancelled("70")]);
        assert!(rig.read(second).is_empty() && rig.read(get).is_empty());
        rig.accepted(&answer("70"));
        assert_eq!(rig.session.counters().client_responses_unmatched, 1);
    }
}

#[test]
fn a_cancellation_finds_the_client_when_its_stream_is_closed() {
    let mut rig = Rig::open();
    let (_, first) = rig.streaming("1");
    rig.says(&question("70"));
    rig.read(first);
    rig.says(&answer("1"));
    rig.read(first);
    rig.says(&cancelled("70"));
    let get = rig.get();
    assert_eq!(rig.read(get), [cancelled("70")]);
}

#[test]
fn a_cancellation_of_what_the_client_has_answered_is_dropped() {
    let mut rig = Rig::open();
    let get = rig.get();
    rig.says(&cancelled("70"));
    assert!(rig.read(get).is_empty());
    assert_eq!(rig.session.counters().notes_dropped, 1);
}

#[test]
fn a_call_that_loses_interest_takes_its_request_back() {
    let mut rig = Rig::new(Delivery::Call).opened();
    let (request, connection) = rig.streaming("1");
    let asked = rig.ask(request).expect("a wire");
    rig.session.forget_request(asked);
    assert!(rig.read(connection).is_empty());
    assert!(matches!(rig.session.poll_answer(asked), Some(Err(AnswerError::Ended))));
}

#[test]
fn the_client_that_leaves_before_it_has_taken_a_request_leaves_an_error() {
    let mut rig = Rig::new(Delivery::Call).opened();
    let (request, connection) = rig.streaming("1");
    let asked = rig.ask(request).expect("a wire");
    rig.effects();
    assert_eq!(rig.leave(connection), Disconnect::Detached);
    assert!(rig.told(Effect::WakeAnswer(asked)));
    assert!(matches!(rig.session.poll_answer(asked), Some(Err(AnswerError::NoWire))));
    assert_eq!(rig.ask(request), Err(AnswerError::NoWire));
}

#[test]
fn a_full_inbox_keeps_the_question_open() {
    let mut rig = Rig::open();
    rig.config.inbox_count = 1;
    let get = rig.get();
    rig.says(&question("70"));
    rig.read(get);
    rig.accepted(CHANGED);
    rig.accepted(CHANGED);
    assert_eq!(rig.refused(&answer("70")), Outcome::InboxFull { request: false });
    rig.inbox();
    rig.accepted(&answer("70"));
    assert_eq!(rig.inbox(), [answer("70")]);
}
