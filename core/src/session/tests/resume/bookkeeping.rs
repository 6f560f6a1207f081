//! Faults that would show late or hardly at all: what stays behind, what is due when, and who is told.

use bytes::BytesMut;

use super::*;
use crate::session::log::{Entry, Log};

#[test]
fn reading_a_question_again_does_not_pass_for_sending_another_with_its_id() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    rig.says(&question("9"));
    assert_eq!(rig.events(connection).0.len(), 2);
    rig.accepted(&answer("9"));
    assert_eq!(rig.inbox().len(), 2, "the call and the answer");
    rig.lose(connection);
    rig.says(&question("9"));
    let again = rig.resume(1, 1);
    let mut out = BytesMut::new();
    let output = rig.session.poll_frames(rig.now, &rig.config, again, &mut out, 1);
    assert_eq!(output, ReaderOutput::Ready, "the first of the two alone");
    rig.accepted(&answer("9"));
    assert_eq!(rig.session.counters().client_responses_unmatched, 1);
    assert!(rig.inbox().is_empty());
    assert_eq!(rig.events(again).0.len(), 1);
    rig.accepted(&answer("9"));
    assert_eq!(rig.inbox(), [answer("9")]);
}

#[test]
fn as_many_questions_wait_as_the_bounds_say_and_not_one_more() {
    let len = question("1").len();
    for (config, fit) in [
        (SessionConfig { log_count: 2, ..resumable() }, 2),
        (SessionConfig { log_bytes: 2 * len, ..resumable() }, 2),
        (SessionConfig { log_bytes: 2 * len - 1, ..resumable() }, 1),
        (SessionConfig { log_bytes: 1, ..resumable() }, 1),
    ] {
        let mut rig = Rig::resuming_with(config);
        for id in ["1", "2", "3"] {
            rig.relates(&question(id), Relation::Unrelated);
        }
        assert_eq!(rig.inbox().len(), 3 - fit, "the others get an error");
        let get = rig.get();
        assert_eq!(rig.events(get).0.len(), 1 + fit);
    }
}

#[test]
fn a_stream_that_is_forgotten_leaves_nothing_behind() {
    let mut rig = Rig::resuming();
    let mut left = Vec::new();
    for round in 0..40 {
        let (_, connection) = rig.streaming("1");
        rig.read(connection);
        if round % 2 == 0 {
            rig.lose(connection);
        }
        rig.says(&answer("1"));
        rig.read(connection);
        rig.inbox();
        rig.wait(rig.config.log_age);
        assert!(rig.session.streams.is_empty());
        left.push(format!("{:?}", rig.session.kept).len());
    }
    // The last number has two digits in both.
    assert_eq!(left[15], left[35], "{:?}", rig.session.kept);
}

#[test]
fn a_log_that_was_cleared_goes_on_counting_and_reaches_nothing_before() {
    let mut log = Log::default();
    log.push(Entry::Note, Bytes::from_static(b"a"));
    assert!(log.take(Timestamp::ZERO, true).is_some());
    log.clear();
    assert!(!log.reaches(0) && log.reaches(1));
    log.push(Entry::Note, Bytes::from_static(b"b"));
    let taken = log.take(Timestamp::ZERO, true).expect("a note");
    assert_eq!(taken.sequence.map(NonZeroU64::get), Some(2));
}
