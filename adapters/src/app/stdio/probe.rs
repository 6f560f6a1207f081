//! Which eras a command speaks: it is asked, once.
//!
//! Owns the question, and what each answer means (2026-07-28, transports, stdio, backward compatibility): a server that
//! lists a modern version of ours, in a result or in a modern error, is modern; any other answer, an exit or silence is
//! what servers of the legacy era do when they are asked before `initialize`. The child that was asked serves nobody.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use sessile_core::{Eras, Message, MessageKind, ProtocolVersion, RequestId};

use super::launch::{Client, Launcher};
use super::pump::{Inbox, Outbox};
use super::tasks::Tasks;
use crate::runtime::{Processes, Timer};

const ID: &str = "sessile-probe";
/// Errors that only a modern server gives (2026-07-28, basic, error codes); the last one lists versions.
const MODERN_ERRORS: [i64; 2] = [-32020, -32021];
const UNSUPPORTED_VERSION: i64 = -32022;

/// What is known of a command's eras.
#[derive(Debug, Default)]
pub(super) struct Probe {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    stopped: bool,
    /// The task that pumps the child.
    pump: Option<Waker>,
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Unasked,
    Asked,
    Known(Eras),
}

impl Probe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, if nobody has done so.
    pub(super) fn start<R: Processes>(self: &Arc<Self>, launcher: &Launcher<R>, tasks: &Arc<Tasks>) {
        let mut state = self.lock();
        if state.phase != Phase::Unasked || state.stopped {
            return;
        }
        state.phase = Phase::Asked;
        drop(state);
        let launched = match launcher.start(Client::Probe) {
            Ok(launched) => launched,
            Err(error) => {
                tracing::warn!(target: "sessile::child", %error, "the command can't run");
                self.decide(Eras::LEGACY, "it could not be asked");
                return;
            }
        };
        let (launcher, running) = (launcher.clone(), tasks.begin());
        let timer = launcher.runtime.timer_at(launcher.runtime.now().saturating_add(launcher.config.probe_timeout));
        let at_end = Verdict(Arc::clone(self));
        launcher.runtime.clone().spawn(async move {
            let inbox = ProbeInbox { probe: Arc::clone(&at_end.0), asked: false, timer };
            let outbox = ProbeOutbox(Arc::clone(&at_end.0));
            // The log has what came of it.
            let _ = launcher.converse(launched, inbox, outbox).await;
            drop(at_end);
            drop(running);
        });
    }

    /// Waits for the answer. Cancel-safe.
    pub(super) async fn eras(&self) -> Eras {
        poll_fn(|cx| {
            let mut state = self.lock();
            match state.phase {
                Phase::Known(eras) => return Poll::Ready(eras),
                Phase::Unasked if state.stopped => return Poll::Ready(Eras::LEGACY),
                Phase::Asked | Phase::Unasked => {}
            }
            state.waiting.retain(|waiting| !waiting.will_wake(cx.waker()));
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the child that is asked, if it runs.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        let pump = state.pump.take();
        let unasked = state.phase == Phase::Unasked;
        let waiting = if unasked { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        waiting.into_iter().chain(pump).for_each(Waker::wake);
    }

    /// The first word counts.
    fn decide(&self, eras: Eras, why: &str) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Known(_)) {
            return;
        }
        state.phase = Phase::Known(eras);
        let woken = std::mem::take(&mut state.waiting).into_iter().chain(state.pump.take());
        drop(state);
        tracing::info!(target: "sessile::child", modern = eras.modern, why, "the command was asked which eras it speaks");
        woken.into_iter().for_each(Waker::wake);
    }
}

/// However the task ends, nobody waits for ever.
struct Verdict(Arc<Probe>);

impl Drop for Verdict {
    fn drop(&mut self) {
        self.0.decide(Eras::LEGACY, "it ended");
    }
}

/// Asks, and ends when there is an answer, or none in time.
struct ProbeInbox<T> {
    probe: Arc<Probe>,
    asked: bool,
    timer: T,
}

