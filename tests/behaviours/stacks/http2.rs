//! hyper with HTTP/2 on tokio with its clock paused, over connections in memory: all exchanges with a server share one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, Parts, Scheme};
use http::{HeaderMap, Request, Uri};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioExecutor;
use sessile::runtime::tokio::Tokio;
use sessile_tests::line::{Exchange, Lost, Sending};
use sessile_tests::pure::Upload;
use sessile_tests::sim::{Faults, Memory};

use super::memory::paused;
use super::server::{Hyper, start};
use super::{Needs, Stack};
use crate::world::{Boxed, Host, Running, Setup, World};

/// hyper with HTTP/2.
pub(crate) struct Http2;

impl Stack for Http2 {
    const LACKS: &[(Needs, &str)] = &[(Needs::OneExchange, "a connection carries many exchanges here")];

    fn run(behaviour: fn(World) -> Boxed<()>) {
        paused(async move {
            let memory = Memory::new(Tokio::current(), Rng::with_seed(0));
            behaviour(World(Arc::new(Http2Host { connections: Connections::default(), memory }))).await;
        });
    }
}

type Connections = Arc<Mutex<BTreeMap<SocketAddr, SendRequest<Sending>>>>;

struct Http2Host {
    connections: Connections,
    memory: Memory<Tokio>,
}

impl Host for Http2Host {
    fn serve(&self, setup: Setup) -> Running {
        start(self.memory.clone(), &Hyper, &setup)
    }

    fn has_connection_headers(&self) -> bool {
        false
    }

    fn carries(&self, request: &Request<Upload>) -> bool {
        let headers = request.headers();
        // A target has one authority, which is the host.
        let of_a_connection = [CONNECTION, TRANSFER_ENCODING].iter().any(|name| headers.contains_key(name));
        !of_a_connection
            && request.uri().authority().is_none()
            && headers.get_all(HOST).iter().count() == 1
            && authority(headers).is_some()
    }

    fn send(&self, to: SocketAddr, mut request: Request<Sending>) -> Boxed<Result<Exchange, Lost>> {
        let (connections, memory) = (Arc::clone(&self.connections), self.memory.clone());
        Box::pin(async move {
            let mut parts = Parts::default();
            parts.scheme = Some(Scheme::HTTP);
            parts.authority = authority(request.headers());
            parts.path_and_query = request.uri().path_and_query().cloned();
            *request.uri_mut() = Uri::from_parts(parts).map_err(|error| Lost(error.into()))?;
            request.headers_mut().remove(HOST);
            let known = connections.lock().expect("nothing panics while it is held").get(&to).cloned();
            let mut connection = match known.filter(SendRequest::is_ready) {
                Some(connection) => connection,
                None => connect(&memory, to).await?,
            };
            let answer = connection.send_request(request);
            connections.lock().expect("nothing panics while it is held").insert(to, connection);
            Ok(Exchange::shared(answer))
        })
    }

    fn sleep(&self, time: Duration) -> Option<Boxed<()>> {
        Some(Box::pin(tokio::time::sleep(time)))
    }

    fn spawn(&self, task: Boxed<()>) {
        tokio::spawn(task);
    }
}

fn authority(headers: &HeaderMap) -> Option<Authority> {
    Authority::try_from(headers.get(HOST)?.as_bytes()).ok()
}

async fn connect(memory: &Memory<Tokio>, to: SocketAddr) -> Result<SendRequest<Sending>, Lost> {
    // The listener may be about to be there.
    tokio::task::yield_now().await;
    let stream = memory.connect(to, [Faults::NONE; 2]).map_err(|error| Lost(error.into()))?;
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.map_err(|error| Lost(error.into()))?;
    tokio::spawn(async move {
        // However it ends: its exchanges tell.
        let _ = connection.await;
    });
    Ok(sender)
}
