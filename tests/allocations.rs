//! What may not allocate does not. A binary of its own, since it replaces the allocator.

use std::hint::black_box;

use allocation_counter::measure;
use sessile_core::config::TableConfig;
use sessile_core::{ProtocolVersion, RequestAction, RequestHead, SessionId, SessionKey, SessionTable, Timestamp};

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
