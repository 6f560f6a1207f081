//! Moves messages between a session and its child.
//!
//! Owns the loop that serves all three pipes and the exit at once, and the steps that end a child:
//!
//! ```text
//! serve ──exited──────────────────────────────────────────────► conclude
//!   └─session ended, a pipe closed, a line too long─► stop ────────▲
//!                 stdin closed, wait; SIGTERM, wait; SIGKILL, wait ─┘
//! ```
//!
//! Everything is polled from one task: a slow child holds up only its own session, and an idle one has no timer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use sessile_core::Message;

use super::guard::Guard;
use super::stderr::Stderr;
use super::stdin::Stdin;
use super::stdout::{Silence, Stdout};
use crate::runtime::{Child, GroupSignal, Processes};

/// How long SIGKILL may take to work. Only a process that the kernel itself holds takes longer; it is then reaped in
/// the background.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long a child may take to exit after its output has ended. Its pipes are closed before it is gone.
const EXIT_WAIT: Duration = Duration::from_millis(100);
/// How much is read, of each pipe, once the child has exited: more than a pipe holds, unless root has seen to it.
const LEFTOVER: usize = 1024 * 1024;

pub(super) type Reader<R> = <<R as Processes>::Child as Child>::Reader;
pub(super) type Writer<R> = <<R as Processes>::Child as Child>::Writer;

/// The client's messages, from the session.
pub(super) trait Inbox: Send {
    /// Waits for the next message; `None`: the session has ended. Cancel-safe.
    fn recv(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Waits for the end of the session alone. Cancel-safe.
    fn ended(&mut self) -> impl Future<Output = ()> + Send;
}

/// The child's messages, to the session. Never waits; what comes after the session's end is lost.
pub(super) trait Outbox: Send {
    /// Takes one message.
    fn send(&mut self, message: Message);

    /// Ends the session: no message will come any more.
    fn end(&mut self);
}

/// A child with its pipes.
pub(super) struct Pump<R: Processes, O> {
    pub(super) runtime: R,
    pub(super) guard: Guard<R>,
    pub(super) stdin: Stdin<Writer<R>>,
    pub(super) stdout: Stdout<Reader<R>, O>,
    pub(super) stderr: Stderr<Reader<R>>,
}

/// Why a child is served no longer.
#[derive(Debug)]
pub(super) enum End {
    /// It does not read any more.
    Deaf(io::Error),
    /// It has exited.
    Exited,
    /// Its exit can't be waited for.
    Lost(io::Error),
    SessionEnded,
    /// It does not speak any more.
    Silent(Silence),
}

enum Step {
    End(End),
    Flushed,
    Inbox(Option<Bytes>),
}

impl<R: Processes, O: Outbox> Pump<R, O> {
    /// Serves until something ends it.
    pub(super) async fn serve(&mut self, inbox: &mut impl Inbox) -> End {
        loop {
            let writing = !self.stdin.is_idle();
            let mut inbox = pin!(async {
                if writing {
                    // One message at a time: the others wait in the session's inbox, whose bounds hold.
                    inbox.ended().await;
                    None
                } else {
                    inbox.recv().await
                }
            });
            let step = poll_fn(|cx| {
                if let Poll::Ready(end) = self.poll(cx) {
                    return Poll::Ready(Step::End(end));
                }
                match self.stdin.poll_flush(cx) {
                    Poll::Ready(Err(error)) => return Poll::Ready(Step::End(End::Deaf(error))),
                    Poll::Ready(Ok(())) if writing => return Poll::Ready(Step::Flushed),
                    Poll::Ready(Ok(())) | Poll::Pending => {}
                }
                inbox.as_mut().poll(cx).map(Step::Inbox)
            });
            match step.await {
                Step::End(end) => return end,
                Step::Flushed => {}
                Step::Inbox(Some(message)) => self.stdin.push(&message),
                Step::Inbox(None) => return End::SessionEnded,
            }
        }
    }

    /// Ends the child, gently first. Says whether it had to be told with a signal.
    ///
    /// A child that is `silent` gets the same time, but nobody waits for what it can't say any more.
    pub(super) async fn stop(&mut self, silent: bool, stop_grace: Duration, kill_grace: Duration) -> bool {
        self.stdin.close();
        if silent {
            if self.exits_within(EXIT_WAIT.min(stop_grace)).await {
                return false;
            }
            self.stdout.end_session();
        }
        let stop_grace = if silent { stop_grace.saturating_sub(EXIT_WAIT) } else { stop_grace };
        if self.exits_within(stop_grace).await {
            return false;
        }
        self.guard.signal(GroupSignal::Terminate);
        if self.exits_within(kill_grace).await {
            return true;
        }
        self.guard.signal(GroupSignal::Kill);
        self.exits_within(KILL_WAIT).await;
        true
    }

    /// Takes what the child has left behind, kills what is left of its group and reaps it.
    pub(super) fn conclude(&mut self) -> io::Result<ExitStatus> {
        // First, since the others of the group may hold the pipes.
        self.guard.signal(GroupSignal::Kill);
        self.stdout.finish(&self.runtime, &mut self.stdin, LEFTOVER);
        self.stderr.finish(&self.runtime, LEFTOVER);
        self.stdin.close();
        self.guard.reap()
    }

    /// While it is waited for, its pipes are still read: a child that blocks on a full pipe can't exit.
    async fn exits_within(&mut self, grace: Duration) -> bool {
        let mut timer = self.runtime.timer_at(self.runtime.now().saturating_add(grace));
        poll_fn(|cx| {
            loop {
                match self.poll(cx) {
                    Poll::Ready(End::Exited) => return Poll::Ready(true),
                    Poll::Ready(End::Lost(_)) => return Poll::Ready(false),
                    // Told once, so this ends.
                    Poll::Ready(End::Deaf(_) | End::SessionEnded | End::Silent(_)) => {}
                    Poll::Pending => return Pin::new(&mut timer).poll(cx).map(|()| false),
                }
            }
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.stderr.poll(cx, &self.runtime);
        if let Poll::Ready(silence) = self.stdout.poll(cx, &self.runtime, &mut self.stdin) {
            return Poll::Ready(End::Silent(silence));
        }
        self.guard.poll_exited(cx).map(|exited| exited.map_or_else(End::Lost, |()| End::Exited))
    }
}
