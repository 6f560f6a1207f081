//! What time alone does.

use super::*;

#[test]
fn an_app_that_does_not_answer_initialize_in_time_ends_the_session_once() {
    let mut rig = Rig::new(Delivery::Inbox);
    let (request, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
    let deadline = rig.now.saturating_add(rig.config.start_timeout);
    assert_eq!(rig.alarm(), Some(deadline));
    rig.wait(rig.config.start_timeout - Duration::from_nanos(1));
    assert_eq!(rig.count(Effect::End(EndReason::NotStarted)), 0);
    assert_eq!(rig.alarm(), Some(deadline));
    rig.wait(Duration::from_nanos(1));
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.count(Effect::End(EndReason::NotStarted)), 1);
    // Its answer comes too late.
    rig.respond(request, INITIALIZED);
    assert!(!rig.session.announces_id());
    rig.end(EndReason::NotStarted);
    assert_eq!(rig.head(connection), Head::Refuse(Outcome::AppFailed));
}

#[test]
fn an_open_session_has_no_start_timeout() {
    let mut rig = Rig::open();
    rig.wait(Duration::from_secs(100_000));
    assert_eq!(rig.effects(), [Effect::Alarm(None)]);
}

// R024
#[test]
fn a_request_without_a_connection_expires_after_the_disconnect_or_the_last_word() {
    let timeout = Duration::from_secs(30 * 60);
    for speaks in [None, Some(progress("1", 1)), Some(question("70")), Some(log_note("x"))] {
        let mut rig = Rig::open();
        let (request, connection) = rig.streaming("1");
        rig.wait(Duration::from_secs(3_600));
        assert!(rig.session.is_in_flight(request), "attached it may take its time");
        assert_eq!(rig.leave(connection), Disconnect::Detached);
        assert_eq!(rig.alarm(), Some(rig.now.saturating_add(timeout)));
        rig.wait(timeout / 2);
        let mut left = timeout / 2;
        if let Some(text) = &speaks {
            rig.says(text);
            left = timeout;
        }
        rig.wait(left - Duration::from_nanos(1));
        assert!(rig.session.is_in_flight(request), "{speaks:?}");
        assert!(rig.alarm().is_some_and(|at| at <= rig.now.saturating_add(Duration::from_nanos(1))));
        rig.inbox();
        rig.effects();
        rig.wait(Duration::from_nanos(1));
        assert!(!rig.session.is_in_flight(request), "{speaks:?}");
        assert_eq!(rig.count(Effect::WakeCall(request)), 1);
        assert_eq!(rig.count(Effect::Release), 1);
        let told = rig.inbox();
        assert!(told[0].contains("notifications/cancelled") && told[0].contains(r#""requestId":1"#), "{told:?}");
        assert_eq!(rig.session.counters().requests_expired, 1);
    }
}

#[test]
fn a_late_word_under_an_earlier_time_shortens_nothing() {
    let mut rig = Rig::open();
    let (request, connection) = rig.streaming("1");
    assert_eq!(rig.leave(connection), Disconnect::Detached);
    let start = rig.now;
    rig.now = start.saturating_add(Duration::from_secs(600));
    rig.says(&progress("1", 1));
    rig.now = start;
    rig.says(&progress("1", 2));
    rig.wait(Duration::from_secs(1_800));
    assert!(rig.session.is_in_flight(request));
}

#[test]
fn a_request_may_have_a_greatest_age() {
    for (mode, held) in [(ResponseMode::Auto, true), (ResponseMode::Json, true), (ResponseMode::Sse, false)] {
        let mut rig = Rig::open();
        rig.config.max_request_age = Some(Duration::from_secs(10));
        let (_, connection) = rig.request(&call("1"), mode);
        assert_eq!(rig.alarm(), Some(rig.now.saturating_add(Duration::from_secs(10))));
        if !held {
            assert_eq!(rig.head(connection), Head::Stream);
        }
        rig.wait(Duration::from_secs(10));
        assert!(rig.told(Effect::WakeConnection(connection)));
        if held {
            assert_eq!(rig.head(connection), Head::Refuse(Outcome::RequestExpired), "{mode:?}");
        } else {
            let read = rig.read(connection);
            assert_eq!(read, [String::from_utf8_lossy(&Outcome::RequestExpired.to_message(&RequestId::Number(1)))]);
        }
        rig.request(&call("1"), mode);
    }
}

#[test]
fn initialize_obeys_the_start_timeout_alone() {
    let mut rig = Rig::new(Delivery::Inbox);
    rig.config.max_request_age = Some(Duration::from_secs(10));
    let (request, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
    rig.now = rig.now.saturating_add(rig.config.initialize_window);
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.leave(connection), Disconnect::Detached, "its head has left");
    rig.inbox();
    rig.config.detached_timeout = Some(Duration::from_secs(20));
    rig.wait(Duration::from_secs(60));
    assert!(rig.session.is_in_flight(request) && rig.inbox().is_empty());
    rig.respond(request, INITIALIZED);
    assert_eq!((rig.count(Effect::Established), rig.count(Effect::Release)), (1, 1));
}

#[test]
fn early_calls_change_nothing() {
    let mut rig = Rig::open();
    rig.streaming("1");
    rig.says(&question("70"));
    let alarm = rig.alarm();
    rig.effects();
    rig.wait(Duration::ZERO);
    assert_eq!(rig.effects(), [Effect::Alarm(alarm)]);
}
