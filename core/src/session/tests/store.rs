//! What is asked of a store, and that the session stays right whatever comes back.

use std::num::NonZeroU64;

use super::*;
use crate::id::EventId;

/// A rig with a store that does only what a test says.
struct Stored {
    rig: Rig,
    asked: Vec<StoreRequest>,
}

fn event(sequence: u64, data: &str) -> StoredEvent {
    let sequence = NonZeroU64::new(sequence).expect("events are counted from 1");
    StoredEvent { sequence, data: Bytes::copy_from_slice(data.as_bytes()) }
}

fn id(stream: u64, sequence: u64) -> EventId {
    EventId { stream, sequence: NonZeroU64::new(sequence).expect("events are counted from 1") }
}

impl Stored {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut SessionConfig)) -> Self {
        let mut rig = Rig::new(Delivery::Inbox);
        rig.config.resume = true;
        rig.config.store = true;
        change(&mut rig.config);
        Self { rig: rig.opened(), asked: Vec::new() }
    }

    /// What has been asked since the last time, by name.
    fn asks(&mut self) -> Vec<&'static str> {
        let before = self.asked.len();
        while let Some(request) = self.rig.session.poll_store_request() {
            self.asked.push(request);
        }
        let name = |request: &StoreRequest| match request {
            StoreRequest::Append { .. } => "append",
            StoreRequest::Forget { .. } => "forget",
            StoreRequest::ForgetSession => "forget session",
            StoreRequest::Read { .. } => "read",
        };
        self.asked[before..].iter().map(name).collect()
    }

    fn ticket(&mut self) -> StoreTicket {
        self.asks();
        match self.asked.last() {
            Some(StoreRequest::Append { ticket, .. } | StoreRequest::Read { ticket, .. }) => *ticket,
            other => panic!("{other:?} has no ticket"),
        }
    }

    /// The last append has this end.
    fn stored(&mut self, stored: bool) {
        let ticket = self.ticket();
        self.rig.session.handle_stored(self.rig.now, &self.rig.config, ticket, stored);
        self.rig.drain();
    }

    /// The last read has found this.
    fn found(&mut self, found: StoreRead) {
        let ticket = self.ticket();
        self.rig.session.handle_read(self.rig.now, &self.rig.config, ticket, found);
        self.rig.drain();
    }

    fn resume(&mut self, stream: u64, after: u64) -> Result<ConnectionKey, Outcome> {
        let opened = self.rig.session.open_get(self.rig.now, &self.rig.config, Some(id(stream, after)));
        self.rig.drain();
        opened
    }

    /// The events of the last append, as their numbers and their data.
    fn offered(&mut self) -> Vec<(u64, String)> {
        self.asks();
        let Some(StoreRequest::Append { events, .. }) = self.asked.last() else { panic!("{:?}", self.asked) };
        let text = |data: &Bytes| String::from_utf8(data.to_vec()).expect("UTF-8");
        events.iter().map(|event| (event.sequence.get(), text(&event.data))).collect()
    }

    /// A stream of which two notes were stored and read.
    fn read_stream(&mut self) -> ConnectionKey {
        let (_, connection) = self.rig.streaming("1");
        self.stored(true);
        assert_eq!(self.rig.read(connection), [""]);
        self.rig.says(&progress("1", 1));
        self.stored(true);
        self.rig.says(&progress("1", 2));
        self.stored(true);
        assert_eq!(self.rig.read(connection), [progress("1", 1), progress("1", 2)]);
        connection
    }

    fn memory(&self) -> usize {
        self.rig.session.streams.iter().map(|(_, stream)| stream.log.len()).sum()
    }
}

// R109, R113
#[test]
fn a_reader_gets_an_event_once_the_store_has_it() {
    let mut store = Stored::new();
    let (_, connection) = store.rig.streaming("1");
    assert!(store.rig.told(Effect::AskStore));
    assert_eq!(store.offered(), [(1, String::new())], "the event that the stream begins with");
    assert_eq!(store.rig.poll(connection), (":\n\n".to_owned(), ReaderOutput::Pending));
    store.stored(true);
    assert!(store.rig.told(Effect::WakeConnection(connection)));
    assert_eq!(store.rig.poll(connection), ("id: 1-1\nretry: 1000\ndata: \n\n".to_owned(), ReaderOutput::Pending));
    store.rig.says(&progress("1", 1));
    assert_eq!(store.rig.read(connection), [""; 0]);
    assert_eq!(store.offered(), [(2, progress("1", 1))]);
    store.stored(true);
    assert_eq!(store.rig.read(connection), [progress("1", 1)]);
    assert_eq!(store.memory(), 0, "what was read and is stored is not kept twice");
}

