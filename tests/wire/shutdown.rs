//! The life of a manager. R053, R093, R183 to R188.

use std::time::Duration;

use sessile::app::handler_fn;
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, LifecycleError};
use sessile_core::Config;
use tokio::time::Instant;

use crate::apps::Scripted;
use crate::raw::{Read as _, app, handler, pass};
use crate::row::post;

const SECOND: Duration = Duration::from_secs(1);

/// R188, R189: nothing is started behind anybody's back, and what was not started says so.
#[tokio::test(start_paused = true)]
async fn a_manager_is_started_once_and_shut_down_once() {
    let server = handler_fn(|context, _| async move { context.result(&()) });
    let manager = Builder::new(Tokio::current()).handler(server).build().expect("good settings");
    assert_eq!(manager.service().err(), Some(LifecycleError::NotStarted));
    assert_eq!(manager.shutdown(SECOND, SECOND).await, Err(LifecycleError::NotStarted));
    assert_eq!(manager.start(), Ok(()));
    assert_eq!(manager.start(), Err(LifecycleError::AlreadyStarted));
    assert!(manager.service().is_ok());
    assert_eq!(manager.clone().start(), Err(LifecycleError::AlreadyStarted));
    assert_eq!(manager.shutdown(SECOND, SECOND).await, Ok(()));
    assert_eq!(manager.shutdown(SECOND, SECOND).await, Err(LifecycleError::Stopped));
    assert_eq!(manager.start(), Err(LifecycleError::Stopped));
    assert_eq!(manager.service().err(), Some(LifecycleError::Stopped));
}

/// R183, R184, R093: new work is refused, streams end with a word on when to come back, calls finish.
#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_calls_finish() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let call = site.post(&id, r#"{"jsonrpc":"2.0","id":1,"method":"long"}"#).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let other = site.open().await;
        streams.push(site.get(&other).await);
    }
    streams.push(site.get(&id).await);
    let manager = site.manager.clone();
    let begun = Instant::now();
    let shutdown = tokio::spawn(async move { manager.shutdown(60 * SECOND, SECOND).await });
    pass(SECOND).await;
    for stream in &streams {
        assert_eq!((stream.answer().text(), stream.answer().done), (":\n\nretry: 1000\n\n".to_owned(), true));
    }
    for (who, request) in [("bob", post(None, "$INIT")), ("alice", post(Some(&id), "$PING"))] {
        let refused = site.send(Some(who), request).await.answer();
        assert_eq!((refused.status(), refused.header("retry-after").as_deref()), (Some(503), Some("5")));
        assert_eq!(refused.session_id(), None);
    }
    let answer = call.within(10 * SECOND).await;
    assert_eq!(answer.messages().pop().expect("an answer")["result"]["long"], true);
    shutdown.await.expect("no panic").expect("it was running");
    assert_eq!(begun.elapsed().as_secs(), 10, "as soon as the last call was answered");
    assert_eq!(site.manager.sessions(), 0);
    // The service outlives its manager and says so.
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(503));
}

/// R185, R186: bounded, whatever clients and handlers do.
#[tokio::test(start_paused = true)]
async fn what_is_left_at_the_end_gets_an_error_each() {
    let scripted = Scripted::default();
    let site = handler(Config::default(), scripted.clone());
    let (one, two) = (site.open().await, site.open().await);
    let mut held = post(Some(&one), "$HANG");
    held.headers_mut().insert("accept", http::HeaderValue::from_static("application/json"));
    let held = site.send(Some("alice"), held).await;
    let streamed = site.post(&two, "$HANG").await;
    let abandoned = site.post(&two, r#"{"jsonrpc":"2.0","id":2,"method":"hang"}"#).await;
    abandoned.hang_up().await;
    pass(SECOND).await;
    let begun = Instant::now();
    assert_eq!(site.manager.shutdown(3 * SECOND, SECOND).await, Ok(()));
    assert_eq!(begun.elapsed().as_secs(), 3);
    let held = held.within(SECOND).await;
    assert_eq!((held.status(), held.messages()[0]["id"].clone()), (Some(500), 1.into()));
    let streamed = streamed.within(SECOND).await;
    assert_eq!(streamed.messages().pop().expect("an error")["error"]["code"], -32603);
    assert!(streamed.done);
    assert_eq!((site.manager.sessions(), scripted.dropped()), (0, 3));
}

/// Apps that run as long as their session are told, and waited for.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_apps() {
    let scripted = Scripted::default();
    let site = app(Config::default(), scripted.clone());
    for _ in 0..5 {
        site.open().await;
    }
    assert_eq!(scripted.stopped(), 0);
    assert_eq!(site.manager.shutdown(SECOND, SECOND).await, Ok(()));
    assert_eq!((scripted.started(), scripted.stopped()), (5, 5));
}

/// Whoever forgets to shut down leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_dropped_manager_ends_its_sessions() {
    let scripted = Scripted::default();
    let site = app(Config::default(), scripted.clone());
    for _ in 0..3 {
        site.open().await;
    }
    drop(site);
    pass(SECOND).await;
    assert_eq!(scripted.stopped(), 3);
}

/// R187: whoever embeds it keeps the signals, and any thread will do.
#[test]
fn a_thread_of_its_own_is_enough_and_no_signal_is_caught() {
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let site = handler(Config::default(), Scripted::default());
            let id = site.open().await;
            let stream = site.get(&id).await;
            assert_eq!(caught(), Some([false; 3]).filter(|_| cfg!(target_os = "linux")));
            assert_eq!(site.manager.shutdown(SECOND, SECOND).await, Ok(()));
            assert!(stream.answer().done);
        });
    });
    thread.join().expect("no panic");
}

/// Whether this process has handlers for SIGHUP, SIGINT and SIGTERM; `None` where that can't be seen.
fn caught() -> Option<[bool; 3]> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some([1, 2, 15].map(|signal| mask & (1 << (signal - 1)) != 0))
}
