//! What hooks are told of the life of sessions: each thing once, in order, whatever the way. R008, R017, R264, R265.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sessile::app::{App, AppError, AppLink, Backend, Calls, Context, Handler, Reply, SessionInfo};
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Hooks, Initialized};
use sessile_core::config::WhenFull;
use sessile_core::{Config, Message, ProtocolVersion, ReapReason};
use sessile_tests::pure::script;

use crate::apps::Scripted;
use crate::raw::{Read as _, Site, pass, settle, site};
use crate::row::{get, post};

const SECOND: Duration = Duration::from_secs(1);

/// Writes down what it is told, by the session's fingerprint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<(String, Told)>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Opened,
    Initialized(Option<ProtocolVersion>),
    Closed(ReapReason),
}

impl Recorder {
    fn note(&self, session: &SessionInfo, told: Told) {
        assert_eq!(session.principal().name(), Some("alice"));
        self.0.lock().expect("no panic").push((session.fingerprint().to_string(), told));
    }

    pub(crate) fn all(&self) -> Vec<(String, Told)> {
        self.0.lock().expect("no panic").clone()
    }

    /// All that was told of the only session there ever was.
    fn only(&self) -> Vec<Told> {
        let all = self.all();
        assert!(all.iter().all(|(session, _)| *session == all[0].0), "{all:?}");
        all.into_iter().map(|(_, told)| told).collect()
    }
}

impl Hooks for Recorder {
    fn opened(&self, session: &SessionInfo) {
        self.note(session, Told::Opened);
    }

    fn initialized(&self, session: &SessionInfo, initialized: &Initialized) {
        assert_eq!(initialized.client.name.as_deref().map(|name| name.len() > 3), Some(true));
        assert_eq!(initialized.client.version.as_deref(), Some("1"));
        assert_eq!(initialized.capabilities.as_ref().map(|raw| raw.get()), Some("{}"));
        self.note(session, Told::Initialized(initialized.version));
    }

    fn closed(&self, session: &SessionInfo, reason: ReapReason) {
        self.note(session, Told::Closed(reason));
    }
}

fn handler<H: Handler>(config: Config, handler: H, hooks: impl Hooks) -> Site<Calls<H>> {
    let builder = Builder::new(Tokio::current()).hooks(hooks).handler(handler);
    site(builder.config(config).build().expect("good settings"))
}

fn scripted(config: Config) -> (Site<Calls<Scripted>>, Recorder) {
    let recorder = Recorder::default();
    (handler(config, Scripted::default(), recorder.clone()), recorder)
}

fn with(set: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    set(&mut config);
    config
}

async fn initialize<B: Backend>(site: &Site<B>) -> String {
    site.send(Some("alice"), post(None, "$INIT")).await.answer().session_id().expect("a session")
}

const NEWEST: Told = Told::Initialized(Some(ProtocolVersion::V2025_11_25));

/// The whole story of a session that was used and ended for this reason.
fn story(reason: ReapReason) -> Vec<Told> {
    vec![Told::Opened, NEWEST, Told::Closed(reason)]
}

/// Answers `initialize` and returns, or fails, with the next request.
struct Ends(bool);

