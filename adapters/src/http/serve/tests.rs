//! Over real loopback sockets, on a paused clock: when nothing is left to do, time jumps to the next timer.

use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use http_body::{Frame, SizeHint};
use hyper::rt::ReadBufCursor;
use hyper::service::service_fn;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::runtime::Runtime;
use crate::runtime::tokio::{Tokio, TokioListener, TokioStream};

/// Tokio, with the writes counted.
#[derive(Clone)]
struct Counting {
    tokio: Tokio,
    writes: Arc<AtomicUsize>,
}

impl Runtime for Counting {
    type Timer = <Tokio as Runtime>::Timer;

    fn now(&self) -> Timestamp {
        self.tokio.now()
    }

    fn timer_at(&self, at: Timestamp) -> Self::Timer {
        self.tokio.timer_at(at)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tokio.spawn(task);
    }
}

struct CountingStream(TokioStream, Arc<AtomicUsize>);

impl Net for Counting {
    type Listener = (TokioListener, Arc<AtomicUsize>);
    type Stream = CountingStream;

    fn listener(&self, socket: Socket) -> io::Result<Self::Listener> {
        Ok((self.tokio.listener(socket)?, Arc::clone(&self.writes)))
    }

    async fn accept((listener, writes): &Self::Listener) -> io::Result<CountingStream> {
        Ok(CountingStream(Tokio::accept(listener).await?, Arc::clone(writes)))
    }

    fn tune(stream: &CountingStream, user_timeout: Option<Duration>) -> io::Result<()> {
        Tokio::tune(&stream.0, user_timeout)
    }
}

impl hyper::rt::Read for CountingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for CountingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }
}

pub(super) struct InMemory(pub(super) tokio::io::DuplexStream);

impl hyper::rt::Read for InMemory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 256];
        let room = cursor.remaining().min(bytes.len());
        let mut buffer = ReadBuf::new(&mut bytes[..room]);
        std::task::ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        cursor.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for InMemory {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A body of one piece, or of pieces that come in their time.
pub(super) enum TestBody {
    Full(Option<Bytes>),
    Pieces(mpsc::Receiver<Bytes>),
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

pub(super) const BIG: usize = 24 << 20;

pub(super) async fn answer(path: &str, dropped: mpsc::UnboundedSender<()>) -> TestBody {
    match path {
        "/big" => TestBody::Full(Some(Bytes::from(vec![b'x'; BIG]))),
        "/flood" => {
            let (send, pieces) = mpsc::channel(1);
            tokio::spawn(async move { while send.send(Bytes::from_static(&[b'x'; 65_536])).await.is_ok() {} });
            TestBody::Pieces(pieces)
        }
        "/never" => {
            struct Tell(mpsc::UnboundedSender<()>);
            impl Drop for Tell {
                fn drop(&mut self) {
                    let _ = self.0.send(());
                }
            }
            let _tell = Tell(dropped);
            std::future::pending().await
        }
        "/slow" => {
            sleep(Duration::from_secs(5)).await;
            TestBody::Full(Some(Bytes::from_static(b"slow")))
        }
        "/stream" => {
            let (send, pieces) = mpsc::channel(1);
            tokio::spawn(async move {
                for piece in ["one", "two"] {
                    let _ = send.send(Bytes::from_static(piece.as_bytes())).await;
                    sleep(Duration::from_secs(100)).await;
                }
            });
            TestBody::Pieces(pieces)
        }
        _ => TestBody::Full(Some(Bytes::from_static(b"hello"))),
    }
}

pub(super) struct Server {
    address: SocketAddr,
    writes: Arc<AtomicUsize>,
    pub(super) dropped: mpsc::UnboundedReceiver<()>,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) done: JoinHandle<io::Result<()>>,
}

pub(super) fn server(config: ServeConfig) -> Server {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, dropped) = mpsc::unbounded_channel();
    let writes = Arc::new(AtomicUsize::new(0));
    let runtime = Counting { tokio: Tokio::current(), writes: Arc::clone(&writes) };
    let service = service_fn(move |request: Request<Incoming>| {
        let tell = tell.clone();
        async move { Ok(Response::new(answer(request.uri().path(), tell).await)) }
    });
    let done = tokio::spawn(serve(runtime, listener, service, config, async {
        let _ = stopped.await;
    }));
    Server { address, writes, dropped, stop, done }
}

