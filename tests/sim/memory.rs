//! A network in memory, for any runtime.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use fastrand::Rng;
use hyper::rt::ReadBufCursor;
use sessile::runtime::{Net, Runtime, Socket, Timer as _};
use sessile_core::Timestamp;

use super::executor::{Sim, Step};
use super::faults::Faults;
use super::pipe::{Found, Pipe};

/// A runtime with its own clock and tasks and a network in memory. Cheap to clone; all clones have the same network.
///
/// A listener is named by the address of the socket that it was made of, on which nothing ever arrives.
#[derive(Clone, Debug)]
pub struct Memory<R> {
    net: Arc<Mutex<Network>>,
    runtime: R,
    trace: Option<Sim>,
}

#[derive(Debug)]
struct Network {
    listeners: BTreeMap<SocketAddr, Arc<Backlog>>,
    pipes: u64,
    rng: Rng,
}

#[derive(Debug, Default)]
struct Backlog(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    accepting: Option<Waker>,
    errors: VecDeque<io::ErrorKind>,
    open: bool,
    streams: VecDeque<Box<dyn std::any::Any + Send>>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { accepting: None, errors: VecDeque::new(), open: true, streams: VecDeque::new() }
    }
}

impl Memory<Sim> {
    /// The network of a simulated run, whose bytes are in its trace.
    #[must_use]
    pub fn simulated(sim: Sim) -> Self {
        let rng = sim.fork();
        Self { trace: Some(sim.clone()), ..Self::new(sim, rng) }
    }
}

impl<R: Runtime> Memory<R> {
    /// A network beside `runtime`.
    pub fn new(runtime: R, rng: Rng) -> Self {
        let net = Network { listeners: BTreeMap::new(), pipes: 0, rng };
        Self { net: Arc::new(Mutex::new(net)), runtime, trace: None }
    }

    /// Connects to whoever listens there, with these faults on the way there and back.
    ///
    /// # Errors
    ///
    /// If nobody does.
    pub fn connect(&self, to: SocketAddr, [there, back]: [Faults; 2]) -> io::Result<MemoryStream<R>> {
        let mut net = self.lock();
        let backlog = net.listeners.get(&to).cloned().ok_or(io::ErrorKind::ConnectionRefused)?;
        let mut way = |faults| {
            net.pipes += 1;
            Arc::new(Way { number: net.pipes, pipe: Pipe::new(faults, net.rng.fork()) })
        };
        let (there, back) = (way(there), way(back));
        drop(net);
        let ours = MemoryStream::new(self, &back, &there);
        let theirs = MemoryStream::new(self, &there, &back);
        backlog.push(Box::new(theirs))?;
        Ok(ours)
    }