impl App for Ends {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            let Some(request) = inbound.message.as_request() else { continue };
            if request.initialize.is_none() {
                return if self.0 { Err(AppError::Exited("as the test wants it".to_owned())) } else { Ok(()) };
            }
            let result = script::result(&request.id, r#"{"protocolVersion":"2025-11-25"}"#);
            link.send(Message::parse(result.into()).expect("a message")).expect("the session is live");
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_is_opened_and_closed_once() {
    let (site, recorder) = scripted(Config::default());
    let id = site.open().await;
    assert_eq!(recorder.only(), [Told::Opened, NEWEST]);
    for _ in 0..3 {
        site.delete(&id).await;
    }
    assert_eq!(recorder.only(), story(ReapReason::Deleted));
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_opened_and_closed_once() {
    let (site, recorder) = scripted(with(|config| config.table.idle_timeout = Some(5 * SECOND)));
    site.open().await;
    pass(100 * SECOND).await;
    assert_eq!(recorder.only(), story(ReapReason::Idle));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_closed_once_with_its_app() {
    for (crashes, reason) in [(true, ReapReason::Crashed), (false, ReapReason::Finished)] {
        let recorder = Recorder::default();
        let builder = Builder::new(Tokio::current()).app(Ends(crashes)).hooks(recorder.clone());
        let site = site(builder.build().expect("good settings"));
        let id = site.open().await;
        site.post(&id, "$PING").await;
        site.delete(&id).await;
        assert_eq!(recorder.only(), story(reason));
    }
    let (site, recorder) = scripted(Config::default());
    let id = site.open().await;
    site.post(&id, r#"{"jsonrpc":"2.0","id":1,"method":"crash"}"#).await;
    assert_eq!(recorder.only(), story(ReapReason::Crashed));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_never_used_is_never_initialized() {
    let (site, recorder) = scripted(with(|config| config.table.init_timeout = Some(3 * SECOND)));
    initialize(&site).await;
    pass(100 * SECOND).await;
    assert_eq!(recorder.only(), [Told::Opened, Told::Closed(ReapReason::NeverInitialized)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_client_left_at_once_is_closed_as_abandoned() {
    let (site, recorder) = scripted(Config::default());
    site.send(Some("alice"), post(None, "$INIT-SLOW")).await.hang_up().await;
    assert_eq!(recorder.only(), [Told::Opened, Told::Closed(ReapReason::Abandoned)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_start_is_closed_once() {
    for (body, reason) in [
        ("$INIT-REFUSED", ReapReason::Finished),
        ("$INIT-CRASH", ReapReason::Crashed),
        ("$INIT-SILENT", ReapReason::Crashed),
    ] {
        let (site, recorder) = scripted(Config::default());
        let opening = site.send(Some("alice"), post(None, body)).await;
        pass(1_000 * SECOND).await;
        assert!(opening.answer().done, "{body}");
        assert_eq!(recorder.only(), [Told::Opened, Told::Closed(reason)], "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_at_its_greatest_age_is_closed_once() {
    let (site, recorder) = scripted(with(|config| config.table.max_lifetime = Some(10 * SECOND)));
    let id = site.open().await;
    let call = site.post(&id, "$HANG").await;
    pass(100 * SECOND).await;
    assert!(call.answer().done);
    assert_eq!(recorder.only(), story(ReapReason::Lifetime));
}

/// And the one that makes room is closed before the new one is opened.
#[tokio::test(start_paused = true)]
async fn an_evicted_session_is_closed_once() {
    let (site, recorder) = scripted(with(|config| {
        config.table.max_sessions = 1;
        config.table.when_full = WhenFull::EvictIdle;
    }));
    site.open().await;
    initialize(&site).await;
    let all = recorder.all();
    let told: Vec<_> = all.iter().map(|(_, told)| told.clone()).collect();
    assert_eq!(told, [&story(ReapReason::Evicted)[..], &[Told::Opened]].concat());
    assert!(all[..3].iter().all(|(session, _)| *session == all[0].0) && all[3].0 != all[0].0);
}

#[tokio::test(start_paused = true)]
async fn a_dismissed_session_is_opened_and_closed_once() {
    let (site, recorder) = scripted(Config::default());
    site.open().await;
    let key = site.manager.list()[0].key;
    assert_eq!([site.manager.close(key), site.manager.close(key)], [true, false]);
    assert_eq!(recorder.only(), story(ReapReason::Dismissed));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_closes_every_session_once() {
    for dropped in [false, true] {
        let (site, recorder) = scripted(Config::default());
        let mut ids = Vec::new();
        for _ in 0..50 {
            ids.push(site.open().await);
        }
        let call = site.post(&ids[0], "$HANG").await;
        if dropped {
            drop(call);
            settle().await;
            drop(site);
        } else {
            site.manager.shutdown(SECOND, SECOND).await.expect("it was running");
        }
        pass(SECOND).await;
        let all = recorder.all();
        assert_eq!(all.len(), 150, "dropped: {dropped}");
        for (session, _) in all.iter().take(3 * 50).filter(|(_, told)| *told == Told::Opened) {
            let of: Vec<_> = all.iter().filter(|(other, _)| other == session).map(|(_, told)| told.clone()).collect();
            assert_eq!(of, story(ReapReason::Shutdown), "dropped: {dropped}");
        }
    }
}

/// R008: what is refused was never a session.
#[tokio::test(start_paused = true)]
async fn what_is_refused_has_no_hooks() {
    let (site, recorder) = scripted(with(|config| config.table.max_sessions = 1));
    site.send(Some("alice"), post(None, "$PING")).await;
    site.send(Some("alice"), post(None, "{")).await;
    site.send(Some("alice"), get(crate::row::UNKNOWN)).await;
    assert_eq!(recorder.all(), []);
    site.open().await;
    site.send(Some("bob"), post(None, "$INIT")).await;
    assert_eq!(recorder.only(), [Told::Opened, NEWEST]);
}

/// Real clients open a GET before they send `notifications/initialized`; some send neither.
#[tokio::test(start_paused = true)]
async fn initialized_comes_with_the_notification_or_the_first_request_and_once() {
    for (before, first, after) in [
        (&["GET", "$RESPONSE", "$CANCEL", "$INIT", "{"][..], "$NOTE", &["$PING", "$NOTE"][..]),
        (&["GET"], "$PING", &["$NOTE", "$PING", "$HANG"]),
        (&[], r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#, &["$NOTE"]),
    ] {
        let (site, recorder) = scripted(Config::default());
        let id = initialize(&site).await;
        let mut streams = Vec::new();
        for body in before {
            let request = if *body == "GET" { get(&id) } else { post(Some(&id), body) };
            streams.push(site.send(Some("alice"), request).await);
            assert_eq!(recorder.only(), [Told::Opened], "{body}");
        }
        site.post(&id, first).await;
        assert_eq!(recorder.only(), [Told::Opened, NEWEST], "{first}");
        for body in after {
            streams.push(site.post(&id, body).await);
        }
        assert_eq!(recorder.only(), [Told::Opened, NEWEST], "{first}");
    }
}

/// The client knows its id once a stream opens, and may be hasty.
#[tokio::test(start_paused = true)]
async fn initialized_waits_for_the_answer_to_initialize() {
    let (site, recorder) = scripted(Config::default());
    let opening = site.send(Some("alice"), post(None, "$INIT-SLOW")).await;
    pass(Duration::from_millis(5_500)).await;
    let id = opening.answer().session_id().expect("the head has left");
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200));
    assert_eq!(site.post(&id, "$NOTE").await.answer().status(), Some(202));
    assert_eq!(recorder.only(), [Told::Opened]);
    pass(SECOND).await;
    assert_eq!(recorder.only(), [Told::Opened, NEWEST]);
}

#[tokio::test(start_paused = true)]
async fn initialized_tells_what_was_negotiated() {
    let (site, recorder) = scripted(Config::default());
    let opened = site.send(Some("alice"), post(None, "$INIT-2025-06-18")).await.answer();
    site.post(&opened.session_id().expect("a session"), "$NOTE").await;
    assert_eq!(recorder.only()[1], Told::Initialized(Some(ProtocolVersion::V2025_06_18)));
}

/// Panics in each of its hooks, after it has written it down.
struct Panicking(Recorder);

impl Hooks for Panicking {
    fn opened(&self, session: &SessionInfo) {
        self.0.opened(session);
        panic!("as the test wants it");
    }

    fn initialized(&self, session: &SessionInfo, initialized: &Initialized) {
        self.0.initialized(session, initialized);
        panic!("as the test wants it");
    }

    fn closed(&self, session: &SessionInfo, reason: ReapReason) {
        self.0.closed(session, reason);
        panic!("as the test wants it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_costs_nothing() {
    let recorder = Recorder::default();
    let config = with(|config| config.table.idle_timeout = Some(5 * SECOND));
    let site = handler(config, Scripted::default(), Panicking(recorder.clone()));
    let (id, _idle) = (site.open().await, site.open().await);
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200));
    assert_eq!(site.delete(&id).await.answer().status(), Some(204));
    // The reaper lives on.
    for _ in 0..2 {
        pass(5 * SECOND).await;
        assert_eq!(site.manager.sessions(), 0);
        site.open().await;
    }
    site.manager.shutdown(SECOND, SECOND).await.expect("it was running");
    assert_eq!(recorder.all().len(), 4 * 3);
}

/// Its state can't be made.
struct NoState;

impl Handler for NoState {
    type State = ();

    fn open(&self, _: &SessionInfo) {
        panic!("as the test wants it");
    }

    async fn call(&self, _: Context<()>, _: Message) -> Reply {
        Reply::none()
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_state_cannot_be_made_is_closed_as_crashed() {
    let recorder = Recorder::default();
    let site = handler(Config::default(), NoState, recorder.clone());
    assert_eq!(site.send(Some("alice"), post(None, "$INIT")).await.answer().status(), Some(500));
    assert_eq!(recorder.only(), [Told::Opened, Told::Closed(ReapReason::Crashed)]);
}

/// Lends the one thing that it has to one session at a time, and counts.
#[derive(Clone, Default)]
struct Lender {
    lent: Arc<AtomicBool>,
    gone: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

/// What a session has of it, if it has.
struct Loan(Lender, AtomicBool);

impl Drop for Loan {
    fn drop(&mut self) {
        if self.1.load(Ordering::SeqCst) {
            self.0.lent.store(false, Ordering::SeqCst);
        }
    }
}

/// The one of a manager.
struct Bank(Lender);

impl Drop for Bank {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, Ordering::SeqCst);
    }
}

impl Handler for Bank {
    type State = Loan;

    fn open(&self, _: &SessionInfo) -> Loan {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        Loan(self.0.clone(), AtomicBool::new(false))
    }

    async fn call(&self, context: Context<Loan>, message: Message) -> Reply {
        match message.method() {
            Some("initialize") => context.result(&serde_json::json!({"protocolVersion": "2025-11-25"})),
            Some("take") => {
                let had = self.0.lent.swap(true, Ordering::SeqCst);
                context.state().1.fetch_or(!had, Ordering::SeqCst);
                context.result(&!had)
            }
            _ => Reply::none(),
        }
    }
}

/// R030: by its state, or by the hook, which knows why, an app releases what a session held as soon as that is over.
#[tokio::test(start_paused = true)]
async fn what_a_session_held_is_free_once_it_has_ended() {
    let recorder = Recorder::default();
    let lender = Lender::default();
    let config = with(|config| config.table.idle_timeout = Some(5 * SECOND));
    let site = handler(config, Bank(lender.clone()), recorder.clone());
    let take = r#"{"jsonrpc":"2.0","id":1,"method":"take"}"#;
    let taken = async |id: &str| site.post(id, take).await.answer().messages()[0]["result"] == true;
    for end in ["idle", "deleted", "idle"] {
        let (one, other) = (site.open().await, site.open().await);
        assert!(taken(&one).await && !taken(&other).await, "{end}");
        if end == "idle" {
            pass(5 * SECOND).await;
            assert_eq!(recorder.all().last().expect("told").1, Told::Closed(ReapReason::Idle));
        } else {
            site.delete(&one).await;
        }
        assert!(!lender.lent.load(Ordering::SeqCst), "{end}");
    }
}

/// R190: what belongs to the server is made once, what belongs to a session for each of them.
#[tokio::test(start_paused = true)]
async fn a_server_is_there_once_and_a_state_for_each_session() {
    let lender = Lender::default();
    let site = handler(Config::default(), Bank(lender.clone()), Recorder::default());
    let states = || Arc::strong_count(&lender.opened) - 2;
    for count in 1..=10 {
        site.open().await;
        assert_eq!((lender.opened.load(Ordering::SeqCst), states()), (count, count));
    }
    site.manager.shutdown(SECOND, SECOND).await.expect("it was running");
    pass(SECOND).await;
    assert_eq!((states(), lender.gone.load(Ordering::SeqCst)), (0, 0));
    drop(site);
    pass(SECOND).await;
    assert_eq!((lender.opened.load(Ordering::SeqCst), lender.gone.load(Ordering::SeqCst)), (10, 1));
}