#[test]
fn while_one_batch_is_on_its_way_the_next_waits_without_numbers() {
    let mut store = Stored::with(|config| (config.store_batch_count, config.log_count) = (2, 4));
    let (_, connection) = store.rig.streaming("1");
    store.stored(true);
    assert_eq!(store.rig.read(connection), [""]);
    for step in 1..=6 {
        store.rig.says(&progress("1", step));
    }
    assert_eq!(store.offered(), [(2, progress("1", 1))]);
    assert_eq!(store.rig.session.counters().notes_dropped, 2, "the oldest without a number");
    store.stored(true);
    assert_eq!(store.offered(), [(3, progress("1", 4)), (4, progress("1", 5))]);
    store.stored(true);
    store.stored(true);
    let expected = [1, 4, 5, 6].map(|step| progress("1", step));
    assert_eq!(store.rig.read(connection), expected, "and no gap in the numbers");
}

#[test]
fn an_answer_that_is_one_body_needs_no_store() {
    let mut store = Stored::new();
    let (request, connection) = store.rig.request(&call("1"), ResponseMode::Auto);
    store.rig.respond(request, &answer("1"));
    assert_eq!(store.rig.json(connection), answer("1"));
    assert_eq!(store.asks(), [""; 0]);
    assert!(store.rig.session.desk.is_none());
}

#[test]
fn without_a_store_or_without_resumption_nothing_is_asked() {
    for (resume, store) in [(true, false), (false, true)] {
        let mut rig = Rig::new(Delivery::Inbox);
        (rig.config.resume, rig.config.store) = (resume, store);
        let mut rig = rig.opened();
        let (request, connection) = rig.streaming("1");
        rig.says(&progress("1", 1));
        rig.respond(request, &answer("1"));
        assert!(rig.read(connection).contains(&answer("1")));
        rig.end(EndReason::Closed);
        assert!(rig.session.desk.is_none() && rig.session.poll_store_request().is_none());
        assert_eq!(rig.count(Effect::AskStore), 0);
    }
}

#[test]
fn a_store_that_fails_costs_the_resume_and_not_the_stream() {
    let mut store = Stored::new();
    let connection = store.read_stream();
    store.rig.config.log_count = 1;
    store.rig.says(&progress("1", 3));
    store.stored(false);
    assert_eq!(store.rig.read(connection), [progress("1", 3)]);
    store.rig.says(&progress("1", 4));
    store.stored(true);
    assert_eq!(store.rig.read(connection), [progress("1", 4)]);
    assert_eq!(store.rig.session.counters().store_failures, 1);
    // Event 4 is nowhere any more.
    assert_eq!(store.resume(1, 3), Err(Outcome::NotResumable));
    let resumed = store.resume(1, 4).expect("the rest is stored");
    store.found(StoreRead::Events(vec![event(5, &progress("1", 4))]));
    assert_eq!(store.rig.head(resumed), Head::Stream);
    assert_eq!(store.rig.read(resumed), [progress("1", 4)]);
}

#[test]
fn what_the_store_has_not_taken_is_resumed_from_memory_as_without_one() {
    let mut store = Stored::new();
    let connection = store.read_stream();
    store.rig.says(&progress("1", 3));
    store.stored(false);
    assert_eq!(store.rig.read(connection), [progress("1", 3)]);
    let resumed = store.resume(1, 3).expect("it is in memory");
    assert_eq!(store.rig.head(resumed), Head::Stream);
    assert_eq!(store.rig.read(resumed), [progress("1", 3)]);
    assert_eq!(store.asks(), [""; 0]);
    let age = store.rig.config.log_age;
    store.rig.wait(age);
    assert_eq!(store.resume(1, 3), Err(Outcome::NotResumable), "and for as long");
}

