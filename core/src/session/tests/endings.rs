//! The end of a session in every phase: silence is never an ending.

use super::*;

const REASONS: [EndReason; 4] = [EndReason::AppEnded, EndReason::Closed, EndReason::NotStarted, EndReason::Shutdown];

// R080
#[test]
fn every_open_request_gets_exactly_one_ending() {
    for reason in REASONS {
        let mut rig = Rig::open();
        let held = [ResponseMode::Auto, ResponseMode::Json].map(|mode| {
            let id = if mode == ResponseMode::Auto { "1" } else { "2" };
            rig.request(&call(id), mode)
        });
        let (streaming, stream) = rig.streaming("3");
        rig.says(&progress("3", 1));
        let (gone, left) = rig.streaming("4");
        assert_eq!(rig.leave(left), Disconnect::Detached);
        rig.effects();
        rig.end(reason);
        rig.end(EndReason::Closed);
        assert_eq!(rig.session.ended(), Some(reason), "the first counts");
        for key in [held[0].0, held[1].0, streaming, gone] {
            assert_eq!(rig.count(Effect::WakeCall(key)), 1);
        }
        assert_eq!(rig.count(Effect::Release), 1);
        assert_eq!(rig.count(Effect::WakeApp), 1);
        for (_, connection) in held {
            assert_eq!(rig.count(Effect::WakeConnection(connection)), 1);
            assert_eq!(rig.head(connection), Head::Refuse(Outcome::SessionEnded));
        }
        assert_eq!(rig.count(Effect::WakeConnection(stream)), 1);
        let error = Outcome::SessionEnded.to_message(&RequestId::Number(3));
        assert_eq!(rig.read(stream), [progress("3", 1), String::from_utf8_lossy(&error).into_owned()]);
        assert_eq!(rig.poll(stream), (String::new(), ReaderOutput::Finished));
        assert!(rig.session.is_drained());
    }
}

#[test]
fn the_end_before_initialize_is_answered_says_why() {
    for (reason, outcome) in [
        (EndReason::AppEnded, Outcome::AppFailed),
        (EndReason::NotStarted, Outcome::AppFailed),
        (EndReason::Closed, Outcome::SessionEnded),
        (EndReason::Shutdown, Outcome::SessionEnded),
    ] {
        let mut rig = Rig::new(Delivery::Inbox);
        let (_, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
        rig.effects();
        rig.end(reason);
        assert_eq!(rig.alarm(), None);
        assert_eq!(rig.head(connection), Head::Refuse(outcome.clone()));

        // After the head: an error event and a dead id.
        let mut rig = Rig::new(Delivery::Inbox);
        let (_, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
        rig.now = rig.now.saturating_add(rig.config.initialize_window);
        assert_eq!(rig.head(connection), Head::Stream);
        rig.end(reason);
        assert_eq!(rig.read(connection), [String::from_utf8_lossy(&outcome.to_message(&RequestId::Number(0)))]);
        assert!(rig.session.is_drained());
    }
}

#[test]
fn a_session_that_never_began_ends_too() {
    let mut rig = Rig::new(Delivery::Inbox);
    rig.end(EndReason::Closed);
    assert_eq!(rig.effects(), [Effect::WakeApp]);
    assert!(rig.session.is_drained());
    assert_eq!(rig.refused(INITIALIZE), Outcome::SessionNotFound);
}

#[test]
fn a_client_that_leaves_before_the_head_of_initialize_ends_the_session() {
    for answered in [false, true] {
        let mut rig = Rig::new(Delivery::Inbox);
        let (request, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
        if answered {
            rig.respond(request, INITIALIZED);
        }
        rig.effects();
        assert_eq!(rig.leave(connection), Disconnect::Abandoned, "answered: {answered}");
        assert_eq!(rig.leave(connection), Disconnect::Done);
        rig.end(EndReason::Closed);
        assert_eq!(rig.count(Effect::Release), 0, "nothing was kept");
        assert!(rig.session.is_drained());
    }
}

#[test]
fn nothing_happens_after_the_end() {
    let mut rig = Rig::open();
    let (request, connection) = rig.request(&call("1"), ResponseMode::Auto);
    rig.says(&question("70"));
    rig.end(EndReason::Closed);
    rig.effects();
    let counters = rig.session.counters();
    rig.says(&answer("1"));
    rig.says(&question("71"));
    rig.says(&log_note("x"));
    rig.respond(request, &answer("1"));
    rig.wait(Duration::from_secs(100_000));
    rig.shut();
    for text in [call("2"), cancelled("1"), answer("70")] {
        assert_eq!(rig.refused(&text), Outcome::SessionNotFound);
    }
    assert!(rig.effects().is_empty() && rig.inbox().is_empty());
    assert_eq!(rig.session.counters().notes_dropped, counters.notes_dropped);
    assert_eq!(rig.head(connection), Head::Refuse(Outcome::SessionEnded));
    assert!(rig.session.is_drained());
}

#[test]
fn readers_that_leave_instead_of_reading_leave_nothing() {
    let mut rig = Rig::open();
    let (_, held) = rig.request(&call("1"), ResponseMode::Auto);
    let (_, streaming) = rig.streaming("2");
    let get = rig.get();
    rig.says(r#"{"jsonrpc":"2.0","id":70,"method":"ping"}"#);
    rig.end(EndReason::Closed);
    for connection in [held, streaming, get] {
        assert!(!rig.session.is_drained());
        assert_eq!(rig.leave(connection), Disconnect::Done);
    }
    assert!(rig.session.is_drained());
    assert!(rig.session.outgoing.is_empty());
}

#[test]
fn a_call_that_waits_for_the_client_learns_of_the_end() {
    let mut rig = Rig::new(Delivery::Call).opened();
    let (request, connection) = rig.streaming("1");
    let waiting = rig.ask(request).expect("a wire");
    let answered = rig.ask(request).expect("a wire");
    let sent: serde_json::Value = serde_json::from_str(&rig.read(connection)[1]).expect("JSON");
    rig.accepted(&answer(&sent["id"].to_string()));
    rig.effects();
    rig.end(EndReason::Shutdown);
    assert_eq!(rig.count(Effect::WakeAnswer(waiting)), 1);
    for asked in [waiting, answered] {
        assert!(matches!(rig.session.poll_answer(asked), Some(Err(AnswerError::Ended))));
    }
    assert!(rig.session.outgoing.is_empty());
}
