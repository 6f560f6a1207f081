//! Batches: all or nothing, one stream, one array.

use super::*;

impl Rig {
    fn batch(&mut self, texts: &[String], mode: ResponseMode) -> BatchAction<u32> {
        let batch = texts.iter().map(|text| message(text)).collect();
        let action = self.session.handle_batch(self.now, &self.config, batch, &7, mode);
        self.drain();
        action
    }

    fn opens(&mut self, texts: &[String], mode: ResponseMode) -> ConnectionKey {
        let action = self.batch(texts, mode);
        let BatchAction::Open { connection, .. } = action else { panic!("{action:?}") };
        connection
    }
}

// R151
#[test]
fn the_answers_of_a_batch_share_one_stream_that_ends_with_the_last() {
    let mut rig = Rig::open();
    let batch = [call("1"), log_note("x"), call(r#""2""#), call("3")];
    let connection = rig.opens(&batch, ResponseMode::Auto);
    assert_eq!(rig.inbox(), batch, "in their order");
    assert_eq!(rig.session.requests_in_flight(), 3);
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.poll(connection), (":\n\n".into(), ReaderOutput::Pending));
    rig.says(&answer("3"));
    rig.says(&progress("1", 1));
    rig.says(&answer("1"));
    assert_eq!(rig.read(connection), [answer("3"), progress("1", 1), answer("1")]);
    rig.says(&answer(r#""2""#));
    assert_eq!(rig.poll(connection).1, ReaderOutput::Finished);
    assert_eq!(rig.session.requests_in_flight(), 0);
}

// R151
#[test]
fn as_one_body_the_answers_are_an_array_even_if_there_is_one() {
    let mut rig = Rig::open();
    let two = rig.opens(&[call("1"), call("2")], ResponseMode::Json);
    let one = rig.opens(&[call("3")], ResponseMode::Json);
    assert_eq!(rig.head(two), Head::Hold { until: None });
    rig.says(&answer("2"));
    assert_eq!(rig.head(two), Head::Hold { until: None });
    rig.says(&answer("1"));
    rig.says(&answer("3"));
    assert_eq!(rig.json(two), format!("[{},{}]", answer("2"), answer("1")));
    assert_eq!(rig.json(one), format!("[{}]", answer("3")));
    assert!(rig.session.streams.is_empty());
}

// R151
#[test]
fn without_a_request_it_is_taken_in_and_answers_nothing() {
    for delivery in [Delivery::Call, Delivery::Inbox] {
        let mut rig = Rig::new(delivery).opened();
        let batch = [log_note("a"), answer("99"), log_note("b")];
        let BatchAction::Accepted { calls } = rig.batch(&batch, ResponseMode::Auto) else { panic!("no answer") };
        let called: Vec<_> = calls.iter().map(|call| (call.request, call.inbound.message.raw().clone())).collect();
        let notes = [log_note("a"), log_note("b")];
        match delivery {
            Delivery::Call => assert_eq!(called, notes.map(|note| (None, note.into()))),
            Delivery::Inbox => assert!(called.is_empty() && rig.inbox() == notes),
        }
        assert_eq!(rig.session.counters().client_responses_unmatched, 1);
    }
}

#[test]
fn an_app_that_is_called_gets_each_request_with_its_handle() {
    let mut rig = Rig::new(Delivery::Call).opened();
    let action = rig.batch(&[call("1"), log_note("x"), call("2")], ResponseMode::Json);
    let BatchAction::Open { calls, connection, request } = action else { panic!("{action:?}") };
    let keys: Vec<_> = calls.iter().filter_map(|call| call.request).collect();
    assert_eq!((keys.len(), calls.len(), keys[0]), (2, 3, request));
    rig.respond(keys[1], &answer("2"));
    rig.respond(keys[0], &answer("1"));
    assert_eq!(rig.json(connection), format!("[{},{}]", answer("2"), answer("1")));
}

// R150
#[test]
fn what_is_wrong_with_one_refuses_all_and_leaves_nothing() {
    let mut rig = Rig::open();
    rig.streaming("1");
    rig.inbox();
    rig.config.max_in_flight = 3;
    rig.config.inbox_count = 4;
    let full = [call("2"), log_note("a"), log_note("b"), log_note("c"), log_note("d")];
    for (batch, expected) in [
        (&[call("2"), call("2")][..], Outcome::DuplicateRequestId),
        (&[call("2"), log_note("x"), call("1")], Outcome::DuplicateRequestId),
        (&[call("2"), call("3"), call("4")], Outcome::TooManyRequests),
        (&[log_note("x"), INITIALIZE.to_owned()], Outcome::AlreadyInitialized),
        (&full, Outcome::InboxFull { request: true }),
    ] {
        let action = rig.batch(batch, ResponseMode::Auto);
        assert!(matches!(&action, BatchAction::Refuse(outcome) if *outcome == expected), "{batch:?}: {action:?}");
        assert_eq!((rig.session.requests_in_flight(), rig.inbox().len()), (1, 0));
    }
    assert!(matches!(rig.batch(&full[1..], ResponseMode::Auto), BatchAction::Accepted { .. }), "twice the bound");
    rig.shut();
    assert!(matches!(rig.batch(&[call("5")], ResponseMode::Auto), BatchAction::Refuse(Outcome::ShuttingDown)));
    rig.end(EndReason::Closed);
    assert!(matches!(rig.batch(&full, ResponseMode::Auto), BatchAction::Refuse(Outcome::SessionNotFound)));
}

#[test]
fn cancelling_one_of_a_batch_leaves_the_others_and_cancelling_all_is_202() {
    let mut rig = Rig::open();
    let some = rig.opens(&[call("1"), call("2")], ResponseMode::Json);
    let all = rig.opens(&[call("3"), call("4"), cancelled("3")], ResponseMode::Json);
    rig.accepted(&cancelled("1"));
    assert_eq!(rig.head(some), Head::Hold { until: None });
    rig.says(&answer("2"));
    assert_eq!(rig.json(some), format!("[{}]", answer("2")));
    rig.accepted(&cancelled("4"));
    assert_eq!(rig.head(all), Head::Refuse(Outcome::Accepted));
}

#[test]
fn every_request_of_a_batch_gets_an_error_when_the_session_ends() {
    for mode in [ResponseMode::Json, ResponseMode::Sse] {
        let mut rig = Rig::open();
        let connection = rig.opens(&[call("1"), call("2")], mode);
        rig.says(&answer("1"));
        rig.end(EndReason::Closed);
        let all = match rig.head(connection) {
            Head::Json(body) => String::from_utf8(body.to_vec()).expect("UTF-8"),
            head @ (Head::Hold { .. } | Head::Refuse(_) | Head::Stream) => {
                assert_eq!(head, Head::Stream);
                format!("[{}]", rig.read(connection).join(","))
            }
        };
        let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
        assert!(all[0]["result"].is_object() && all[1]["error"].is_object(), "{all}");
        assert!(rig.session.is_drained());
    }
}

#[test]
fn a_batch_without_its_connection_is_kept_and_given_back_once() {
    let mut rig = Rig::open();
    rig.config.resume = true;
    let connection = rig.opens(&[call("1"), call("2")], ResponseMode::Sse);
    assert_eq!(rig.head(connection), Head::Stream);
    rig.says(&answer("1"));
    rig.read(connection);
    assert_eq!(rig.leave(connection), Disconnect::Detached);
    rig.says(&answer("2"));
    assert_eq!(rig.count(Effect::Release), 1);
    let id = crate::id::EventId { stream: 1, sequence: std::num::NonZeroU64::new(2).expect("not zero") };
    let again = rig.session.open_get(rig.now, &rig.config, Some(id)).expect("a stream");
    assert_eq!(rig.read(again), [answer("2")]);
}