#[test]
fn a_store_that_takes_too_long_is_left_alone_for_a_while() {
    let mut store = Stored::new();
    let (_, connection) = store.rig.streaming("1");
    let late = store.ticket();
    assert_eq!(store.rig.alarm(), Some(store.rig.now.saturating_add(Duration::from_secs(5))));
    store.rig.says(&progress("1", 1));
    store.rig.wait(Duration::from_secs(4));
    assert_eq!(store.rig.read(connection), [""; 0]);
    store.rig.wait(Duration::from_secs(1));
    assert_eq!(store.rig.read(connection), ["", &progress("1", 1)]);
    store.rig.says(&progress("1", 2));
    assert_eq!(store.rig.read(connection), [progress("1", 2)], "at once");
    assert_eq!(store.asks(), [""; 0]);
    store.rig.session.handle_stored(store.rig.now, &store.rig.config, late, true);
    let counters = store.rig.session.counters();
    assert_eq!((counters.store_failures, counters.store_late), (1, 1));
    store.rig.wait(Duration::from_secs(30));
    store.rig.says(&progress("1", 3));
    assert_eq!(store.offered(), [(4, progress("1", 3))], "and then asked again");
}

#[test]
fn a_resume_waits_for_what_the_store_has() {
    let mut store = Stored::new();
    let old = store.read_stream();
    let resumed = store.resume(1, 1).expect("a connection");
    assert_eq!(store.rig.head(resumed), Head::Hold { until: None });
    store.asks();
    let Some(StoreRequest::Read { stream, after, through, .. }) = store.asked.last() else { panic!("no read") };
    assert_eq!((*stream, *after, *through), (1, 1, 3));
    store.rig.says(&progress("1", 3));
    store.stored(true);
    assert_eq!(store.rig.read(old), [progress("1", 3)], "until then the other goes on");
    let read = store.asked.iter().rev().find_map(|request| match request {
        StoreRequest::Read { ticket, .. } => Some(*ticket),
        StoreRequest::Append { .. } | StoreRequest::Forget { .. } | StoreRequest::ForgetSession => None,
    });
    let events = vec![event(2, &progress("1", 1)), event(3, &progress("1", 2))];
    store.rig.session.handle_read(store.rig.now, &store.rig.config, read.expect("a read"), StoreRead::Events(events));
    store.rig.drain();
    assert!(store.rig.told(Effect::WakeConnection(resumed)));
    assert_eq!(store.rig.head(resumed), Head::Stream);
    assert_eq!(store.rig.poll(old), (String::new(), ReaderOutput::Finished));
    assert_eq!(store.rig.read(resumed), [progress("1", 1), progress("1", 2)]);
    // What came meanwhile is read from where it is by now.
    store.found(StoreRead::Events(vec![event(4, &progress("1", 3))]));
    assert_eq!(store.rig.read(resumed), [progress("1", 3)]);
}

#[test]
fn a_resume_that_the_store_fails_leaves_everything_as_it_was() {
    let refusals = [
        (StoreRead::Failed, Outcome::StoreUnavailable),
        (StoreRead::Gone, Outcome::NotResumable),
        (StoreRead::Events(Vec::new()), Outcome::NotResumable),
    ];
    for (found, refusal) in refusals {
        let mut store = Stored::new();
        let old = store.read_stream();
        let resumed = store.resume(1, 1).expect("a connection");
        store.found(found);
        assert_eq!(store.rig.head(resumed), Head::Refuse(refusal));
        assert_eq!(store.rig.leave(resumed), Disconnect::Done);
        store.rig.says(&progress("1", 3));
        store.stored(true);
        assert_eq!(store.rig.read(old), [progress("1", 3)]);
    }
}

// R116
#[test]
fn what_a_store_gives_back_is_checked() {
    let long = "x".repeat(100);
    let wrong = [
        vec![event(3, "{}")],
        vec![event(1, "{}"), event(2, "{}")],
        vec![event(2, "{}"), event(2, "{}")],
        vec![event(3, "{}"), event(2, "{}")],
        vec![event(2, "{}"), event(3, "{}"), event(4, "{}")],
        vec![event(2, "{}"), event(3, &long)],
    ];
    for events in wrong {
        let mut store = Stored::with(|config| config.store_batch_bytes = 100);
        store.read_stream();
        let resumed = store.resume(1, 1).expect("a connection");
        store.found(StoreRead::Events(events));
        assert_eq!(store.rig.head(resumed), Head::Refuse(Outcome::StoreUnavailable));
        assert_eq!(store.rig.session.counters().store_failures, 1);
    }
}

