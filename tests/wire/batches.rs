//! Batches over the service, for sessions of the one revision that has them.
//!
//! R150, R151.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use sessile::core::config::ResponseMode;
use sessile_core::Config;

use crate::apps::Scripted;
use crate::raw::{Exchange, Read as _, app, handler};
use crate::row::post;

const SECOND: Duration = Duration::from_secs(1);

fn call(id: u32, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

fn ids(messages: &[Value]) -> Vec<Option<i64>> {
    messages.iter().map(|message| message["id"].as_i64()).collect()
}

macro_rules! open {
    ($site:expr, $version:expr) => {{
        let opened = $site.send(Some("alice"), post(None, $version)).await.answer();
        opened.session_id().expect("a session")
    }};
}

#[tokio::test(start_paused = true)]
async fn the_answers_come_as_events_or_as_an_array() {
    for mode in [ResponseMode::Auto, ResponseMode::Json] {
        let mut config = Config::default();
        config.gate.response_mode = mode;
        let (called, running) = (handler(config.clone(), Scripted::default()), app(config, Scripted::default()));
        let batch = format!(
            r#"[{},{{"jsonrpc":"2.0","method":"notifications/initialized"}},{},{}]"#,
            call(1, "late"),
            call(2, "ping"),
            call(3, "no/such")
        );
        let session = open!(called, "$INIT-2025-03-26");
        let one: Exchange = called.post(&session, &batch).await;
        let session = open!(running, "$INIT-2025-03-26");
        let two: Exchange = running.post(&session, &batch).await;
        for exchange in [one, two] {
            let answer = exchange.within(SECOND).await;
            assert_eq!(answer.status(), Some(StatusCode::OK.as_u16()));
            let messages = match mode {
                ResponseMode::Json => answer.messages()[0].as_array().expect("an array").clone(),
                ResponseMode::Auto | ResponseMode::Sse => answer.messages(),
            };
            assert_eq!(ids(&messages), [Some(2), Some(3), Some(1)]);
            assert_eq!(messages[2]["result"], json!({"late": true}));
            assert!(messages[1]["error"].is_object());
        }
        assert_eq!((called.manager.sessions(), running.manager.sessions()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn all_or_nothing_and_only_where_there_are_batches() {
    let site = handler(Config::default(), Scripted::default());
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let init = r#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let ping = call(1, "ping");
    let old = open!(site, "$INIT-2025-03-26");
    for (batch, status) in [
        (format!("[{note}]"), 202),
        (format!(r#"[{note},{{"jsonrpc":"2.0","id":77,"result":{{}}}}]"#), 202),
        (format!("[{ping}]"), 200),
        ("[]".to_owned(), 400),
        (format!("[{ping},{ping}]"), 400),
        (format!("[{ping},{init}]"), 400),
        (format!("[{ping},{{}}]"), 400),
        (format!("[{ping},[{note}]]"), 400),
    ] {
        let answer = site.post(&old, &batch).await.answer();
        assert_eq!(answer.status(), Some(status), "{batch}");
        if status == 400 {
            assert_eq!(answer.messages()[0]["id"], Value::Null, "{batch}");
        }
    }
    for version in ["$INIT-2025-06-18", "$INIT"] {
        let session = open!(site, version);
        assert_eq!(site.post(&session, &format!("[{ping}]")).await.answer().status(), Some(400), "{version}");
    }
    let opening = format!("[{init}]");
    assert_eq!(site.send(Some("alice"), post(None, &opening)).await.answer().status(), Some(400));
    assert_eq!(site.manager.sessions(), 3);
}
