//! What a session keeps when it has nothing to do.

use super::*;

// R019
#[test]
fn a_session_that_did_one_call_keeps_one_slot() {
    let mut rig = Rig::open();
    for _ in 0..3 {
        let (_, connection) = rig.request(&call("1"), ResponseMode::Auto);
        rig.says(&answer("1"));
        rig.json(connection);
        rig.inbox();
    }
    let session = &rig.session;
    assert_eq!(session.streams.capacity(), 1);
    assert_eq!(session.in_flight.capacity(), 1);
    assert!(session.standalone.is_none());
    assert!(session.effects.capacity() <= LARGE);
    assert!(size_of::<RequestStream>() <= 256, "{}", size_of::<RequestStream>());
    assert!(size_of::<Session<()>>() <= 512, "{}", size_of::<Session<()>>());
}

#[test]
fn a_burst_leaves_nothing_large_behind() {
    let mut rig = Rig::open();
    let get = rig.get();
    let open: Vec<_> = (1..=500).map(|id| rig.streaming(&id.to_string())).collect();
    for id in 1..=500 {
        rig.says(&progress(&id.to_string(), 1));
        rig.says(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        rig.says(&answer(&id.to_string()));
    }
    for (_, connection) in open {
        assert_eq!(rig.read(connection).len(), 2);
    }
    assert_eq!(rig.read(get).len(), 500);
    assert_eq!(rig.inbox().len(), 500);
    rig.drain();
    let session = &rig.session;
    assert!(session.streams.capacity() <= LARGE);
    assert!(session.in_flight.capacity() <= LARGE);
    assert!(session.effects.capacity() <= LARGE);
    assert!(session.inbox.capacity() <= LARGE);
    assert!(session.standalone.as_ref().expect("a stream").log.capacity() <= LARGE);
}
