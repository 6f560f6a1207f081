//! The bounds of what waits for the app, and its waking.

use super::*;

fn notification(size: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"a":"{}"}}}}"#, "x".repeat(size))
}

#[test]
fn messages_arrive_in_order_with_their_context_and_each_wakes_the_app() {
    let mut rig = Rig::open();
    rig.request(&call("1"), ResponseMode::Auto);
    assert!(rig.told(Effect::WakeApp));
    rig.accepted(&notification(1));
    assert!(rig.told(Effect::WakeApp));
    let first = rig.session.poll_inbox().expect("a message");
    assert_eq!((first.context, &first.message.raw()[..]), (Some(7), call("1").as_bytes()));
    assert_eq!(rig.inbox(), [notification(1)]);
}

#[test]
fn a_full_inbox_refuses_requests_first_and_leaves_nothing_behind() {
    for by_count in [true, false] {
        let mut rig = Rig::open();
        let note = notification(40);
        if by_count {
            rig.config.inbox_count = 2;
        } else {
            rig.config.inbox_bytes = note.len() * 2;
        }
        rig.accepted(&note);
        rig.accepted(&note);
        assert_eq!(rig.refused(&call("1")), Outcome::InboxFull { request: true });
        assert_eq!(rig.session.requests_in_flight(), 0);
        rig.accepted(&note);
        rig.accepted(&note);
        assert_eq!(rig.refused(&note), Outcome::InboxFull { request: false });
        assert_eq!(rig.inbox().len(), 4);
        rig.request(&call("1"), ResponseMode::Auto);
    }
}

#[test]
fn an_empty_inbox_takes_one_message_of_any_size() {
    let mut rig = Rig::open();
    rig.config.inbox_bytes = 1;
    rig.request(&call("1"), ResponseMode::Auto);
    assert_eq!(rig.refused(&notification(1)), Outcome::InboxFull { request: false });
}

#[test]
fn a_response_that_nobody_waits_for_needs_no_room() {
    let mut rig = Rig::open();
    rig.config.inbox_count = 1;
    rig.accepted(&notification(1));
    rig.accepted(&notification(1));
    rig.accepted(&answer("77"));
    assert_eq!(rig.session.counters().client_responses_unmatched, 1);
}

#[test]
fn an_app_that_asks_and_never_reads_the_answers_is_left_without() {
    let mut rig = Rig::open();
    rig.config.inbox_count = 2;
    rig.config.max_server_requests = 0;
    for id in 0..50 {
        rig.says(&question(&id.to_string()));
    }
    assert_eq!(rig.session.counters().server_requests_failed, 50);
    assert_eq!(rig.inbox().len(), 6, "three times the bound");
}

/// An app that is called has no inbox: what waits are the calls themselves.
#[test]
fn notifications_that_a_called_app_is_not_done_with_are_bounded() {
    for by_count in [true, false] {
        let mut rig = Rig::new(Delivery::Call).opened();
        let note = notification(40);
        if by_count {
            rig.config.inbox_count = 2;
        } else {
            rig.config.inbox_bytes = note.len() * 2;
        }
        assert!(rig.accepted(&note).is_some() && rig.accepted(&note).is_some());
        assert_eq!(rig.refused(&note), Outcome::InboxFull { request: false });
        assert_eq!(rig.session.notes_in_flight(), 2);
        // Requests have a bound of their own.
        rig.request(&call("1"), ResponseMode::Auto);
        rig.session.handle_note_done(note.len());
        assert!(rig.accepted(&note).is_some());
        assert_eq!(rig.refused(&cancelled("1")), Outcome::InboxFull { request: false });
        assert_eq!((rig.session.requests_in_flight(), rig.session.counters().requests_cancelled), (1, 0));
        (0..2).for_each(|_| rig.session.handle_note_done(note.len()));
        assert!(rig.accepted(&cancelled("1")).is_some());
        assert_eq!((rig.session.requests_in_flight(), rig.session.counters().requests_cancelled), (0, 1));
        assert_eq!(rig.session.notes_in_flight(), 1);
    }
}

#[test]
fn the_first_notification_of_a_called_app_may_have_any_size_and_giving_back_too_much_does_no_harm() {
    let mut rig = Rig::new(Delivery::Call).opened();
    rig.config.inbox_bytes = 1;
    assert!(rig.accepted(&notification(100)).is_some());
    assert_eq!(rig.refused(&notification(1)), Outcome::InboxFull { request: false });
    (0..3).for_each(|_| rig.session.handle_note_done(1_000));
    assert!(rig.accepted(&notification(100)).is_some());
    assert_eq!(rig.session.notes_in_flight(), 1);
}

/// What the client says that the app never sees is no call.
#[test]
fn only_what_the_app_is_called_with_counts() {
    let mut rig = Rig::new(Delivery::Call);
    rig.request(INITIALIZE, ResponseMode::Auto);
    assert!(rig.accepted(&cancelled("0")).is_none());
    assert!(rig.accepted(&answer("77")).is_none());
    assert_eq!(rig.session.notes_in_flight(), 0);
    let mut rig = Rig::open();
    rig.accepted(&notification(1));
    assert_eq!(rig.session.notes_in_flight(), 0);
}
