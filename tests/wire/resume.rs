//! Clients that lose their connection, and come back for the rest.
//!
//! R097 to R100, R106, R107, R109 to R112, R119, and SEP-1699.

use std::net::TcpListener;
use std::pin::pin;
use std::time::Duration;

use http::{HeaderValue, Request};
use http_body::Body as _;
use serde_json::{Value, json};
use sessile::app::{App, AppError, AppLink, Context, Handler, Reply, SessionInfo};
use sessile::core::Message;
use sessile::http::{Body, ServeConfig, serve};
use sessile::runtime::tokio::Tokio;
use sessile_core::Config;
use sessile_tests::pure::Upload;

use crate::raw::{Read as _, Site, app, drain, handler, pass, settle};
use crate::row::{get, post};
use crate::socket::{Client, bytes_of};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Tells a client of the first event where it is.
const PLACE: &str = "id: 1-1\nretry: 1000\ndata: \n\n";

pub(crate) fn resumable() -> Config {
    let mut config = Config::default();
    config.session.resume = true;
    config
}

/// Says much about a request, or sends its client away.
#[derive(Clone)]
pub(crate) struct Wordy;

impl Handler for Wordy {
    type State = ();

    fn open(&self, _: &SessionInfo) {}

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        match message.method() {
            Some("initialize") => context.result(&json!({"protocolVersion": "2025-11-25"})),
            Some("numbers") => {
                for number in 0..300 {
                    context.notify("notifications/message", &json!({"number": number}));
                    match number % 10 {
                        0 => context.sleep(Duration::from_millis(1)).await,
                        3 | 6 => tokio::task::yield_now().await,
                        _ => {}
                    }
                }
                context.result(&json!(300))
            }
            Some("slow") => {
                let closed = context.close_stream(Some(Duration::from_millis(500)));
                context.sleep(10 * SECOND).await;
                context.result(&json!(closed))
            }
            Some("close-get") => context.result(&json!(context.close_standalone_stream(None))),
            Some("tell") => {
                context.notify_session("notifications/message", &json!({"told": true}));
                context.result(&json!({}))
            }
            _ => Reply::none(),
        }
    }
}

