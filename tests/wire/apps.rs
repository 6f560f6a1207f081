//! The scripted apps of these suites, for the adapters. What they say is in [`sessile_tests::pure::script`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;
use sessile::app::{App, AppError, AppLink, Context, Handler, Reply, Sender, SessionInfo};
use sessile_core::{Eras, Message, RequestId};
use sessile_tests::pure::script::{self, NOTE_METHOD, Say};

/// Follows the script, as a [`Handler`] and as an [`App`], whose tasks and pauses are those of `C`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptedOn<C>(Arc<Seen>, C);

/// The same on tokio.
pub(crate) type Scripted = ScriptedOn<OnTokio>;

/// What an app needs of a runtime.
pub(crate) trait Clockwork: Clone + Send + Sync + 'static {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The runtime of tokio that it is called in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnTokio;

impl Clockwork for OnTokio {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }
}

#[derive(Debug, Default)]
struct Seen {
    calls: AtomicUsize,
    deaf: AtomicBool,
    dropped: AtomicUsize,
    eras: OnceLock<Eras>,
    started: AtomicUsize,
    stopped: AtomicUsize,
}

impl Scripted {
    /// One that speaks these eras. Others speak the legacy one.
    pub(crate) fn of(eras: Eras) -> Self {
        Self::on(OnTokio, eras)
    }
}

impl<C> ScriptedOn<C> {
    /// One that speaks these eras.
    pub(crate) fn on(clockwork: C, eras: Eras) -> Self {
        Self(Arc::new(Seen { eras: eras.into(), ..Seen::default() }), clockwork)
    }

    fn spoken(&self) -> Eras {
        self.0.eras.get().copied().unwrap_or(Eras::LEGACY)
    }

    /// How many apps were ever started.
    pub(crate) fn started(&self) -> usize {
        self.0.started.load(Ordering::SeqCst)
    }

    /// How many calls have begun.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// How many calls were dropped before their end.
    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::SeqCst)
    }

    /// How many apps that ran as long as their session have returned.
    pub(crate) fn stopped(&self) -> usize {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// From the next message on, no app reads what it is sent.
    pub(crate) fn deafen(&self) {
        self.0.deaf.store(true, Ordering::SeqCst);
    }
}

/// Counts a call that is dropped before its end.
struct Running(Arc<Seen>, bool);

impl Drop for Running {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("a script writes JSON")
}

pub(crate) fn exited() -> AppError {
    AppError::Exited("as the script says".to_owned())
}

impl<C: Clockwork> Handler for ScriptedOn<C> {
    type State = ();

    fn eras(&self) -> Eras {
        self.spoken()
    }

    fn open(&self, _: &SessionInfo) {
        self.0.started.fetch_add(1, Ordering::SeqCst);
    }

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        if message.as_request().is_none() {
            return Reply::none();
        }
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let mut running = Running(Arc::clone(&self.0), false);
        for say in script::script(&message) {
            let reply = match say {
                Say::Crash => Reply::crash(exited()),
                Say::Error(code, text) => context.error(code, &text),
                Say::Result(result) => context.result(&*raw(&result)),
                Say::Note(params) => {
                    context.notify(NOTE_METHOD, &*raw(&params));
                    continue;
                }
                Say::SessionNote(params) => {
                    context.notify_session(NOTE_METHOD, &*raw(&params));
                    continue;
                }
                Say::Wait(time) => {
                    context.sleep(time).await;
                    continue;
                }
            };
            running.1 = true;
            return reply;
        }
        running.1 = true;
        Reply::none()
    }
}

impl<C: Clockwork> App for ScriptedOn<C> {
    async fn eras(&self) -> Eras {
        self.spoken()
    }

    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        self.0.started.fetch_add(1, Ordering::SeqCst);
        let _stopped = Stopped(Arc::clone(&self.0));
        let (mut receiver, sender) = link.split();
        loop {
            if self.0.deaf.load(Ordering::SeqCst) {
                receiver.ended().await;
                return Ok(());
            }
            let Some(inbound) = receiver.recv().await else { return Ok(()) };
            let Some(request) = inbound.message.as_request() else { continue };
            let says = script::script(&inbound.message);
            if says.contains(&Say::Crash) {
                return Err(exited());
            }
            let clockwork = self.1.clone();
            self.1.spawn(speak(clockwork, sender.clone(), request.id.clone(), says));
        }
    }
}

struct Stopped(Arc<Seen>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stopped.fetch_add(1, Ordering::SeqCst);
    }
}

async fn speak(clockwork: impl Clockwork, sender: Sender, id: RequestId, says: Vec<Say>) {
    for say in says {
        let text = match say {
            Say::Crash => return,
            Say::Error(code, text) => script::error(&id, code, &text),
            Say::Note(params) => script::note(&params),
            Say::Result(result) => script::result(&id, &result),
            Say::SessionNote(params) => {
                let message = Message::parse(script::note(&params).into()).expect("a script writes messages");
                if sender.send_unrelated(message).is_err() {
                    return;
                }
                continue;
            }
            Say::Wait(time) => {
                clockwork.sleep(time).await;
                continue;
            }
        };
        let message = Message::parse(text.into()).expect("a script writes messages");
        if sender.send_related(message, &id).is_err() {
            return;
        }
    }
}