    /// Makes the next `accept` of whoever listens there fail.
    pub fn fail_accept(&self, at: SocketAddr, error: io::ErrorKind) {
        let backlog = self.lock().listeners.get(&at).cloned();
        if let Some(backlog) = backlog {
            let accepting = {
                let mut waiting = backlog.lock();
                waiting.errors.push_back(error);
                waiting.accepting.take()
            };
            accepting.into_iter().for_each(Waker::wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Network> {
        self.net.lock().expect("nothing panics while it is held")
    }
}

impl Backlog {
    fn push(&self, stream: Box<dyn std::any::Any + Send>) -> io::Result<()> {
        let mut waiting = self.lock();
        if !waiting.open {
            drop(waiting);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        waiting.streams.push_back(stream);
        let accepting = waiting.accepting.take();
        drop(waiting);
        accepting.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl<R: Runtime> Runtime for Memory<R> {
    type Timer = R::Timer;

    fn now(&self) -> Timestamp {
        self.runtime.now()
    }

    fn timer_at(&self, at: Timestamp) -> R::Timer {
        self.runtime.timer_at(at)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }
}

impl<R: Runtime> Net for Memory<R> {
    type Listener = MemoryListener;
    type Stream = MemoryStream<R>;

    fn listener(&self, socket: Socket) -> io::Result<MemoryListener> {
        let Socket::Tcp(name) = socket else { return Err(io::ErrorKind::Unsupported.into()) };
        let backlog = Arc::new(Backlog::default());
        self.lock().listeners.insert(name.local_addr()?, Arc::clone(&backlog));
        Ok(MemoryListener { backlog, _name: name })
    }

    async fn accept(listener: &MemoryListener) -> io::Result<MemoryStream<R>> {
        let stream = poll_fn(|cx| {
            let mut waiting = listener.backlog.lock();
            if let Some(error) = waiting.errors.pop_front() {
                return Poll::Ready(Err(io::Error::from(error)));
            }
            match waiting.streams.pop_front() {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => {
                    waiting.accepting = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        let stream = stream.downcast().map_err(|_| io::Error::other("a stream of another network"))?;
        Ok(*stream)
    }

    fn tune(_: &MemoryStream<R>, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// A bound socket. Who connects after its end is refused; who was not accepted by then is reset.
#[derive(Debug)]
pub struct MemoryListener {
    backlog: Arc<Backlog>,
    /// So that no other listener gets the same name meanwhile.
    _name: std::net::TcpListener,
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        let mut waiting = self.backlog.lock();
        waiting.open = false;
        let streams = std::mem::take(&mut waiting.streams);
        drop(waiting);
        drop(streams);
    }
}

/// One end of a connection. Dropping it closes it, by a reset if something is left unread, as a socket does.
#[derive(Debug)]
pub struct MemoryStream<R: Runtime> {
    input: Arc<Way>,
    output: Arc<Way>,
    runtime: R,
    timer: Option<R::Timer>,
    trace: Option<Sim>,
}

#[derive(Debug)]
struct Way {
    number: u64,
    pipe: Pipe,
}

impl<R: Runtime> MemoryStream<R> {
    fn new(memory: &Memory<R>, input: &Arc<Way>, output: &Arc<Way>) -> Self {
        Self {
            input: Arc::clone(input),
            output: Arc::clone(output),
            runtime: memory.runtime.clone(),
            timer: None,
            trace: memory.trace.clone(),
        }
    }

    /// Ends the connection as a crash does.
    pub fn reset(&self) {
        self.input.pipe.reset();
        self.output.pipe.reset();
    }

    fn note(&self, way: &Way, length: usize) {
        if let Some(sim) = &self.trace {
            sim.note(Step::Bytes { number: way.number, length });
        }
    }
}

/// Nothing in it is ever pinned.
impl<R: Runtime> Unpin for MemoryStream<R> {}

impl<R: Runtime> hyper::rt::Read for MemoryStream<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            match this.input.pipe.read(cx, this.runtime.now(), buffer.remaining())? {
                Found::Bytes(bytes) => {
                    this.note(&this.input, bytes.len());
                    buffer.put_slice(&bytes);
                    return Poll::Ready(Ok(()));
                }
                Found::Later(at) => {
                    let runtime = &this.runtime;
                    let timer = this.timer.get_or_insert_with(|| runtime.timer_at(at));
                    timer.reset(at);
                    ready!(Pin::new(timer).poll(cx));
                }
                Found::Nothing => return Poll::Pending,
            }
        }
    }
}

impl<R: Runtime> hyper::rt::Write for MemoryStream<R> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.output.pipe.write(cx, self.runtime.now(), bytes));
        match &written {
            Ok(length) => self.note(&self.output, *length),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.reset(),
            Err(_) => {}
        }
        Poll::Ready(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.pipe.finish(self.runtime.now());
        Poll::Ready(Ok(()))
    }

    // As with sockets; a vectored write is a short one.
    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl<R: Runtime> Drop for MemoryStream<R> {
    fn drop(&mut self) {
        if self.input.pipe.deafen() {
            self.reset();
        } else {
            self.output.pipe.finish(self.runtime.now());
        }
    }
}
