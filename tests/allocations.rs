//! What may not allocate does not. A binary of its own, since it replaces the allocator.

use std::hint::black_box;

use allocation_counter::{AllocationInfo, measure};
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use serde_json::json;
use sessile::Builder;
use sessile::app::Demo;
use sessile::runtime::tokio::Tokio;
use sessile_core::config::{ResponseMode, TableConfig};
use sessile_core::session::{Delivery, Effect, Head, MessageAction, ReaderOutput, Session};
use sessile_core::{
    BodyAction, Config, Eras, Gate, HeadAction, ProtocolVersion, RequestAction, RequestHead, SessionId, SessionKey,
    SessionTable, Timestamp,
};
use sessile_tests::client::Client;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A hundred live sessions that are idle.
fn populated() -> (SessionTable<u32>, Vec<(SessionKey, SessionId)>) {
    let mut table = SessionTable::new(TableConfig::default()).expect("the defaults are good");
    let mut last = 0_u128;
    let sessions = (0..100)
        .map(|principal| {
            let head = RequestHead { session: None, principal: &principal, may_create: true };
            let action = table.handle_request(Timestamp::ZERO, head, &mut || {
                last += 1;
                SessionId::from_bytes(last.to_le_bytes())
            });
            let RequestAction::Create { key, id, .. } = action else { panic!("{action:?}") };
            table.handle_initialized(Timestamp::ZERO, key, ProtocolVersion::V2025_11_25);
            table.handle_response_finished(Timestamp::ZERO, key);
            (key, id)
        })
        .collect();
    (table, sessions)
}

#[test]
fn the_counter_counts() {
    assert_eq!(measure(|| drop(black_box(Box::new(1)))).count_total, 1);
}

#[test]
fn a_route_and_its_finish_allocate_nothing() {
    let (mut table, sessions) = populated();
    let mut now = 0;
    let allocated = measure(|| {
        for _ in 0..10 {
            for (principal, (key, id)) in (0..).zip(&sessions) {
                now += 1;
                let head = RequestHead { session: Some(*id), principal: &principal, may_create: false };
                let action = table.handle_request(Timestamp::from_millis(now), head, &mut || unreachable!());
                assert!(matches!(action, RequestAction::Route { .. }));
                table.handle_response_finished(Timestamp::from_millis(now), *key);
                let _ = black_box(table.poll_reap(Timestamp::from_millis(now)));
                let _ = black_box(table.poll_alarm(Timestamp::from_millis(now)));
                black_box(table.next_deadline());
            }
        }
    });
    assert_eq!(allocated.count_total, 0, "{allocated:?}");
}

#[test]
fn refusing_and_reaping_allocate_nothing() {
    let (mut table, sessions) = populated();
    let allocated = measure(|| {
        for session in [None, Some(SessionId::from_bytes([0xff; 16])), Some(sessions[1].1)] {
            let head = RequestHead { session, principal: &0, may_create: false };
            let action = table.handle_request(Timestamp::ZERO, head, &mut || unreachable!());
            assert!(matches!(action, RequestAction::Reject(_)));
        }
        while table.poll_reap(Timestamp::MAX).is_some() {}
    });
    assert!(table.is_empty());
    assert_eq!(allocated.count_total, 0, "{allocated:?}");
}

/// Wants spans, or nothing.
struct Wants(bool);

impl Subscriber for Wants {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        self.0
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Spans cost only those who want them.
#[test]
fn a_call_allocates_nothing_for_a_span_that_nobody_wants() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let client = runtime.block_on(async {
        let manager = Builder::new(Tokio::current()).handler(Demo::new()).build().expect("the defaults are good");
        manager.start().expect("started once");
        Client::open(manager.service().expect("running")).await
    });
    let call = || {
        runtime.block_on(async {
            let params = json!({ "name": "echo", "arguments": { "text": "x" } });
            assert!(client.request("tools/call", params).await["result"].is_object());
        });
    };
    // What is made once is made now.
    (0..8).for_each(|_| call());
    let allocated = |times: u64| measure(|| (0..times).for_each(|_| call())).count_total;
    let without = allocated(64);
    let unwanted = tracing::subscriber::with_default(Wants(false), || allocated(64));
    let wanted = tracing::subscriber::with_default(Wants(true), || allocated(64));
    assert_eq!(unwanted, without);
    assert!(wanted > without, "the measure sees them: {wanted} and {without} allocations of 64 calls");
}

/// Gate, table and a session that is open, as a driver holds them.
struct Site {
    config: Config,
    gate: Gate,
    id: SessionId,
    session: Session<()>,
    table: SessionTable<&'static str>,
}

const NOW: Timestamp = Timestamp::from_secs(1);
const RESULT: &[u8] = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}}"#;

