//! GET: several connections, one carrier.

use super::*;

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn changed(rig: &mut Rig, tag: u32) -> String {
    let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"n":{tag}}}}}"#);
    rig.says(&text);
    text
}

// R088
#[test]
fn a_get_begins_with_a_comment_or_with_what_waits() {
    let mut rig = Rig::open();
    let get = rig.get();
    assert_eq!(rig.head(get), Head::Stream);
    assert_eq!(rig.poll(get), (":\n\n".into(), ReaderOutput::Pending));
    assert_eq!(rig.leave(get), Disconnect::Done);
    rig.says(CHANGED);
    let get = rig.get();
    assert_eq!(rig.poll(get), (format!("event: message\ndata: {CHANGED}\n\n"), ReaderOutput::Pending));
}

// R081, R084, R098, R102, R129
#[test]
fn the_newest_carries_and_the_next_carries_on() {
    let mut rig = Rig::open();
    let gets = [rig.get(), rig.get(), rig.get()];
    let first = changed(&mut rig, 1);
    assert!(rig.told(Effect::WakeConnection(gets[2])));
    assert!(rig.read(gets[0]).is_empty() && rig.read(gets[1]).is_empty());
    assert_eq!(rig.read(gets[2]), [first]);
    let second = changed(&mut rig, 2);
    rig.effects();
    assert_eq!(rig.leave(gets[2]), Disconnect::Done);
    assert!(rig.told(Effect::WakeConnection(gets[1])), "it has something to read now");
    assert_eq!(rig.read(gets[1]), [second]);
    assert_eq!(rig.leave(gets[0]), Disconnect::Done);
    let third = changed(&mut rig, 3);
    assert_eq!(rig.read(gets[1]), [third]);
}

// R103
#[test]
fn beyond_the_limit_the_oldest_ends_and_swallows_nothing() {
    let mut rig = Rig::open();
    let gets: Vec<_> = (0..5).map(|_| rig.get()).collect();
    assert!(rig.told(Effect::WakeConnection(gets[0])));
    let text = changed(&mut rig, 1);
    assert_eq!(rig.poll(gets[0]).1, ReaderOutput::Finished);
    for idle in &gets[1..4] {
        assert_eq!(rig.poll(*idle).1, ReaderOutput::Pending);
    }
    assert_eq!(rig.read(gets[4]), [text]);
}

#[test]
fn gets_that_never_take_their_end_do_not_pile_up() {
    let mut rig = Rig::open();
    for _ in 0..1_000 {
        rig.get();
    }
    assert_eq!(rig.session.standalone.as_ref().expect("a stream").readers.len(), rig.config.max_standalone);
}

#[test]
fn a_get_may_name_an_event_of_its_own_stream_only() {
    let mut rig = Rig::open();
    for (stream, expected) in [(0, true), (3, false)] {
        let id = crate::id::EventId { stream, sequence: std::num::NonZeroU64::MIN };
        assert_eq!(rig.session.open_get(rig.now, &rig.config, Some(id)).is_ok(), expected);
    }
}

// R093
#[test]
fn draining_ends_gets_with_a_retry_after_what_waits_and_lets_calls_finish() {
    let mut rig = Rig::open();
    let (_, post) = rig.request(&call("1"), ResponseMode::Auto);
    let (old, new) = (rig.get(), rig.get());
    rig.read(old);
    rig.read(new);
    let text = changed(&mut rig, 1);
    rig.effects();
    rig.shut();
    for connection in [old, new] {
        assert_eq!(rig.count(Effect::WakeConnection(connection)), 1);
    }
    assert_eq!(rig.poll(old), ("retry: 1000\n\n".into(), ReaderOutput::Finished));
    let late = changed(&mut rig, 2);
    let (read, output) = rig.poll(new);
    assert_eq!(output, ReaderOutput::Finished);
    assert_eq!(read, format!("event: message\ndata: {text}\n\nevent: message\ndata: {late}\n\nretry: 1000\n\n"));
    assert_eq!(rig.session.open_get(rig.now, &rig.config, None), Err(Outcome::ShuttingDown));
    assert_eq!(rig.refused(&call("2")), Outcome::ShuttingDown);
    rig.says(&answer("1"));
    assert_eq!(rig.json(post), answer("1"));
}

#[test]
fn while_draining_nothing_waits_for_a_get_that_cannot_come() {
    let mut rig = Rig::open();
    rig.says(&question("70"));
    rig.says(CHANGED);
    rig.shut();
    assert_eq!(error_of(&rig.inbox()[0]), (70.into(), AnswerError::NoWire.as_str().into()));
    rig.relates(&question("71"), Relation::Unrelated);
    assert_eq!(error_of(&rig.inbox()[0]), (71.into(), AnswerError::NoWire.as_str().into()));
    rig.says(CHANGED);
    assert_eq!(rig.session.counters().notes_dropped, 2);
}

#[test]
fn after_the_end_gets_finish_with_what_waits_for_them() {
    let mut rig = Rig::open();
    let (old, new) = (rig.get(), rig.get());
    let text = changed(&mut rig, 1);
    rig.effects();
    rig.end(EndReason::Closed);
    for connection in [old, new] {
        assert_eq!(rig.count(Effect::WakeConnection(connection)), 1);
    }
    assert_eq!(rig.poll(old).1, ReaderOutput::Finished);
    assert!(!rig.session.is_drained());
    assert_eq!(rig.read(new), [text]);
    assert!(rig.session.is_drained());
    assert_eq!(rig.session.open_get(rig.now, &rig.config, None), Err(Outcome::SessionNotFound));
}