impl<T: Timer> ProbeInbox<T> {
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if Pin::new(&mut self.timer).poll(cx).is_ready() {
            self.probe.decide(Eras::LEGACY, "it did not answer in time");
        }
        let mut state = self.probe.lock();
        if state.stopped || matches!(state.phase, Phase::Known(_)) {
            return Poll::Ready(());
        }
        state.pump = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T: Timer> Inbox for ProbeInbox<T> {
    async fn recv(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.asked, true) {
            return Some(question());
        }
        self.ended().await;
        None
    }

    async fn ended(&mut self) {
        poll_fn(|cx| self.poll_ended(cx)).await;
    }
}

/// Hears the answer.
struct ProbeOutbox(Arc<Probe>);

impl Outbox for ProbeOutbox {
    fn send(&mut self, message: Message) {
        let MessageKind::Response(response) = message.kind() else { return };
        let mine = response.id.as_ref().is_none_or(|id| matches!(id, RequestId::String(id) if **id == *ID));
        if mine {
            let (eras, why) = judge(message.raw());
            self.0.decide(eras, why);
        }
    }

    fn end(&mut self) {
        self.0.decide(Eras::LEGACY, "it says nothing");
    }
}

/// A `server/discover` as the newest modern version has it.
fn question() -> Bytes {
    let [newest] = ProtocolVersion::MODERN;
    let meta = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": newest.as_str(),
        "io.modelcontextprotocol/clientInfo": { "name": "sessile", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = serde_json::json!({
        "jsonrpc": "2.0", "id": ID, "method": "server/discover", "params": { "_meta": meta },
    });
    Bytes::from(request.to_string())
}

/// What an answer says.
fn judge(answer: &[u8]) -> (Eras, &'static str) {
    #[derive(Deserialize)]
    struct Answer {
        error: Option<Failure>,
        result: Option<Value>,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: i64,
        #[serde(default)]
        data: Value,
    }
    match serde_json::from_slice(answer) {
        Ok(Answer { result: Some(result), .. }) if lists_ours(&result["supportedVersions"]) => {
            (Eras::BOTH, "it lists a modern version")
        }
        Ok(Answer { error: Some(Failure { code: UNSUPPORTED_VERSION, data }), .. })
            if lists_ours(&data["supported"]) =>
        {
            (Eras::BOTH, "it lists a modern version")
        }
        Ok(Answer { error: Some(Failure { code, .. }), .. }) if MODERN_ERRORS.contains(&code) => {
            (Eras::BOTH, "its error is a modern one")
        }
        _ => (Eras::LEGACY, "its answer names no modern version"),
    }
}

fn lists_ours(versions: &Value) -> bool {
    let ours = |version: &Value| {
        version.as_str().is_some_and(|name| ProtocolVersion::MODERN.iter().any(|ours| ours.as_str() == name))
    };
    versions.as_array().is_some_and(|versions| versions.iter().any(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_modern_server_would_say_is_modern() {
        let modern = [
            r#""result":{"supportedVersions":["2099-01-01","2026-07-28"],"capabilities":{}}"#,
            r#""error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"],"requested":"y"}}"#,
            r#""error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}"#,
            r#""error":{"code":-32020,"message":"x"}"#,
        ];
        let legacy = [
            r#""result":{}"#,
            r#""result":{"supportedVersions":["2025-11-25"]}"#,
            r#""result":{"supportedVersions":"2026-07-28"}"#,
            r#""result":{"protocolVersion":"2026-07-28"}"#,
            r#""result":null"#,
            r#""error":{"code":-32022,"message":"x"}"#,
            r#""error":{"code":-32022,"message":"x","data":{"supported":["2099-01-01"]}}"#,
            r#""error":{"code":-32601,"message":"x","data":{"supported":["2026-07-28"]}}"#,
            r#""error":{"code":-32602,"message":"Unsupported protocol version"}"#,
            r#""error":{"code":-32001.5}"#,
            r#""error":{}"#,
        ];
        for (answers, eras) in [(&modern[..], Eras::BOTH), (&legacy[..], Eras::LEGACY)] {
            for answer in answers {
                assert_eq!(judge(format!("{{{answer}}}").as_bytes()).0, eras, "{answer}");
            }
        }
        let question = Message::parse(question()).expect("a message");
        assert_eq!((question.method(), question.modern_version()), (Some("server/discover"), Some("2026-07-28")));
    }
}