impl Site {
    fn open() -> Self {
        let config = Config::default();
        let gate = Gate::new(&config.gate).expect("the defaults are good");
        let table = SessionTable::new(config.table.clone()).expect("the defaults are good");
        let id = SessionId::from_bytes([7; 16]);
        let mut site = Self { config, gate, id, session: Session::new(Delivery::Call), table };
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
            "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}"#;
        let result = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
        site.exchange(&head(None), initialize, Bytes::from_static(result), None);
        site
    }

    /// One exchange: what the front page of the core says, in its order. With `frames`, the answer is a stream.
    fn exchange(&mut self, head: &Parts, body: &'static str, answer: Bytes, frames: Option<&mut BytesMut>) {
        let HeadAction::Post(post) = self.gate.head(Eras::LEGACY, head) else { panic!("a good head") };
        let (gate, id) = (&self.gate, self.id);
        let mut route = |session, may_create| {
            let head = RequestHead { session, principal: &"alice", may_create };
            match self.table.handle_request(NOW, head, &mut || id) {
                RequestAction::Create { key, .. } => (key, None),
                RequestAction::Route { key, version } => (key, version),
                RequestAction::Reject(rejection) => panic!("{rejection:?}"),
            }
        };
        let live = post.look_up().map(|id| route(Some(id), false));
        let action = gate.body(Eras::LEGACY, &head.headers, &post, live.map(|(_, version)| version), body.into());
        let (key, message) = match (action, live) {
            (BodyAction::Create(message), None) => (route(None, true).0, message),
            (BodyAction::Deliver(message), Some((key, _))) => (key, message),
            (action, _) => panic!("{action:?}"),
        };
        let (session, config) = (&mut self.session, &self.config.session);
        let action = session.handle_message(NOW, config, message, (), post.mode);
        let MessageAction::Open { call: Some(call), connection, request } = action else { panic!("{action:?}") };
        black_box(call);
        session.handle_response(NOW, config, request, answer);
        match (session.poll_head(NOW, config, connection), frames) {
            (Head::Json(answer), None) => drop(black_box(answer)),
            (Head::Stream, Some(out)) => {
                assert_eq!(session.poll_frames(NOW, config, connection, out, usize::MAX), ReaderOutput::Finished);
            }
            (head, _) => panic!("{head:?}"),
        }
        while let Some(effect) = session.poll_effect() {
            match effect {
                Effect::Alarm(at) => self.table.set_alarm(key, at),
                Effect::Established => self.table.handle_initialized(NOW, key, ProtocolVersion::V2025_11_25),
                Effect::WakeConnection(_) => {}
                effect @ (Effect::AskStore
                | Effect::End(_)
                | Effect::Release
                | Effect::WakeAnswer(_)
                | Effect::WakeApp
                | Effect::WakeCall(_)) => panic!("{effect:?}"),
            }
        }
        self.table.handle_response_finished(NOW, key);
    }
}

fn head(session: Option<SessionId>) -> Parts {
    let mut request = http::Request::post("/mcp")
        .header("host", "localhost:8080")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25");
    if let Some(id) = session {
        request = request.header("mcp-session-id", id.to_header());
    }
    request.body(()).expect("a good request").into_parts().0
}

/// What calls cost in a session that has had some, as each call of a long session.
fn calls(mode: ResponseMode, id: &str) -> AllocationInfo {
    let mut site = Site::open();
    site.gate = Gate::new(&sessile_core::config::GateConfig { response_mode: mode, ..site.config.gate.clone() })
        .expect("good settings");
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello"}}}}}}"#
    );
    let body: &'static str = Box::leak(body.into_boxed_str());
    let head = head(Some(site.id));
    let mut out = BytesMut::with_capacity(4_096);
    let mut call = || {
        out.clear();
        let frames = (mode == ResponseMode::Sse).then_some(&mut out);
        site.exchange(&head, body, Bytes::from_static(RESULT), frames);
    };
    for _ in 0..10 {
        call();
    }
    let once = measure(&mut call);
    let ten = measure(|| (0..10).for_each(|_| call()));
    assert_eq!(ten.count_total, 10 * once.count_total, "each call costs the same");
    assert_eq!((once.count_current, ten.count_current), (0, 0), "nothing stays behind");
    once
}

#[test]
fn a_call_allocates_its_place_in_the_log_and_an_id_that_is_text() {
    // The log of its stream, which is its own.
    assert_eq!(calls(ResponseMode::Auto, "7").count_total, 1);
    assert_eq!(calls(ResponseMode::Sse, "7").count_total, 1);
    // The id as it was read, in the message, in the stream and among those in flight.
    assert_eq!(calls(ResponseMode::Auto, r#""an id that is text""#).count_total, 4);
}
