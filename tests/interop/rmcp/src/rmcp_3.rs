//! The client on rmcp 3.x: `rmcp-3 URL PROFILES SERVER`. It tries the modern era first.

extern crate rmcp_3 as rmcp;

mod client;

use std::process::ExitCode;

use rmcp::{
    model::ProtocolVersion,
    service::{ClientLifecycleMode, ClientServiceExt},
    transport::StreamableHttpClientTransport,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    client::run(true, async |handler, url: &str| {
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let transport = StreamableHttpClientTransport::from_uri(url);
        handler.serve_with_lifecycle(transport, lifecycle).await.map_err(|error| error.to_string())
    })
    .await
}
