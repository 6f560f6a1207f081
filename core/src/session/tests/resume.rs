//! Resuming: what a client that comes back is given, and when it is told that it can't.

mod bookkeeping;

use std::num::NonZeroU64;

use super::*;
use crate::id::EventId;

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn resumable() -> SessionConfig {
    SessionConfig { resume: true, ..SessionConfig::default() }
}

fn version(name: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{name}"}}}}"#)
}

impl Rig {
    fn resuming() -> Self {
        Self::resuming_with(resumable())
    }

    fn resuming_with(config: SessionConfig) -> Self {
        let mut rig = Self::new(Delivery::Inbox);
        rig.config = config;
        rig.opened()
    }

    fn negotiated(name: &str) -> Self {
        let mut rig = Self::new(Delivery::Inbox);
        rig.config.resume = true;
        let (request, connection) = rig.request(INITIALIZE, ResponseMode::Auto);
        rig.respond(request, &version(name));
        assert!(matches!(rig.head(connection), Head::Json(_)));
        rig.inbox();
        rig.effects.clear();
        rig
    }

    fn try_resume(&mut self, stream: u64, sequence: u64) -> Result<ConnectionKey, Outcome> {
        let id = EventId { stream, sequence: NonZeroU64::new(sequence).expect("from 1") };
        let opened = self.session.open_get(self.now, &self.config, Some(id));
        self.drain();
        opened
    }

    fn resume(&mut self, stream: u64, sequence: u64) -> ConnectionKey {
        self.try_resume(stream, sequence).expect("a stream")
    }

    pub(super) fn lose(&mut self, connection: ConnectionKey) {
        assert_ne!(self.leave(connection), Disconnect::Abandoned);
    }

    /// Id and data of the events that a connection gets now, and what became of it.
    fn events(&mut self, connection: ConnectionKey) -> (Vec<(String, String)>, ReaderOutput) {
        let (text, output) = self.poll(connection);
        let field = |event: &str, name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_start().to_owned())
        };
        let events = text.split("\n\n").filter_map(|event| Some((field(event, "id:")?, field(event, "data:")?)));
        (events.collect(), output)
    }

    /// Progress of a request, numbered.
    fn steps(&mut self, token: &str, steps: std::ops::Range<u32>) {
        for step in steps {
            self.says(&progress(token, step));
        }
    }
}

fn numbered(stream: u64, from: u64, texts: &[String]) -> Vec<(String, String)> {
    texts.iter().zip(from..).map(|(text, sequence)| (format!("{stream}-{sequence}"), text.clone())).collect()
}

// R095, R112
#[test]
fn a_stream_begins_with_an_id_for_clients_that_expect_it_and_every_event_has_one() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    assert_eq!(rig.poll(connection), ("id: 1-1\nretry: 1000\ndata: \n\n".into(), ReaderOutput::Pending));
    rig.steps("1", 0..2);
    rig.says(&answer("1"));
    let expected = numbered(1, 2, &[progress("1", 0), progress("1", 1), answer("1")]);
    assert_eq!(rig.events(connection), (expected, ReaderOutput::Finished));
    let get = rig.get();
    rig.says(CHANGED);
    assert_eq!(rig.events(get).0, [("0-1".into(), String::new()), ("0-2".into(), CHANGED.into())]);
}

// R094, R095
#[test]
fn older_and_unknown_revisions_get_ids_and_no_event_without_data() {
    for name in ["2025-03-26", "2025-06-18", "2024-11-05", "2099-01-01", "zzzz"] {
        let mut rig = Rig::negotiated(name);
        let (request, connection) = rig.streaming("1");
        assert_eq!(rig.poll(connection), (":\n\n".into(), ReaderOutput::Pending), "{name}");
        assert!(!rig.session.close_stream(&rig.config, request, None), "{name}");
        assert!(!rig.session.close_standalone_stream(&rig.config, None), "{name}");
        rig.steps("1", 0..1);
        assert_eq!(rig.events(connection).0, numbered(1, 1, &[progress("1", 0)]), "{name}");
        let get = rig.get();
        assert_eq!(rig.poll(get).0, ":\n\n", "{name}");
        rig.lose(connection);
        rig.says(&answer("1"));
        let again = rig.resume(1, 1);
        assert_eq!(rig.events(again), (numbered(1, 2, &[answer("1")]), ReaderOutput::Finished), "{name}");
    }
}

