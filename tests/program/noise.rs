//! What children write that is no message, how they write what is one, and how large it may be.

use serde_json::{Value, json};

use crate::harness::{Program, SOON, soon, until, within};
use crate::session::{ANY, JSON, SSE, Session, text};

/// A conversation of some length.
fn converse(program: &Program) {
    let session = Session::open(program);
    let mut stream = session.listen();
    let odd = "é\u{85}\u{2028}\u{2029}\u{b}\u{c}\u{0}\u{1f}\"\\/\u{feff}𝄞\u{10ffff}\r\n\t";
    for accept in [JSON, SSE, ANY] {
        let response = soon("an answer", || session.start("echo", &json!({ "text": odd }), accept).response());
        assert_eq!(response["result"]["content"][0]["text"], odd);
    }
    let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
    assert_eq!(session.post(&ping, ANY).response(), json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
    let messages = session.start("slow", &json!({ "steps": 2, "ms": 1 }), SSE).messages();
    let progress: Vec<_> = messages.iter().map(|message| &message["params"]["progress"]).collect();
    assert_eq!(progress, [&json!(1), &json!(2), &Value::Null]);
    session.call("push", &json!({ "count": 0, "list_changed": true }));
    assert_eq!(stream.message().expect("a note")["method"], "notifications/tools/list_changed");
    let unknown = json!({ "jsonrpc": "2.0", "id": -1, "method": "no/such" });
    assert_eq!(session.post(&unknown, ANY).response()["error"]["code"], -32601);
}

#[test]
fn what_is_no_message_is_skipped() {
    // R209, R210, R211, R217, R218, R219, R220.
    for options in [
        &["--noise"][..],
        &["--bom"],
        &["--crlf"],
        &["--split"],
        &["--batch"],
        &["--noise", "--bom", "--crlf", "--split", "--batch"],
    ] {
        let program = Program::hostile(&[], options);
        converse(&program);
        if options.contains(&"--noise") {
            program.wait_for_log("skipped a line of standard output");
            assert!(!program.log().contains("Listening"), "what a child says is not logged");
        }
    }
}

#[test]
fn lines_that_look_like_messages_do_no_harm() {
    // R210.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    for line in [
        "",
        "{}",
        "[]",
        "null",
        "1",
        r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":999,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","method":7}"#,
        r#"[{"jsonrpc":"2.0"},1,[]]"#,
        "\u{1b}[32mlistening\u{1b}[0m",
        &"[".repeat(100_000),
    ] {
        assert_eq!(session.call("raw", &json!({ "line": line })), "", "{line:.80}");
        session.echo("after it");
    }
}

#[test]
fn text_passes_as_it_was_written() {
    // R223: no escape and no number is written anew.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let line = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":["\ud800\u00E9\/",1.0e400,-0,12345678901234567890]}}"#;
    let body = session.start("raw", &json!({ "line": line }), SSE).body();
    let body = String::from_utf8(body).expect("UTF-8");
    assert!(body.contains(&format!("data: {line}\n\n")), "{body}");
}

#[test]
fn line_separators_are_escaped_on_every_way_to_the_client() {
    // R221, R222.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let odd = "a\u{85}b\u{2028}c\u{2029}d";
    let mut stream = session.listen();
    let line = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "odd": odd } });
    session.call("raw", &json!({ "line": line.to_string() }));
    let has_message = |piece: &Vec<u8>| piece.windows(8).any(|window| window == b"data: {\"");
    let piece = std::iter::from_fn(|| stream.piece()).find(has_message).expect("an event");
    let answer = session.start("echo", &json!({ "text": odd }), SSE).body();
    for bytes in [piece, answer] {
        let text = String::from_utf8(bytes).expect("UTF-8");
        assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{text}");
        let lines: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty()).collect();
        let [data] = lines[..] else { panic!("{text}") };
        let message: Value = serde_json::from_str(data).expect("JSON");
        let got = if message["params"].is_object() {
            &message["params"]["odd"]
        } else {
            &message["result"]["content"][0]["text"]
        };
        assert_eq!(got, odd);
    }
}

#[test]
fn a_flood_on_standard_error_delays_nothing() {
    // R212, R213.
    for flood in ["--stderr=1048576", "--stderr-blob=1048576"] {
        for level in ["info", "trace"] {
            let program = Program::hostile(&["--log-level", level], &[flood]);
            let session = Session::open(&program);
            for _ in 0..10 {
                soon("an answer", || session.echo("after a flood"));
            }
            assert!(program.memory() < 64, "{} MiB", program.memory());
            assert!(program.log().len() < 4 << 20, "the log has bounds too");
        }
    }
}

#[test]
fn large_replies_come_whole() {
    // R006, R215.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    for (mib, accept) in [(1, ANY), (8, JSON), (32, SSE)] {
        let response = session.start("big", &json!({ "bytes": mib << 20 }), accept).response();
        assert!(text(&response) == "x".repeat(mib << 20), "{:.100}", response.to_string());
        session.echo("after it");
    }
    until("the memory is given back", || (program.memory() < 64).then_some(()));
}

#[test]
fn a_reply_beyond_the_limit_ends_its_own_session() {
    // R215.
    let program = Program::hostile(&["--stop-grace", "100ms"], &[]);
    let other = Session::open(&program);
    let session = Session::open(&program);
    let mut answer = session.start("big", &json!({ "bytes": 65 << 20 }), ANY);
    let error = answer.response();
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32603)), "{error:.200}");
    within(SOON, "another session", || other.echo("not concerned"));
    session.assert_gone();
    until("one child is left", || (program.tree().len() == 1).then_some(()));
    program.wait_for_log("a line of more than 67108864 bytes");
}
