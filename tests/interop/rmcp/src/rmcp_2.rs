//! The client on rmcp 2.x: `rmcp-2 URL PROFILES SERVER`. It speaks the legacy era only.

extern crate rmcp_2 as rmcp;

mod client;

use std::process::ExitCode;

use rmcp::{ServiceExt, transport::StreamableHttpClientTransport};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    client::run(false, async |handler, url: &str| {
        handler.serve(StreamableHttpClientTransport::from_uri(url)).await.map_err(|error| error.to_string())
    })
    .await
}