// R094
#[test]
fn the_stream_of_initialize_begins_with_an_id_only_once_the_revision_is_known() {
    for known in [false, true] {
        let mut rig = Rig::new(Delivery::Inbox);
        rig.config.resume = true;
        let (request, connection) = rig.request(INITIALIZE, ResponseMode::Sse);
        if !known {
            rig.now = rig.now.saturating_add(rig.config.initialize_window);
            assert_eq!(rig.head(connection), Head::Stream);
            assert_eq!(rig.poll(connection).0, ":\n\n");
        }
        rig.respond(request, INITIALIZED);
        assert_eq!(rig.head(connection), Head::Stream);
        let first = known.then(|| ("1-1".to_owned(), String::new()));
        let expected: Vec<_> =
            first.into_iter().chain(numbered(1, 1 + u64::from(known), &[INITIALIZED.into()])).collect();
        assert_eq!(rig.events(connection), (expected, ReaderOutput::Finished));
    }
}

// R106, R109, R111
#[test]
fn a_client_that_comes_back_gets_the_rest_of_its_stream_and_nothing_else() {
    let mut rig = Rig::resuming();
    let (_, one) = rig.streaming("1");
    let (_, two) = rig.streaming("2");
    rig.steps("1", 0..2);
    rig.steps("2", 0..2);
    assert_eq!(rig.events(one).0.len(), 3);
    assert_eq!(rig.events(two).0.len(), 3);
    assert_eq!(rig.leave(one), Disconnect::Detached);
    rig.steps("1", 2..4);
    rig.steps("2", 2..3);
    let again = rig.resume(1, 2);
    assert_eq!(rig.head(again), Head::Stream);
    let missed = [progress("1", 1), progress("1", 2), progress("1", 3)];
    assert_eq!(rig.events(again), (numbered(1, 3, &missed), ReaderOutput::Pending));
    // Cut around the final event: it is there whether or not it was written.
    rig.says(&answer("1"));
    assert_eq!(rig.events(again), (numbered(1, 6, &[answer("1")]), ReaderOutput::Finished));
    let again = rig.resume(1, 5);
    assert_eq!(rig.events(again), (numbered(1, 6, &[answer("1")]), ReaderOutput::Finished));
    assert_eq!(rig.events(two).0, numbered(2, 4, &[progress("2", 2)]));
}

// R097, R100
#[test]
fn a_stream_that_was_delivered_or_cancelled_is_over_and_one_that_never_was_is_refused() {
    let mut rig = Rig::resuming();
    let (_, one) = rig.streaming("1");
    let (_, two) = rig.streaming("2");
    rig.steps("2", 0..1);
    rig.says(&answer("1"));
    assert_eq!(rig.events(one).1, ReaderOutput::Finished);
    rig.read(two);
    rig.lose(two);
    rig.steps("2", 1..3);
    rig.accepted(&cancelled("2"));
    assert_eq!(rig.session.counters().notes_dropped, 2);
    for (stream, sequence, expected) in [
        (1, 2, Outcome::StreamOver),
        (2, 1, Outcome::StreamOver),
        (2, 2, Outcome::StreamOver),
        (1, 3, Outcome::NotResumable),
        (2, 3, Outcome::NotResumable),
        (3, 1, Outcome::NotResumable),
        (u64::MAX, u64::MAX, Outcome::NotResumable),
    ] {
        assert_eq!(rig.try_resume(stream, sequence), Err(expected), "{stream}-{sequence}");
    }
    let (_, json) = rig.request(&call("3"), ResponseMode::Auto);
    rig.says(&answer("3"));
    assert_eq!(rig.json(json), answer("3"), "an answer in one body has no number");
    assert_eq!(rig.try_resume(3, 1), Err(Outcome::NotResumable));
    rig.wait(rig.config.log_age);
    assert_eq!(rig.try_resume(1, 1), Err(Outcome::NotResumable), "forgotten");
    assert!(rig.session.streams.is_empty());
}

