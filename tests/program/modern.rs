//! Requests of the modern era to a stdio server: one child for each principal, and nothing of one client for another.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use rustix::process::Signal;

use crate::harness::{Program, Setup, is_alive, kill, scratch, soon, until};
use crate::http::{Answer, Connection, Request, ask};
use crate::session::{Session, text};

/// A client without a session; all of them give the same names.
#[derive(Clone, Copy)]
struct Client<'a> {
    program: &'a Program,
    token: Option<&'a str>,
}

fn anonymous(program: &Program) -> Client<'_> {
    Client { program, token: None }
}

impl Client<'_> {
    fn request(&self, id: &Value, method: &str, mut params: Value) -> Request {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut request =
            Request::post(message.to_string()).with("MCP-Protocol-Version", "2026-07-28").with("Mcp-Method", method);
        if let Some(name) = params["name"].as_str() {
            request = request.with("Mcp-Name", name);
        }
        match self.token {
            Some(token) => request.with("Authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    fn ask(&self, id: &Value, method: &str, params: Value) -> Answer {
        ask(self.program.address, &self.request(id, method, params))
    }

    fn tool(&self, id: &Value, name: &str, arguments: &Value) -> Answer {
        let params = json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "token" } });
        self.ask(id, "tools/call", params)
    }

    fn pid(&self) -> u32 {
        let answer = text(&self.tool(&json!(1), "process", &json!({})).response());
        let process: Value = serde_json::from_str(&answer).expect("JSON");
        u32::try_from(process["pid"].as_u64().expect("a number")).expect("a process id")
    }
}

/// One whose requests are served, with a principal for each token.
fn with_tokens(name: &str, options: &[&str]) -> (Program, String) {
    let path = scratch(name);
    fs::write(&path, "alice token-a\nbob token-b\n").expect("written");
    let options = [&["--bearer-tokens", &path], options].concat();
    (Program::hostile(&options, &["--modern"]), path)
}

#[test]
fn a_modern_request_needs_a_modern_child() {
    // R258, R260.
    let modern = Program::hostile(&[], &["--modern"]);
    let client = anonymous(&modern);
    let mut answer = client.ask(&json!("d"), "server/discover", json!({}));
    assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
    let response = answer.response();
    assert_eq!((&response["id"], &response["result"]["supportedVersions"]), (&json!("d"), &json!(["2026-07-28"])));
    assert_eq!(response["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "hostile-child");
    assert_eq!(client.ask(&json!(1), "no/such", json!({})).status, 404);
    // Both eras on one endpoint.
    Session::open(&modern).echo("with a session");

    let legacy = Program::hostile(&[], &[]);
    let mut answer = anonymous(&legacy).ask(&json!("d"), "server/discover", json!({}));
    assert_eq!(answer.status, 400);
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], -32600, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("Unsupported protocol version")), "{error}");
    Session::open(&legacy).echo("with a session");
    legacy.wait_for_log("eras");
}

#[test]
fn a_command_that_cannot_run_is_in_the_log_before_anybody_asks() {
    let program = Setup::new(&[]).command(&["/nonexistent/server"]).start();
    program.wait_for_log("/nonexistent/server");
}

#[test]
fn each_principal_has_one_child_until_it_is_idle() {
    // R262.
    let (mut program, path) = with_tokens("idle-tokens", &["--idle-timeout", "1s"]);
    let alice = Client { program: &program, token: Some("token-a") };
    let bob = Client { program: &program, token: Some("token-b") };
    assert_eq!(Client { program: &program, token: None }.tool(&json!(1), "echo", &json!({})).status, 401);
    let first = alice.pid();
    let set = alice.tool(&json!(1), "set", &json!({ "name": "a", "value": "of alice" })).status;
    assert_eq!(set, 200);
    assert_eq!(alice.pid(), first);
    assert_ne!(bob.pid(), first);
    assert_eq!(text(&bob.tool(&json!(1), "get", &json!({ "name": "a" })).response()), "null");
    until("the idle child is gone", || (!is_alive(first)).then_some(()));
    assert_ne!(alice.pid(), first);
    program.signal(Signal::TERM);
    assert!(soon("the end", || program.wait()).success());
    assert!(program.tree().is_empty());
    fs::remove_file(path).expect("it is there");
}

