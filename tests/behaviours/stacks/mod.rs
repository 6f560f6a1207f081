//! The stacks: what a server is made of, and how its clients reach it. One file each.

mod axum;
mod http2;
mod memory;
mod server;
mod simulated;
mod sockets;

pub(crate) use axum::Axum;
pub(crate) use http2::Http2;
pub(crate) use memory::TokioPaused;
pub(crate) use simulated::Simulated;
pub(crate) use sockets::{AsyncStdSockets, SmolSockets, TokioSockets};

use crate::world::{Boxed, World};

/// A stack.
pub(crate) trait Stack {
    /// What it has not, with the reason.
    const LACKS: &[(Needs, &str)];

    /// Runs a behaviour to its end.
    fn run(behaviour: fn(World) -> Boxed<()>);
}

/// What a behaviour may need that not every stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing that is not everywhere.
    Nothing,
    /// Connections that sessile serves itself with one exchange at a time, and virtual time to see their deadlines.
    OneExchange,
    /// Connections that sessile serves itself, and virtual time to see their deadlines.
    OurConnections,
    /// Virtual time.
    Time,
}

/// Runs a behaviour if the stack has what it needs, else says why not.
#[expect(clippy::print_stdout, reason = "whoever reads of a test sees why it is not run")]
pub(crate) fn run<S: Stack>(name: &str, needs: Needs, behaviour: fn(World) -> Boxed<()>) {
    match S::LACKS.iter().find(|(lack, _)| *lack == needs) {
        Some((_, why)) => println!("{name} is not run here: {why}"),
        None => S::run(behaviour),
    }
}
