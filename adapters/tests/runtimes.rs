//! Each runtime once over real sockets and with a real child: that its binding wakes whoever waits.
//!
//! What is served, and how, is tested elsewhere. The client blocks, with the system's own sockets, so that nothing but the server
//! depends on the runtime.

#![cfg(unix)]
#![cfg(any(feature = "tokio", feature = "smol", feature = "async-std"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use rustix::process::Signal;
use sessile::app::stdio::{Stdio, StdioConfig};
use sessile::app::{Backend, Demo};
use sessile::core::Config;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::{Net, Processes, Runtime, Socket, Timer};
use sessile::{Builder, Manager};

/// Nothing here takes that long, unless it never comes.
const LONG: Duration = Duration::from_secs(30);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// All of it, on one runtime that runs elsewhere.
fn all<R: Net + Processes>(runtime: &R) {
    // One at a time: a child holds all our descriptors until it runs its own program, closed listeners among them.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    timers_come_when_they_were_moved_to(runtime);
    demo_over_tcp(runtime);
    demo_over_a_unix_socket(runtime);
    #[cfg(feature = "http2")]
    demo_over_http2(runtime);
    a_child_for_a_session(runtime);
}

#[cfg(feature = "tokio")]
#[test]
fn on_tokio() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    all(&sessile::runtime::tokio::Tokio::from_handle(runtime.handle().clone()));
}

#[cfg(feature = "smol")]
#[test]
fn on_smol() {
    all(&sessile::runtime::smol::Smol::global());
}

#[cfg(feature = "smol")]
#[test]
fn on_a_smol_executor_of_our_own() {
    let executor = Arc::new(smol::Executor::new());
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    let running = {
        let executor = Arc::clone(&executor);
        std::thread::spawn(move || smol::block_on(executor.run(stopped.recv())))
    };
    let runtime = sessile::runtime::smol::Smol::on(&executor);
    all(&runtime);
    drop(stop);
    assert!(running.join().unwrap().is_err());
    // A task that waits, and holds the runtime, ends with the executor; so does one that comes later.
    let (told, ended) = channel();
    let waits = Tell(told.clone(), runtime.clone());
    runtime.spawn(async move {
        let _waits = waits;
        std::future::pending().await
    });
    drop(executor);
    assert_eq!(ended.recv_timeout(LONG), Ok(()));
    // What it has spawned on its way out is never run.
    drop(told);
    assert!(ended.recv_timeout(LONG).is_err());
}

/// Tells when it is dropped, and then spawns.
#[cfg(feature = "smol")]
struct Tell(std::sync::mpsc::Sender<()>, sessile::runtime::smol::Smol);

#[cfg(feature = "smol")]
impl Drop for Tell {
    fn drop(&mut self) {
        let _ = self.0.send(());
        let told = self.0.clone();
        self.1.spawn(async move { told.send(()).unwrap() });
    }
}

#[cfg(feature = "async-std")]
#[test]
fn on_async_std() {
    all(&sessile::runtime::async_std::AsyncStd::global());
}

/// One test for all, since a signal comes to every listener of the process.
#[test]
fn signals_are_heard() {
    #[cfg(feature = "tokio")]
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut signals = sessile::runtime::tokio::Signals::listen().unwrap();
        int_and_term(async || signals.next().await).await;
    });
    #[cfg(any(feature = "smol", feature = "async-std"))]
    async_io::block_on(async {
        let mut signals = sessile::runtime::async_io::Signals::listen().unwrap();
        int_and_term(async || signals.next().await).await;
    });
}

async fn int_and_term(mut next: impl AsyncFnMut() -> &'static str) {
    {
        // One that is dropped while it waits takes no signal with it.
        let mut first = pin!(next());
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
    }
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
        assert_eq!(next().await, name);
    }
}