pub(crate) fn call(id: u32, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(crate) fn resume(session: &str, after: &str) -> Request<Upload> {
    let mut request = get(session);
    request.headers_mut().insert("last-event-id", HeaderValue::from_str(after).expect("an id"));
    request
}

/// Events of a text, each with its id.
pub(crate) fn events(text: &str) -> Vec<(String, Value)> {
    let field = |event: &str, name: &str| event.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
    let events = text.split_inclusive("\n\n").filter(|event| event.ends_with("\n\n"));
    let events = events.filter_map(|event| Some((field(event, "id: ")?, field(event, "data: ")?)));
    events.map(|(id, data)| (id, serde_json::from_str(&data).unwrap_or(Value::Null))).collect()
}

/// The client's side of a stream: what it has, and where it is.
#[derive(Default)]
pub(crate) struct Have {
    pub(crate) last: String,
    pub(crate) messages: Vec<Value>,
}

impl Have {
    fn take(&mut self, (id, data): (String, Value)) {
        self.last = id;
        self.messages.extend((!data.is_null()).then_some(data));
    }

    pub(crate) fn is_complete(&self) {
        let numbers: Vec<_> = self.messages.iter().filter_map(|message| message["params"]["number"].as_u64()).collect();
        assert!(numbers.iter().copied().eq(0..300), "{numbers:?}");
        assert_eq!(self.messages.len(), 301);
        assert_eq!(self.messages[300]["result"], 300);
    }
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Fifty places where a connection breaks, after so many messages.
    pub(crate) fn breaks(&mut self) -> Vec<usize> {
        let mut breaks: Vec<usize> = (0..50).map(|_| self.below(300) as usize).collect();
        breaks.sort_unstable();
        breaks
    }
}

/// Reads until the client has so many messages, which may be in the middle of what arrived, or until the end.
pub(crate) async fn read(body: Body, have: &mut Have, enough: usize) -> bool {
    let mut body = pin!(body);
    while have.messages.len() < enough {
        let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await else { return true };
        let Ok(frame) = frame;
        let data = frame.into_data().expect("bodies have no trailers");
        for event in events(std::str::from_utf8(&data).expect("bodies are UTF-8")) {
            have.take(event);
            if have.messages.len() >= enough {
                return false;
            }
        }
    }
    false
}

/// R106, R109, R111.
#[tokio::test(start_paused = true)]
async fn three_hundred_events_dropped_and_resumed_at_fifty_places() {
    let site = handler(resumable(), Wordy);
    for seed in 0..100 {
        let mut random = Random(seed);
        let session = site.open().await;
        let mut have = Have::default();
        let mut response = site.stall(post(Some(&session), &call(1, "numbers"))).await;
        // An event must have been read before there is anything to resume after.
        for breaks in random.breaks().into_iter().map(|at| at.max(1)) {
            assert_eq!(response.status(), 200, "seed {seed}");
            assert!(!read(response.into_body(), &mut have, breaks).await, "seed {seed}");
            tokio::time::sleep(Duration::from_millis(random.below(4))).await;
            response = site.stall(resume(&session, &have.last)).await;
        }
        assert!(read(response.into_body(), &mut have, usize::MAX).await, "seed {seed}");
        have.is_complete();
        let over = site.send(Some("alice"), resume(&session, &have.last)).await.answer();
        assert_eq!((over.status(), over.text(), over.header("content-type")), (Some(204), String::new(), None));
    }
    // Every exchange was given back: all are idle.
    pass(Config::default().table.idle_timeout.expect("a limit") + SECOND).await;
    assert_eq!(site.manager.sessions(), 0);
}

#[tokio::test]
async fn three_hundred_events_dropped_and_resumed_over_a_socket() {
    let site = handler(resumable(), Wordy);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = site.service.clone();
    tokio::spawn(serve(Tokio::current(), listener, service, ServeConfig::default(), std::future::pending()));
    let session = site.open_as(None).await;
    for seed in 0..5 {
        let mut random = Random(seed);
        let mut have = Have::default();
        let mut request = post(Some(&session), &call(1, "numbers"));
        for enough in random.breaks().into_iter().map(|at| at.max(1)).chain([usize::MAX]) {
            let mut client = Client::connect(address).await;
            client.write(bytes_of(&request)).await;
            let before = have.messages.len();
            let missing = enough.saturating_sub(before);
            let count = |text: &str| events(text).iter().filter(|(_, data)| !data.is_null()).count();
            let answer = client.answer_until(|answer| missing == 0 || count(&answer.text()) >= missing).await;
            let answer = answer.expect("an answer");
            assert_eq!(answer.status(), Some(200), "seed {seed}: {answer:?}");
            for event in events(&answer.text()) {
                if have.messages.len() < enough {
                    have.take(event);
                }
            }
            if random.below(2) == 0 {
                client.reset();
            }
            request = resume(&session, &have.last);
        }
        have.is_complete();
    }
}

/// R100, SEP-1699.
#[tokio::test(start_paused = true)]
async fn a_call_sends_its_client_away_and_keeps_its_session() {
    let mut config = resumable();
    config.table.idle_timeout = Some(9 * SECOND);
    let site = handler(config, Wordy);
    let session = site.open().await;
    let away = site.post(&session, &call(1, "slow")).await.answer();
    assert!(away.done && away.status() == Some(200));
    assert_eq!(away.text(), "id: 1-1\nretry: 1000\ndata: \n\nretry: 500\n\n");
    pass(Duration::from_millis(500)).await;
    let back = site.send(Some("alice"), resume(&session, "1-1")).await;
    assert_eq!(back.answer().text(), PLACE);
    let answer = back.within(10 * SECOND).await;
    assert_eq!(answer.messages()[0]["result"], true);
    pass(10 * SECOND).await;
    assert_eq!(site.manager.sessions(), 0, "nothing was left in flight");
    let session = site.open().await;
    let away = site.post(&session, &call(1, "slow")).await;
    pass(8 * SECOND).await;
    assert_eq!(site.manager.sessions(), 1, "the call keeps it");
    drop(away);
    pass(12 * SECOND).await;
    assert_eq!(site.manager.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_standalone_stream_is_left_and_taken_up_again() {
    let site = handler(resumable(), Wordy);
    let session = site.open().await;
    let listening = site.get(&session).await;
    site.post(&session, &call(1, "tell")).await;
    let closed = site.post(&session, &call(2, "close-get")).await.answer();
    assert_eq!(closed.messages()[0]["result"], true);
    let answer = listening.answer();
    assert!(answer.done && answer.text().ends_with("retry: 1000\n\n"), "{answer:?}");
    let last = events(&answer.text()).pop().expect("an event").0;
    assert_eq!(last, "0-2");
    site.post(&session, &call(3, "tell")).await;
    for after in ["0-2", "0-1"] {
        let back = site.send(Some("alice"), resume(&session, after)).await;
        let ids: Vec<_> = events(&back.answer().text()).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids.last().map(String::as_str), Some("0-3"), "after {after}");
    }
}

/// R084, R098, R099.
#[tokio::test(start_paused = true)]
async fn a_resume_takes_over_and_the_old_connection_ends() {
    let site = handler(resumable(), Wordy);
    let session = site.open().await;
    let old = site.post(&session, &call(1, "slow")).await;
    settle().await;
    let one = site.send(Some("alice"), resume(&session, "1-1")).await;
    let two = site.send(Some("alice"), resume(&session, "1-1")).await;
    assert!(old.answer().done && one.answer().done && !two.answer().done);
    drop((old, one));
    pass(10 * SECOND).await;
    assert_eq!(two.answer().messages()[0]["result"], true);
    assert!(two.answer().done);
}

/// R107, R116, R117, R119.
#[tokio::test(start_paused = true)]
async fn an_id_means_something_in_its_session_only() {
    let site = handler(resumable(), Wordy);
    let (one, two) = (site.open().await, site.open().await);
    let away = site.post(&one, &call(1, "slow")).await.answer();
    assert_eq!(events(&away.text())[0].0, "1-1");
    for (session, after, status) in [
        (&two, "1-1", 400),
        (&one, "2-1", 400),
        (&one, "1-2", 400),
        (&one, "junk", 400),
        (&one, "1-1-1", 400),
        (&one, "", 200),
        (&one, "1-1", 200),
    ] {
        let answer = site.send(Some("alice"), resume(session, after)).await.answer();
        assert_eq!(answer.status(), Some(status), "{after:?}");
    }
    let foreign = site.send(Some("bob"), resume(&one, "1-1")).await.answer();
    assert_eq!(foreign.status(), Some(404));
    site.delete(&one).await;
    assert_eq!(site.send(Some("alice"), resume(&one, "1-1")).await.answer().status(), Some(404));
}

/// R093: connections that last are ended by time, and nothing is lost by it.
#[tokio::test(start_paused = true)]
async fn connections_are_ended_by_time_where_that_was_asked_for() {
    let mut config = resumable();
    config.session.poll_after = Some(3 * SECOND);
    let site = handler(config, Wordy);
    let session = site.open().await;
    // The call's own close comes first.
    site.post(&session, &call(1, "slow")).await;
    for _ in 0..3 {
        let back = site.send(Some("alice"), resume(&session, "1-1")).await;
        let answer = back.within(3 * SECOND).await;
        assert!(answer.done);
        assert_eq!(answer.text(), format!("{PLACE}retry: 1000\n\n"));
    }
    let last = drain(site.stall(resume(&session, "1-1")).await).await;
    assert_eq!(events(last.trim_start_matches(PLACE))[0].1["result"], true);
}

/// Answers after a time, and sends its client away if it can.
#[derive(Clone)]
struct Patient;

impl App for Patient {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            let Some(request) = inbound.message.as_request() else { continue };
            let result = if request.initialize.is_some() {
                json!({"protocolVersion": "2025-11-25"})
            } else {
                let sender = link.sender();
                let closed = sender.close_stream(&request.id, None) && sender.close_standalone_stream(None);
                tokio::time::sleep(SECOND).await;
                json!(closed)
            };
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request.id.to_json());
            let answer = Message::parse(answer.into()).expect("a message");
            if link.send(answer).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// SEP-1699.
#[tokio::test(start_paused = true)]
async fn an_app_that_runs_with_its_session_sends_clients_away_too() {
    for on in [true, false] {
        let mut config = resumable();
        config.session.resume = on;
        let site: Site<_> = app(config, Patient);
        let session = site.open().await;
        let get = site.get(&session).await;
        let exchange = site.post(&session, &call(1, "slow")).await;
        assert_eq!((exchange.answer().done, get.answer().done), (on, on));
        let exchange = if on { site.send(Some("alice"), resume(&session, "1-1")).await } else { exchange };
        assert_eq!(exchange.within(2 * SECOND).await.messages()[0]["result"], on);
    }
}
