//! The tables over the service, in one process and with tokio's clock paused.

use std::time::Duration;

use http::HeaderValue;
use sessile::app::Backend;
use sessile_core::{MCP_METHOD, MCP_PROTOCOL_VERSION};

use crate::apps::Scripted;
use crate::expect::check;
use crate::raw::{Exchange, Read as _, Site, app, handler, pass};
use crate::row::{Names, Row, all, get, post};

#[tokio::test(start_paused = true)]
async fn every_row_holds_over_the_service() {
    let mut failures = Vec::new();
    let mut run = 0;
    for row in all().into_iter().filter(|row| row.runs_over("service")) {
        run += 1;
        let scripted = Scripted::of(row.eras());
        let inbox = row.is_given("inbox") || row.is_given("inbox-twice") || row.is_given("app");
        let checked = if inbox {
            run_row(&row, &app(row.config(), scripted.clone()), &scripted).await
        } else {
            run_row(&row, &handler(row.config(), scripted.clone()), &scripted).await
        };
        failures.extend(checked.err().map(|why| format!("{}: {why}", row.name)));
    }
    assert!(failures.is_empty(), "{} of {run} rows:\n{}", failures.len(), failures.join("\n"));
    assert!(run > 200, "{run} rows only");
}

/// Requests without a session start an app each, whose task answers. What an app speaks is asked when the first of them comes, so each
/// row is that first one, and another time it comes after.
#[tokio::test(start_paused = true)]
async fn every_row_of_the_modern_era_holds_over_an_app() {
    let mut failures = Vec::new();
    let mut run = 0;
    for row in all().into_iter().filter(|row| row.eras().modern && row.runs_over("service")) {
        for is_known in [false, true] {
            if !is_known && row.is_given("modern") {
                // Before the app was asked, nobody knows that it has no sessions.
                continue;
            }
            run += 1;
            let scripted = Scripted::of(row.eras());
            let site = app(row.config(), scripted.clone());
            if is_known {
                let mut discover = post(None, "$DISCOVER");
                let headers = discover.headers_mut();
                headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static("2026-07-28"));
                headers.insert(MCP_METHOD, HeaderValue::from_static("server/discover"));
                let answer = site.send(Some("dora"), discover).await.within(Duration::from_secs(1)).await;
                assert_eq!(answer.status(), Some(200), "{}", answer.text());
            }
            let checked = run_row(&row, &site, &scripted).await;
            failures.extend(checked.err().map(|why| format!("{}, known {is_known}: {why}", row.name)));
        }
    }
    assert!(failures.is_empty(), "{} of {run} rows:\n{}", failures.len(), failures.join("\n"));
    assert!(run > 150, "{run} rows only");
}

async fn run_row<B: Backend>(row: &Row, site: &Site<B>, scripted: &Scripted) -> Result<(), String> {
    let (names, first, _busy) = set(row, site, scripted).await;
    let before = (scripted.started(), site.manager.sessions());
    let exchange = site.send(row.asks(), row.request(&names)).await;
    let answer = exchange.within(row.wait.unwrap_or(Duration::from_secs(1))).await;
    check(&row.answer, &names, &answer)?;
    if let Some(expected) = &row.first {
        let first = first.expect("a call in flight");
        check(expected, &names, &first.answer()).map_err(|why| format!("first: {why}"))?;
    }
    let (stats, list) = (site.manager.stats(), site.manager.list());
    let in_flight = list.iter().map(|session| u64::from(session.in_flight)).sum();
    if (stats.sessions, stats.exchanges, stats.opened - stats.closed.total())
        != (list.len(), in_flight, list.len() as u64)
    {
        return Err(format!("{stats:?} does not agree with {list:?}"));
    }
    let refused = (400..600).contains(&row.answer.status);
    if refused && stats.refused.of(row.answer.status) == 0 {
        return Err(format!("the refusal is not in {stats:?}"));
    }
    let after = (scripted.started(), site.manager.sessions());
    if row.is_refused() && before != after {
        return Err(format!("apps and sessions {before:?} became {after:?}"));
    }
    Ok(())
}

/// Brings about the situation that a row begins in. Gives the exchange that a row calls `first`, and one that keeps a shutdown
/// from its end.
async fn set<B: Backend>(
    row: &Row,
    site: &Site<B>,
    scripted: &Scripted,
) -> (Names, Option<Exchange>, Option<Exchange>) {
    let given = |situation| row.is_given(situation);
    let mut names = Names::default();
    if given("ended") {
        names.ended = site.open().await;
        site.delete(&names.ended).await;
    }
    if given("live") || given("full") {
        names.live = site.open().await;
    }
    let mut first = None;
    if given("call") || given("stream") {
        let mut call = post(Some(&names.live), "$HANG");
        if given("call") {
            call.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
        }
        first = Some(site.send(Some("alice"), call).await);
    }
    if given("get") {
        first = Some(site.send(Some("alice"), get(&names.live)).await);
    }
    if given("inbox") || given("inbox-twice") {
        scripted.deafen();
        // The first is still read.
        for _ in 0..if given("inbox-twice") { 5 } else { 3 } {
            site.post(&names.live, "$NOTE").await;
        }
    }
    let mut busy = None;
    if given("draining") {
        let other = site.open_as(Some("carol")).await;
        busy = Some(site.send(Some("carol"), post(Some(&other), "$HANG")).await);
    }
    pass(Duration::from_millis(500)).await;
    if given("draining") || given("closed") {
        let manager = site.manager.clone();
        let drain = Duration::from_secs(if given("closed") { 0 } else { 60 });
        tokio::spawn(async move { manager.shutdown(drain, Duration::ZERO).await });
        pass(Duration::from_millis(1)).await;
    }
    (names, first, busy)
}
