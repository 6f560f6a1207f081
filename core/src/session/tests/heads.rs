//! When a head leaves, and as what.

use super::*;

const MODES: [ResponseMode; 3] = [ResponseMode::Auto, ResponseMode::Json, ResponseMode::Sse];

// R109
#[test]
fn an_immediate_answer_is_never_lost_in_any_mode() {
    for mode in MODES {
        let mut rig = Rig::open();
        let (_, connection) = rig.request(&call("1"), mode);
        rig.says(&answer("1"));
        if mode == ResponseMode::Sse {
            assert_eq!(rig.head(connection), Head::Stream);
            assert_eq!(rig.read(connection), [answer("1")]);
        } else {
            assert_eq!(rig.json(connection), answer("1"));
        }
    }
}

// R064, R124
#[test]
fn auto_opens_a_stream_for_a_note_and_keeps_the_answer_behind_it() {
    let mut rig = Rig::open();
    let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
    rig.says(&progress("1", 1));
    assert!(rig.told(Effect::WakeConnection(connection)));
    rig.says(&answer("1"));
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.read(connection), [progress("1", 1), answer("1")]);
}

// R087
#[test]
fn auto_holds_for_its_window_and_then_opens_a_stream_with_a_comment() {
    let mut rig = Rig::open();
    let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
    let until = rig.now.saturating_add(rig.config.auto_window);
    assert_eq!(rig.head(connection), Head::Hold { until: Some(until) });
    rig.now = until;
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.poll(connection), (":\n\n".into(), ReaderOutput::Pending));
    assert_eq!(rig.poll(connection), (String::new(), ReaderOutput::Pending));
}

#[test]
fn sse_opens_at_once() {
    let mut rig = Rig::open();
    let (_, connection) = rig.request(&call("1"), ResponseMode::Sse);
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.head(connection), Head::Stream, "for good");
}

#[test]
fn json_waits_as_long_as_it_takes() {
    let mut rig = Rig::open();
    let (_, connection) = rig.request(&call("1"), ResponseMode::Json);
    rig.wait(Duration::from_secs(1_000));
    assert_eq!(rig.head(connection), Head::Hold { until: None });
    rig.says(&answer("1"));
    assert_eq!(rig.json(connection), answer("1"));
    assert_eq!(rig.head(connection), Head::Refuse(Outcome::SessionEnded), "the exchange is over");
    assert_eq!(rig.leave(connection), Disconnect::Done);
}

#[test]
fn a_note_before_the_answer_to_initialize_waits_and_does_not_release_the_head() {
    let mut rig = Rig::new(Delivery::Inbox);
    let (_, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
    let until = Some(rig.now.saturating_add(rig.config.initialize_window));
    rig.says(&log_note("starting"));
    assert_eq!(rig.head(connection), Head::Hold { until });
    rig.says(INITIALIZED);
    assert_eq!(rig.head(connection), Head::Stream);
    assert_eq!(rig.read(connection), [log_note("starting"), INITIALIZED.to_owned()]);
}

#[test]
fn initialize_opens_a_stream_after_its_window_but_not_in_json() {
    for (mode, expected) in [
        (ResponseMode::Auto, Head::Stream),
        (ResponseMode::Sse, Head::Stream),
        (ResponseMode::Json, Head::Hold { until: None }),
    ] {
        let mut rig = Rig::new(Delivery::Inbox);
        let (_, connection) = rig.request(INITIALIZE, mode);
        assert!(matches!(rig.head(connection), Head::Hold { .. }));
        rig.wait(rig.config.initialize_window);
        assert_eq!(rig.head(connection), expected, "{mode:?}");
    }
}

#[test]
fn what_a_client_may_rely_on_exists_before_it_is_woken() {
    for (text, effect) in [
        (INITIALIZED, Effect::Established),
        (
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}"#,
            Effect::End(EndReason::InitializeFailed),
        ),
    ] {
        let mut rig = Rig::new(Delivery::Inbox);
        let (_, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
        rig.effects();
        rig.says(text);
        assert_eq!(rig.effects(), [effect, Effect::WakeConnection(connection)]);
    }
}

// R131, R094: what was negotiated is what the app says.
#[test]
fn the_version_is_the_one_in_the_result() {
    for (named, version) in [
        (r#""2025-06-18""#, Some(ProtocolVersion::V2025_06_18)),
        (r#""2024-11-05""#, Some(ProtocolVersion::V2024_11_05)),
        (r#""2026-07-28""#, None),
        (r#""zzzz""#, None),
        ("17", None),
    ] {
        let mut rig = Rig::new(Delivery::Inbox);
        let (request, _) = rig.request(INITIALIZE, ResponseMode::Auto);
        rig.respond(request, &format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":{named}}}}}"#));
        assert_eq!(rig.session.version(), version, "{named}");
        assert_eq!(rig.count(Effect::Established), 1);
    }
}

#[test]
fn an_error_to_initialize_is_passed_on_without_a_session_id() {
    let error = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}"#;
    let mut rig = Rig::new(Delivery::Inbox);
    let (_, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
    assert!(rig.session.announces_id());
    rig.says(error);
    assert!(!rig.session.announces_id());
    assert_eq!(rig.refused(&call("1")), Outcome::SessionNotFound);
    rig.wait(Duration::from_secs(1_000));
    assert_eq!(rig.count(Effect::End(EndReason::InitializeFailed)), 1);
    assert_eq!(rig.count(Effect::End(EndReason::NotStarted)), 0, "one reason");
    rig.end(EndReason::InitializeFailed);
    assert_eq!(rig.json(connection), error);
    assert!(rig.session.is_drained());
}

#[test]
fn an_answered_head_survives_the_end_of_the_session() {
    for mode in MODES {
        let mut rig = Rig::open();
        let (_, connection) = rig.request(&call("1"), mode);
        rig.says(&answer("1"));
        rig.end(EndReason::AppEnded);
        if mode == ResponseMode::Sse {
            assert_eq!(rig.head(connection), Head::Stream);
            assert_eq!(rig.read(connection), [answer("1")]);
        } else {
            assert_eq!(rig.json(connection), answer("1"), "{mode:?}");
        }
        assert!(rig.session.is_drained());
    }
}

#[test]
fn a_stream_that_ends_without_a_word_still_begins_with_a_byte() {
    let mut rig = Rig::open();
    let (_, connection) = rig.streaming("1");
    rig.accepted(&cancelled("1"));
    assert_eq!(rig.poll(connection), (":\n\n".into(), ReaderOutput::Finished));
}

// R115
#[test]
fn frames_stop_between_events_at_the_limit_and_one_always_fits() {
    let mut rig = Rig::open();
    let (_, connection) = rig.streaming("1");
    for step in 0..3 {
        rig.says(&progress("1", step));
    }
    let mut out = BytesMut::new();
    for step in 0..3 {
        out.clear();
        let output = rig.session.poll_frames(rig.now, &rig.config, connection, &mut out, 0);
        assert_eq!(output, if step < 2 { ReaderOutput::Ready } else { ReaderOutput::Pending });
        assert_eq!(out, format!("event: message\ndata: {}\n\n", progress("1", step)));
    }
}