#[test]
fn equal_names_of_many_clients_do_not_meet() {
    // R074.
    let (program, path) = with_tokens("equal-tokens", &[]);
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..8 {
            let client = Client { program: &program, token: Some(["token-a", "token-b"][number % 2]) };
            let done = &done;
            scope.spawn(move || {
                for round in 0..15 {
                    let id = [json!(1), json!("1")][round % 2].clone();
                    let mine = format!("{number}-{round}");
                    let mut slow = client.tool(&id, "slow", &json!({ "steps": 3, "ms": number }));
                    assert_eq!(text(&client.tool(&id, "echo", &json!({ "text": mine })).response()), mine);
                    let messages = slow.messages();
                    let (answer, progress) = messages.split_last().expect("an answer");
                    assert_eq!((&answer["id"], text(answer)), (&id, "done".to_owned()));
                    let steps: Vec<_> = progress.iter().map(|note| note["params"]["progress"].as_u64()).collect();
                    assert_eq!(steps, [Some(1), Some(2), Some(3)]);
                    assert!(progress.iter().all(|note| note["params"]["progressToken"] == "token"), "{progress:?}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 120);
    fs::remove_file(path).expect("it is there");
}

#[test]
fn a_subscription_is_heard_under_its_client_s_name_until_either_side_ends_it() {
    let program = Program::hostile(&[], &["--modern"]);
    let client = anonymous(&program);
    let name = |message: &Value, place: &str| message[place]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    for gracefully in [true, false] {
        let mut streams: Vec<_> = ["a", "b"]
            .map(|id| {
                let mut stream = client.ask(&json!(id), "subscriptions/listen", json!({ "notifications": {} }));
                let first = stream.message().expect("a note");
                assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
                assert_eq!(name(&first, "params"), id);
                (id, stream)
            })
            .into();
        client.tool(&json!("a"), "change", &json!({})).response();
        for (id, stream) in &mut streams {
            let note = stream.message().expect("a note");
            assert_eq!(
                (&note["method"], name(&note, "params")),
                (&json!("notifications/tools/list_changed"), json!(id))
            );
        }
        // A client that goes ends its own alone.
        let (_, gone) = streams.remove(0);
        gone.reset();
        client.tool(&json!(1), "hang_up", &json!({ "gracefully": gracefully })).response();
        let (id, mut stream) = streams.remove(0);
        let closed = stream.message().expect("a result");
        assert_eq!((&closed["id"], name(&closed, "result")), (&json!(id), json!(id)));
        assert_eq!(stream.message(), None);
    }
}

#[test]
fn a_client_that_goes_ends_its_call() {
    let program = Program::hostile(&["--idle-timeout", "500ms"], &["--modern"]);
    let client = anonymous(&program);
    let pid = client.pid();
    let mut connection = Connection::open(program.address);
    let params =
        json!({ "name": "slow", "arguments": { "steps": 1_000_000, "ms": 20 }, "_meta": { "progressToken": 1 } });
    connection.send(&client.request(&json!(1), "tools/call", params));
    let mut answer = connection.answer();
    assert_eq!(answer.message().expect("a note")["params"]["progress"], 1);
    assert!(is_alive(pid));
    answer.reset();
    // A call would keep it alive.
    until("the idle child is gone", || (!is_alive(pid)).then_some(()));
}

#[test]
fn a_child_that_dies_takes_its_calls_with_it_and_the_next_one_works() {
    let program = Program::hostile(&[], &["--modern"]);
    let client = anonymous(&program);
    let pid = client.pid();
    let mut calls: Vec<_> =
        (0..3).map(|id| (id, client.tool(&json!(id), "slow", &json!({ "steps": 1_000_000, "ms": 10 })))).collect();
    for (_, call) in &mut calls {
        assert_eq!(call.message().expect("a note")["method"], "notifications/progress");
    }
    kill(pid);
    for (id, mut call) in calls {
        let error = soon("the error", || call.response());
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32603), &json!(id)), "{error}");
    }
    assert_ne!(client.pid(), pid);
    program.wait_for_log("signal 9");
}
