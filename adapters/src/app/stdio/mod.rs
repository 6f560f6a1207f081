//! A child process that speaks MCP over its standard streams, one per session.
//!
//! Owns the child from its start to its reaping, and the translation between lines and messages. Does not own the
//! session, its bounds or its errors: returning ends the session.

#[cfg(not(unix))]
compile_error!("the feature `stdio` needs process groups and signals, which only unix has");

mod config;
mod guard;
mod launch;
mod pump;
mod splitter;
mod stderr;
mod stdin;
mod stdout;
#[cfg(all(test, feature = "tokio"))]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use sessile_core::{Fingerprint, Message};

pub use self::config::StdioConfig;
use self::launch::{Client, Launcher};
use self::pump::{Inbox, Outbox};
pub use self::watch::GroupWatcher;
use super::{App, AppError, AppLink, Receiver, Sender};
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
#[derive(Debug)]
pub struct Stdio<R> {
    launcher: Launcher<R>,
}

/// What [`Stdio::stats`] tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioStats {
    /// How many children there are now: started and not yet reaped.
    pub children: usize,
    /// How many lines were no messages, over all children.
    pub skipped_lines: u64,
}

impl<R: Processes> Stdio<R> {
    /// Runs `config`'s command for each session, on `runtime`.
    #[must_use]
    pub fn new(config: StdioConfig, runtime: R) -> Self {
        Self { launcher: Launcher { config: Arc::new(config), runtime, counters: Arc::default() } }
    }

    /// The numbers of now.
    #[must_use]
    pub fn stats(&self) -> StdioStats {
        let counters = &self.launcher.counters;
        StdioStats {
            children: counters.children.load(Ordering::Relaxed),
            skipped_lines: counters.skipped_lines.load(Ordering::Relaxed),
        }
    }

    async fn serve(&self, session: Fingerprint, inbox: impl Inbox, outbox: impl Outbox) -> Result<(), AppError> {
        let child = self.launcher.start(Client::Session(session))?;
        self.launcher.converse(child, inbox, outbox).await
    }
}

impl<R: Processes> App for Stdio<R> {
    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        let (receiver, sender) = link.split();
        self.serve(sender.session().fingerprint(), receiver, sender).await
    }
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