// R114
#[test]
fn what_is_kept_no_longer_is_never_skipped_on_a_requests_stream() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 4, ..resumable() });
    let (_, connection) = rig.streaming("1");
    for step in 0..10 {
        rig.steps("1", step..step + 1);
        rig.read(connection);
    }
    rig.lose(connection);
    // 1 is the first event, without a message; 8 to 11 are kept.
    assert_eq!(rig.try_resume(1, 6), Err(Outcome::NotResumable));
    let again = rig.resume(1, 7);
    assert_eq!(rig.events(again).0.len(), 4);
    rig.now = rig.now.saturating_add(rig.config.log_age);
    rig.steps("1", 10..11);
    rig.read(again);
    rig.wait(Duration::ZERO);
    assert_eq!(rig.try_resume(1, 10), Err(Outcome::NotResumable), "too old");
    assert!(rig.try_resume(1, 11).is_ok());
}

// R114
#[test]
fn the_standalone_stream_goes_on_from_the_oldest_that_is_kept_and_says_so_in_the_counters() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 4, ..resumable() });
    let get = rig.get();
    for _ in 0..10 {
        rig.says(CHANGED);
        rig.read(get);
    }
    rig.lose(get);
    let again = rig.resume(0, 9);
    assert_eq!(rig.events(again).0, numbered(0, 10, &[CHANGED.into(), CHANGED.into()]));
    assert_eq!(rig.session.counters().resumed_with_gap, 0);
    for known in [3, 77] {
        let again = rig.resume(0, known);
        assert_eq!(rig.events(again).0.first().map(|(id, _)| &**id), Some("0-8"));
    }
    assert_eq!(rig.session.counters().resumed_with_gap, 2);
}

#[test]
fn a_get_without_a_position_gets_what_nobody_was_given() {
    let mut rig = Rig::resuming();
    let get = rig.get();
    rig.says(CHANGED);
    rig.read(get);
    rig.lose(get);
    rig.says(&log_note("later"));
    let get = rig.get();
    assert_eq!(rig.events(get).0, [("0-3".into(), String::new()), ("0-4".into(), log_note("later"))]);
}

// R084, R097, R098
#[test]
fn a_resume_takes_over_from_a_connection_that_is_still_there() {
    let mut rig = Rig::resuming();
    let (_, old) = rig.streaming("1");
    rig.steps("1", 0..3);
    rig.read(old);
    rig.effects();
    let new = rig.resume(1, 2);
    assert!(rig.told(Effect::WakeConnection(old)));
    assert_eq!(rig.poll(old), (String::new(), ReaderOutput::Finished));
    assert_eq!(rig.leave(old), Disconnect::Done);
    rig.says(&answer("1"));
    let rest = [progress("1", 1), progress("1", 2), answer("1")];
    assert_eq!(rig.events(new), (numbered(1, 3, &rest), ReaderOutput::Finished));
    assert_eq!(rig.count(Effect::Release), 0, "nothing was kept for it");
}

#[test]
fn what_was_kept_for_a_request_is_given_back_once_each_time() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    assert_eq!(rig.leave(connection), Disconnect::Detached);
    let again = rig.resume(1, 1);
    assert_eq!(rig.count(Effect::Release), 1);
    assert_eq!(rig.leave(again), Disconnect::Detached);
    assert_eq!(rig.leave(again), Disconnect::Done);
    rig.says(&answer("1"));
    assert_eq!(rig.count(Effect::Release), 2);
    let last = rig.resume(1, 1);
    assert_eq!(rig.events(last), (numbered(1, 2, &[answer("1")]), ReaderOutput::Finished));
    assert_eq!(rig.leave(last), Disconnect::Done);
    assert_eq!(rig.count(Effect::Release), 2);
}