impl Server {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

pub(super) async fn send(stream: &mut TcpStream, path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
}

/// Reads until `end` has come, in at most an hour.
pub(super) async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let read = async {
        while !text.ends_with(end.as_bytes()) {
            if stream.read_buf(&mut text).await.unwrap() == 0 {
                break;
            }
        }
    };
    timeout(Duration::from_secs(3_600), read).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// How long it takes until the server closes; what comes before is counted.
pub(super) async fn closed_after(stream: &mut TcpStream) -> (Duration, usize) {
    let start = Instant::now();
    let mut buffer = vec![0; 65_536];
    let mut bytes = 0;
    loop {
        match timeout(Duration::from_secs(3_600), stream.read(&mut buffer)).await.unwrap() {
            Ok(0) => break,
            Ok(count) => bytes += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                break;
            }
        }
        assert!(bytes < 256 << 20, "not closed");
    }
    (start.elapsed(), bytes)
}

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn an_answer_leaves_in_one_write() {
    let server = server(ServeConfig::default());
    let mut client = server.connect().await;
    for count in 1..=3 {
        send(&mut client, "/hello").await;
        let text = read_until(&mut client, "hello").await;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("\r\ndate: "), "{text}");
        assert_eq!(server.writes.load(Ordering::Relaxed), count);
    }
}

#[tokio::test(start_paused = true)]
async fn http_1_0_is_served() {
    let server = server(ServeConfig::default());
    let mut client = server.connect().await;
    client.write_all(b"GET /hello HTTP/1.0\r\n\r\n").await.unwrap();
    assert!(read_until(&mut client, "hello").await.starts_with("HTTP/1.0 200 OK\r\n"));
    assert_eq!(closed_after(&mut client).await.1, 0);
}

/// R025.
#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_is_cut() {
    let server = server(ServeConfig::default());
    let mut client = server.connect().await;
    send(&mut client, "/flood").await;
    sleep(secs(29)).await;
    assert_eq!(client.peek(&mut [0]).await.unwrap(), 1);
    sleep(secs(2)).await;
    closed_after(&mut client).await;
}

/// In memory, because the system's windows open in real time, which virtual time outruns.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_cut() {
    let (mut client, stream) = tokio::io::duplex(1_024);
    let config = ServeConfig::default();
    let limits = Limits::new(&config);
    let service = service_fn(|_: Request<Incoming>| async {
        Ok(Response::new(TestBody::Full(Some(Bytes::from_static(&[b'x'; 16_384])))))
    });
    let place = Arc::new(Connections::default()).open();
    tokio::spawn(drive(Tokio::current(), InMemory(stream), service, Protocol::new(&config), limits, place));
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut part = [0; 1_024];
    for _ in 0..16 {
        sleep(secs(20)).await;
        client.read_exact(&mut part).await.unwrap();
    }
}

