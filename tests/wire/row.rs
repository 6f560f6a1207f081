//! The rows of `rows/*.txt`: one request in one situation, and its answer. Owns their text form.
//!
//! ```text
//! == a name                   `# ...` is a comment anywhere
//! given live, call            situations, see `config` and the drivers
//! as bob                      who asks; alice if left out, `nobody` is anonymous
//! POST /mcp                   method and target; the method brings its usual headers
//! accept: */*                 replaces the usual header; `+accept: ...` adds a line
//! -content-type               takes it away
//! < {"jsonrpc":...}           the body; `<hex ff` as bytes, `<never` does not come
//! for 2s                      how long the client waits; 1 s if left out
//! not over socket: why        where the row can't run
//! => 400 -32600 null Missing  status, and JSON-RPC code, id (or `absent`) and a part of the message; or `json`, `sse`,
//!                             `sse open`
//! allow: GET                  headers beyond those of its kind: all of them are compared
//! data {...}                  the error's data; none if left out
//! | ...                       lines of the body, all of them
//! first => ...                the answer of the call that was in flight before
//! ```

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use sessile_core::config::{ResponseMode, WhenFull};
use sessile_core::{Config, Eras};
use sessile_tests::pure::Upload;

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    given: Vec<String>,
    pub(crate) principal: Option<String>,
    method: String,
    target: String,
    headers: Vec<Header>,
    body: Content,
    pub(crate) wait: Option<Duration>,
    not_over: Vec<String>,
    pub(crate) answer: Expected,
    pub(crate) first: Option<Expected>,
}

#[derive(Clone, Debug)]
enum Header {
    Add(String, String),
    Remove(String),
    Replace(String, String),
}

#[derive(Clone, Debug, Default)]
enum Content {
    #[default]
    Empty,
    Bytes(Vec<u8>),
    Never,
    Text(String),
}

/// What an answer has to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) kind: Kind,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) data: Option<String>,
    pub(crate) lines: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Empty,
    Error {
        code: i32,
        id: String,
        message: String,
    },
    Json,
    /// No head yet.
    Pending,
    Sse {
        open: bool,
    },
}

/// The ids that rows name as `$LIVE` and `$ENDED`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) live: String,
    pub(crate) ended: String,
}

pub(crate) const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

/// A body of this name in the rows.
pub(crate) fn fixture(name: &str) -> Option<String> {
    let initialize = |client: &str, version: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"{client}","version":"1"}}}}}}"#
        )
    };
    let modern = |method: &str, params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    };
    Some(match name {
        "$INIT" => initialize("suite", "2025-11-25"),
        "$INIT-2025-03-26" => initialize("suite", "2025-03-26"),
        "$INIT-2025-06-18" => initialize("suite", "2025-06-18"),
        "$INIT-FUTURE" => initialize("suite", "9999-01-01"),
        "$INIT-MODERN" => initialize("suite", "2026-07-28"),
        "$INIT-CRASH" => initialize("crash", "2025-11-25"),
        "$INIT-REFUSED" => initialize("refused", "2025-11-25"),
        "$INIT-SILENT" => initialize("silent", "2025-11-25"),
        "$INIT-SLOW" => initialize("slow", "2025-11-25"),
        "$DISCOVER" => modern("server/discover", ""),
        "$LISTEN" => modern("subscriptions/listen", ""),
        "$CALL-ECHO" => modern("tools/call", r#""name":"echo","#),
        "$MODERN-INIT" => modern(
            "initialize",
            r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"suite","version":"1"},"#,
        ),
        "$MODERN-PING" => modern("ping", ""),
        "$PING" => r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#.to_owned(),
        "$PING-256" => format!("{:256}", r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#),
        "$PING-257" => format!("{:257}", r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#),
        "$NOTE" => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        "$RESPONSE" => r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
        "$CANCEL" => r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.to_owned(),
        "$HANG" => r#"{"jsonrpc":"2.0","id":1,"method":"hang"}"#.to_owned(),
        "$DEEP" => format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":{}{}}}}}"#,
            "[".repeat(50_000),
            "]".repeat(50_000)
        ),
        "$DEEP-CUT" => format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":{}"#, "[".repeat(50_000)),
        _ => return None,
    })
}

/// All rows of all tables.
pub(crate) fn all() -> Vec<Row> {
    let tables = [
        ("methods", include_str!("rows/methods.txt")),
        ("host-origin", include_str!("rows/host-origin.txt")),
        ("cors", include_str!("rows/cors.txt")),
        ("media", include_str!("rows/media.txt")),
        ("version", include_str!("rows/version.txt")),
        ("modern", include_str!("rows/modern.txt")),
        ("eras", include_str!("rows/eras.txt")),
        ("session", include_str!("rows/session.txt")),
        ("body", include_str!("rows/body.txt")),
        ("initialize", include_str!("rows/initialize.txt")),
        ("answers", include_str!("rows/answers.txt")),
        ("limits", include_str!("rows/limits.txt")),
        ("endings", include_str!("rows/endings.txt")),
    ];
    tables.iter().flat_map(|(table, text)| parse(table, text)).collect()
}

