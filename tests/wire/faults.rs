//! Apps that misbehave cost themselves, and leave nothing behind. R002, R017, R185.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use sessile::app::{App, AppError, AppLink, Context, Handler, Reply, SessionInfo};
use sessile::core::{Message, MessageKind};
use sessile_core::Config;
use sessile_tests::pure::script;
use tokio::time::timeout;

use crate::apps::Scripted;
use crate::raw::{GONE, Read as _, app, handler, pass};
use crate::row::post;

const SECOND: Duration = Duration::from_secs(1);

/// Panics when a session is opened, as long as it is told to; its notifications never end.
#[derive(Clone, Default)]
struct Faulty {
    panics: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler for Faulty {
    type State = ();

    fn open(&self, _: &SessionInfo) {
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants it");
    }

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        match message.method() {
            Some("initialize") => context.result(&json!({"protocolVersion": "2025-11-25"})),
            Some("notifications/hang") => {
                self.running.fetch_add(1, Ordering::SeqCst);
                let _running = Running(Arc::clone(&self.running));
                context.sleep(Duration::from_secs(1_000_000)).await;
                Reply::none()
            }
            _ => Reply::none(),
        }
    }
}

/// The session that could not be opened holds no place.
#[tokio::test(start_paused = true)]
async fn a_panic_while_a_session_opens_leaves_no_session() {
    let mut config = Config::default();
    config.table.max_sessions = 1;
    let faulty = Faulty::default();
    let site = handler(config, faulty.clone());
    faulty.panics.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let refused = site.send(Some("alice"), post(None, "$INIT")).await.within(SECOND).await;
        assert_eq!((refused.status(), refused.session_id()), (Some(500), None));
        assert_eq!(refused.messages()[0]["error"]["code"], -32603);
        assert_eq!(refused.messages()[0]["id"], 1);
        assert_eq!(site.manager.sessions(), 0);
    }
    faulty.panics.store(false, Ordering::SeqCst);
    site.open().await;
}

/// The call of a notification ends with its session as that of a request does.
#[tokio::test(start_paused = true)]
async fn notifications_end_with_their_session() {
    let faulty = Faulty::default();
    let site = handler(Config::default(), faulty.clone());
    let (id, other) = (site.open().await, site.open().await);
    for session in [&id, &id, &id, &other] {
        let noted = site.post(session, r#"{"jsonrpc":"2.0","method":"notifications/hang"}"#).await.answer();
        assert_eq!(noted.status(), Some(202));
    }
    assert_eq!(faulty.running.load(Ordering::SeqCst), 4);
    site.delete(&id).await;
    assert_eq!(faulty.running.load(Ordering::SeqCst), 1);
    assert_eq!(site.manager.shutdown(SECOND, SECOND).await, Ok(()));
    pass(SECOND).await;
    assert_eq!(faulty.running.load(Ordering::SeqCst), 0);
}

/// Whoever stops waiting for a shutdown has still shut down.
#[tokio::test(start_paused = true)]
async fn a_shutdown_that_nobody_waits_for_ends_everything() {
    let scripted = Scripted::default();
    let site = handler(Config::default(), scripted.clone());
    let id = site.open().await;
    let call = site.post(&id, "$HANG").await;
    pass(SECOND).await;
    assert!(timeout(SECOND, site.manager.shutdown(100 * SECOND, SECOND)).await.is_err());
    pass(SECOND).await;
    assert_eq!((site.manager.sessions(), scripted.dropped()), (0, 1));
    assert_eq!(call.answer().messages().pop().expect("an error")["error"]["code"], -32603);
}

/// Tells what it was sent, by counting.
#[derive(Clone, Default)]
struct Listening {
    cancelled: Arc<AtomicUsize>,
    late: Arc<AtomicUsize>,
}

impl App for Listening {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            match inbound.message.kind() {
                MessageKind::Request(request) if request.method == "initialize" => {
                    let result = script::result(&request.id, r#"{"protocolVersion":"2025-11-25"}"#);
                    link.send(Message::parse(result.into()).expect("a message")).expect("the session is live");
                }
                MessageKind::Notification(note) if note.method == "notifications/cancelled" => {
                    let id = note.request_id.clone().expect("it says which");
                    self.cancelled.fetch_add(1, Ordering::SeqCst);
                    // Too late: nobody hears of it.
                    for text in [script::note("{}"), script::result(&id, "{}")] {
                        let message = Message::parse(text.into()).expect("a message");
                        if link.send(message).is_ok() {
                            self.late.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
                MessageKind::Notification(_) | MessageKind::Request(_) | MessageKind::Response(_) => {}
            }
        }
        Ok(())
    }
}

/// An app that runs as long as its session is told of cancellations, those that time makes too, and may answer late.
#[tokio::test(start_paused = true)]
async fn an_app_hears_of_cancellations() {
    let mut config = Config::default();
    config.table.idle_timeout = Some(5 * SECOND);
    let listening = Listening::default();
    let site = app(config, listening.clone());
    let id = site.open().await;
    let call = site.post(&id, "$HANG").await;
    pass(SECOND).await;
    site.post(&id, "$CANCEL").await;
    assert_eq!((listening.cancelled.load(Ordering::SeqCst), listening.late.load(Ordering::SeqCst)), (1, 2));
    assert_eq!((call.answer().text(), call.answer().done), (":\n\n".to_owned(), true));
    // Its client leaves, and nobody waits for the answer any more.
    site.post(&id, "$HANG").await.hang_up().await;
    pass(5 * SECOND).await;
    assert_eq!(listening.cancelled.load(Ordering::SeqCst), 2);
    assert_eq!(site.manager.sessions(), 1);
    pass(5 * SECOND).await;
    assert_eq!(site.statuses(&id).await, GONE);
}
