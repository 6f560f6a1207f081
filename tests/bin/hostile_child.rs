//! A stdio MCP server that can misbehave in every way that was seen in the field. Without options it behaves.
//!
//! Options, in any number:
//!
//! | option | effect |
//! | --- | --- |
//! | `--batch` | answers each request with an array of one |
//! | `--bom` | a byte order mark before the first message |
//! | `--crlf` | CRLF line ends |
//! | `--deaf=N` | reads N messages, then never again |
//! | `--die=start`, `--die=initialize`, `--die=N` | exits with status 3 at start, on `initialize`, on the Nth tool call |
//! | `--abort=N` | the same on the Nth tool call, by a signal |
//! | `--grandchild` | starts a process that inherits the pipes and never ends |
//! | `--ignore-eof` | lives on when its input ends |
//! | `--ignore-term` | lives on when it gets SIGTERM |
//! | `--modern` | speaks 2026-07-28 as well |
//! | `--noise` | banners, blank lines, half JSON and JSON that is no JSON-RPC, before each message |
//! | `--slow-start=MS` | waits before it answers `initialize` |
//! | `--split` | writes each message byte by byte, flushed, so that code points are torn apart |
//! | `--stderr=BYTES` | so much on standard error before each message, in lines |
//! | `--stderr-blob=BYTES` | the same without a single newline |
//! | `--unended` | the last message before an exit has no newline |
//!
//! Tools: `echo` {text}, `set` {name, value}, `get` {name}, `process` {} (pid, grandchild, names of environment
//! variables, directory), `slow` {steps, ms} (progress; can be cancelled), `push` {count, list_changed}, `ask` {method,
//! params} (a request to the client, whose answer is the result), `big` {bytes}, `raw` {line} (writes that line),
//! `close_stdout` {}, `exit` {code}; to subscriptions: `change` {} (a note to each), `hang_up` {gracefully}.

use std::collections::{HashMap, HashSet};
use std::env;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn main() -> io::Result<()> {
    let options = Options::new(env::args().skip(1).collect());
    if options.has("--ignore-term") {
        return Err(again_without_term(&options));
    }
    if options.value("--die") == Some("start") {
        let _ = writeln!(io::stderr(), "fatal: no configuration");
        process::exit(3);
    }
    let grandchild = options.has("--grandchild").then(|| Command::new("sleep").arg("100000").spawn()).transpose()?;
    let server = Arc::new(Server {
        grandchild: grandchild.map(|child| child.id()),
        out: Mutex::new(Out { file: Some(File::from(io::stdout().as_fd().try_clone_to_owned()?)), first: true }),
        options,
        state: Mutex::default(),
    });
    let deaf_after = server.options.number("--deaf");
    for (count, line) in io::stdin().lock().split(b'\n').enumerate() {
        if let Ok(message) = serde_json::from_slice::<Value>(&line?) {
            server.handle(&message)?;
        }
        if deaf_after.is_some_and(|after| count + 1 >= after) {
            sleep_for_ever();
        }
    }
    if server.options.has("--ignore-eof") {
        sleep_for_ever();
    }
    Ok(())
}

/// Only a shell can ignore a signal without unsafe code; what is ignored stays so through `exec`.
fn again_without_term(options: &Options) -> io::Error {
    let program = env::args_os().next().unwrap_or_default();
    let rest = options.0.iter().filter(|option| *option != "--ignore-term");
    Command::new("/bin/sh").args(["-c", "trap '' TERM; exec \"$0\" \"$@\""]).arg(program).args(rest).exec()
}

fn sleep_for_ever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(1_000));
    }
}

struct Options(Vec<String>);

impl Options {
    fn new(given: Vec<String>) -> Self {
        Self(given)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|option| option == name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.value(name)?.parse().ok()
    }
}

struct Server {
    grandchild: Option<u32>,
    options: Options,
    out: Mutex<Out>,
    state: Mutex<State>,
}

struct Out {
    /// `None`: closed.
    file: Option<File>,
    first: bool,
}