#[test]
fn a_resume_that_takes_too_long_is_told_to_come_again() {
    let mut store = Stored::new();
    store.read_stream();
    let resumed = store.resume(1, 1).expect("a connection");
    let late = store.ticket();
    store.rig.wait(store.rig.config.store_timeout);
    assert!(store.rig.told(Effect::WakeConnection(resumed)));
    assert_eq!(store.rig.head(resumed), Head::Refuse(Outcome::StoreUnavailable));
    store.rig.session.handle_read(store.rig.now, &store.rig.config, late, StoreRead::Gone);
    assert_eq!(store.rig.session.counters().store_late, 1);
    assert_eq!(store.resume(1, 1), Err(Outcome::StoreUnavailable), "without asking, for a while");
    store.rig.wait(6 * store.rig.config.store_timeout);
    assert!(store.resume(1, 1).is_ok());
}

#[test]
fn who_comes_back_twice_reads_through_the_last_connection() {
    let mut store = Stored::new();
    store.read_stream();
    let first = store.resume(1, 1).expect("a connection");
    let late = store.ticket();
    let second = store.resume(1, 2).expect("a connection");
    assert!(store.rig.told(Effect::WakeConnection(first)));
    assert_eq!(store.rig.head(first), Head::Refuse(Outcome::SessionEnded));
    store.rig.session.handle_read(store.rig.now, &store.rig.config, late, StoreRead::Gone);
    assert_eq!(store.rig.head(second), Head::Hold { until: None });
    let third = store.resume(1, 3).expect("it has all");
    assert_eq!(store.rig.head(third), Head::Stream);
    store.found(StoreRead::Events(vec![event(3, &progress("1", 2))]));
    assert_eq!(store.rig.head(third), Head::Stream, "nobody takes the stream from the newest");
    assert_eq!(store.rig.session.counters().store_late, 2);
}

#[test]
fn a_connection_that_waits_for_the_store_may_go() {
    let mut store = Stored::new();
    let old = store.read_stream();
    let resumed = store.resume(1, 1).expect("a connection");
    assert_eq!(store.rig.leave(resumed), Disconnect::Done);
    store.found(StoreRead::Events(vec![event(2, "{}")]));
    assert_eq!(store.rig.session.counters().store_late, 1);
    assert_eq!(store.rig.poll(old).1, ReaderOutput::Pending);
}

#[test]
fn what_is_stored_leaves_memory_for_want_of_room_and_is_read_back() {
    let mut store = Stored::with(|config| config.log_count = 2);
    let connection = store.read_stream();
    for step in 3..=9 {
        store.rig.says(&progress("1", step));
        store.stored(true);
    }
    assert_eq!(store.rig.session.counters().notes_dropped, 0);
    assert_eq!(store.memory(), 2);
    assert_eq!(store.rig.read(connection), [""; 0]);
    let first: Vec<_> = (3..=5).map(|step| event(u64::from(step) + 1, &progress("1", step))).collect();
    store.found(StoreRead::Events(first));
    assert_eq!(store.rig.read(connection), [3, 4, 5].map(|step| progress("1", step)));
    store.asks();
    let Some(StoreRequest::Read { after, through, .. }) = store.asked.last() else { panic!("no read") };
    assert_eq!((*after, *through), (6, 8));
    store.found(StoreRead::Events((6..=7).map(|step| event(u64::from(step) + 1, &progress("1", step))).collect()));
    assert_eq!(store.rig.read(connection), [6, 7, 8, 9].map(|step| progress("1", step)));
    assert_eq!(store.memory(), 0);
}

#[test]
fn a_reader_whose_past_cannot_be_read_is_sent_away_and_comes_back() {
    for found in [StoreRead::Failed, StoreRead::Gone] {
        let mut store = Stored::with(|config| config.log_count = 2);
        let connection = store.read_stream();
        for step in 3..=5 {
            store.rig.says(&progress("1", step));
            store.stored(true);
        }
        assert_eq!(store.rig.read(connection), [""; 0]);
        store.found(found.clone());
        assert_eq!(store.rig.poll(connection), ("retry: 1000\n\n".to_owned(), ReaderOutput::Detached));
        if found == StoreRead::Gone {
            assert_eq!(store.resume(1, 3), Err(Outcome::NotResumable), "and learns that it can't");
            continue;
        }
        let resumed = store.resume(1, 3).expect("a connection");
        store.found(StoreRead::Events(vec![event(4, &progress("1", 3))]));
        assert_eq!(store.rig.head(resumed), Head::Stream);
        assert_eq!(store.rig.read(resumed), [3, 4, 5].map(|step| progress("1", step)));
    }
}

