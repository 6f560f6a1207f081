//! Notifications whose handler takes its time: each is a task, and a session has only so many. R020.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sessile::app::{Calls, Context, Handler, Reply, SessionInfo, handler_fn};
use sessile_core::{Config, Message};

use crate::raw::{Read as _, Site, handler, pass};

const SECOND: Duration = Duration::from_secs(1);

/// Counts the calls that are under way.
#[derive(Clone, Default)]
struct Running(Arc<AtomicUsize>);

impl Running {
    fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Guard(Running);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes a second for a notification, for ever for some, and panics over others.
#[derive(Clone, Default)]
struct Slow(Running);

impl Handler for Slow {
    type State = ();

    fn open(&self, _: &SessionInfo) {}

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        let _guard = Guard(self.0.clone());
        match message.method() {
            Some("initialize") => return context.result(&serde_json::json!({"protocolVersion": "2025-11-25"})),
            Some("ping") => return context.result(&()),
            Some("slow") => context.sleep(SECOND).await,
            Some("hang") => std::future::pending().await,
            Some("panic") => {
                context.sleep(SECOND).await;
                panic!("as the test wants it");
            }
            _ => {}
        }
        Reply::none()
    }
}

async fn note(site: &Site<Calls<Slow>>, id: &str, method: &str) -> Option<u16> {
    site.post(id, &format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)).await.answer().status()
}

fn few() -> Config {
    let mut config = Config::default();
    config.session.inbox_count = 3;
    config
}

#[tokio::test(start_paused = true)]
async fn a_notification_beyond_the_bound_is_refused_until_a_call_is_over() {
    for method in ["slow", "panic"] {
        let running = Running::default();
        let site = handler(few(), Slow(running.clone()));
        let (id, other) = (site.open().await, site.open().await);
        for _ in 0..3 {
            assert_eq!(note(&site, &id, method).await, Some(202), "{method}");
        }
        for _ in 0..100 {
            let refused = site.post(&id, r#"{"jsonrpc":"2.0","method":"slow"}"#).await.answer();
            assert_eq!((refused.status(), refused.header("retry-after").as_deref()), (Some(503), Some("1")));
        }
        assert_eq!(running.now(), 3, "{method}");
        // Neither the session's requests nor other sessions have to do with it.
        assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200), "{method}");
        assert_eq!(note(&site, &other, method).await, Some(202), "{method}");
        pass(SECOND).await;
        assert_eq!(running.now(), 0, "{method}");
        for _ in 0..3 {
            assert_eq!(note(&site, &id, method).await, Some(202), "{method}");
        }
        assert_eq!(note(&site, &id, method).await, Some(503), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_that_are_done_at_once_know_no_bound() {
    let site = handler(few(), Slow::default());
    let id = site.open().await;
    for _ in 0..100 {
        assert_eq!(note(&site, &id, "quick").await, Some(202));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_for_notifications_end_with_their_session() {
    let running = Running::default();
    let site = handler(few(), Slow(running.clone()));
    let id = site.open().await;
    for _ in 0..3 {
        assert_eq!(note(&site, &id, "hang").await, Some(202));
    }
    assert_eq!(site.delete(&id).await.answer().status(), Some(204));
    assert_eq!(running.now(), 0);
}

/// A panic at the first poll gives the place back too.
#[tokio::test(start_paused = true)]
async fn a_notification_that_panics_at_once_keeps_no_place() {
    let server = handler_fn(|context, message: Message| async move {
        match message.method() {
            Some("initialize") => context.result(&serde_json::json!({"protocolVersion": "2025-11-25"})),
            Some("panic") => panic!("as the test wants it"),
            _ => context.result(&()),
        }
    });
    let site = handler(few(), server);
    let id = site.open().await;
    for _ in 0..20 {
        let answer = site.post(&id, r#"{"jsonrpc":"2.0","method":"panic"}"#).await.answer();
        assert_eq!(answer.status(), Some(202));
    }
}