#[derive(Default)]
struct State {
    asked: u64,
    calls: usize,
    cancelled: HashSet<String>,
    subscriptions: Vec<Value>,
    variables: HashMap<String, Value>,
    waiting: HashMap<String, Sender<Value>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn handle(self: &Arc<Self>, message: &Value) -> io::Result<()> {
        let id = &message["id"];
        match message["method"].as_str() {
            None => {
                if let Some(waiting) = lock(&self.state).waiting.remove(&id.to_string()) {
                    let _ = waiting.send(message.clone());
                }
                Ok(())
            }
            Some("notifications/cancelled") => {
                let id = &message["params"]["requestId"];
                let mut state = lock(&self.state);
                state.subscriptions.retain(|subscription| subscription != id);
                state.cancelled.insert(id.to_string());
                Ok(())
            }
            Some(_) if id.is_null() => Ok(()),
            Some("initialize") => {
                if self.options.value("--die") == Some("initialize") {
                    let _ = writeln!(io::stderr(), "fatal: cannot initialize");
                    process::exit(3);
                }
                if let Some(wait) = self.options.number("--slow-start") {
                    thread::sleep(Duration::from_millis(wait as u64));
                }
                let asked = message["params"]["protocolVersion"].as_str().unwrap_or_default();
                let version = if VERSIONS.contains(&asked) { asked } else { VERSIONS[2] };
                self.answer(
                    id,
                    &json!({
                        "protocolVersion": version,
                        "capabilities": { "logging": {}, "tools": { "listChanged": true } },
                        "serverInfo": { "name": "hostile-child", "version": "1" },
                    }),
                )
            }
            Some("server/discover") if self.options.has("--modern") => self.answer(
                id,
                &json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": { "listChanged": true } },
                    "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "hostile-child", "version": "1" } },
                }),
            ),
            Some("subscriptions/listen") if self.options.has("--modern") => {
                lock(&self.state).subscriptions.push(id.clone());
                let params = json!({ "_meta": subscription(id), "notifications": message["params"]["notifications"] });
                let method = "notifications/subscriptions/acknowledged";
                self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            }
            Some("ping" | "logging/setLevel") => self.answer(id, &json!({})),
            Some("tools/list") => self.answer(id, &json!({ "tools": tools() })),
            Some("tools/call") => {
                self.maybe_die();
                let params = &message["params"];
                if !matches!(params["name"].as_str(), Some("ask" | "slow")) {
                    return self.call(id, params);
                }
                // In a thread, so that its cancellation or the client's answer can be read.
                let (server, id, params) = (Arc::clone(self), id.clone(), params.clone());
                thread::spawn(move || server.call(&id, &params));
                Ok(())
            }
            Some(_) => self.write(&json!({
                "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "Method not found" },
            })),
        }
    }

    fn maybe_die(&self) {
        let mut state = lock(&self.state);
        state.calls += 1;
        if self.options.number("--die") == Some(state.calls) {
            let _ = writeln!(io::stderr(), "fatal: call {}", state.calls);
            process::exit(3);
        }
        if self.options.number("--abort") == Some(state.calls) {
            process::abort();
        }
    }

    fn call(&self, id: &Value, params: &Value) -> io::Result<()> {
        let arguments = &params["arguments"];
        let text = match params["name"].as_str().unwrap_or_default() {
            "echo" => arguments["text"].as_str().unwrap_or_default().to_owned(),
            "set" => {
                let name = arguments["name"].as_str().unwrap_or_default().to_owned();
                lock(&self.state).variables.insert(name, arguments["value"].clone());
                String::new()
            }
            "get" => {
                let name = arguments["name"].as_str().unwrap_or_default();
                lock(&self.state).variables.get(name).unwrap_or(&Value::Null).to_string()
            }
            "process" => {
                let mut names: Vec<_> = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
                names.sort_unstable();
                let directory = env::current_dir().unwrap_or_default();
                let grandchild = self.grandchild;
                json!({ "pid": process::id(), "grandchild": grandchild, "env": names, "cwd": directory }).to_string()
            }
            "slow" => match self.slow(id, params)? {
                true => "done".to_owned(),
                false => return Ok(()),
            },
            "push" => {
                for number in 0..arguments["count"].as_u64().unwrap_or(1) {
                    let params = json!({ "level": "info", "data": number });
                    self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }))?;
                }
                if arguments["list_changed"] == true {
                    self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))?;
                }
                String::new()
            }
            "ask" => self.ask(arguments)?,
            "change" => {
                for id in lock(&self.state).subscriptions.clone() {
                    let params = json!({ "_meta": subscription(&id) });
                    self.write(
                        &json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params }),
                    )?;
                }
                String::new()
            }
            "hang_up" => {
                for id in std::mem::take(&mut lock(&self.state).subscriptions) {
                    if arguments["gracefully"] == true {
                        self.answer(&id, &json!({ "resultType": "complete", "_meta": subscription(&id) }))?;
                    } else {
                        let params = json!({ "requestId": id });
                        self.write(
                            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
                        )?;
                    }
                }
                String::new()
            }
            "big" => "x".repeat(arguments["bytes"].as_u64().unwrap_or(1 << 20) as usize),
            "raw" => {
                let line = arguments["line"].as_str().unwrap_or_default();
                self.write_bytes(format!("{line}\n").as_bytes())?;
                String::new()
            }
            "close_stdout" => {
                lock(&self.out).file = None;
                // The standard library keeps the descriptor itself open, so it becomes another file.
                return Err(Command::new("/bin/sh").args(["-c", "exec 1>&-; exec sleep 100000"]).exec());
            }
            "exit" => {
                let end = if self.options.has("--unended") { "" } else { "\n" };
                self.write_bytes(format!("{}{end}", result(id, &content("exiting"))).as_bytes())?;
                process::exit(arguments["code"].as_i64().unwrap_or(0) as i32);
            }
            other => {
                let message = format!("Unknown tool: {other}");
                return self
                    .write(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": message } }));
            }
        };
        self.answer(id, &content(&text))
    }

    /// Says whether it came to its end.
    fn slow(&self, id: &Value, params: &Value) -> io::Result<bool> {
        let steps = params["arguments"]["steps"].as_u64().unwrap_or(3);
        let pause = Duration::from_millis(params["arguments"]["ms"].as_u64().unwrap_or(10));
        let token = &params["_meta"]["progressToken"];
        for step in 1..=steps {
            thread::sleep(pause);
            if lock(&self.state).cancelled.remove(&id.to_string()) {
                return Ok(false);
            }
            if !token.is_null() {
                let params = json!({ "progressToken": token, "progress": step, "total": steps });
                self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))?;
            }
        }
        Ok(true)
    }

    fn ask(&self, arguments: &Value) -> io::Result<String> {
        let (sender, answer) = channel();
        let id = {
            let mut state = lock(&self.state);
            state.asked += 1;
            let id = json!(format!("ask-{}", state.asked));
            state.waiting.insert(id.to_string(), sender);
            id
        };
        let method = arguments["method"].as_str().unwrap_or("sampling/createMessage");
        let params = arguments.get("params").cloned().unwrap_or_else(|| json!({}));
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        Ok(answer.recv().map_err(io::Error::other)?.to_string())
    }

    fn answer(&self, id: &Value, result_value: &Value) -> io::Result<()> {
        self.write(&result(id, result_value))
    }

    fn write(&self, message: &Value) -> io::Result<()> {
        let end = if self.options.has("--crlf") { "\r\n" } else { "\n" };
        let batch = self.options.has("--batch") && message.get("method").is_none();
        let text = if batch { format!("[{message}]{end}") } else { format!("{message}{end}") };
        self.write_bytes(text.as_bytes())
    }

    fn write_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = lock(&self.out);
        let first = std::mem::replace(&mut out.first, false);
        let Some(file) = &mut out.file else { return Ok(()) };
        let lines = self.options.number("--stderr").map(|len| b"warning: nobody reads this\n".repeat(len / 27));
        let blob = self.options.number("--stderr-blob").map(|len| vec![b'#'; len]);
        for flood in [lines, blob].into_iter().flatten() {
            io::stderr().write_all(&flood)?;
        }
        if first && self.options.has("--bom") {
            file.write_all(b"\xef\xbb\xbf")?;
        }
        if self.options.has("--noise") {
            file.write_all(
                b"\n \t \nListening\xe2\x80\xa6\n{\"jsonrpc\":\"2.0\",\n{\"level\":30}\n\"text\"\n[]\n\xff\xfe\n",
            )?;
        }
        if self.options.has("--split") {
            // A file of the standard library has no buffer: each byte is a write.
            bytes.chunks(1).try_for_each(|byte| file.write_all(byte))
        } else {
            file.write_all(bytes)
        }
    }
}

fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn subscription(id: &Value) -> Value {
    json!({ "io.modelcontextprotocol/subscriptionId": id })
}

fn content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn tools() -> Vec<Value> {
    ["ask", "big", "change", "close_stdout", "echo", "exit", "get", "hang_up", "process", "push", "raw", "set", "slow"]
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .to_vec()
}
