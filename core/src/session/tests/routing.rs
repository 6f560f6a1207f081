//! Which stream a message of the app goes to.

use super::*;

// R120, R122, R128
#[test]
fn related_messages_ride_their_request_and_never_an_open_get() {
    let mut rig = Rig::open();
    let get = rig.get();
    let (first, one) = rig.streaming("1");
    let (_, two) = rig.streaming("2");
    for (text, relation) in [
        (progress("1", 1), Relation::Derived),
        (log_note("one"), Relation::Request(first)),
        (question("70"), Relation::Request(first)),
    ] {
        rig.effects();
        rig.relates(&text, relation);
        assert_eq!(rig.count(Effect::WakeConnection(one)), 1, "{text}");
        assert_eq!(rig.read(one), [text]);
    }
    rig.effects();
    rig.says(&question("71"));
    assert!(rig.told(Effect::WakeConnection(two)), "the newest");
    assert_eq!(rig.read(two), [question("71")]);
    assert!(rig.read(get).is_empty());
}

#[test]
fn changes_and_pings_are_unrelated() {
    let mut rig = Rig::open();
    let (_, post) = rig.streaming("1");
    let texts = [
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    ];
    for text in texts {
        rig.says(text);
    }
    assert!(rig.read(post).is_empty());
    let get = rig.get();
    assert_eq!(rig.read(get), texts, "they have waited for it");
}

#[test]
fn other_notes_go_to_the_one_request_or_to_an_open_get_or_to_the_newest() {
    let note = log_note("x");
    let mut rig = Rig::open();
    let (_, one) = rig.streaming("1");
    rig.says(&note);
    assert_eq!(rig.read(one), [&*note]);
    let (_, two) = rig.streaming("2");
    rig.says(&note);
    assert_eq!(rig.read(two), [&*note]);
    let get = rig.get();
    rig.says(&note);
    assert_eq!((rig.read(get).len(), rig.read(two).len()), (1, 0));
    rig.says(&answer("2"));
    rig.read(two);
    rig.says(&note);
    assert_eq!((rig.read(get).len(), rig.read(one).len()), (0, 1), "one request again");
    rig.says(&answer("1"));
    rig.read(one);
    rig.says(&note);
    assert_eq!(rig.read(get).len(), 1, "none");
}

// R125
#[test]
fn a_note_without_a_wire_in_json_goes_to_an_open_get_or_is_counted() {
    let mut rig = Rig::open();
    let (request, _) = rig.request(&call("1"), ResponseMode::Json);
    rig.says(&progress("1", 1));
    rig.relates(&log_note("x"), Relation::Request(request));
    rig.says(&log_note("y"));
    assert_eq!(rig.session.counters().notes_dropped, 3);
    let get = rig.get();
    assert!(rig.read(get).is_empty());
    rig.says(&progress("1", 2));
    rig.says(&log_note("z"));
    assert_eq!(rig.read(get), [progress("1", 2), log_note("z")]);
}

#[test]
fn a_guess_falls_on_a_connection_that_can_carry_it() {
    let mut rig = Rig::open();
    let (_, one) = rig.streaming("1");
    let (_, gone) = rig.streaming("2");
    rig.request(&call("3"), ResponseMode::Json);
    assert_eq!(rig.leave(gone), Disconnect::Detached);
    rig.says(&question("70"));
    rig.says(&log_note("x"));
    assert_eq!(rig.read(one), [question("70"), log_note("x")]);
}

#[test]
fn a_guess_without_a_request_to_carry_it_goes_to_an_open_get() {
    let mut rig = Rig::open();
    let (_, gone) = rig.streaming("1");
    assert_eq!(rig.leave(gone), Disconnect::Detached);
    let get = rig.get();
    rig.says(&log_note("x"));
    rig.says(&question("70"));
    assert_eq!(rig.read(get), [log_note("x"), question("70")]);
}

// R019, R020
#[test]
fn too_many_notes_cost_the_oldest_but_never_the_response() {
    let mut rig = Rig::open();
    rig.config.log_count = 2;
    let (_, connection) = rig.streaming("1");
    for step in 0..5 {
        rig.says(&progress("1", step));
    }
    rig.says(&answer("1"));
    assert_eq!(rig.read(connection), [progress("1", 3), progress("1", 4), answer("1")]);
    assert_eq!(rig.session.counters().notes_dropped, 3);
}

#[test]
fn a_large_response_costs_no_note_and_one_large_note_passes() {
    let mut rig = Rig::open();
    rig.config.log_bytes = 200;
    let (_, connection) = rig.streaming("1");
    rig.says(&progress("1", 1));
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(500));
    rig.says(&large);
    assert_eq!(rig.read(connection), [progress("1", 1), large]);
    let (_, connection) = rig.streaming("2");
    let note = log_note(&"x".repeat(500));
    rig.says(&note);
    assert_eq!(rig.read(connection), [note]);
    assert_eq!(rig.session.counters().notes_dropped, 0);
}

// R076, R077, R079
#[test]
fn a_client_that_leaves_cancels_nothing_and_disturbs_no_other() {
    let mut rig = Rig::open();
    let (request, gone) = rig.streaming("1");
    let (_, other) = rig.streaming("2");
    rig.says(&progress("1", 1));
    rig.inbox();
    assert_eq!(rig.leave(gone), Disconnect::Detached);
    assert_eq!(rig.leave(gone), Disconnect::Done, "once");
    assert_eq!(rig.poll(gone), (String::new(), ReaderOutput::Finished));
    assert!(rig.inbox().is_empty() && rig.session.is_in_flight(request));
    rig.says(&progress("1", 2));
    rig.effects();
    rig.says(&answer("1"));
    assert_eq!(rig.effects(), [Effect::Release]);
    rig.says(&answer("2"));
    assert_eq!(rig.read(other), [answer("2")]);
}
