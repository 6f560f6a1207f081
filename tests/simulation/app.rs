//! The apps of the simulation, of both kinds. They do what a [`Plan`] says.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sessile::app::{App, AppError, AppLink, Context, Handler, Reply, Sender, SessionInfo};
use sessile::runtime::Runtime as _;
use sessile_core::session::Kind;
use sessile_core::{Eras, Message, RequestId};
use sessile_tests::sim::Sim;

use crate::ledger::Ledger;
use crate::plan::{End, Greeting, Plan};

/// A server of either kind.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) ledger: Ledger,
    pub(crate) sim: Sim,
}

/// A session as its app sees it.
#[derive(Default)]
pub(crate) struct Told {
    tag: OnceLock<String>,
    number: AtomicU32,
}

impl Told {
    /// The next note that belongs to no request.
    fn next(&self) -> Value {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        json!({"session": self.tag.get(), "number": number})
    }
}

/// How an app speaks while it answers.
trait Speak {
    fn note(&self, params: &Value);
    fn tell(&self);
    fn close(&self);
    fn ask(&self, params: &Value) -> impl Future<Output = ()> + Send;
}

async fn perform(plan: &Plan, speak: &(impl Speak + Sync), sim: &Sim) {
    let pause = async || {
        if plan.pause > 0 {
            sim.sleep(Duration::from_millis(plan.pause)).await;
        }
    };
    for number in 1..=plan.notes {
        pause().await;
        speak.note(&json!({"tag": plan.tag, "number": number, "text": "x".repeat(plan.size)}));
        if plan.close && number == plan.notes / 2 {
            speak.close();
        }
    }
    for _ in 0..plan.tells {
        pause().await;
        speak.tell();
    }
    if plan.ask {
        speak.ask(&json!({"tag": plan.tag})).await;
    }
    pause().await;
}

/// What a client says in its `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Introduction {
    client_info: Info,
    greeting: Greeting,
    protocol_version: String,
}

#[derive(Deserialize)]
struct Info {
    name: String,
}

impl Introduction {
    fn read(message: &Message) -> Self {
        message.params().expect("as the client wrote it")
    }

    async fn pause(&self, sim: &Sim) {
        sim.sleep(Duration::from_millis(self.greeting.pause)).await;
    }
}

fn plan(message: &Message) -> Option<Plan> {
    message.params().ok()
}

const EXITED: &str = "as planned";

/// Panics without a word in the output of the test, where it would hide the one that matters.
fn panic_quietly() -> ! {
    std::panic::resume_unwind(Box::new(EXITED))
}

impl Handler for Planned {
    type State = Told;

    fn eras(&self) -> Eras {
        Eras::BOTH
    }

    fn open(&self, _: &SessionInfo) -> Told {
        Told::default()
    }

    async fn call(&self, context: Context<Told>, message: Message) -> Reply {
        let Some(_) = message.as_request() else { return Reply::none() };
        let _call = self.ledger.call();
        if message.method() == Some("initialize") {
            let introduction = Introduction::read(&message);
            self.ledger.name(context.session(), &introduction.client_info.name);
            context.state().tag.get_or_init(|| introduction.client_info.name.clone());
            introduction.pause(&self.sim).await;
            if introduction.greeting.refuse {
                return context.error(-32000, EXITED);
            }
            return context.result(&json!({"protocolVersion": introduction.protocol_version}));
        }
        let Some(plan) = plan(&message) else { return context.error(-32601, "Method not found") };
        perform(&plan, &context, &self.sim).await;
        match plan.end {
            End::Crash | End::Return => Reply::crash(AppError::Exited(EXITED.to_owned())),
            End::Panic => panic_quietly(),
            End::Hang => std::future::pending().await,
            End::Error => context.error(-32000, &plan.tag),
            End::Result => context.result(&json!({"tag": plan.tag})),
        }
    }
}

impl Speak for Context<Told> {
    fn note(&self, params: &Value) {
        self.notify("notifications/message", params);
    }

    fn tell(&self) {
        if self.session().kind() == Kind::Session {
            self.notify_session("notifications/message", &self.state().next());
        }
    }

    fn close(&self) {
        let _ = self.close_stream(Some(Duration::from_millis(200)));
    }

    async fn ask(&self, params: &Value) {
        // An error is an answer too: the client may have gone, or have no way to be asked.
        if let Ok(answer) = self.request("ask", params).await {
            assert_eq!(serde_json::from_str::<Value>(answer.get()).expect("JSON")["tag"], params["tag"]);
        }
    }
}

impl App for Planned {
    async fn eras(&self) -> Eras {
        Eras::BOTH
    }

    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        let _run = self.ledger.call();
        let told = Arc::new(Told::default());
        let (mut receiver, sender) = link.split();
        while let Some(inbound) = receiver.recv().await {
            let Some(request) = inbound.message.as_request() else { continue };
            let voice = Voice { id: request.id.clone(), sender: sender.clone(), told: Arc::clone(&told) };
            if inbound.message.method() == Some("initialize") {
                let introduction = Introduction::read(&inbound.message);
                self.ledger.name(receiver.session(), &introduction.client_info.name);
                told.tag.get_or_init(|| introduction.client_info.name.clone());
                introduction.pause(&self.sim).await;
                if introduction.greeting.refuse {
                    voice.say(&json!({"error": {"code": -32000, "message": EXITED}}));
                    continue;
                }
                voice.say(&json!({"result": {"protocolVersion": introduction.protocol_version}}));
                continue;
            }
            let Some(plan) = plan(&inbound.message) else {
                voice.say(&json!({"error": {"code": -32601, "message": "Method not found"}}));
                continue;
            };
            match plan.end {
                End::Crash => return Err(AppError::Exited(EXITED.to_owned())),
                End::Panic => panic_quietly(),
                End::Return => return Ok(()),
                End::Hang | End::Error | End::Result => {}
            }
            let sim = self.sim.clone();
            self.sim.spawn(async move {
                perform(&plan, &voice, &sim).await;
                match plan.end {
                    End::Error => voice.say(&json!({"error": {"code": -32000, "message": plan.tag}})),
                    End::Result => voice.say(&json!({"result": {"tag": plan.tag}})),
                    End::Hang | End::Crash | End::Panic | End::Return => {}
                }
            });
        }
        Ok(())
    }
}

/// One request of an app that runs as long as its session.
struct Voice {
    id: RequestId,
    sender: Sender,
    told: Arc<Told>,
}

impl Voice {
    /// Answers.
    fn say(&self, answer: &Value) {
        let mut message =
            json!({"jsonrpc": "2.0", "id": serde_json::from_str::<Value>(&self.id.to_json()).expect("an id")});
        for (key, value) in answer.as_object().expect("an answer") {
            message[key] = value.clone();
        }
        self.send(&message);
    }

    /// The session may have ended meanwhile.
    fn send(&self, message: &Value) {
        let message = Message::parse(message.to_string().into()).expect("a message");
        let _ = self.sender.send_related(message, &self.id);
    }
}

impl Speak for Voice {
    fn note(&self, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    }

    fn tell(&self) {
        if self.sender.session().kind() != Kind::Session {
            return;
        }
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": self.told.next()});
        let message = Message::parse(note.to_string().into()).expect("a message");
        let _ = self.sender.send_unrelated(message);
    }

    fn close(&self) {
        let _ = self.sender.close_stream(&self.id, Some(Duration::from_millis(200)));
    }

    /// Does not wait: whatever the client says goes to the session's inbox.
    async fn ask(&self, params: &Value) {
        let id = format!("ask {}", params["tag"]);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ask", "params": params}));
    }
}