#[test]
fn a_request_of_the_app_that_left_memory_counts_as_taken_when_it_is_read_back() {
    let mut store = Stored::with(|config| config.log_count = 2);
    let connection = store.read_stream();
    store.rig.says(&question("7"));
    store.stored(true);
    for step in 3..=5 {
        store.rig.says(&progress("1", step));
        store.stored(true);
    }
    assert_eq!(store.rig.read(connection), [""; 0]);
    store.found(StoreRead::Events(vec![event(4, &question("7")), event(5, &progress("1", 3))]));
    assert!(store.rig.read(connection).contains(&question("7")));
    store.rig.accepted(&answer("7"));
    assert_eq!(store.rig.inbox().last(), Some(&answer("7")), "so that the client can answer it");
}

#[test]
fn requests_of_the_app_that_nobody_came_for_leave_nothing_behind() {
    let mut store = Stored::with(|config| config.log_count = 2);
    let connection = store.read_stream();
    store.rig.lose(connection);
    for id in 7..17 {
        store.rig.says(&question(&id.to_string()));
        store.stored(true);
        for step in [2 * id, 2 * id + 1] {
            store.rig.says(&progress("1", step));
            store.stored(true);
        }
    }
    let waiting = |store: &Stored| {
        let logs = store.rig.session.streams.iter().filter_map(|(_, stream)| stream.log.depot.as_ref());
        logs.map(|depot| depot.requests()).sum::<usize>()
    };
    assert!(waiting(&store) > 0, "some have left memory");
    store.rig.wait(store.rig.config.server_request_timeout);
    assert_eq!(waiting(&store), 0);
    assert_eq!(store.rig.session.counters().server_requests_failed, 10);
}

#[test]
fn the_standalone_stream_goes_on_with_a_gap_where_the_store_has_lost_something() {
    let mut store = Stored::new();
    let get = store.rig.get();
    store.stored(true);
    assert_eq!(store.rig.read(get), [""]);
    for step in ["a", "b"] {
        store.rig.relates(&log_note(step), Relation::Unrelated);
        store.stored(true);
    }
    assert_eq!(store.rig.read(get), [log_note("a"), log_note("b")]);
    let resumed = store.resume(0, 1).expect("a connection");
    assert_eq!(store.rig.head(resumed), Head::Hold { until: None });
    store.found(StoreRead::Gone);
    assert_eq!(store.rig.head(resumed), Head::Stream);
    store.rig.relates(&log_note("c"), Relation::Unrelated);
    store.stored(true);
    assert_eq!(store.rig.read(resumed), [log_note("c")]);
    assert_eq!(store.rig.session.counters().resumed_with_gap, 1);
}

#[test]
fn notes_that_wait_for_a_first_reader_are_not_offered() {
    let mut store = Stored::new();
    store.rig.relates(&log_note("a"), Relation::Unrelated);
    assert_eq!(store.asks(), [""; 0]);
    let get = store.rig.get();
    assert_eq!(store.offered(), [(1, String::new()), (2, log_note("a"))]);
    store.stored(true);
    assert_eq!(store.rig.read(get), ["", &log_note("a")]);
    assert_eq!(store.rig.leave(get), Disconnect::Done);
    store.rig.relates(&log_note("b"), Relation::Unrelated);
    assert_eq!(store.offered(), [(3, log_note("b"))], "but once it is known, somebody may come back");
}

#[test]
fn a_stream_that_is_over_is_forgotten_when_nobody_can_resume_it() {
    let mut store = Stored::new();
    let connection = store.read_stream();
    store.rig.says(&answer("1"));
    assert_eq!(store.rig.poll(connection).1, ReaderOutput::Pending, "the answer is on its way to the store");
    store.stored(true);
    assert_eq!(store.rig.read(connection), [answer("1")]);
    assert_eq!(store.asks(), [""; 0]);
    assert_eq!(store.resume(1, 4), Err(Outcome::StreamOver));
    let age = store.rig.config.log_age;
    store.rig.wait(age);
    assert_eq!(store.asks(), ["forget"]);
    assert_eq!(store.asked.last(), Some(&StoreRequest::Forget { stream: 1 }));
    // One whose client knows of no event is of use to nobody.
    let (_, connection) = store.rig.streaming("2");
    assert_eq!(store.asks(), ["append"]);
    assert_eq!(store.rig.leave(connection), Disconnect::Detached);
    assert_eq!(store.asks(), ["forget"]);
    store.rig.says(&answer("2"));
    assert_eq!(store.asks(), [""; 0]);
}

