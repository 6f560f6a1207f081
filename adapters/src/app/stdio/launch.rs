//! One child from its start to its reaping, whoever it works for.
//!
//! Owns the start, the order of the end, and what is said of both: results and log. Does not own what passes through.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use sessile_core::Fingerprint;

use super::StdioConfig;
use super::guard::Guard;
use super::pump::{End, Inbox, Outbox, Pump, Reader, Writer};
use super::stderr::Stderr;
use super::stdin::Stdin;
use super::stdout::{Silence, Stdout};
use crate::app::AppError;
use crate::runtime::{Processes, Started};

/// Starts children of one command.
#[derive(Clone, Debug)]
pub(super) struct Launcher<R> {
    pub(super) config: Arc<StdioConfig>,
    pub(super) runtime: R,
    pub(super) counters: Arc<Counters>,
}

/// What is counted over all children of a command.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) children: AtomicUsize,
    pub(super) notes_dropped: AtomicU64,
    pub(super) requests_refused: AtomicU64,
    pub(super) responses_unmatched: AtomicU64,
    pub(super) skipped_lines: AtomicU64,
}

/// Whom a child works for, as the log calls it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Client {
    /// Nobody: it is asked which eras it speaks.
    Probe,
    Session(Fingerprint),
    /// The modern requests of one principal.
    Shared,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe => f.write_str("probe"),
            Self::Session(session) => session.fmt(f),
            Self::Shared => f.write_str("shared"),
        }
    }
}

/// A child that has been started and not yet been talked to.
pub(super) struct Launched<R: Processes> {
    client: Client,
    guard: Guard<R>,
    stdin: Writer<R>,
    stdout: Reader<R>,
    stderr: Reader<R>,
}

impl<R: Processes> Launcher<R> {
    /// Starts a child. Dropping it kills it.
    pub(super) fn start(&self, client: Client) -> Result<Launched<R>, AppError> {
        let Started { child, stdin, stdout, stderr } =
            self.runtime.start(self.config.command()).map_err(|error| AppError::Start(self.config.describe(&error)))?;
        let guard = Guard::new(self.runtime.clone(), child, Arc::clone(&self.counters), self.config.watcher.clone());
        tracing::debug!(target: "sessile::child", session = %client, pid = guard.id(), "started");
        Ok(Launched { client, guard, stdin, stdout, stderr })
    }

    /// Serves until the child or `inbox` ends, and ends the child.
    pub(super) async fn converse(
        &self,
        launched: Launched<R>,
        mut inbox: impl Inbox,
        outbox: impl Outbox,
    ) -> Result<(), AppError> {
        let Launched { client, guard, stdin, stdout, stderr } = launched;
        let config = &self.config;
        let mut pump = Pump {
            runtime: self.runtime.clone(),
            guard,
            stdin: Stdin::new(stdin),
            stdout: Stdout::new(stdout, config.max_line, client, outbox, Arc::clone(&self.counters)),
            stderr: Stderr::new(stderr, client),
        };
        let end = pump.serve(&mut inbox).await;
        drop(inbox);
        let told = match end {
            End::Exited => false,
            End::Deaf(_) | End::Lost(_) | End::SessionEnded | End::Silent(_) => {
                pump.stop(matches!(end, End::Silent(_)), config.stop_grace, config.kill_grace).await
            }
        };
        let status = pump.conclude();
        let result = self.result(end, told, &status);
        report(client, &pump, &result, &status);
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

fn report<R: Processes, O: Outbox>(
    session: Client,
    pump: &Pump<R, O>,
    result: &Result<(), AppError>,
    status: &io::Result<ExitStatus>,
) {
    let status = status.as_ref().map_or_else(ToString::to_string, |status| describe(*status));
    let skipped = pump.stdout.skipped();
    match (result, session) {
        (Ok(()), _) => tracing::debug!(target: "sessile::child", %session, status, skipped, "ended"),
        // Many servers of the legacy era give up when they are asked something before `initialize`.
        (Err(error), Client::Probe) => {
            let stderr = pump.stderr.tail();
            tracing::info!(target: "sessile::child", %session, %error, status, skipped, %stderr, "ended");
        }
        (Err(error), Client::Session(_) | Client::Shared) => {
            let stderr = pump.stderr.tail();
            tracing::warn!(target: "sessile::child", %session, %error, status, skipped, %stderr, "failed");
        }
    }
}

/// Why a child that was not told to end is gone.
pub(super) fn why(result: &Result<(), AppError>) -> String {
    match result {
        Ok(()) => "exit status 0".into(),
        Err(AppError::Exited(why)) => why.clone(),
        Err(error) => error.to_string(),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
