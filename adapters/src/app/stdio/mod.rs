//! Child processes that speak MCP over their standard streams: one for each session, one for the modern requests of each
//! principal, one for each legacy request without a session.
//!
//! Owns the children from their start to their reaping, and the translation between lines and messages. Does not own the
//! sessions, their bounds or their errors: returning ends a session.

#[cfg(not(unix))]
compile_error!("the feature `stdio` needs process groups and signals, which only unix has");

mod attempts;
mod breaker;
mod calls;
mod config;
mod guard;
mod launch;
#[cfg(all(test, feature = "tokio"))]
mod modern_tests;
mod pool;
mod probe;
mod pump;
mod reuse;
mod rewrite;
mod shared;
mod splitter;
mod stateless;
mod stderr;
mod stdin;
mod stdout;
mod tasks;
#[cfg(all(test, feature = "tokio"))]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::request::Parts;
use sessile_core::session::Kind;
use sessile_core::{Eras, Fingerprint, Message, ProtocolVersion};

use self::attempts::{Attempts, Heard};
use self::calls::Deliver;
pub use self::config::StdioConfig;
use self::launch::{Client, Counters, Launcher, why};
use self::pool::Pool;
use self::probe::Probe;
use self::pump::{Inbox, Outbox};
use self::tasks::Tasks;
pub use self::watch::GroupWatcher;
use super::{App, AppError, AppLink, Inbound, Receiver, Sender};
use crate::principal::Principal;
use crate::runtime::Processes;

/// How many reads of one pipe are made before the others have their turn.
const BUDGET: usize = 16;

/// Serves a stdio MCP server: each session is a child process of its own.
///
/// The child runs in its own process group without a shell, and sees a small part of our environment only (see
/// [`StdioConfig::pass_env`]). Its session ends when it exits, and it ends with its session: its standard input is
/// closed, then it gets SIGTERM, then SIGKILL, and what is left of its group is killed with it. All of that happens in
/// [`App::run`]; dropping that future kills the group at once.
///
/// A child that closes its standard output or input, or writes a line beyond [`StdioConfig::max_line`], can't be talked
/// to any more: it is ended as well, and so is its session, which does not wait for that unless the child can still speak.
/// Lines that are no messages are skipped.
///
/// A child that can't be started, or ends before it has answered `initialize`, is an error to its client at once. After three of
/// them in a row no child is started for that principal's sessions for 5 s, and for twice as long after each further one, at most for
/// 60 s; then one may try again. The same holds for its modern requests, apart from its sessions.
///
/// The messages of a session pass as they are. Only a request whose id the child may still answer for an earlier one, which was
/// cancelled or has expired, gets another id and progress token on its way, so that a late answer never passes for that of another
/// request.
///
/// Requests of the modern era (2026-07-28) belong to no session. Those of one principal share a child, which starts with
/// the first of them and ends when there has been none for [`StdioConfig::modern_idle`]. The child sees ids, progress tokens
/// and subscriptions under names of ours, so that clients can't meet; whatever it says without naming a request is given to a
/// client only if it can be about no other request, also none that was cancelled and not answered. Nothing else of a message
/// is touched. A child that ends takes its requests with it, and the next request starts another.
///
/// Whether the command speaks that era at all is found out by asking a child that serves nobody else, once: see
/// [`Stdio::probe`].
///
/// Cheap to clone; all clones are the same. When the last one is dropped, the children that no session owns are ended.
#[derive(Clone, Debug)]
pub struct Stdio<R> {
    inner: Arc<Inner<R>>,
}

#[derive(Debug)]
struct Inner<R> {
    attempts: Arc<Attempts>,
    launcher: Launcher<R>,
    pool: Arc<Pool>,
    probe: Arc<Probe>,
    /// What pumps the children that no session owns.
    tasks: Arc<Tasks>,
}

/// What [`Stdio::stats`] tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioStats {
    /// How many children there are now: started and not yet reaped.
    pub children: usize,
    /// How many notes of shared children were dropped, since they named no request in flight; and of others those about progress that
    /// came late, when their token was in use again.
    pub notes_dropped: u64,
    /// How many requests of shared children were refused: there are none in that era.
    pub requests_refused: u64,
    /// How many responses of shared children answered nothing, or a request that was cancelled; and of others those that came late,
    /// when their id was in use again.
    pub responses_unmatched: u64,
    /// How many lines were no messages, over all children.
    pub skipped_lines: u64,
}

impl<R> Drop for Inner<R> {
    fn drop(&mut self) {
        self.probe.stop();
        self.pool.close();
    }
}

