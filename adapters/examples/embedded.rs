//! A manager in a hyper server of your own, with routes beside the endpoint: `GET /status` lists the sessions, `POST /changed`
//! tells all clients that the tools have changed. Ends with its standard input, or by Ctrl-C.
#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use sessile::app::{Calls, Demo};
use sessile::http::Body;
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Manager};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let (sender, stdin) = tokio::sync::oneshot::channel();
    std::thread::spawn(|| sender.send(std::io::copy(&mut std::io::stdin(), &mut std::io::sink())));
    run(listener, async {
        tokio::select! { _ = stdin => {}, _ = tokio::signal::ctrl_c() => {} }
    })
    .await
}

pub(crate) async fn run(listener: TcpListener, end: impl Future) -> Result<(), Box<dyn Error>> {
    let manager = Builder::new(Tokio::current()).handler(Demo::new()).build()?;
    manager.start()?;
    let mut end = pin!(end);
    loop {
        let (socket, _) = tokio::select! { accepted = listener.accept() => accepted?, _ = &mut end => break };
        socket.set_nodelay(true)?;
        let manager = manager.clone();
        let service = service_fn(move |request| answer(manager.clone(), request));
        tokio::spawn(http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service));
    }
    Ok(manager.shutdown(Duration::from_secs(10), Duration::from_secs(2)).await?)
}

type Answer = Result<Response<Body>, Infallible>;
async fn answer(manager: Manager<Tokio, Calls<Demo>>, request: Request<Incoming>) -> Answer {
    let text = match (request.method(), request.uri().path()) {
        (_, "/mcp") => match manager.service() {
            Ok(mcp) => return mcp.call(request).await,
            Err(stopped) => stopped.to_string(),
        },
        (&Method::GET, "/status") => format!("{:#?}\n", manager.list()),
        (&Method::POST, "/changed") => format!("{:?}\n", manager.notify_all("notifications/tools/list_changed", &())),
        _ => "GET /status, POST /changed, or /mcp\n".to_owned(),
    };
    Ok(Response::new(Body::from(text)))
}