#[test]
fn a_request_that_has_a_connection_again_does_not_expire() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.lose(connection);
    rig.wait(Duration::from_secs(29 * 60));
    let again = rig.resume(1, 1);
    rig.wait(Duration::from_secs(3_600));
    assert_eq!(rig.session.counters().requests_expired, 0);
    rig.lose(again);
    rig.wait(Duration::from_secs(31 * 60));
    assert_eq!(rig.session.counters().requests_expired, 1);
    let last = rig.resume(1, 1);
    let (events, output) = rig.events(last);
    assert_eq!(output, ReaderOutput::Finished);
    assert!(error_of(&events[0].1).1.contains("longer"), "{events:?}");
}

// R126
#[test]
fn questions_wait_for_a_client_that_can_come_back_until_their_deadline() {
    let mut rig = Rig::resuming();
    let (request, connection) = rig.streaming("1");
    rig.read(connection);
    rig.lose(connection);
    rig.inbox();
    rig.relates(&question("70"), Relation::Request(request));
    rig.relates(&question("71"), Relation::Request(request));
    assert!(rig.inbox().is_empty());
    rig.wait(Duration::from_secs(50));
    let again = rig.resume(1, 1);
    assert_eq!(rig.events(again).0.len(), 2);
    rig.lose(again);
    rig.relates(&question("72"), Relation::Request(request));
    rig.wait(Duration::from_secs(60));
    assert_eq!(error_of(&rig.inbox()[0]), (72.into(), AnswerError::NotTaken.as_str().into()));
    // The client may have got this one: it is told that it is taken back, in its place.
    let note = cancelled("70");
    rig.says(&note);
    let again = rig.resume(1, 1);
    let expected = numbered(1, 2, &[question("70"), question("71"), note]);
    assert_eq!(rig.events(again).0, expected);
}

#[test]
fn a_client_that_knows_of_no_event_can_not_come_back() {
    let mut rig = Rig::resuming();
    for (id, mode) in [("1", ResponseMode::Auto), ("2", ResponseMode::Json)] {
        let (request, connection) = rig.request(&call(id), mode);
        assert_eq!(rig.leave(connection), Disconnect::Detached);
        rig.relates(&question("70"), Relation::Request(request));
        assert_eq!(error_of(&rig.inbox().pop().expect("an error")).1, AnswerError::NoWire.as_str());
        rig.says(&answer(id));
    }
    assert!(rig.session.streams.is_empty());
    assert_eq!(rig.count(Effect::Release), 2);
}

// R115, R152
#[test]
fn a_reader_that_is_stuck_is_cut_off_and_can_come_back() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 4, ..resumable() });
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.wait(Duration::from_secs(60));
    rig.steps("1", 0..5);
    assert_eq!(rig.session.counters().notes_dropped, 1, "a burst is no reason to send anybody away");
    rig.wait(Duration::from_secs(5));
    rig.steps("1", 5..6);
    assert_eq!(rig.poll(connection), ("retry: 1000\n\n".into(), ReaderOutput::Detached));
    assert_eq!(rig.leave(connection), Disconnect::Done, "it was said already");
    assert_eq!(rig.session.counters().notes_dropped, 2, "notes that never were events");
    rig.says(&answer("1"));
    assert_eq!(rig.count(Effect::Release), 1);
    let again = rig.resume(1, 1);
    let rest: Vec<_> = (3..6).map(|step| progress("1", step)).chain([answer("1")]).collect();
    assert_eq!(rig.events(again), (numbered(1, 2, &rest), ReaderOutput::Finished));
    // One that has been told of no event could not come back.
    let (_, connection) = rig.streaming("2");
    rig.steps("2", 0..1);
    rig.wait(Duration::from_secs(5));
    rig.steps("2", 1..6);
    assert_eq!(rig.events(connection).0.len(), 5);
    let (old, get) = (rig.get(), rig.get());
    rig.read(old);
    rig.read(get);
    rig.says(CHANGED);
    rig.wait(Duration::from_secs(5));
    rig.effects();
    for _ in 0..4 {
        rig.says(CHANGED);
    }
    assert_eq!(rig.count(Effect::WakeConnection(old)), 1, "the next carries on");
    assert_eq!(rig.poll(get), (String::new(), ReaderOutput::Finished));
    assert_eq!(rig.events(old).0.len(), 4);
}