fn parse(table: &str, text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            rows.push(Row { name: format!("{table}:{} {name}", at + 1), ..Row::default() });
            continue;
        }
        let row = rows.last_mut().unwrap_or_else(|| panic!("{table}: no row before line {}", at + 1));
        row.line(line).unwrap_or_else(|why| panic!("{}, at line {}: {why}", row.name, at + 1));
    }
    for row in &rows {
        assert!(!row.method.is_empty() && row.answer.is_said(), "{}: unfinished", row.name);
    }
    rows
}

impl Row {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        if let Some(given) = line.strip_prefix("given ") {
            self.given = given.split(", ").map(str::to_owned).collect();
        } else if let Some(principal) = line.strip_prefix("as ") {
            self.principal = Some(principal.to_owned());
        } else if let Some(time) = line.strip_prefix("for ") {
            let seconds = time.strip_suffix('s').and_then(|time| time.parse().ok()).ok_or("`for` takes seconds")?;
            self.wait = Some(Duration::from_secs_f64(seconds));
        } else if let Some(driver) = line.strip_prefix("not over ") {
            let (driver, _why) = driver.split_once(": ").ok_or("`not over` needs a reason")?;
            self.not_over.push(driver.to_owned());
        } else if let Some(hex) = line.strip_prefix("<hex ") {
            let bytes = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16));
            self.body = Content::Bytes(bytes.collect::<Result<_, _>>().map_err(|_| "bytes are hexadecimal")?);
        } else if line == "<never" {
            self.body = Content::Never;
        } else if let Some(text) = line.strip_prefix("< ") {
            self.body = Content::Text(text.to_owned());
        } else if let Some(answer) = line.strip_prefix("=> ") {
            self.answer = Expected::parse(answer)?;
        } else if let Some(answer) = line.strip_prefix("first => ") {
            self.first = Some(Expected::parse(answer)?);
        } else if self.answer.is_said() {
            return self.first.as_mut().unwrap_or(&mut self.answer).line(line);
        } else if self.method.is_empty() {
            let (method, target) = line.split_once(' ').unwrap_or((line, "/mcp"));
            (self.method, self.target) = (method.to_owned(), target.to_owned());
        } else if let Some(name) = line.strip_prefix('-') {
            self.headers.push(Header::Remove(name.to_owned()));
        } else {
            let (name, value) = line.split_once(':').ok_or("not a line of a row")?;
            let value = value.trim().to_owned();
            self.headers.push(match name.strip_prefix('+') {
                Some(name) => Header::Add(name.to_owned(), value),
                None => Header::Replace(name.to_owned(), value),
            });
        }
        Ok(())
    }

    pub(crate) fn is_given(&self, situation: &str) -> bool {
        self.given.iter().any(|given| given == situation)
    }

    /// Which eras are served: `given both`, `given modern`, or sessions alone.
    pub(crate) fn eras(&self) -> Eras {
        if self.is_given("both") {
            Eras::BOTH
        } else if self.is_given("modern") {
            Eras::MODERN
        } else {
            Eras::LEGACY
        }
    }

    /// Whether the answer is a refusal, which starts and ends nothing; `given answered` says that it is the app's own.
    pub(crate) fn is_refused(&self) -> bool {
        (400..500).contains(&self.answer.status) && !self.is_given("answered")
    }

    pub(crate) fn runs_over(&self, driver: &str) -> bool {
        !self.not_over.iter().any(|other| other == driver)
    }

    /// Who asks. `None` is anonymous.
    pub(crate) fn asks(&self) -> Option<&str> {
        Some(self.principal.as_deref().unwrap_or("alice")).filter(|name| *name != "nobody")
    }

    /// The settings that the situation asks for.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        for given in &self.given {
            match given.as_str() {
                "cors" => config.gate.cors_origins = vec!["https://app.example".into(), "http://web.example:*".into()],
                "cors-any" => config.gate.cors_origins = vec!["*".into()],
                "busy" => config.session.max_in_flight = 1,
                "evict-idle" => config.table.when_full = WhenFull::EvictIdle,
                "full" => config.table.max_sessions = 1,
                "idle-in-9s" => config.table.idle_timeout = Some(Duration::from_secs(9)),
                "inbox" | "inbox-twice" => config.session.inbox_count = 2,
                "json-mode" => config.gate.response_mode = ResponseMode::Json,
                "max-age-1s" => config.session.max_request_age = Some(Duration::from_secs(1)),
                "names" => {
                    config.gate.allowed_hosts = vec!["mcp.example:443".into(), "[2001:db8::1]:*".into()];
                    config.gate.allowed_origins = vec!["https://app.example".into(), "http://127.0.0.1:5555".into()];
                    config.gate.loopback_origins = false;
                }
                "small" => config.gate.max_body = 256,
                "sse-mode" => config.gate.response_mode = ResponseMode::Sse,
                "start-3s" => config.session.start_timeout = Duration::from_secs(3),
                "answered" | "any" | "app" | "both" | "call" | "closed" | "draining" | "ended" | "get" | "live"
                | "modern" | "stream" => {}
                other => panic!("{}: no such situation: {other}", self.name),
            }
        }
        config
    }

    /// The request, with the names of sessions put in.
    pub(crate) fn request(&self, names: &Names) -> Request<Upload> {
        let fill = |value: &str| {
            value.replace("$LIVE", &names.live).replace("$ENDED", &names.ended).replace("$UNKNOWN", UNKNOWN)
        };
        let body = match &self.body {
            Content::Empty => Upload::Whole(Bytes::new()),
            Content::Bytes(bytes) => Upload::Whole(bytes.clone().into()),
            Content::Never => Upload::Never,
            Content::Text(text) => Upload::Whole(fixture(text).unwrap_or_else(|| text.clone()).into()),
        };
        let mut request = request(&self.method, body);
        *request.uri_mut() = self.target.parse().expect("a target");
        let headers = request.headers_mut();
        let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
        let value = |value: &str| HeaderValue::from_bytes(fill(value).as_bytes()).expect("a header's value");
        for header in &self.headers {
            match header {
                Header::Add(key, text) => drop(headers.append(name(key), value(text))),
                Header::Remove(key) => drop(headers.remove(name(key))),
                Header::Replace(key, text) => drop(headers.insert(name(key), value(text))),
            }
        }
        request
    }
}