fn timers_come_when_they_were_moved_to<R: Runtime>(runtime: &R) {
    let start = runtime.now();
    let at = move |millis| start.saturating_add(Duration::from_millis(millis));
    let mut timer = runtime.timer_at(at(3_600_000));
    let mut far = runtime.timer_at(sessile::core::Timestamp::MAX);
    let (done, moved) = channel();
    let clock = runtime.clone();
    runtime.spawn(async move {
        assert!(is_pending(&mut far).await);
        // Moved while it is waited for, and again once it has come.
        assert!(is_pending(&mut timer).await);
        timer.reset(at(20));
        (&mut timer).await;
        let first = clock.now();
        timer.reset(at(40));
        (&mut timer).await;
        done.send((first, clock.now())).unwrap();
    });
    let (first, second) = moved.recv_timeout(LONG).unwrap();
    assert!(first >= at(20) && second >= at(40) && second >= first, "{start:?} {first:?} {second:?}");
}

async fn is_pending(timer: &mut impl Timer) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *timer).poll(cx).is_pending())).await
}

fn demo_over_tcp<R: Net>(runtime: &R) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    demo(runtime, listener, connect);
    assert!(TcpStream::connect(address).is_err());
}

fn demo_over_a_unix_socket<R: Net>(runtime: &R) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let connect = || {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    demo(runtime, UnixListener::bind(&path).unwrap(), connect);
    assert!(UnixStream::connect(&path).is_err());
}

/// A session, its calls, its stream and its end.
fn demo<R: Net, S: Read + Write>(runtime: &R, listener: impl Into<Socket>, connect: impl Fn() -> S) {
    let mut config = Config::default();
    config.session.keep_alive = Duration::from_millis(20);
    let manager = Builder::new(runtime.clone()).config(config).handler(Demo::new()).build().unwrap();
    let server = Server::start(runtime, listener, manager);

    let session = open(&connect);
    let echo = call(&connect, &session, r#""name":"echo","arguments":{"text":"hello"}"#);
    assert!(echo.contains(r#""text":"hello""#), "{echo}");
    // More than one write takes: the socket is full in between.
    let big = call(&connect, &session, r#""name":"big","arguments":{"bytes":3000000}"#);
    assert!(big.len() > 3_000_000, "{}", big.len());

    // Silence on a stream is broken by comments, which only a timer can send.
    let mut stream = connect();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
    );
    stream.write_all(get.as_bytes()).unwrap();
    let mut seen = String::new();
    while seen.matches("\r\n:").count() < 3 {
        let mut part = [0; 1_024];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{seen}");
        seen.push_str(str::from_utf8(&part[..count]).unwrap());
    }

    server.stop();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

/// Many calls at once on one connection, and a stream beside them. The client is another runtime's.
#[cfg(feature = "http2")]
fn demo_over_http2<R: Net>(runtime: &R) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = Config::default();
    config.session.keep_alive = Duration::from_millis(20);
    let manager = Builder::new(runtime.clone()).config(config).handler(Demo::new()).build().unwrap();
    let server = Server::start(runtime, listener, manager);

    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    client.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let ready = requests.ready().await.unwrap();
        let send = |method: &str, session: &str, message: &str| {
            let request = http::Request::builder()
                .method(method)
                .uri("http://localhost/mcp")
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .header("mcp-session-id", session);
            let (answer, mut body) = ready.clone().send_request(request.body(()).unwrap(), message.is_empty()).unwrap();
            if !message.is_empty() {
                body.send_data(message.to_owned().into(), true).unwrap();
            }
            answer
        };
        let opened = send("POST", "", INITIALIZE).await.unwrap();
        assert_eq!(opened.status(), 200);
        let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();

        let mut stream = send("GET", &session, "").await.unwrap().into_body();
        // Read side by side: what waits unread in one takes of the window of all.
        let mut answers = tokio::task::JoinSet::new();
        for id in 2..10 {
            let call = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"big","arguments":{{"bytes":100000}}}}}}"#
            );
            let answer = send("POST", &session, &call);
            answers.spawn(async move {
                let mut body = answer.await.unwrap().into_body();
                let mut length = 0;
                while let Some(data) = body.data().await {
                    let data = data.unwrap();
                    length += data.len();
                    body.flow_control().release_capacity(data.len()).unwrap();
                }
                length
            });
        }
        for length in answers.join_all().await {
            assert!(length > 100_000, "{length}");
        }
        let mut seen = Vec::new();
        while seen.iter().filter(|byte| **byte == b':').count() < 3 {
            seen.extend_from_slice(&stream.data().await.unwrap().unwrap());
        }
    });
    // A connection that nobody drives would not hear that it is to end.
    drop(client);
    server.stop();
}