#[test]
fn a_log_that_was_answered_while_its_reader_was_stuck_waits_whole() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 2, ..resumable() });
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.steps("1", 0..1);
    rig.wait(Duration::from_secs(5));
    rig.steps("1", 1..3);
    rig.says(&answer("1"));
    assert_eq!(rig.poll(connection), ("retry: 1000\n\n".into(), ReaderOutput::Finished));
    let again = rig.resume(1, 1);
    assert_eq!(rig.events(again), (numbered(1, 2, &[progress("1", 2), answer("1")]), ReaderOutput::Finished));
}

#[test]
fn a_stream_that_was_read_again_in_part_still_counts_as_read() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 2, ..resumable() });
    let finished = |rig: &mut Rig, id: &str, read: bool| {
        let (_, connection) = rig.streaming(id);
        rig.read(connection);
        if !read {
            rig.lose(connection);
        }
        rig.says(&answer(id));
        rig.read(connection);
    };
    finished(&mut rig, "1", false);
    finished(&mut rig, "2", true);
    let again = rig.resume(2, 1);
    rig.lose(again);
    finished(&mut rig, "3", true);
    assert_eq!([1, 2].map(|stream| rig.try_resume(stream, 1).is_ok()), [true, false]);
}

// SEP-1699
#[test]
fn an_app_may_end_a_connection_so_that_the_client_polls() {
    let mut rig = Rig::resuming();
    let (request, held) = rig.request(&call("1"), ResponseMode::Auto);
    assert!(matches!(rig.head(held), Head::Hold { .. }));
    assert!(rig.session.close_stream(&rig.config, request, Some(Duration::from_millis(2_500))));
    rig.drain();
    assert!(rig.told(Effect::WakeConnection(held)));
    assert_eq!(rig.head(held), Head::Stream);
    let primed = "id: 1-1\nretry: 1000\ndata: \n\nretry: 2500\n\n";
    assert_eq!(rig.poll(held), (primed.into(), ReaderOutput::Detached));
    assert!(rig.session.close_stream(&rig.config, request, None), "it is closed");
    rig.steps("1", 0..1);
    let again = rig.resume(1, 1);
    assert_eq!(rig.events(again), (numbered(1, 2, &[progress("1", 0)]), ReaderOutput::Pending));
    rig.steps("1", 1..2);
    assert!(rig.session.close_stream(&rig.config, request, None));
    let (text, output) = rig.poll(again);
    assert!(text.contains("id: 1-3") && text.ends_with("retry: 1000\n\n"), "what waits comes first: {text}");
    assert_eq!(output, ReaderOutput::Detached);
    let again = rig.resume(1, 3);
    assert!(rig.session.close_stream(&rig.config, request, None));
    rig.says(&answer("1"));
    assert_eq!(rig.events(again), (numbered(1, 4, &[answer("1")]), ReaderOutput::Finished), "the end is the end");
    assert!(!rig.session.close_stream(&rig.config, request, None), "it is over");
    let (json, _) = rig.request(&call("2"), ResponseMode::Json);
    assert!(!rig.session.close_stream(&rig.config, json, None));
    let mut off = Rig::open();
    let (request, connection) = off.streaming("1");
    assert!(!off.session.close_stream(&off.config, request, None));
    assert!(!off.session.close_standalone_stream(&off.config, None));
    assert_eq!(off.poll(connection).1, ReaderOutput::Pending);
}