/// A request with the headers that clients send with its method.
pub(crate) fn request(method: &str, body: Upload) -> Request<Upload> {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("localhost:8080"));
    match method {
        "GET" => drop(headers.insert("accept", HeaderValue::from_static("text/event-stream"))),
        "POST" => {
            headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
            headers.insert("content-type", HeaderValue::from_static("application/json"));
        }
        _ => {}
    }
    let mut request = Request::new(body);
    *request.method_mut() = Method::from_bytes(method.as_bytes()).expect("a method");
    *request.uri_mut() = "/mcp".parse().expect("a target");
    *request.headers_mut() = headers;
    request
}

/// A POST of this fixture or text, in this session.
pub(crate) fn post(session: Option<&str>, body: &str) -> Request<Upload> {
    let body = fixture(body).unwrap_or_else(|| body.to_owned());
    in_session(request("POST", Upload::Whole(body.into())), session)
}

/// A GET of this session.
pub(crate) fn get(session: &str) -> Request<Upload> {
    in_session(request("GET", Upload::Whole(Bytes::new())), Some(session))
}

/// A DELETE of this session.
pub(crate) fn delete(session: &str) -> Request<Upload> {
    in_session(request("DELETE", Upload::Whole(Bytes::new())), Some(session))
}

fn in_session(mut request: Request<Upload>, session: Option<&str>) -> Request<Upload> {
    if let Some(session) = session {
        request.headers_mut().insert("mcp-session-id", HeaderValue::from_str(session).expect("an id"));
    }
    request
}

impl Expected {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "pending" {
            return Ok(Self { kind: Kind::Pending, ..Self::default() });
        }
        let mut words = text.splitn(4, ' ');
        let status = words.next().and_then(|status| status.parse().ok()).ok_or("a status comes first")?;
        let kind = match (words.next(), words.next(), words.next()) {
            (None, ..) => Kind::Empty,
            (Some("json"), None, _) => Kind::Json,
            (Some("sse"), None, _) => Kind::Sse { open: false },
            (Some("sse"), Some("open"), None) => Kind::Sse { open: true },
            (Some(code), Some(id), Some(message)) => Kind::Error {
                code: code.parse().map_err(|_| "a code follows the status")?,
                id: id.to_owned(),
                message: message.to_owned(),
            },
            _ => return Err("an error has a code, an id and a message"),
        };
        Ok(Self { kind, status, ..Self::default() })
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        if let Some(data) = line.strip_prefix("data ") {
            self.data = Some(data.to_owned());
        } else if let Some(text) = line.strip_prefix('|') {
            let text = text.strip_prefix(' ').unwrap_or(text);
            self.lines.get_or_insert_default().push(text.to_owned());
        } else {
            let (name, value) = line.split_once(": ").ok_or("not a line of an answer")?;
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    fn is_said(&self) -> bool {
        self.status > 0 || self.kind == Kind::Pending
    }
}