/// R085, R089: a deadline is for one write, and each piece leaves when it is there.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_not_cut() {
    let server = server(ServeConfig { idle_timeout: secs(5), ..ServeConfig::default() });
    let mut client = server.connect().await;
    send(&mut client, "/stream").await;
    let start = Instant::now();
    for (piece, after) in [("one\r\n", 0), ("two\r\n", 100), ("0\r\n\r\n", 200)] {
        assert!(read_until(&mut client, piece).await.ends_with(piece));
        assert_eq!(start.elapsed().as_secs(), after, "{piece}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_head_has_one_deadline() {
    let server = server(ServeConfig::default());
    let mut silent = server.connect().await;
    let mut slow = server.connect().await;
    let start = Instant::now();
    let trickle = async {
        for byte in b"GET / HTTP/1.1\r\nHost: x\r\n" {
            if slow.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(secs(3)).await;
        }
        start.elapsed()
    };
    let (slow, (silent, bytes)) = tokio::join!(trickle, closed_after(&mut silent));
    assert!((secs(30)..secs(31)).contains(&silent), "{silent:?}");
    assert_eq!(bytes, 0);
    assert!((secs(30)..secs(40)).contains(&slow), "{slow:?}");
}

#[tokio::test(start_paused = true)]
async fn later_heads_and_idle_connections_have_their_deadlines() {
    let server = server(ServeConfig::default());
    let mut idle = server.connect().await;
    let mut slow = server.connect().await;
    for client in [&mut idle, &mut slow] {
        for _ in 0..2 {
            send(client, "/hello").await;
            read_until(client, "hello").await;
        }
    }
    // Kept for a while, and still good.
    sleep(secs(70)).await;
    send(&mut idle, "/hello").await;
    read_until(&mut idle, "hello").await;
    slow.write_all(b"GET / HTTP").await.unwrap();
    let ((slow, _), (idle, _)) = tokio::join!(closed_after(&mut slow), closed_after(&mut idle));
    assert!((secs(30)..=secs(45)).contains(&slow), "{slow:?}");
    assert!((secs(75)..=secs(91)).contains(&idle), "{idle:?}");
}

#[tokio::test(start_paused = true)]
async fn zero_is_no_deadline() {
    let none = Duration::ZERO;
    let config = ServeConfig { head_timeout: none, idle_timeout: none, write_timeout: none, ..ServeConfig::default() };
    let server = server(config);
    let (mut silent, mut stalled) = (server.connect().await, server.connect().await);
    send(&mut stalled, "/big").await;
    sleep(secs(100_000)).await;
    send(&mut silent, "/hello").await;
    read_until(&mut silent, "hello").await;
    let mut rest = vec![0; BIG];
    stalled.read_exact(&mut rest).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_head_has_a_size() {
    let server = server(ServeConfig::default());
    let mut client = server.connect().await;
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_ends_its_request() {
    let mut server = server(ServeConfig::default());
    for half in [true, false] {
        let mut client = server.connect().await;
        send(&mut client, "/never").await;
        sleep(secs(1)).await;
        if half {
            client.shutdown().await.unwrap();
        } else {
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
        }
        assert_eq!(timeout(secs(10), server.dropped.recv()).await, Ok(Some(())));
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_a_response_finish_and_closes_idle_connections() {
    let server = server(ServeConfig::default());
    let (mut fresh, mut idle, mut busy) = (server.connect().await, server.connect().await, server.connect().await);
    send(&mut idle, "/hello").await;
    read_until(&mut idle, "hello").await;
    send(&mut busy, "/slow").await;
    sleep(secs(1)).await;
    let start = Instant::now();
    server.stop.send(()).unwrap();
    assert_eq!(closed_after(&mut fresh).await, (Duration::ZERO, 0));
    assert_eq!(closed_after(&mut idle).await, (Duration::ZERO, 0));
    assert_eq!(TcpStream::connect(server.address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let text = read_until(&mut busy, "slow").await;
    assert!(text.contains("connection: close"), "{text}");
    server.done.await.unwrap().unwrap();
    assert!((secs(4)..secs(5)).contains(&start.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_ends_all() {
    let mut server = server(ServeConfig::default());
    let mut client = server.connect().await;
    send(&mut client, "/never").await;
    sleep(secs(1)).await;
    server.done.abort();
    assert_eq!(closed_after(&mut client).await, (Duration::ZERO, 0));
    assert_eq!(server.dropped.recv().await, Some(()));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_limit_connections_wait() {
    let server = server(ServeConfig { max_connections: 1, ..ServeConfig::default() });
    let mut first = server.connect().await;
    send(&mut first, "/hello").await;
    read_until(&mut first, "hello").await;
    let mut second = server.connect().await;
    send(&mut second, "/hello").await;
    assert!(timeout(secs(10), second.read_u8()).await.is_err());
    drop(first);
    read_until(&mut second, "hello").await;
}

#[tokio::test(start_paused = true)]
async fn resets_and_crowds_are_borne() {
    let server = server(ServeConfig::default());
    for _ in 0..100 {
        let client = server.connect().await;
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    }
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut client = server.connect().await;
        send(&mut client, "/hello").await;
        crowd.push(client);
    }
    for client in &mut crowd {
        read_until(client, "hello").await;
    }
    server.stop.send(()).unwrap();
    timeout(secs(1), server.done).await.unwrap().unwrap().unwrap();
}

#[test]
fn trouble_backs_off_and_is_logged_rarely() {
    let mut trouble = Trouble::default();
    let reset = io::Error::from(ErrorKind::ConnectionAborted);
    assert_eq!(trouble.wait_after(&reset, Timestamp::ZERO), None);
    let full = io::Error::other("no file descriptor");
    let waits: Vec<_> =
        (0..9).filter_map(|_| trouble.wait_after(&full, Timestamp::ZERO)).map(|w| w.as_millis()).collect();
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 500, 500]);
    assert_eq!(trouble.unlogged, 8);
    trouble.over();
    assert_eq!(trouble.wait_after(&full, Timestamp::from_secs(10)), Some(Duration::from_millis(5)));
    assert_eq!(trouble.unlogged, 0);
}