// TypeScript clients keep their place for one connection: after one without an id they open the standalone stream instead, and
// the answer is lost.
#[test]
fn a_connection_with_nothing_to_say_says_where_its_client_is() {
    let mut rig = Rig::resuming();
    let (request, first) = rig.streaming("1");
    let place = |id: &str| format!("id: {id}\nretry: 1000\ndata: \n\n");
    assert_eq!(rig.poll(first), (place("1-1"), ReaderOutput::Pending));
    rig.lose(first);
    for _ in 0..2 {
        let again = rig.resume(1, 1);
        assert_eq!(rig.poll(again), (place("1-1"), ReaderOutput::Pending));
        assert_eq!(rig.poll(again), (String::new(), ReaderOutput::Pending), "once");
        rig.lose(again);
    }
    let closed = rig.resume(1, 1);
    assert!(rig.session.close_stream(&rig.config, request, None));
    assert_eq!(rig.poll(closed), (place("1-1") + "retry: 1000\n\n", ReaderOutput::Detached));
    rig.steps("1", 0..2);
    let ahead = rig.resume(1, 1);
    assert_eq!(rig.events(ahead).0, numbered(1, 2, &[progress("1", 0), progress("1", 1)]), "events have ids");
    let behind = rig.resume(1, 3);
    assert_eq!(rig.poll(behind), (place("1-3"), ReaderOutput::Pending));
    rig.says(&answer("1"));
    assert_eq!(rig.events(behind), (numbered(1, 4, &[answer("1")]), ReaderOutput::Finished));

    let get = rig.get();
    rig.says(CHANGED);
    assert_eq!(rig.events(get).0.len(), 2);
    let again = rig.resume(0, 2);
    assert_eq!(rig.poll(again), (place("0-2"), ReaderOutput::Pending));
}

#[test]
fn an_answer_that_comes_before_the_closed_head_has_left_is_one_body() {
    let mut rig = Rig::resuming();
    let (request, held) = rig.request(&call("1"), ResponseMode::Auto);
    assert!(rig.session.close_stream(&rig.config, request, None));
    rig.says(&answer("1"));
    assert_eq!(rig.json(held), answer("1"));
}

#[test]
fn an_app_may_end_the_standalone_stream_for_a_time() {
    let mut rig = Rig::resuming();
    let (old, new) = (rig.get(), rig.get());
    rig.read(old);
    rig.read(new);
    rig.says(CHANGED);
    assert!(rig.session.close_standalone_stream(&rig.config, Some(Duration::from_secs(7))));
    assert_eq!(rig.poll(old), ("retry: 7000\n\n".into(), ReaderOutput::Finished));
    let (text, output) = rig.poll(new);
    assert!(text.contains("id: 0-3") && text.ends_with("retry: 7000\n\n"), "{text}");
    assert_eq!(output, ReaderOutput::Finished);
    rig.says(&log_note("later"));
    let again = rig.resume(0, 3);
    assert_eq!(rig.events(again), (numbered(0, 4, &[log_note("later")]), ReaderOutput::Pending));
}

