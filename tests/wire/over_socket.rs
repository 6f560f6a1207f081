//! The tables over a socket, byte for byte, as far as they take no time: what a window or a timeout decides runs on a virtual
//! clock in `over_service`, which sockets don't know. So rows that wait, and situations with something in flight, stay there.

use http::Request;
use sessile_tests::pure::Upload;

use crate::expect::check;
use crate::raw::Read as _;
use crate::row::{Expected, Kind, Names, Row, all, delete, post};
use crate::socket::{Server, bytes_of};

fn runs(row: &Row) -> bool {
    let in_flight = ["app", "busy", "call", "closed", "draining", "get", "inbox", "inbox-twice", "start-3s", "stream"];
    let waits = row.wait.is_some() || row.first.is_some() || row.answer.kind == Kind::Pending;
    row.runs_over("socket") && !waits && !in_flight.iter().any(|situation| row.is_given(situation))
}

/// How a row comes to a socket: to which server, and what its requests look like there.
pub(crate) trait Way {
    fn serve(&self, row: &Row) -> Server;
    fn takes(&self, row: &Row) -> bool;
    /// The request that the row makes, or one of alice's before it.
    fn request(&self, who: Option<&str>, request: Request<Upload>) -> Request<Upload>;
}

/// Whoever asks is anonymous here: nothing stands before the service that would say who they are.
struct Plain;

impl Way for Plain {
    fn serve(&self, row: &Row) -> Server {
        Server::serving(row.config(), row.eras())
    }

    fn takes(&self, row: &Row) -> bool {
        row.principal.is_none()
    }

    fn request(&self, _: Option<&str>, request: Request<Upload>) -> Request<Upload> {
        request
    }
}

#[tokio::test]
async fn rows_that_take_no_time_hold_over_a_socket() {
    hold(&Plain).await;
}

async fn open(way: &impl Way, server: &Server) -> String {
    let ask = async |request| server.ask(bytes_of(&way.request(Some("alice"), request))).await.expect("an answer");
    let id = ask(post(None, "$INIT")).await.session_id().expect("a session");
    assert_eq!(ask(post(Some(&id), "$NOTE")).await.status(), Some(202));
    id
}

/// Runs the rows that take no time.
pub(crate) async fn hold(way: &impl Way) {
    let mut failures = Vec::new();
    let mut run = 0;
    for row in all().into_iter().filter(|row| runs(row) && way.takes(row)) {
        run += 1;
        let server = way.serve(&row);
        let mut names = Names::default();
        if row.is_given("ended") {
            names.ended = open(way, &server).await;
            server.ask(bytes_of(&way.request(Some("alice"), delete(&names.ended)))).await;
        }
        if row.is_given("live") || row.is_given("full") {
            names.live = open(way, &server).await;
        }
        let before = (server.scripted.started(), server.site.manager.sessions());
        let request = way.request(row.asks(), row.request(&names));
        let unfinished = matches!(request.body(), Upload::Never);
        let mut client = server.connect().await;
        client.write(bytes_of(&request)).await;
        let answer = client.answer_until(|answer| is_all(&row.answer, answer)).await;
        let Some(answer) = answer else {
            failures.push(format!("{}: no answer", row.name));
            continue;
        };
        let mut checked = check(&row.answer, &names, &answer);
        let after = (server.scripted.started(), server.site.manager.sessions());
        if checked.is_ok() && row.is_refused() && before != after {
            checked = Err(format!("apps and sessions {before:?} became {after:?}"));
        }
        // What was said about the connection is done.
        if checked.is_ok() && unfinished && !client.is_closed().await {
            checked = Err("the connection is not closed".to_owned());
        }
        failures.extend(checked.err().map(|why| format!("{}: {why}", row.name)));
    }
    assert!(failures.is_empty(), "{} of {run} rows:\n{}", failures.len(), failures.join("\n"));
    assert!(run > 150, "{run} rows only");
}

/// An open stream has no end; what is expected of it has.
fn is_all(expected: &Expected, answer: &sessile_tests::pure::Answer) -> bool {
    let wanted = expected.lines.as_ref().map_or(0, |lines| lines.iter().map(|line| line.len() + 1).sum());
    expected.kind == (Kind::Sse { open: true }) && answer.body.len() >= wanted
}
