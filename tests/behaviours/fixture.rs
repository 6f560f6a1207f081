//! The app of the behaviours: it follows the script of the suites, and does more when it is told to.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use serde_json::json;
use sessile::app::{App, AppError, AppLink, Context, Handler, Reply, SessionInfo};
use sessile::runtime::Runtime;
use sessile_core::{Eras, Message};

use crate::apps::{Clockwork, ScriptedOn, raw};

/// What has happened so far, behind the service. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    facts: Facts,
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Apps that were started.
    pub(crate) started: usize,
    /// Calls that have begun.
    pub(crate) begun: usize,
    /// Calls that were dropped before their end, and tasks of whole sessions that were over.
    pub(crate) over: usize,
    /// Calls of `wait` that may go on.
    pub(crate) released: bool,
}

impl Seen {
    pub(crate) fn facts(&self) -> Facts {
        self.0.lock().expect("nothing panics while it is held").facts
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Facts)) {
        let waiting = {
            let mut inner = self.0.lock().expect("nothing panics while it is held");
            note(&mut inner.facts);
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Lets every call of `wait` go on.
    pub(crate) fn release(&self) {
        self.note(|facts| facts.released = true);
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, is_so: impl Fn(&Facts) -> bool + Send) -> impl Future<Output = ()> + Send {
        let seen = self.clone();
        poll_fn(move |cx| {
            let mut inner = seen.0.lock().expect("nothing panics while it is held");
            if is_so(&inner.facts) {
                return Poll::Ready(());
            }
            inner.waiting.push(cx.waker().clone());
            Poll::Pending
        })
    }
}

impl<R: Runtime> Clockwork for R {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        Runtime::spawn(self, task);
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        self.timer_at(self.now().saturating_add(time))
    }
}

/// The app, of both kinds.
#[derive(Clone)]
pub(crate) struct Fixture<R> {
    scripted: ScriptedOn<R>,
    seen: Seen,
}

impl<R: Runtime> Fixture<R> {
    pub(crate) fn new(runtime: R, eras: Eras, seen: Seen) -> Self {
        Self { scripted: ScriptedOn::on(runtime, eras), seen }
    }
}

/// Notes what is over before its end.
struct Running(Seen, bool);

impl Drop for Running {
    fn drop(&mut self) {
        if !self.1 {
            self.0.note(|facts| facts.over += 1);
        }
    }
}

const NOTE: &str = "notifications/message";

impl<R: Runtime> Handler for Fixture<R> {
    type State = ();

    fn eras(&self) -> Eras {
        Handler::eras(&self.scripted)
    }

    fn open(&self, session: &SessionInfo) {
        self.seen.note(|facts| facts.started += 1);
        self.scripted.open(session);
    }

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        if message.as_request().is_none() {
            return Reply::none();
        }
        self.seen.note(|facts| facts.begun += 1);
        let mut running = Running(self.seen.clone(), false);
        let reply = match message.method().unwrap_or_default() {
            "numbers" => {
                for number in 1..=50 {
                    context.notify(NOTE, &json!({"number": number}));
                }
                self.seen.until(|facts| facts.released).await;
                for number in 51..=100 {
                    context.notify(NOTE, &json!({"number": number}));
                }
                context.result(&json!(100))
            }
            "flood" => {
                for number in 0..10_000 {
                    context.notify(NOTE, &json!({"number": number, "text": "x".repeat(200)}));
                }
                context.result(&json!("flooded"))
            }
            "send-away" => {
                let sent = context.close_stream(Some(Duration::from_millis(1)));
                self.seen.until(|facts| facts.released).await;
                context.result(&json!(sent))
            }
            "send-listeners-away" => context.result(&json!(context.close_standalone_stream(None))),
            "tell" => {
                let params: serde_json::Value = message.params().unwrap_or_default();
                context.notify_session(NOTE, &params);
                context.result(&json!({}))
            }
            "ask" => match context.request("elicitation/create", &json!({"message": "?"})).await {
                Ok(answer) => context.result(&*answer),
                Err(error) => context.error(-32000, &error.to_string()),
            },
            "who" => context.result(&json!(context.session().principal().name())),
            "wait" => {
                self.seen.until(|facts| facts.released).await;
                context.result(&json!({"waited": true}))
            }
            "wait-noted" => {
                context.notify(NOTE, &*raw("{}"));
                self.seen.until(|facts| facts.released).await;
                context.result(&json!({"waited": true}))
            }
            _ => self.scripted.call(context, message).await,
        };
        running.1 = true;
        reply
    }
}

impl<R: Runtime> App for Fixture<R> {
    fn eras(&self) -> impl Future<Output = Eras> + Send {
        App::eras(&self.scripted)
    }

    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        self.seen.note(|facts| facts.started += 1);
        let _running = Running(self.seen.clone(), false);
        self.scripted.run(link).await
    }
}