#[test]
fn a_connection_that_has_been_open_long_is_ended_where_the_client_can_come_back() {
    let after = Duration::from_secs(30);
    let mut rig = Rig::resuming_with(SessionConfig { poll_after: Some(after), ..resumable() });
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    assert_eq!(rig.alarm(), Some(rig.now.saturating_add(after)));
    rig.wait(Duration::from_secs(29));
    assert_eq!(rig.poll(connection).1, ReaderOutput::Pending);
    rig.effects();
    rig.wait(Duration::from_secs(1));
    assert!(rig.told(Effect::WakeConnection(connection)));
    assert_eq!(rig.poll(connection), ("retry: 1000\n\n".into(), ReaderOutput::Detached));
    let again = rig.resume(1, 1);
    rig.wait(Duration::from_secs(29));
    assert_eq!(rig.poll(again).1, ReaderOutput::Pending);
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.poll(again).1, ReaderOutput::Detached);
    let mut old = Rig::negotiated("2025-06-18");
    old.config.poll_after = Some(after);
    let (_, connection) = old.streaming("1");
    old.wait(Duration::from_secs(3_600));
    assert_eq!(old.poll(connection).1, ReaderOutput::Pending);
}

/// The stream of a hasty client is open before it is known what was negotiated.
#[test]
fn a_connection_that_opened_before_the_answer_to_initialize_is_ended_in_time_too() {
    let after = Duration::from_secs(30);
    let mut rig = Rig::new(Delivery::Inbox);
    rig.config = SessionConfig { poll_after: Some(after), ..resumable() };
    let (initialize, _) = rig.request(INITIALIZE, ResponseMode::Auto);
    let (_, connection) = rig.streaming("1");
    let due = rig.now.saturating_add(after);
    rig.wait(Duration::from_secs(10));
    rig.respond(initialize, INITIALIZED);
    assert_eq!(rig.alarm(), Some(due));
    rig.wait(Duration::from_secs(20));
    assert!(rig.told(Effect::WakeConnection(connection)));
}

// R019
#[test]
fn finished_streams_are_bounded_in_number_and_bytes_and_those_that_were_read_go_first() {
    let mut rig = Rig::resuming_with(SessionConfig { log_count: 3, log_bytes: 10_000, ..resumable() });
    let finish = |rig: &mut Rig, id: u64, size: usize, read: bool| {
        let id = id.to_string();
        let (request, connection) = rig.streaming(&id);
        rig.read(connection);
        if !read {
            rig.lose(connection);
        }
        rig.respond(request, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{}"}}"#, "x".repeat(size)));
        if read {
            assert_eq!(rig.events(connection).1, ReaderOutput::Finished);
        }
    };
    for (id, read) in [(1, false), (2, true), (3, false), (4, true)] {
        finish(&mut rig, id, 10, read);
    }
    assert_eq!(rig.try_resume(2, 1), Err(Outcome::NotResumable), "it had been read");
    assert_eq!(rig.session.streams.len(), 3);
    finish(&mut rig, 5, 9_950, false);
    for (id, kept) in [(4, false), (1, false), (3, false), (5, true)] {
        assert_eq!(rig.try_resume(id, 1).is_ok(), kept, "{id}");
    }
    finish(&mut rig, 6, 20_000, true);
    assert!(rig.try_resume(6, 1).is_ok(), "one of any size is kept");
}

#[test]
fn what_is_kept_goes_by_an_alarm_and_with_the_session() {
    let mut rig = Rig::resuming();
    rig.wait(Duration::ZERO);
    let (_, connection) = rig.streaming("1");
    let get = rig.get();
    rig.steps("1", 0..1);
    rig.says(CHANGED);
    rig.read(connection);
    rig.read(get);
    assert_eq!(rig.alarm(), Some(rig.now.saturating_add(rig.config.log_age)));
    rig.wait(rig.config.log_age);
    assert_eq!(rig.alarm(), None);
    let standalone = rig.session.standalone.as_ref().expect("a stream");
    assert_eq!(standalone.log.len() + rig.session.streams.iter().map(|(_, stream)| stream.log.len()).sum::<usize>(), 0);
    rig.says(&answer("1"));
    rig.read(connection);
    rig.lose(get);
    let again = rig.resume(1, 2);
    rig.end(EndReason::Closed);
    assert!(!rig.session.is_drained());
    assert_eq!(rig.events(again).1, ReaderOutput::Finished);
    assert!(rig.session.is_drained());
    assert_eq!(rig.try_resume(1, 2), Err(Outcome::SessionNotFound));
}

#[test]
fn the_events_of_a_finished_stream_are_of_their_own_age_once_it_is_read_again() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    rig.steps("1", 0..2);
    rig.read(connection);
    let first = rig.now;
    rig.wait(Duration::from_secs(60));
    rig.says(&answer("1"));
    rig.read(connection);
    rig.wait(Duration::ZERO);
    assert_eq!(rig.alarm(), Some(rig.now.saturating_add(rig.config.log_age)));
    rig.resume(1, 2);
    assert_eq!(rig.alarm(), Some(first.saturating_add(rig.config.log_age)));
}