/// A child answers, and is gone when its session is.
fn a_child_for_a_session<R: Net + Processes>(runtime: &R) {
    const CHILD: &str = r#"
        read -r line
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'
        while read -r line; do
            case $line in *tools/call*) echo "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"pid\":$$}}" ;; esac
        done"#;
    let mut child = StdioConfig::new("/bin/sh");
    child.args = vec!["-c".into(), CHILD.into()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    let app = Stdio::new(child, runtime.clone());
    let manager = Builder::new(runtime.clone()).app(app.clone()).build().unwrap();
    let server = Server::start(runtime, listener, manager);

    let session = open(&connect);
    let answer = call(&connect, &session, r#""name":"who""#);
    let pid = answer.split("\"pid\":").nth(1).unwrap_or_else(|| panic!("{answer}"));
    let pid: i32 = pid.split('}').next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::test_kill_process(pid).unwrap();

    server.stop();
    let (done, ended) = channel();
    runtime.spawn(async move {
        app.shutdown().await;
        done.send(()).unwrap();
    });
    ended.recv_timeout(LONG).unwrap();
    assert_eq!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
}

/// What is served, on the runtime's own threads.
struct Server<R: Runtime, B: Backend> {
    runtime: R,
    manager: Manager<R, B>,
    close: Arc<Mutex<(bool, Option<Waker>)>>,
    ended: Receiver<()>,
}

impl<R: Net, B: Backend> Server<R, B> {
    fn start(runtime: &R, listener: impl Into<Socket>, manager: Manager<R, B>) -> Self {
        manager.start().unwrap();
        let close = Arc::<Mutex<(bool, Option<Waker>)>>::default();
        let closed = {
            let close = Arc::clone(&close);
            poll_fn(move |cx| {
                let mut state = close.lock().unwrap();
                state.1 = Some(cx.waker().clone());
                if state.0 { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        let (done, ended) = channel();
        let service = manager.service().unwrap().path("/mcp");
        let serving = serve(runtime.clone(), listener.into(), service, ServeConfig::default(), closed);
        runtime.spawn(async move {
            serving.await.unwrap();
            done.send(()).unwrap();
        });
        Self { runtime: runtime.clone(), manager, close, ended }
    }

    /// Lets sessions and connections end, and waits for that.
    fn stop(self) {
        let (done, ended) = channel();
        let manager = self.manager;
        self.runtime.spawn(async move {
            manager.shutdown(LONG, LONG).await.unwrap();
            done.send(()).unwrap();
        });
        ended.recv_timeout(LONG).unwrap();
        let waker = {
            let mut state = self.close.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        waker.unwrap().wake();
        self.ended.recv_timeout(LONG).unwrap();
    }
}

/// Opens a session and returns its id.
fn open<S: Read + Write>(connect: &impl Fn() -> S) -> String {
    let answer = post(connect, "", INITIALIZE);
    let id = answer.split("mcp-session-id: ").nth(1).unwrap_or_else(|| panic!("{answer}"));
    id.split("\r\n").next().unwrap().to_owned()
}

fn call<S: Read + Write>(connect: &impl Fn() -> S, session: &str, params: &str) -> String {
    let message = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{params}}}}}"#);
    post(connect, &format!("Mcp-Session-Id: {session}\r\n"), &message)
}

fn post<S: Read + Write>(connect: &impl Fn() -> S, lines: &str, message: &str) -> String {
    let mut stream = connect();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{lines}\r\n{message}",
        message.len(),
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
