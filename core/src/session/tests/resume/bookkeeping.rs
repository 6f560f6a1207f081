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

impl Rig {
    /// A request whose stream is kept, and was read to its end or not.
    fn finish(&mut self, id: &str, is_read: bool) {
        let (_, connection) = self.streaming(id);
        self.read(connection);
        if !is_read {
            self.lose(connection);
        }
        self.says(&answer(id));
        if is_read {
            assert_eq!(self.read(connection), [answer(id)]);
        }
        self.inbox();
    }

    /// Which streams can be resumed after their first event.
    fn kept(&mut self) -> Vec<u64> {
        (1..10).filter(|stream| self.try_resume(*stream, 1).is_ok()).collect()
    }
}

#[test]
fn of_finished_streams_those_that_were_read_go_first_then_the_oldest_and_the_newest_stays() {
    let len = answer("1").len();
    let two = SessionConfig { log_count: 2, ..resumable() };
    let bytes = |log_bytes| SessionConfig { log_bytes, ..resumable() };
    for (config, read, kept) in [
        (two.clone(), vec![false, false], vec![1, 2]),
        (two.clone(), vec![false, false, false], vec![2, 3]),
        (two.clone(), vec![false, true, false], vec![1, 3]),
        (two.clone(), vec![true, true, false], vec![2, 3]),
        (two, vec![false, false, true], vec![2, 3]),
        (bytes(2 * len), vec![true, true], vec![1, 2]),
        (bytes(2 * len - 1), vec![true, true], vec![2]),
        (bytes(1), vec![true], vec![1]),
    ] {
        let mut rig = Rig::resuming_with(config);
        for (id, is_read) in (1..).zip(&read) {
            rig.finish(&id.to_string(), *is_read);
        }
        assert_eq!(rig.kept(), kept, "{read:?}");
    }
}

#[test]
fn a_finished_stream_is_kept_as_a_whole() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    rig.steps("1", 0..1);
    rig.read(connection);
    let half = rig.config.log_age / 2;
    rig.wait(half);
    rig.says(&answer("1"));
    rig.read(connection);
    // The first event is as old as may be, and the stream is not.
    rig.wait(half);
    let again = rig.resume(1, 1);
    assert_eq!(rig.events(again).0, numbered(1, 2, &[progress("1", 0), answer("1")]));
}

#[test]
fn streams_that_are_kept_end_with_their_session() {
    let mut rig = Rig::resuming();
    rig.finish("1", true);
    rig.finish("2", false);
    rig.end(EndReason::Closed);
    assert!(rig.session.is_drained());
}

#[test]
fn what_a_stuck_reader_was_to_read_again_makes_room_at_once() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 4, ..resumable() });
    let (_, connection) = rig.streaming("1");
    rig.steps("1", 0..4);
    rig.read(connection);
    rig.resume(1, 1);
    rig.now = rig.now.saturating_add(Duration::from_secs(5));
    rig.steps("1", 4..6);
    let logs: Vec<_> = rig.session.streams.iter().map(|(_, stream)| stream.log.len()).collect();
    assert_eq!(logs, [4]);
    assert_eq!(rig.session.counters().notes_dropped, 0);
}

/// A reader that has come to read again and is stuck is cut off, and what it was given before has the age that it had.
#[test]
fn what_a_stuck_reader_was_to_read_again_has_its_old_age() {
    for standalone in [false, true] {
        let mut rig = Rig::resuming_with(SessionConfig { log_count: 4, detached_timeout: None, ..resumable() });
        let connection = if standalone { rig.get() } else { rig.streaming("1").1 };
        let say = |rig: &mut Rig, times| (0..times).for_each(|_| rig.says(if standalone { CHANGED } else { NOTE }));
        say(&mut rig, 3);
        rig.read(connection);
        let taken = rig.now;
        let again = rig.resume(u64::from(!standalone), 1);
        let mut out = BytesMut::new();
        let _ = rig.session.poll_frames(rig.now, &rig.config, again, &mut out, 1);
        // What was read makes room, and what is to be read again has no age.
        say(&mut rig, 2);
        rig.wait(Duration::from_secs(5));
        assert_eq!(rig.alarm(), None, "{standalone}");
        say(&mut rig, 1);
        assert!(rig.count(Effect::WakeConnection(again)) > 0, "{standalone}");
        assert_eq!(rig.alarm(), Some(taken.saturating_add(rig.config.log_age)), "{standalone}");
    }
}

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;