#[test]
fn the_end_of_a_session_waits_for_no_store() {
    let mut store = Stored::new();
    let connection = store.read_stream();
    store.rig.says(&progress("1", 3));
    let append = store.ticket();
    let resumed = store.resume(1, 1).expect("a connection");
    let read = store.ticket();
    store.rig.effects();
    store.rig.end(EndReason::Closed);
    assert_eq!(store.asks(), ["forget session"]);
    assert!(store.rig.effects.contains(&Effect::WakeConnection(resumed)));
    assert_eq!(store.rig.head(resumed), Head::Refuse(Outcome::SessionEnded));
    let last = store.rig.read(connection);
    assert_eq!((last.len(), &last[0]), (2, &progress("1", 3)));
    assert_eq!(error_of(&last[1]).0, 1);
    store.rig.session.handle_stored(store.rig.now, &store.rig.config, append, true);
    store.rig.session.handle_read(store.rig.now, &store.rig.config, read, StoreRead::Gone);
    store.rig.effects();
    store.rig.drain();
    assert_eq!(store.rig.effects(), []);
    assert!(store.rig.session.is_drained() && store.asks().is_empty());
    assert_eq!(store.rig.session.counters().store_late, 2);
}

#[test]
fn a_reader_that_waits_for_its_past_at_the_end_gets_what_is_in_memory() {
    let mut store = Stored::with(|config| config.log_count = 2);
    let connection = store.read_stream();
    for step in 3..=6 {
        store.rig.says(&progress("1", step));
        store.stored(true);
    }
    assert_eq!(store.rig.read(connection), [""; 0]);
    store.rig.end(EndReason::Closed);
    let last = store.rig.read(connection);
    assert_eq!(last[..2], [5, 6].map(|step| progress("1", step)));
    assert_eq!((last.len(), error_of(&last[2]).0), (3, 1.into()));
    assert_eq!(store.rig.session.counters().resumed_with_gap, 1);
}

#[test]
fn a_driver_that_takes_its_time_lets_nothing_pile_up() {
    let mut store = Stored::new();
    store.read_stream();
    for round in 0..101 {
        let resumed = store.resume(1, 1 + round % 2).expect("a connection");
        if round % 3 == 0 {
            assert_eq!(store.rig.leave(resumed), Disconnect::Done);
        }
    }
    assert_eq!(store.asks(), ["read"]);
}

#[test]
fn a_batch_has_a_bound_and_what_is_larger_goes_alone() {
    let mut store = Stored::with(|config| config.store_batch_bytes = 400);
    let connection = store.read_stream();
    store.rig.says(&progress("1", 3));
    store.asks();
    let texts: Vec<_> =
        [("a", 100), ("b", 100), ("c", 100), ("d", 1_000)].map(|(text, times)| text.repeat(times)).into();
    for text in &texts {
        store.rig.says(&log_note(text));
    }
    let mut batches = Vec::new();
    for _ in 0..3 {
        store.stored(true);
        batches.push(store.offered().len());
    }
    assert_eq!(batches, [2, 1, 1]);
    store.stored(true);
    let notes: Vec<_> = texts.iter().map(|text| log_note(text)).collect();
    assert_eq!(store.rig.read(connection)[1..], notes);
}

#[test]
fn memory_is_bounded_whatever_the_store_does() {
    for how in [Some(true), Some(false), None] {
        let mut store = Stored::with(|config| (config.log_count, config.store_batch_count) = (10, 4));
        let connection = store.read_stream();
        for step in 3..1_000 {
            store.rig.says(&progress("1", step));
            assert!(store.memory() <= 10, "{how:?}: {}", store.memory());
            if let Some(stored) = how
                && store.asks() != [""; 0]
            {
                store.stored(stored);
            }
            if step == 500 {
                store.rig.wait(store.rig.config.store_timeout);
            }
        }
        let dropped = store.rig.session.counters().notes_dropped;
        assert_eq!(dropped == 0, how == Some(true), "{how:?}: {dropped}");
        assert_ne!(store.rig.poll(connection).1, ReaderOutput::Finished, "it is sent away at most");
    }
}
