//! HTTP/2 over real loopback sockets, on a paused clock, with the client of `h2`, which leaves flow control to its caller.

use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::tests::{BIG, InMemory, Server, answer, closed_after, read_until, secs, send, server};
use super::*;
use crate::http::multiplex::RuntimeTimer;
use crate::runtime::tokio::Tokio;

/// A client whose connection is driven by a task, and when that ended.
struct Client {
    requests: SendRequest<Bytes>,
    ended: oneshot::Receiver<Instant>,
}

impl Client {
    async fn connect(server: &Server) -> Self {
        Self::over(server.connect().await).await
    }

    /// A connection of its own, without sockets: virtual time, which jumps when nothing is left to do, takes what is on its way
    /// through the system for nothing.
    async fn in_memory(config: &ServeConfig) -> (Self, Arc<Connections>, mpsc::UnboundedReceiver<()>) {
        let (client, stream) = tokio::io::duplex(4_096);
        let connections = Arc::new(Connections::default());
        let (tell, dropped) = mpsc::unbounded_channel();
        let service = service_fn(move |request: Request<Incoming>| {
            let tell = tell.clone();
            async move { Ok(Response::new(answer(request.uri().path(), tell).await)) }
        });
        let (protocol, limits) = (Protocol::new(config), Limits::new(config));
        tokio::spawn(drive(Tokio::current(), InMemory(stream), service, protocol, limits, connections.open()));
        (Self::over(client).await, connections, dropped)
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        let (tell, ended) = oneshot::channel();
        tokio::spawn(async move {
            // An error is an end too.
            let _ = connection.await;
            let _ = tell.send(Instant::now());
        });
        Self { requests, ended }
    }

    async fn get(&self, path: &str) -> ResponseFuture {
        let request = Request::get(format!("http://localhost{path}")).body(()).unwrap();
        let mut requests = self.requests.clone().ready().await.unwrap();
        requests.send_request(request, true).unwrap().0
    }

    async fn ended_after(self, start: Instant) -> Duration {
        timeout(secs(3_600), self.ended).await.unwrap().unwrap() - start
    }
}

/// Reads a body to its end, as fast as it comes.
async fn text(mut body: RecvStream) -> Result<String, h2::Error> {
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    Ok(String::from_utf8(text).unwrap())
}