impl<R: Processes> Stdio<R> {
    /// Runs `config`'s command for each session, on `runtime`.
    #[must_use]
    pub fn new(config: StdioConfig, runtime: R) -> Self {
        let launcher = Launcher { config: Arc::new(config), runtime, counters: Arc::default() };
        let inner = Inner {
            attempts: Arc::default(),
            launcher,
            pool: Arc::default(),
            probe: Arc::default(),
            tasks: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Starts to find out which eras the command speaks, if nobody has done so, and does not wait. What came of it is in
    /// the log, at once if the command can't run.
    ///
    /// A child gets a `server/discover` and serves nobody. It speaks the modern era if it lists a version of it, or answers
    /// with an error that only that era has; another answer, an exit, or silence for [`StdioConfig::probe_timeout`] means that
    /// it speaks the legacy era alone.
    pub fn probe(&self) {
        self.inner.probe.start(&self.inner.launcher, &self.inner.tasks);
    }

    /// Stops the children that no session owns, and waits until they are gone. New modern requests get an error.
    pub async fn shutdown(&self) {
        self.inner.probe.stop();
        self.inner.pool.close();
        self.inner.tasks.none().await;
    }

    /// The numbers of now.
    #[must_use]
    pub fn stats(&self) -> StdioStats {
        let Counters { children, notes_dropped, requests_refused, responses_unmatched, skipped_lines } =
            &*self.inner.launcher.counters;
        StdioStats {
            children: children.load(Ordering::Relaxed),
            notes_dropped: notes_dropped.load(Ordering::Relaxed),
            requests_refused: requests_refused.load(Ordering::Relaxed),
            responses_unmatched: responses_unmatched.load(Ordering::Relaxed),
            skipped_lines: skipped_lines.load(Ordering::Relaxed),
        }
    }

    async fn serve_session(&self, receiver: Receiver, sender: Sender) -> Result<(), AppError> {
        let Launcher { counters, runtime, .. } = &self.inner.launcher;
        let session = sender.clone();
        let attempt = self.inner.attempts.begin(runtime.now(), session.session().principal())?;
        let (inbox, outbox) = reuse::wrap(receiver, sender, Arc::clone(counters));
        let outbox = Heard::new(outbox, Arc::clone(&attempt));
        let result = self.serve(session.session().fingerprint(), inbox, outbox).await;
        // A child is not to blame for a client that did not wait.
        if !session.was_ended_for_it() {
            attempt.ended(runtime.now(), why(&result));
        }
        result
    }

    async fn serve(&self, session: Fingerprint, inbox: impl Inbox, outbox: impl Outbox) -> Result<(), AppError> {
        let launcher = &self.inner.launcher;
        let child = launcher.start(Client::Session(session))?;
        launcher.converse(child, inbox, outbox).await
    }

    async fn serve_modern(
        &self,
        principal: &Principal,
        message: &Message,
        deliver: Deliver,
        mut client: impl Inbox,
    ) -> Result<(), AppError> {
        let Inner { launcher, pool, tasks, .. } = &*self.inner;
        pool.serve(launcher, tasks, principal, message, &deliver, &mut client).await
    }

    async fn serve_stateless(
        &self,
        name: Fingerprint,
        version: ProtocolVersion,
        message: Message,
        client: impl Inbox,
        outbox: impl Outbox,
    ) -> Result<(), AppError> {
        match stateless::wrap(message, version, client, outbox) {
            Some((inbox, outbox)) => self.serve(name, inbox, outbox).await,
            None => Ok(()),
        }
    }
}

impl<R: Processes> App for Stdio<R> {
    async fn eras(&self) -> Eras {
        self.probe();
        self.inner.probe.eras().await
    }

    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        let (mut receiver, sender) = link.split();
        let name = sender.session().fingerprint();
        let kind = sender.session().kind();
        if kind == Kind::Session {
            return self.serve_session(receiver, sender).await;
        }
        let Some(Inbound { message, parts }) = receiver.recv().await else { return Ok(()) };
        if kind == Kind::Stateless {
            let version = parts.and_then(|parts| spoken(&parts)).unwrap_or(ProtocolVersion::ASSUMED);
            return self.serve_stateless(name, version, message, receiver, sender).await;
        }
        let principal = sender.session().principal().clone();
        let deliver = Arc::new(move |message| {
            // Fails only once the client has gone.
            let _ = sender.send(message);
        });
        self.serve_modern(&principal, &message, deliver, receiver).await
    }
}

/// The legacy version that a client says it speaks.
fn spoken(parts: &Parts) -> Option<ProtocolVersion> {
    let version = ProtocolVersion::parse(parts.headers.get("mcp-protocol-version")?.as_bytes())?;
    (!version.is_modern()).then_some(version)
}

impl Inbox for Receiver {
    async fn recv(&mut self) -> Option<Bytes> {
        Self::recv(self).await.map(|inbound| inbound.message.into_raw())
    }

    async fn ended(&mut self) {
        Self::ended(self).await;
    }
}

impl Outbox for Sender {
    fn send(&mut self, message: Message) {
        // Fails only once the session has ended, which the inbox tells.
        let _ = Self::send(self, message);
    }

    fn end(&mut self) {
        self.end_session();
    }
}
