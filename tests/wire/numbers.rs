//! The numbers of a manager, its list of sessions, and ending them from outside. R011, R012, R173, R265, R267, R268.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use sessile::app::{Calls, Demo, SessionInfo};
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Hooks, Initialized, Manager, Principal, Stats};
use sessile_core::config::ResponseMode;
use sessile_core::{Config, ProtocolVersion, ReapReason, Rejection};
use sessile_tests::client::Client;

use crate::apps::Scripted;
use crate::hooks::Recorder;
use crate::raw::{GONE, Read as _, Site, app, handler, pass, settle, site};
use crate::row::{UNKNOWN, get, post};

const SECOND: Duration = Duration::from_secs(1);

/// Every kind of number in one history, looked at after each step.
#[tokio::test(start_paused = true)]
async fn the_numbers_are_those_of_the_history() {
    let mut config = Config::default();
    config.table.max_sessions = 2;
    let site = handler(config, Scripted::default());
    let stats = || site.manager.stats();
    assert_eq!(stats(), Stats::default());

    // Refused, each in its way.
    site.send(Some("alice"), post(None, "$PING")).await;
    site.send(Some("alice"), post(None, "{")).await;
    site.send(Some("alice"), post(Some(UNKNOWN), "$PING")).await;
    let now = stats();
    assert_eq!((now.refused.of(400), now.refused.of(404), now.refused.total()), (2, 1, 3));
    assert_eq!((now.rejected.of(Rejection::UnknownSession), now.rejected.total()), (1, 1));
    assert_eq!((now.opened, now.sessions, now.requests.legacy), (0, 0, 0));

    // Two sessions, and no room for a third.
    let (one, two) = (site.open().await, site.open().await);
    site.send(Some("bob"), post(None, "$INIT")).await;
    site.send(Some("bob"), post(Some(&one), "$PING")).await;
    let now = stats();
    assert_eq!((now.opened, now.sessions, now.closed.total()), (2, 2, 0));
    assert_eq!(now.rejected.of(Rejection::AtCapacity { retry_after: 1 }), 1);
    assert_eq!((now.rejected.of(Rejection::ForeignPrincipal), now.rejected.total()), (1, 3));
    assert_eq!((now.refused.of(503), now.refused.of(404)), (1, 2));
    assert_eq!((now.exchanges, now.requests_in_flight, now.requests.legacy), (0, 0, 2));

    // Requests in flight, and streams.
    let call = site.post(&one, "$HANG").await;
    let other = site.post(&one, r#"{"jsonrpc":"2.0","id":2,"method":"hang"}"#).await;
    let streams = (site.get(&one).await, site.get(&one).await, site.get(&two).await);
    let now = stats();
    assert_eq!((now.exchanges, now.requests_in_flight, now.streams, now.requests.legacy), (5, 2, 3, 4));
    streams.0.hang_up().await;
    assert_eq!((stats().exchanges, stats().streams), (4, 2));

    // One is cancelled, one goes on without its client.
    site.post(&one, "$CANCEL").await;
    assert!(call.answer().done);
    site.post(&one, "$CANCEL").await;
    site.post(&one, "$RESPONSE").await;
    pass(SECOND).await;
    other.hang_up().await;
    let now = stats();
    assert_eq!((now.requests_cancelled, now.cancellations_unmatched, now.client_responses_unmatched), (1, 1, 1));
    assert_eq!((now.requests_in_flight, now.exchanges), (1, 3), "one without a connection, and two streams");

    // The ends.
    site.delete(&one).await;
    let now = stats();
    assert_eq!((now.closed.of(ReapReason::Deleted), now.closed.total(), now.sessions), (1, 1, 1));
    assert_eq!((now.requests_in_flight, now.streams, now.exchanges), (0, 1, 1));
    streams.2.hang_up().await;
    drop(streams.1);
    pass(Duration::from_secs(30 * 60)).await;
    let now = stats();
    assert_eq!((now.closed.of(ReapReason::Idle), now.closed.total(), now.sessions), (1, 2, 0));
    assert_eq!((now.streams, now.exchanges, now.opened), (0, 0, 2));
    site.manager.shutdown(SECOND, SECOND).await.expect("it was running");
    site.send(Some("alice"), post(None, "$INIT")).await;
    assert_eq!((stats().rejected.of(Rejection::ShuttingDown), stats().refused.of(503)), (1, 2));
    assert_eq!((stats().sessionless, stats().requests.modern, stats().requests.stateless), (0, 0, 0));
    assert_eq!(stats().sessionless_rejected.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_comes_to_nothing_is_counted_and_outlives_its_session() {
    let mut config = Config::default();
    config.table.idle_timeout = Some(5 * SECOND);
    config.gate.response_mode = ResponseMode::Json;
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    site.post(&id, r#"{"jsonrpc":"2.0","id":1,"method":"noted"}"#).await;
    site.post(&id, "$HANG").await.hang_up().await;
    assert_eq!(site.manager.stats().notes_dropped, 2);
    pass(5 * SECOND).await;
    let now = site.manager.stats();
    assert_eq!((now.requests_expired, now.requests_in_flight, now.sessions), (1, 0, 1));
    pass(5 * SECOND).await;
    let now = site.manager.stats();
    assert_eq!((now.sessions, now.notes_dropped, now.requests_expired, now.requests.legacy), (0, 2, 1, 3));
}

/// R016, R256: a request without a session counts as such for as long as it is served, and has no hooks.
#[tokio::test(start_paused = true)]
async fn requests_without_a_session_are_counted_and_have_no_hooks() {
    let recorder = Recorder::default();
    let mut config = Config::default();
    config.sessionless.max_requests = 2;
    let builder = Builder::new(Tokio::current()).handler(Demo::new()).hooks(recorder.clone()).config(config);
    let site = site(builder.build().expect("good settings"));
    let client = Client::modern(site.manager.service().expect("running"), json!({}));
    assert_eq!(client.request("tools/list", json!({})).await["error"], Value::Null);
    let now = site.manager.stats();
    assert_eq!((now.requests.modern, now.requests.legacy, now.sessionless, now.exchanges), (1, 0, 0, 0));

    let slow = json!({ "name": "slow", "arguments": { "seconds": 10 } });
    let calls = [slow.clone(), slow].map(|params| {
        let client = Client::modern(site.manager.service().expect("running"), json!({}));
        tokio::spawn(async move { client.request("tools/call", params).await })
    });
    pass(SECOND).await;
    let now = site.manager.stats();
    assert_eq!((now.sessionless, now.exchanges, now.requests_in_flight, now.sessions), (2, 2, 2, 0));
    let (_, refused) = client.begin("tools/list", json!({})).await;
    assert_eq!(refused.status, 503);
    let [one, other] = calls;
    // In this era a lost connection cancels.
    one.abort();
    settle().await;
    let now = site.manager.stats();
    assert_eq!((now.sessionless, now.exchanges, now.requests_in_flight, now.requests_cancelled), (1, 1, 1, 1));
    other.await.expect("no panic");
    let now = site.manager.stats();
    // The three calls of the clients, and not the lists of tools that their headers were checked against.
    assert_eq!((now.sessionless, now.exchanges, now.requests_in_flight, now.requests.modern), (0, 0, 0, 3));
    assert_eq!((now.sessionless_rejected.total(), now.rejected.total(), now.refused.of(503)), (1, 0, 1));
    assert_eq!((now.opened, now.closed.total()), (0, 0));
    assert_eq!(recorder.all(), []);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_apps_are_counted_until_they_return() {
    let scripted = Scripted::default();
    let site = app(Config::default(), scripted.clone());
    let id = site.open().await;
    site.open().await;
    assert_eq!(site.manager.stats().app_tasks, 2);
    site.delete(&id).await;
    assert_eq!((site.manager.stats().app_tasks, scripted.stopped()), (1, 1));
}

/// R012: whatever clients do with their streams, none is counted that is not open.
#[tokio::test(start_paused = true)]
async fn streams_that_come_and_go_leave_no_count() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    for _ in 0..100 {
        site.get(&id).await.hang_up().await;
    }
    assert_eq!((site.manager.stats().streams, site.manager.stats().exchanges), (0, 0));
    let mut streams = Vec::new();
    for open in 1..=10 {
        streams.push(site.get(&id).await);
        assert_eq!(site.manager.stats().streams, open.min(4));
    }
    site.delete(&id).await;
    assert_eq!((site.manager.stats().streams, site.manager.stats().exchanges), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_without_their_ids() {
    let site = handler(Config::default(), Scripted::default());
    let (first, second) = (site.open().await, site.open_as(Some("bob")).await);
    pass(10 * SECOND).await;
    let call = site.send(Some("bob"), post(Some(&second), "$HANG")).await;
    let opening = site.send(Some("carol"), post(None, "$INIT-SLOW")).await;
    pass(SECOND).await;
    let list = site.manager.list();
    let seen: Vec<_> = list
        .iter()
        .map(|session| (session.principal.name(), session.age.as_secs(), session.idle.map(|idle| idle.as_secs())))
        .collect();
    assert_eq!(seen, [(Some("alice"), 11, Some(11)), (Some("bob"), 11, None), (Some("carol"), 1, None)]);
    let seen: Vec<_> = list.iter().map(|session| (session.in_flight, session.version)).collect();
    let newest = Some(ProtocolVersion::V2025_11_25);
    assert_eq!(seen, [(0, newest), (1, newest), (1, None)]);
    assert!(list[0].key != list[1].key && list[0].fingerprint != list[1].fingerprint);
    let shown = format!("{list:?}");
    assert!(!shown.contains(&first) && !shown.contains(&second), "{shown}");
    drop((call, opening));
}

#[tokio::test(start_paused = true)]
async fn a_session_can_be_closed_by_its_key_once() {
    let scripted = Scripted::default();
    let site = handler(Config::default(), scripted.clone());
    let (id, other) = (site.open().await, site.open().await);
    let (call, stream) = (site.post(&id, "$HANG").await, site.get(&id).await);
    let key = site.manager.list()[0].key;
    assert!(site.manager.close(key));
    settle().await;
    assert!(stream.answer().done);
    assert_eq!(call.answer().messages().pop().expect("an error")["error"]["code"], -32603);
    assert_eq!(site.statuses(&id).await, GONE);
    assert!(!site.manager.close(key));
    assert_eq!(site.post(&other, "$PING").await.answer().status(), Some(200));
    assert_eq!((site.manager.stats().closed.of(ReapReason::Dismissed), scripted.dropped()), (1, 1));
}

/// R173.
#[tokio::test(start_paused = true)]
async fn all_sessions_of_a_principal_can_be_closed() {
    let site = handler(Config::default(), Scripted::default());
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(site.open().await);
    }
    let bobs = site.open_as(Some("bob")).await;
    let nobodys = site.open_as(None).await;
    let call = site.post(&ids[1], "$HANG").await;
    assert_eq!(site.manager.close_all_of(&Principal::named("alice")), 3);
    settle().await;
    assert!(call.answer().done);
    for id in &ids {
        assert_eq!(site.statuses(id).await, GONE);
    }
    assert_eq!(site.send(Some("bob"), post(Some(&bobs), "$PING")).await.answer().status(), Some(200));
    assert_eq!(site.manager.close_all_of(&Principal::named("alice")), 0);
    assert_eq!(site.manager.close_all_of(&Principal::ANONYMOUS), 1);
    assert_eq!(site.send(None, post(Some(&nobodys), "$PING")).await.answer().status(), Some(404));
    assert_eq!(site.manager.stats().closed.of(ReapReason::Dismissed), 4);
}

/// Closes each session from within a hook, and writes down the order.
#[derive(Clone, Default)]
struct Dismissing {
    at_once: bool,
    manager: Arc<OnceLock<Manager<Tokio, Calls<Scripted>>>>,
    told: Arc<Mutex<Vec<&'static str>>>,
}

impl Dismissing {
    fn note(&self, what: &'static str) {
        self.told.lock().expect("no panic").push(what);
    }

    fn close(&self, session: &SessionInfo) {
        let manager = self.manager.get().expect("it is set before the first request");
        assert!(manager.close(session.key()));
        assert_eq!((manager.sessions(), manager.list().len(), manager.stats().sessions), (0, 0, 0));
    }
}

impl Hooks for Dismissing {
    fn opened(&self, session: &SessionInfo) {
        self.note("opened");
        if self.at_once {
            self.close(session);
        }
        self.note("opened, done");
    }

    fn initialized(&self, session: &SessionInfo, _: &Initialized) {
        self.note("initialized");
        self.close(session);
        self.note("initialized, done");
    }

    fn closed(&self, _: &SessionInfo, reason: ReapReason) {
        assert_eq!(reason, ReapReason::Dismissed);
        self.note("closed");
    }
}

fn dismissing(at_once: bool) -> (Site<Calls<Scripted>>, Dismissing) {
    let hooks = Dismissing { at_once, ..Dismissing::default() };
    let builder = Builder::new(Tokio::current()).handler(Scripted::default()).hooks(hooks.clone());
    let site = site(builder.build().expect("good settings"));
    assert!(hooks.manager.set(site.manager.clone()).is_ok());
    (site, hooks)
}

/// Hooks may call the manager, and the end is told after what was being told.
#[tokio::test(start_paused = true)]
async fn a_session_closed_by_a_hook_is_told_closed_after_that_hook() {
    let (site, hooks) = dismissing(false);
    let opened = site.send(Some("alice"), post(None, "$INIT")).await.answer();
    let id = opened.session_id().expect("a session");
    site.post(&id, "$NOTE").await;
    assert_eq!(site.statuses(&id).await, GONE);
    let told = hooks.told.lock().expect("no panic").clone();
    assert_eq!(told, ["opened", "opened, done", "initialized", "initialized, done", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_closed_while_it_is_opened_answers_with_an_error() {
    let (site, hooks) = dismissing(true);
    let answer = site.send(Some("alice"), post(None, "$INIT")).await.answer();
    assert_eq!((answer.status(), answer.session_id()), (Some(500), None));
    assert_eq!(*hooks.told.lock().expect("no panic"), ["opened", "opened, done", "closed"]);
    let now = site.manager.stats();
    assert_eq!((now.opened, now.closed.of(ReapReason::Dismissed), now.exchanges), (1, 1, 0));
    let refused = site.send(Some("alice"), get(UNKNOWN)).await.answer();
    assert_eq!(refused.status(), Some(404));
}
