//! The manager: a value that is started, serves, and is shut down.
//!
//! Owns the lifecycle and the one reaper. It installs no signal handler and spawns nothing before it is started.

pub(crate) mod asking;
pub(crate) mod cell;
pub(crate) mod client;
pub(crate) mod hooks;
pub(crate) mod hub;
mod list;
mod notify;
mod stats;
mod tables;
pub(crate) mod totals;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use cell::SessionInfo;
pub use client::ClientInfo;
use hooks::HookSet;
pub use hooks::{Hooks, Initialized};
use hub::{Counted, Hub};
pub use list::SessionSummary;
use sessile_core::config::WhenFull;
use sessile_core::{Config, ConfigError, Eras, Gate, Timestamp};
pub use stats::{RefusedCounts, RequestCounts, Stats};

use crate::app::{App, Backend, Calls, Handler, Tasks};
use crate::clock::{Clock, RuntimeClock};
use crate::http::{McpService, Tools};
use crate::runtime::{Runtime, Timer, timeout_at};
use crate::store::{AnyStore, EventStore};

/// Serves one app to many clients, each in a session of its own.
///
/// Cheap to clone; all clones are the same manager.
pub struct Manager<R: Runtime, B: Backend> {
    shared: Arc<Shared<R, B>>,
}

pub(crate) struct Shared<R: Runtime, B: Backend> {
    pub(crate) backend: B,
    pub(crate) gate: Gate,
    pub(crate) hub: Arc<Hub<State<B>>>,
    /// The requests that belong to no session, and are no subscriptions.
    pub(crate) requests: Arc<Hub<State<B>>>,
    /// The subscriptions that belong to no session.
    pub(crate) subscriptions: Arc<Hub<State<B>>>,
    pub(crate) runtime: R,
    /// The eras that are served where the app speaks them.
    pub(crate) eras: Eras,
    pub(crate) tools: Tools,
    phase: AtomicU8,
}

impl<R: Runtime, B: Backend> Shared<R, B> {
    /// What is served, given what is known of the app.
    pub(crate) fn served(&self, known: Option<Eras>) -> Eras {
        let app = known.unwrap_or(Eras::BOTH);
        Eras { legacy: self.eras.legacy && app.legacy, modern: self.eras.modern && app.modern }
    }

    fn hubs(&self) -> [&Arc<Hub<State<B>>>; 3] {
        [&self.hub, &self.requests, &self.subscriptions]
    }
}

type State<B> = <B as crate::app::sealed::Sealed>::State;

const BUILT: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;

/// The manager is not in the phase for that: the fault of whoever drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// It was started before.
    #[error("the manager was already started")]
    AlreadyStarted,
    /// It was never started.
    #[error("the manager was not started")]
    NotStarted,
    /// It was shut down, and can't be restarted.
    #[error("the manager was shut down")]
    Stopped,
}

/// Builds a [`Manager`].
#[derive(Debug)]
pub struct Builder<R, B = ()> {
    backend: B,
    config: Config,
    eras: Eras,
    hooks: HookSet,
    runtime: R,
    store: Option<Arc<dyn AnyStore>>,
}

impl<R: Runtime> Builder<R> {
    /// Begins to build a manager on this runtime.
    pub fn new(runtime: R) -> Self {
        let (config, hooks) = (Config::default(), HookSet::default());
        Self { backend: (), config, eras: Eras::BOTH, hooks, runtime, store: None }
    }

    /// Serves a server that answers message by message.
    pub fn handler<H: Handler>(self, handler: H) -> Builder<R, Calls<H>> {
        self.with(Calls::new(handler))
    }

    /// Serves a server that runs for the whole session.
    pub fn app<A: App>(self, app: A) -> Builder<R, Tasks<A>> {
        self.with(Tasks::new(app))
    }

    fn with<B>(self, backend: B) -> Builder<R, B> {
        let Self { backend: (), config, eras, hooks, runtime, store } = self;
        Builder { backend, config, eras, hooks, runtime, store }
    }
}

impl<R: Runtime, B> Builder<R, B> {
    /// The limits; see [`Config`] for what they are by default.
    ///
    /// A request without a connection keeps its session busy for the idle timeout, whatever
    /// `session.detached_timeout` says.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Tells these of every session: when it opens, when its client begins to use it, and when it closes.
    #[must_use]
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = HookSet(Some(Arc::new(hooks)));
        self
    }

    /// Keeps the events of the sessions in this store, so that streams can be resumed beyond what fits in memory. Only where streams can be
    /// resumed at all, see [`SessionConfig::resume`](sessile_core::config::SessionConfig::resume). Default: none; a bounded part of each stream
    /// is kept in memory.
    ///
    /// Shutting down does not wait until the store has forgotten what is over.
    #[must_use]
    pub fn event_store(mut self, store: impl EventStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }
}

impl<R: Runtime, B> Builder<R, B> {
    /// The eras to serve, as far as the app speaks them. Default: both.
    #[must_use]
    pub const fn eras(mut self, eras: Eras) -> Self {
        self.eras = eras;
        self
    }
}