#[tokio::test(start_paused = true)]
async fn both_versions_share_a_socket_and_streams_share_a_connection() {
    let server = server(ServeConfig::default());
    let mut old = server.connect().await;
    send(&mut old, "/hello").await;
    assert!(read_until(&mut old, "hello").await.starts_with("HTTP/1.1 200 OK\r\n"));

    let client = Client::connect(&server).await;
    let start = Instant::now();
    let mut slow = JoinSet::new();
    for _ in 0..20 {
        let answer = client.get("/slow").await;
        slow.spawn(async move { text(answer.await.unwrap().into_body()).await.unwrap() });
    }
    let quick = client.get("/hello").await.await.unwrap();
    assert_eq!(quick.version(), http::Version::HTTP_2);
    assert_eq!(quick.headers()["content-length"], "5");
    assert!(quick.headers().contains_key("date"));
    assert_eq!(text(quick.into_body()).await.unwrap(), "hello");
    assert!(start.elapsed() < secs(5));
    assert_eq!(slow.join_all().await, ["slow"; 20]);
    assert!(start.elapsed() < secs(6), "{:?}", start.elapsed());
    // Several windows long, and in many pieces.
    assert_eq!(text(client.get("/big").await.await.unwrap().into_body()).await.unwrap().len(), BIG);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_has_no_body() {
    let server = server(ServeConfig::default());
    let client = Client::connect(&server).await;
    for path in ["/hello", "/big"] {
        let request = Request::head(format!("http://localhost{path}")).body(()).unwrap();
        let mut requests = client.requests.clone().ready().await.unwrap();
        let answer = requests.send_request(request, true).unwrap().0.await.unwrap();
        assert_ne!(answer.headers()["content-length"], "0", "{path}");
        assert_eq!(text(answer.into_body()).await.unwrap(), "", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_head_has_one_deadline() {
    let server = server(ServeConfig::default());
    let start = Instant::now();
    // Silent after its settings, and silent within its preface.
    let silent = Client::connect(&server).await;
    let mut cut = server.connect().await;
    cut.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let (silent, (cut, bytes)) = tokio::join!(silent.ended_after(start), closed_after(&mut cut));
    assert!((secs(30)..secs(31)).contains(&silent), "{silent:?}");
    assert!((secs(30)..secs(31)).contains(&cut), "{cut:?}");
    assert_eq!(bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_requests_is_closed_whatever_else_it_sends() {
    let server = server(ServeConfig::default());
    let client = Client::connect(&server).await;
    text(client.get("/hello").await.await.unwrap().into_body()).await.unwrap();
    sleep(secs(70)).await;
    text(client.get("/hello").await.await.unwrap().into_body()).await.unwrap();
    // The client answers a PING every 15 seconds all the while.
    let start = Instant::now();
    let end = client.ended_after(start).await;
    assert!((secs(75)..=secs(91)).contains(&end), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_not_cut() {
    let server = server(ServeConfig { idle_timeout: secs(5), ..ServeConfig::default() });
    let client = Client::connect(&server).await;
    let start = Instant::now();
    assert_eq!(text(client.get("/stream").await.await.unwrap().into_body()).await.unwrap(), "onetwo");
    assert!(start.elapsed() >= secs(200));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_is_reset_and_others_go_on() {
    let server = server(ServeConfig::default());
    let client = Client::connect(&server).await;
    for path in ["/flood", "/big"] {
        let mut unread = client.get(path).await.await.unwrap().into_body();
        let start = Instant::now();
        let error = loop {
            // Its window, 64 KiB, is never opened again.
            match timeout(secs(3_600), unread.data()).await.unwrap().unwrap() {
                Ok(data) => assert!(!data.is_empty()),
                Err(error) => break error,
            }
        };
        assert_eq!((error.reason(), error.is_remote()), (Some(Reason::CANCEL), true), "{path}");
        assert!((secs(30)..secs(31)).contains(&start.elapsed()), "{path}: {:?}", start.elapsed());
        // What was received counts against the connection's window until it is given back.
        drop(unread);
        assert_eq!(text(client.get("/hello").await.await.unwrap().into_body()).await.unwrap(), "hello");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_read_slowly_is_not_reset() {
    let (client, ..) = Client::in_memory(&ServeConfig::default()).await;
    let mut body = client.get("/big").await.await.unwrap().into_body();
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < secs(1_000) {
        let data = body.data().await.unwrap().unwrap();
        count += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
        // Windows that are opened bit by bit make for frames of one byte between the others.
        if data.len() > 1_000 {
            sleep(secs(20)).await;
        }
    }
    assert!(count > 500_000, "{count}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_answer_pings_is_given_up() {
    let mut server = server(ServeConfig::default());
    let mut client = server.connect().await;
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    // Empty settings, and GET /never.
    client.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut head = vec![0x82, 0x86, 0x41, 1, b'x', 0x44, 6];
    head.extend_from_slice(b"/never");
    let length = u8::try_from(head.len()).unwrap();
    client.write_all(&[&[0, 0, length, 1, 5, 0, 0, 0, 1], &head[..]].concat()).await.unwrap();
    let start = Instant::now();
    assert_eq!(timeout(secs(3_600), server.dropped.recv()).await, Ok(Some(())));
    assert!((secs(30)..secs(31)).contains(&start.elapsed()), "{:?}", start.elapsed());
    closed_after(&mut client).await;
    assert!(start.elapsed() < secs(31));
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_its_request() {
    let (client, _, mut dropped) = Client::in_memory(&ServeConfig::default()).await;
    let request = Request::get("http://localhost/never").body(()).unwrap();
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut stream) = requests.send_request(request, true).unwrap();
    let mut answer = Box::pin(answer);
    assert!(timeout(secs(1), &mut answer).await.is_err());
    let start = Instant::now();
    stream.send_reset(Reason::CANCEL);
    assert_eq!(dropped.recv().await, Some(()));
    assert_eq!(start.elapsed(), Duration::ZERO);
    // The connection lives.
    assert_eq!(text(client.get("/hello").await.await.unwrap().into_body()).await.unwrap(), "hello");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_resets_costs_the_connection() {
    let server = server(ServeConfig::default());
    let client = Client::connect(&server).await;
    let other = Client::connect(&server).await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    for _ in 0..1_000 {
        let request = Request::get("http://localhost/never").body(()).unwrap();
        // Without a turn for the connection in between, so that both frames arrive together.
        let Ok((_, mut stream)) = requests.send_request(request, true) else { break };
        stream.send_reset(Reason::CANCEL);
        match requests.clone().ready().await {
            Ok(ready) => requests = ready,
            Err(_) => break,
        }
    }
    let error = match requests.ready().await {
        Err(error) => error,
        Ok(mut requests) => {
            let request = Request::get("http://localhost/hello").body(()).unwrap();
            requests.send_request(request, true).unwrap().0.await.unwrap_err()
        }
    };
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM), "{error}");
    assert_eq!(text(other.get("/hello").await.await.unwrap().into_body()).await.unwrap(), "hello");
}

#[tokio::test(start_paused = true)]
async fn streams_are_counted_and_heads_are_measured() {
    let server = server(ServeConfig { max_streams: 2, ..ServeConfig::default() });
    let client = Client::connect(&server).await;
    text(client.get("/hello").await.await.unwrap().into_body()).await.unwrap();
    let start = Instant::now();
    let (first, second) = (client.get("/slow").await, client.get("/slow").await);
    // The third waits at the client until one of the others is over.
    let third = client.get("/hello").await;
    assert_eq!(third.await.unwrap().status(), 200);
    assert!(start.elapsed() >= secs(5));
    for answer in [first, second] {
        assert_eq!(answer.await.unwrap().status(), 200);
    }
    let mut requests = client.requests.clone().ready().await.unwrap();
    let long = Request::get("http://localhost/hello").header("x", "x".repeat(70_000)).body(()).unwrap();
    assert_eq!(requests.send_request(long, true).unwrap().0.await.unwrap().status(), 431);
}

#[tokio::test(start_paused = true)]
async fn draining_lets_streams_finish_and_closes_idle_connections() {
    for path in ["/hello", "/slow", "/stream"] {
        let (client, connections, _) = Client::in_memory(&ServeConfig::default()).await;
        text(client.get("/hello").await.await.unwrap().into_body()).await.unwrap();
        let answer = client.get(path).await;
        let requests = client.requests.clone();
        sleep(secs(1)).await;
        let start = Instant::now();
        connections.enter(Phase::Draining);
        let (expected, time) = match path {
            "/slow" => ("slow", 4),
            "/stream" => ("onetwo", 199),
            _ => ("hello", 0),
        };
        assert_eq!(text(answer.await.unwrap().into_body()).await.unwrap(), expected);
        assert!(is_refused(requests).await);
        assert_eq!(client.ended_after(start).await, secs(time), "{path}");
        std::future::poll_fn(|cx| connections.poll_below(cx, 1)).await;
    }
}

async fn is_refused(requests: SendRequest<Bytes>) -> bool {
    let Ok(mut requests) = requests.ready().await else { return true };
    let request = Request::get("http://localhost/hello").body(()).unwrap();
    match requests.send_request(request, true) {
        Err(_) => true,
        Ok((answer, _)) => answer.await.is_err(),
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_what_has_not_begun() {
    let server = server(ServeConfig::default());
    let mut begun = server.connect().await;
    begun.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let idle = Client::connect(&server).await;
    text(idle.get("/hello").await.await.unwrap().into_body()).await.unwrap();
    server.stop.send(()).unwrap();
    server.done.await.unwrap().unwrap();
    assert_eq!(closed_after(&mut begun).await, (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_ends_all() {
    let mut server = server(ServeConfig::default());
    let client = Client::connect(&server).await;
    let answer = client.get("/never").await;
    sleep(secs(1)).await;
    server.done.abort();
    assert!(answer.await.is_err());
    assert_eq!(server.dropped.recv().await, Some(()));
}

#[tokio::test(start_paused = true)]
async fn it_can_be_switched_off() {
    let server = server(ServeConfig { http2: false, ..ServeConfig::default() });
    let mut client = server.connect().await;
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.is_empty(), "{answer:?}");
    let mut client = server.connect().await;
    send(&mut client, "/hello").await;
    read_until(&mut client, "hello").await;
}

/// hyper moves its PING timer with this, so that a connection costs one allocation and not one for each PING.
#[tokio::test(start_paused = true)]
async fn a_timer_of_the_runtime_is_moved_in_place() {
    use hyper::rt::Timer as _;
    let timer = RuntimeTimer::new(Tokio::current());
    let start = timer.now();
    let mut sleep = timer.sleep(secs(10));
    let place = std::ptr::from_ref(&*sleep).cast::<()>();
    timer.reset(&mut sleep, start + secs(20));
    assert_eq!(std::ptr::from_ref(&*sleep).cast::<()>(), place);
    sleep.await;
    assert_eq!(timer.now() - start, secs(20));
}