#[test]
fn when_a_stuck_reader_is_cut_off_the_next_reads_only_what_is_new() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 3, ..resumable() });
    let first = rig.get();
    rig.says(CHANGED);
    rig.says(CHANGED);
    assert_eq!(rig.events(first).0.len(), 3);
    let stuck = rig.resume(0, 1);
    let mut out = BytesMut::new();
    let _ = rig.session.poll_frames(rig.now, &rig.config, stuck, &mut out, 1);
    rig.wait(Duration::from_secs(5));
    for _ in 0..3 {
        rig.says(CHANGED);
    }
    assert_eq!(rig.poll(stuck), (String::new(), ReaderOutput::Finished));
    assert_eq!(rig.events(first).0, numbered(0, 4, &[(); 3].map(|()| CHANGED.to_owned())));
}

#[test]
fn a_reader_that_has_not_begun_is_not_stuck() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 2, ..resumable() });
    let get = rig.get();
    rig.says(CHANGED);
    rig.wait(Duration::from_secs(10));
    for _ in 0..3 {
        rig.says(CHANGED);
    }
    assert_eq!((rig.session.streams_open(), rig.session.counters().notes_dropped), (1, 2));
    assert_eq!(rig.events(get).0.len(), 3);
}

#[test]
fn the_age_of_what_a_get_has_read_is_not_forgotten_by_an_early_look() {
    let mut rig = Rig::resuming();
    let get = rig.get();
    rig.says(CHANGED);
    rig.read(get);
    let due = rig.now.saturating_add(rig.config.log_age);
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.alarm(), Some(due));
}

#[test]
fn a_connection_that_was_told_to_end_is_not_due_again() {
    let after = Duration::from_secs(10);
    let mut rig = Rig::resuming_with(SessionConfig { poll_after: Some(after), ..resumable() });
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.wait(after);
    assert_eq!(rig.count(Effect::WakeConnection(connection)), 1);
    assert_eq!(rig.alarm(), None);
}

#[test]
fn a_stuck_reader_stays_cut_off_when_the_app_closes_its_stream() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 3, ..resumable() });
    let (request, connection) = rig.streaming("1");
    rig.read(connection);
    rig.steps("1", 0..1);
    rig.wait(Duration::from_secs(5));
    rig.steps("1", 1..4);
    assert!(rig.session.close_stream(&rig.config, request, Some(Duration::from_secs(7))));
    assert_eq!(rig.poll(connection), ("retry: 7000\n\n".to_owned(), ReaderOutput::Detached));
}

#[test]
fn a_get_that_takes_over_from_one_that_reads_again_gives_what_that_was_given_its_age() {
    let mut rig = Rig::resuming();
    let get = rig.get();
    rig.says(CHANGED);
    rig.read(get);
    let due = rig.now.saturating_add(rig.config.log_age);
    rig.resume(0, 1);
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.alarm(), None);
    rig.get();
    assert_eq!(rig.alarm(), Some(due));
}

#[test]
fn a_reader_that_reads_slowly_is_not_stuck() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 3, ..resumable() });
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.steps("1", 0..3);
    rig.wait(Duration::from_secs(4));
    let mut out = BytesMut::new();
    let output = rig.session.poll_frames(rig.now, &rig.config, connection, &mut out, 1);
    assert_eq!(output, ReaderOutput::Ready);
    rig.wait(Duration::from_secs(4));
    rig.steps("1", 3..5);
    assert_eq!(rig.session.counters().notes_dropped, 1);
    assert_eq!(rig.events(connection).1, ReaderOutput::Pending);
}
