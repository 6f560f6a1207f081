//! The tables over the pure core.

use std::time::Duration;

use sessile_core::session::Delivery;
use sessile_tests::pure::{ExchangeKey, World};

use crate::expect::check;
use crate::row::{Names, Row, all, delete, get, post};

struct Stage {
    world: World,
    names: Names,
    first: Option<ExchangeKey>,
}

impl Stage {
    /// Brings about the situation that a row begins in.
    fn set(row: &Row) -> Self {
        let given = |situation| row.is_given(situation);
        let inbox = given("inbox") || given("inbox-twice");
        let delivery = if inbox || given("app") { Delivery::Inbox } else { Delivery::Call };
        let mut world = World::new(row.config(), delivery).expect("good settings");
        world.serve(row.eras());
        let mut stage = Self { world, names: Names::default(), first: None };
        if given("ended") {
            stage.names.ended = stage.open();
            stage.ask(delete(&stage.names.ended.clone()));
        }
        if given("live") || given("full") {
            stage.names.live = stage.open();
        }
        let live = stage.names.live.clone();
        if given("call") || given("stream") {
            let mut call = post(Some(&live), "$HANG");
            if given("call") {
                call.headers_mut().insert("accept", http::HeaderValue::from_static("application/json"));
            }
            stage.first = Some(stage.ask(call));
        }
        if given("get") {
            stage.first = Some(stage.ask(get(&live)));
        }
        if inbox {
            stage.world.deafen();
            for _ in 0..if given("inbox-twice") { 4 } else { 2 } {
                stage.ask(post(Some(&live), "$NOTE"));
            }
        }
        stage.world.advance(Duration::from_millis(500));
        if given("draining") || given("closed") {
            stage.world.begin_shutdown();
        }
        if given("closed") {
            stage.world.finish_shutdown();
        }
        stage
    }

    fn ask(&mut self, request: http::Request<sessile_tests::pure::Upload>) -> ExchangeKey {
        self.world.request(Some("alice"), request)
    }

    fn open(&mut self) -> String {
        let opened = self.ask(post(None, "$INIT"));
        let (_, headers) = self.world.answer(opened).head.as_ref().expect("initialize is answered");
        let id = headers["mcp-session-id"].to_str().expect("an id").to_owned();
        self.ask(post(Some(&id), "$NOTE"));
        id
    }
}

#[test]
fn every_row_holds_over_the_core() {
    let mut failures = Vec::new();
    let mut run = 0;
    for row in all().into_iter().filter(|row| row.runs_over("core")) {
        run += 1;
        let mut stage = Stage::set(&row);
        let before = (stage.world.started(), stage.world.len());
        let exchange = stage.world.request(row.asks(), row.request(&stage.names));
        stage.world.advance(row.wait.unwrap_or(Duration::from_secs(1)));
        let mut checked = check(&row.answer, &stage.names, stage.world.answer(exchange));
        if let (Ok(()), Some(expected)) = (&checked, &row.first) {
            let first = stage.first.expect("a call in flight");
            checked = check(expected, &stage.names, stage.world.answer(first)).map_err(|why| format!("first: {why}"));
        }
        // A refusal starts nothing and ends nothing.
        let after = (stage.world.started(), stage.world.len());
        if checked.is_ok() && row.is_refused() && before != after {
            checked = Err(format!("apps and sessions {before:?} became {after:?}"));
        }
        failures.extend(checked.err().map(|why| format!("{}: {why}", row.name)));
    }
    assert!(failures.is_empty(), "{} of {run} rows:\n{}", failures.len(), failures.join("\n"));
    assert!(run > 200, "{run} rows only");
}
