//! A server on the core alone: one thread, an event loop of its own, HTTP/1.1 by hand, several sessions with streams and timers.
//!
//! ```text
//! cargo run -p sessile-core --example readiness_loop -- 127.0.0.1:8080
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `main` | the loop: who is ready, what is due |
//! | `connection` | one socket as a state machine |
//! | `http` | the framing of HTTP/1.1 |
//! | `server` | gate, table and sessions in their order; what each effect means. Start here |
//! | `app` | the tools `echo`, `shout` and `slow` |
//!
//! It says `listening on ADDRESS` when it is ready, and shuts down gracefully when its standard input, a pipe, is closed. Left out, for the
//! sake of length: revision 2026-07-28, credentials, logging, TLS, and `TCP_USER_TIMEOUT`, without which a peer that vanishes without a
//! word is noticed only when the system's buffers are full of keep-alive comments.

#![allow(clippy::print_stdout, reason = "it is a program")]

mod app;
mod connection;
mod http;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use sessile_core::config::ResponseMode;
use sessile_core::{Config, Timestamp};

use connection::Connection;
use server::Server;

const LISTENER: Token = Token(0);
const STDIN: Token = Token(1);
/// Beyond it, clients wait until another has gone.
const MAX_CONNECTIONS: usize = 4_096;
/// How long connections may take their last bytes.
const LAST_WORDS: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let (address, drain, config) = options()?;
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(address.parse()?)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    watch_stdin(&poll);
    println!("listening on {}", listener.local_addr()?);
    let mut events = Events::with_capacity(256);
    let clock = Clock::start();
    let mut all = Loop {
        connections: BTreeMap::new(),
        deadlines: BTreeSet::new(),
        drain,
        last: 1,
        listener: Some(listener),
        may_accept: true,
        phase: Phase::Serving,
        ready: BTreeSet::new(),
        server: Server::new(config)?,
    };
    loop {
        let now = clock.now();
        all.run(now, &poll)?;
        if matches!(all.phase, Phase::Over) {
            return Ok(());
        }
        let timeout = all.next_deadline().map(|at| at.saturating_since(clock.now()));
        match poll.poll(&mut events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                LISTENER => all.may_accept = true,
                STDIN if event.is_read_closed() => all.begin_shutdown(clock.now()),
                STDIN => {}
                token => {
                    if let Some(Entry { connection, .. }) = all.connections.get_mut(&token) {
                        connection.notice(event);
                        all.ready.insert(token);
                    }
                }
            }
        }
    }
}

struct Loop {
    connections: BTreeMap<Token, Entry>,
    /// Of connections, each at most once.
    deadlines: BTreeSet<(Timestamp, Token)>,
    /// How long calls may take at shutdown.
    drain: Duration,
    last: usize,
    listener: Option<TcpListener>,
    may_accept: bool,
    phase: Phase,
    /// Whom to drive.
    ready: BTreeSet<Token>,
    server: Server,
}

struct Entry {
    connection: Connection,
    deadline: Option<Timestamp>,
}

#[derive(Clone, Copy)]
enum Phase {
    Serving,
    /// Calls may finish.
    Draining {
        until: Timestamp,
    },
    /// Everything has ended and has only to be told.
    Ending {
        until: Timestamp,
    },
    Over,
}