impl<R: Runtime, B: Backend> Builder<R, B> {
    /// Checks the settings and makes the manager. Nothing is started yet.
    ///
    /// # Errors
    ///
    /// A setting that can't be served, by its name; see [`ConfigError`] for what is checked.
    pub fn build(mut self) -> Result<Manager<R, B>, ConfigError> {
        self.config.check()?;
        if !self.eras.legacy && !self.eras.modern {
            return Err(ConfigError::NoEra);
        }
        if self.config.gate.stateless {
            // The table of sessions stays empty, whatever it would do.
            self.config.table.when_full = WhenFull::EvictIdle;
        } else {
            self.config.session.detached_timeout = self.config.table.idle_timeout;
        }
        self.config.session.store = self.store.is_some();
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock(self.runtime.clone()));
        let asking = self.store.map(|store| asking::asking(store, Arc::clone(&clock)));
        let gate = Gate::new(&self.config.gate)?;
        let hub =
            |counted, hooks, asking| Hub::new(&self.config, counted, hooks, asking, Arc::clone(&clock)).map(Arc::new);
        let subscriptions = hub(Counted::Subscriptions, HookSet::default(), None)?;
        let requests = hub(Counted::Requests, HookSet::default(), None)?;
        let hub = hub(Counted::Sessions, self.hooks, asking)?;
        let phase = AtomicU8::new(BUILT);
        let shared = Shared {
            backend: self.backend,
            eras: self.eras,
            gate,
            hub,
            requests,
            subscriptions,
            runtime: self.runtime,
            tools: Tools::default(),
            phase,
        };
        Ok(Manager { shared: Arc::new(shared) })
    }
}

impl<R: Runtime, B: Backend> Manager<R, B> {
    /// Starts the manager: from now on it serves.
    ///
    /// # Errors
    ///
    /// If it was started before, whether or not it was shut down since.
    pub fn start(&self) -> Result<(), LifecycleError> {
        match self.shared.phase.compare_exchange(BUILT, RUNNING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(RUNNING) => return Err(LifecycleError::AlreadyStarted),
            Err(_) => return Err(LifecycleError::Stopped),
        }
        let hubs = self.shared.hubs().map(Arc::downgrade);
        self.shared.runtime.spawn(Reaping { hubs, runtime: self.shared.runtime.clone(), timer: None });
        Ok(())
    }

    /// The service that answers HTTP requests with this manager.
    ///
    /// # Errors
    ///
    /// If the manager is not running.
    pub fn service(&self) -> Result<McpService<R, B>, LifecycleError> {
        match self.shared.phase.load(Ordering::Acquire) {
            BUILT => Err(LifecycleError::NotStarted),
            RUNNING => Ok(McpService::new(Arc::clone(&self.shared))),
            _ => Err(LifecycleError::Stopped),
        }
    }

    /// How many sessions there are. Among all other numbers it is in [`stats`](Self::stats).
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.hub.len()
    }

    /// Shuts the manager down, once: refuses new work and ends idle streams at once, lets calls finish for at most `drain`,
    /// ends the rest with an error for each open request, and waits at most `stop` until the apps have returned. Dropping the future
    /// ends the rest at once.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub async fn shutdown(&self, drain: Duration, stop: Duration) -> Result<(), LifecycleError> {
        match self.shared.phase.compare_exchange(RUNNING, STOPPED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(BUILT) => return Err(LifecycleError::NotStarted),
            Err(_) => return Err(LifecycleError::Stopped),
        }
        let runtime = &self.shared.runtime;
        let hubs = self.shared.hubs();
        let _end = hubs.map(EndOnDrop);
        hubs.iter().for_each(|hub| hub.begin_shutdown());
        let until = |time| runtime.now().saturating_add(time);
        // Each is asked, so that each knows whom to wake.
        let all = |are: fn(&Hub<State<B>>, &Waker) -> bool| {
            poll_fn(move |cx| match hubs.map(|hub| are(hub, cx.waker())) {
                [true, true, true] => Poll::Ready(()),
                _ => Poll::Pending,
            })
        };
        if timeout_at(runtime, until(drain), all(Hub::poll_quiet)).await.is_none() {
            tracing::warn!("calls are still running at the end of the drain time");
        }
        hubs.iter().for_each(|hub| hub.finish_shutdown());
        if timeout_at(runtime, until(stop), all(Hub::poll_tasks_ended)).await.is_none() {
            tracing::warn!("apps are still running at the end of the shutdown");
        }
        Ok(())
    }
}

/// Ends what is left, whoever still waits for it: sessions end, apps are told, the reaper stops.
struct EndOnDrop<'a, S>(&'a Arc<Hub<S>>);

impl<S> Drop for EndOnDrop<'_, S> {
    fn drop(&mut self) {
        self.0.finish_shutdown();
        self.0.stop_reaper();
    }
}

impl<R: Runtime, B: Backend> Drop for Shared<R, B> {
    /// Nobody can be served any more.
    fn drop(&mut self) {
        drop(self.hubs().map(EndOnDrop));
    }
}

impl<R: Runtime, B: Backend> Clone for Manager<R, B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R: Runtime, B: Backend> fmt::Debug for Manager<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("sessions", &self.sessions()).finish_non_exhaustive()
    }
}

/// The reaper: one future for all sessions. Sleeps until the least deadline, or until one comes nearer.
struct Reaping<R: Runtime, S> {
    hubs: [Weak<Hub<S>>; 3],
    runtime: R,
    timer: Option<R::Timer>,
}

impl<R: Runtime, S> Unpin for Reaping<R, S> {}

impl<R: Runtime, S> Future for Reaping<R, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let mut next = Timestamp::MAX;
            for hub in &this.hubs {
                let Some(deadline) = hub.upgrade().and_then(|hub| hub.sweep(cx.waker())) else {
                    return Poll::Ready(());
                };
                next = next.min(deadline);
            }
            if next == Timestamp::MAX {
                return Poll::Pending;
            }
            let timer = match &mut this.timer {
                Some(timer) => {
                    timer.reset(next);
                    timer
                }
                none => none.insert(this.runtime.timer_at(next)),
            };
            // Expiry is decided by the clock in `sweep`; the timer only says when to look.
            if Pin::new(timer).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