#[test]
fn a_carrier_that_rereads_ends_when_another_comes_so_that_it_misses_nothing() {
    let mut rig = Rig::resuming();
    let get = rig.get();
    for text in ["a", "b", "c"] {
        rig.says(&log_note(text));
    }
    rig.read(get);
    rig.lose(get);
    let again = rig.resume(0, 1);
    let mut out = BytesMut::new();
    let output = rig.session.poll_frames(rig.now, &rig.config, again, &mut out, 1);
    assert_eq!(output, ReaderOutput::Ready);
    rig.effects();
    let other = rig.get();
    assert!(rig.told(Effect::WakeConnection(again)));
    assert_eq!(rig.poll(again), (String::new(), ReaderOutput::Finished));
    assert_eq!(rig.events(other).0, [("0-5".into(), String::new())]);
    let back = rig.resume(0, 2);
    assert_eq!(rig.events(back).0, numbered(0, 3, &[log_note("b"), log_note("c")]));
}

#[test]
fn while_draining_calls_can_be_resumed_and_the_standalone_stream_can_not() {
    let mut rig = Rig::resuming();
    let (_, connection) = rig.streaming("1");
    rig.read(connection);
    rig.lose(connection);
    rig.shut();
    let again = rig.resume(1, 1);
    rig.says(&answer("1"));
    assert_eq!(rig.events(again), (numbered(1, 2, &[answer("1")]), ReaderOutput::Finished));
    assert_eq!(rig.try_resume(0, 1), Err(Outcome::ShuttingDown));
}

#[test]
fn three_hundred_events_arrive_once_and_in_order_wherever_the_connection_breaks() {
    for seed in 1..200_u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut rig = Rig::resuming();
        let (_, mut connection) = rig.streaming("1");
        let mut read: Vec<(String, String)> = Vec::new();
        let (mut place, mut said) = (String::new(), 0);
        let mut output = ReaderOutput::Pending;
        while output != ReaderOutput::Finished {
            for _ in 0..random(20) {
                match said {
                    0..300 => rig.steps("1", said..said + 1),
                    300 => rig.says(&answer("1")),
                    _ => {}
                }
                said += 1;
            }
            let (events, now) = rig.events(connection);
            output = now;
            // The client has got only some of it when the connection breaks.
            let got = if random(3) == 0 { random(events.len() as u64 + 1) as usize } else { events.len() };
            let broken = got < events.len() || (random(3) == 0 && output != ReaderOutput::Finished);
            for (id, data) in events.into_iter().take(got) {
                if data.is_empty() {
                    assert!(place.is_empty() || place == id, "seed {seed}: {id} instead of {place}");
                } else {
                    read.push((id.clone(), data));
                }
                place = id;
            }
            if broken && !place.is_empty() {
                rig.lose(connection);
                let last = EventId::parse(place.as_bytes()).expect("an id");
                connection = rig.resume(last.stream, last.sequence.get());
                output = ReaderOutput::Pending;
            } else if broken {
                break;
            }
        }
        if output == ReaderOutput::Finished {
            let expected: Vec<_> = (0..300).map(|step| progress("1", step)).chain([answer("1")]).collect();
            assert_eq!(read, numbered(1, 2, &expected), "seed {seed}");
        }
    }
}