impl Loop {
    /// Does all that can be done now.
    fn run(&mut self, now: Timestamp, poll: &Poll) -> io::Result<()> {
        self.server.tick(now);
        self.ready.extend(self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, token)| *token));
        loop {
            self.accept(now, poll)?;
            self.ready.append(&mut self.server.take_woken());
            match self.ready.pop_first() {
                Some(token) => self.drive(now, token),
                None if self.shut_down(now) => {}
                None => return Ok(()),
            }
        }
    }

    fn drive(&mut self, now: Timestamp, token: Token) {
        let Some(Entry { connection, deadline }) = self.connections.get_mut(&token) else { return };
        if let Some(at) = deadline.take() {
            self.deadlines.remove(&(at, token));
        }
        if connection.drive(now, &mut self.server) {
            *deadline = connection.deadline(&self.server);
            self.deadlines.extend(deadline.map(|at| (at, token)));
        } else {
            self.connections.remove(&token);
            self.may_accept = true;
        }
    }

    fn accept(&mut self, now: Timestamp, poll: &Poll) -> io::Result<()> {
        while self.may_accept && self.connections.len() < MAX_CONNECTIONS {
            let Some(listener) = &self.listener else { return Ok(()) };
            let mut socket = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // Also when there are no descriptors left: the next try is when one is given back.
                Err(_) => {
                    self.may_accept = false;
                    return Ok(());
                }
            };
            self.last += 1;
            let token = Token(self.last);
            // Small answers must not wait for the client's delayed acknowledgement. A socket that is gone already says so when it is read.
            let _ = socket.set_nodelay(true);
            poll.registry().register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
            let connection = Connection::new(now, token, socket);
            self.connections.insert(token, Entry { connection, deadline: None });
            self.ready.insert(token);
        }
        Ok(())
    }

    fn begin_shutdown(&mut self, now: Timestamp) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        self.listener = None;
        self.phase = Phase::Draining { until: now.saturating_add(self.drain) };
        self.server.begin_shutdown(now);
        self.ready.extend(self.connections.keys());
    }

    /// Goes on with the shutdown, if there is one. Whether it has come further.
    fn shut_down(&mut self, now: Timestamp) -> bool {
        match self.phase {
            Phase::Draining { until } if until <= now || !self.server.is_busy() => {
                self.server.finish_shutdown(now);
                self.phase = Phase::Ending { until: now.saturating_add(LAST_WORDS) };
            }
            Phase::Ending { until } if until <= now || self.connections.is_empty() => self.phase = Phase::Over,
            Phase::Serving | Phase::Draining { .. } | Phase::Ending { .. } | Phase::Over => return false,
        }
        true
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let phase = match self.phase {
            Phase::Draining { until } | Phase::Ending { until } => Some(until),
            Phase::Serving | Phase::Over => None,
        };
        let connections = self.deadlines.first().map(|(at, _)| *at);
        self.server.next_deadline().into_iter().chain(connections).chain(phase).min()
    }
}

/// Time as the core wants it: since an epoch of our own.
struct Clock(Instant);

#[allow(clippy::disallowed_methods, reason = "a driver has the clock that the core has not")]
impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.0.elapsed())
    }
}

/// A pipe that is closed tells it without a read. What is no pipe is not watched, and the loop serves until it is killed.
fn watch_stdin(poll: &Poll) {
    #[cfg(unix)]
    let _ = poll.registry().register(&mut mio::unix::SourceFd(&0), STDIN, Interest::READABLE);
    #[cfg(not(unix))]
    let _ = (poll, STDIN);
}

/// Where to listen, how long calls may take at shutdown, and the settings of the core.
fn options() -> Result<(String, Duration, Config), Box<dyn Error>> {
    let mut address = "127.0.0.1:0".to_owned();
    let mut drain = Duration::from_secs(5);
    let mut config = Config::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut millis = || -> Result<Duration, Box<dyn Error>> {
            Ok(Duration::from_millis(arguments.next().ok_or("a number of milliseconds is missing")?.parse()?))
        };
        match argument.as_str() {
            "--drain" => drain = millis()?,
            "--idle" => config.table.idle_timeout = Some(millis()?),
            "--keep-alive" => config.session.keep_alive = millis()?,
            "--resume" => config.session.resume = true,
            "--sse" => config.gate.response_mode = ResponseMode::Sse,
            option if option.starts_with('-') => return Err(format!("no such option: {option}").into()),
            _ => address = argument,
        }
    }
    Ok((address, drain, config))
}
