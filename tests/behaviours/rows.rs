//! The rows of the wire, as far as they can be had over a connection: one behaviour for each table.

use std::time::Duration;

use sessile_tests::principals::WHO;

use crate::expect::check;
use crate::row::{Expected, Kind as Answered, Names, Row, all, delete, get, post};
use crate::talk::{Call, Site, request, with};
use crate::world::{Kind, Setup, World};

macro_rules! tables {
    ($($name:ident $table:literal)*) => {
        $(
            pub(crate) async fn $name(world: World) {
                every_row_holds(&world, $table).await;
            }
        )*

        /// No table is forgotten.
        #[test]
        fn every_table_is_a_behaviour() {
            let named = [$($table),*];
            for row in all() {
                assert!(named.iter().any(|table| is_of(&row, table)), "{}", row.name);
            }
        }
    };
}

tables! {
    methods "methods"
    host_origin "host-origin"
    cors "cors"
    media "media"
    version "version"
    modern "modern"
    eras "eras"
    session "session"
    body "body"
    initialize "initialize"
    answers "answers"
    limits "limits"
    endings "endings"
}

fn is_of(row: &Row, table: &str) -> bool {
    row.name.strip_prefix(table).is_some_and(|rest| rest.starts_with(':'))
}

/// What takes time is for the stacks where it is virtual; so are situations with something in flight, which time brings about.
fn takes_time(row: &Row) -> bool {
    let in_flight = ["busy", "call", "closed", "draining", "get", "inbox", "inbox-twice", "start-3s", "stream"];
    let waits = row.wait.is_some() || row.first.is_some() || row.answer.kind == Answered::Pending;
    waits || in_flight.iter().any(|situation| row.is_given(situation))
}

#[expect(clippy::print_stdout, reason = "whoever reads of a test sees what it left out")]
async fn every_row_holds(world: &World, table: &str) {
    let (mut failures, mut run, mut left) = (Vec::new(), 0, 0);
    for mut row in all().into_iter().filter(|row| is_of(row, table) && row.runs_over("socket")) {
        // An app that does not read is the affair of the suite over the service.
        let deaf = row.is_given("inbox") || row.is_given("inbox-twice");
        let carried = world.0.carries(&row.request(&Names::default()));
        if deaf || !carried || takes_time(&row) && !world.has_time() {
            left += 1;
            continue;
        }
        if !world.0.has_connection_headers() {
            row.answer.headers.retain(|(name, _)| name != "connection");
        }
        run += 1;
        failures.extend(holds(world, &row).await.err().map(|why| format!("{}: {why}", row.name)));
    }
    println!(
        "{run} rows of {table}; {left} take time where it is real, can't be said in this version of HTTP, or are about an app that \
         does not read"
    );
    assert!(failures.is_empty(), "{} of {run} rows:\n{}", failures.len(), failures.join("\n"));
    assert!(run > 0 || !world.has_time() && left > 0, "no rows");
}

async fn holds(world: &World, row: &Row) -> Result<(), String> {
    let kind = if row.is_given("app") { Kind::App } else { Kind::Handler };
    let site = world.site(Setup { config: row.config(), eras: row.eras(), kind, ..Setup::default() });
    let (names, mut first) = set(&site, row).await;
    let mut asked = row.request(&names);
    if let Some(who) = row.asks() {
        asked = with(asked, WHO.as_str(), who);
    }
    let before = (site.seen.facts().started, site.sessions());
    let mut call = site.send_as_it_is(asked).await;
    read(world, &mut call, row.wait.unwrap_or(Duration::from_secs(1)), &row.answer).await;
    check(&row.answer, &names, call.answer())?;
    if let (Some(expected), Some(first)) = (&row.first, &mut first) {
        read(world, first, Duration::ZERO, expected).await;
        check(expected, &names, first.answer()).map_err(|why| format!("first: {why}"))?;
    }
    let after = (site.seen.facts().started, site.sessions());
    if row.is_refused() && before != after {
        return Err(format!("apps and sessions {before:?} became {after:?}"));
    }
    Ok(())
}

/// Reads what comes within a time, or, where time is real, what is expected.
async fn read(world: &World, call: &mut Call, time: Duration, expected: &Expected) {
    if world.has_time() {
        world.within(time, call.rest()).await;
    } else if expected.kind == (Answered::Sse { open: true }) {
        let lines = expected.lines.as_ref().map_or(0, |lines| lines.iter().map(|line| line.len() + 1).sum());
        call.until_length(lines).await;
    } else {
        call.rest().await;
    }
}

/// Brings about the situation that a row begins in. Gives the exchange that a row calls `first`.
async fn set(site: &Site, row: &Row) -> (Names, Option<Call>) {
    let given = |situation| row.is_given(situation);
    let mut names = Names::default();
    if given("ended") {
        names.ended = site.open().await;
        site.ask(delete(&names.ended)).await;
    }
    if given("live") || given("full") {
        names.live = site.open().await;
    }
    let mut first = None;
    if given("call") || given("stream") {
        let mut call = post(Some(&names.live), "$HANG");
        if given("call") {
            call = with(call, "accept", "application/json");
        }
        first = Some(site.send(call).await);
    }
    if given("get") {
        first = Some(site.send(get(&names.live)).await);
    }
    if let Some(first) = &mut first {
        site.world.within(Duration::from_millis(500), first.rest()).await;
    }
    if given("draining") {
        let other = site.open_as("carol", "$INIT").await;
        let mut busy = site.send(with(post(Some(&other), &request(1, "hang")), WHO.as_str(), "carol")).await;
        site.world.within(Duration::from_millis(1), busy.rest()).await;
    }
    if given("draining") || given("closed") {
        let drain = Duration::from_secs(if given("closed") { 0 } else { 60 });
        site.world.0.spawn((site.shutdown)(drain));
        site.world.pass(Duration::from_millis(1)).await;
    }
    (names, first)
}
