//! A child process that speaks MCP over its standard streams, one per session.
//!
//! Owns the child from its start to its reaping, and the translation between lines and messages. Does not own the
//! session, its bounds or its errors: returning ends the session.

#[cfg(not(unix))]
compile_error!("the feature `stdio` needs process groups and signals, which only unix has");

mod config;
mod guard;
mod pump;
mod splitter;
mod stderr;
mod stdin;
mod stdout;
#[cfg(all(test, feature = "tokio"))]
mod tests;
mod watch;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sessile_core::{Fingerprint, Message};

pub use self::config::StdioConfig;
use self::guard::Guard;
use self::pump::{End, Inbox, Outbox, Pump};
use self::stderr::Stderr;
use self::stdin::Stdin;
use self::stdout::{Silence, Stdout};
pub use self::watch::GroupWatcher;
use super::{App, AppError, AppLink, Receiver, Sender};
use crate::runtime::{Processes, Started};

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
    config: StdioConfig,
    runtime: R,
    counters: Arc<Counters>,
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

#[derive(Debug, Default)]
struct Counters {
    children: AtomicUsize,
    skipped_lines: AtomicU64,
}

impl<R: Processes> Stdio<R> {
    /// Runs `config`'s command for each session, on `runtime`.
    #[must_use]
    pub fn new(config: StdioConfig, runtime: R) -> Self {
        Self { config, runtime, counters: Arc::default() }
    }

    /// The numbers of now.
    #[must_use]
    pub fn stats(&self) -> StdioStats {
        StdioStats {
            children: self.counters.children.load(Ordering::Relaxed),
            skipped_lines: self.counters.skipped_lines.load(Ordering::Relaxed),
        }
    }

    async fn serve(&self, session: Fingerprint, mut inbox: impl Inbox, outbox: impl Outbox) -> Result<(), AppError> {
        let Started { child, stdin, stdout, stderr } =
            self.runtime.start(self.config.command()).map_err(|error| AppError::Start(self.config.describe(&error)))?;
        let guard = Guard::new(self.runtime.clone(), child, Arc::clone(&self.counters), self.config.watcher.clone());
        tracing::debug!(target: "sessile::child", %session, pid = guard.id(), "started");
        let mut pump = Pump {
            runtime: self.runtime.clone(),
            guard,
            stdin: Stdin::new(stdin),
            stdout: Stdout::new(stdout, self.config.max_line, session, outbox, Arc::clone(&self.counters)),
            stderr: Stderr::new(stderr, session),
        };
        let end = pump.serve(&mut inbox).await;
        let told = match end {
            End::Exited => false,
            End::Deaf(_) | End::Lost(_) | End::SessionEnded | End::Silent(_) => {
                let silent = matches!(end, End::Silent(_));
                pump.stop(silent, self.config.stop_grace, self.config.kill_grace).await
            }
        };
        let status = pump.conclude();
        let result = self.result(end, told, &status);
        report(session, &pump, &result, &status);
        result
    }

    fn result(&self, end: End, told: bool, status: &io::Result<ExitStatus>) -> Result<(), AppError> {
        let by_itself = || match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(AppError::Exited(describe(*status))),
            Err(error) => Err(AppError::Exited(format!("exit status unknown: {error}"))),
        };
        match end {
            End::SessionEnded => Ok(()),
            End::Silent(Silence::TooLong) => {
                Err(AppError::Other(format!("a line of more than {} bytes", self.config.max_line).into()))
            }
            End::Silent(Silence::Failed(error)) | End::Lost(error) => Err(AppError::Io(error)),
            // A child that exits closes its pipes first, which may be seen before the exit is.
            End::Silent(Silence::Closed) if told => Err(AppError::Exited("standard output closed".into())),
            End::Deaf(error) if told => Err(AppError::Exited(format!("standard input closed: {error}"))),
            End::Silent(Silence::Closed) | End::Deaf(_) | End::Exited => by_itself(),
        }
    }
}

impl<R: Processes> App for Stdio<R> {
    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        let (receiver, sender) = link.split();
        self.serve(sender.session().fingerprint(), receiver, sender).await
    }
}

impl Inbox for Receiver {
    async fn recv(&mut self) -> Option<Message> {
        Self::recv(self).await.map(|inbound| inbound.message)
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

fn report<R: Processes, O: Outbox>(
    session: Fingerprint,
    pump: &Pump<R, O>,
    result: &Result<(), AppError>,
    status: &io::Result<ExitStatus>,
) {
    let status = status.as_ref().map_or_else(ToString::to_string, |status| describe(*status));
    let skipped = pump.stdout.skipped();
    match result {
        Ok(()) => tracing::debug!(target: "sessile::child", %session, status, skipped, "ended"),
        Err(error) => {
            let stderr = pump.stderr.tail();
            tracing::warn!(target: "sessile::child", %session, %error, status, skipped, %stderr, "failed");
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
