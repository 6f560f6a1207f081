//! What may not allocate does not. A binary of its own, since it replaces the allocator.

use std::hint::black_box;

use allocation_counter::measure;
use serde_json::json;
use sessile::Builder;
use sessile::app::Demo;
use sessile::runtime::tokio::Tokio;
use sessile_core::config::TableConfig;
use sessile_core::{ProtocolVersion, RequestAction, RequestHead, SessionId, SessionKey, SessionTable, Timestamp};
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
