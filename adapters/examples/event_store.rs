//! Streams that can be resumed from files, on smol: a file for each event. A store for earnest gives each an age as well.
//!
//! `cargo run --example event_store --features hyper,smol -- 127.0.0.1:8080 FOLDER`
#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::io::ErrorKind::NotFound;
use std::num::NonZeroU64;
use std::path::PathBuf;

use sessile::core::{Config, config::SessionConfig};
use sessile::http::{ServeConfig, serve};
use sessile::store::{EventStore, Range, SessionName, StoreError, StoredEvent};
use sessile::{Builder, app::Demo, runtime::smol::Smol};
use smol::fs;

struct Files(PathBuf);

impl Files {
    fn folder(&self, session: &SessionName, stream: Option<u64>) -> PathBuf {
        let session = self.0.join(format!("{:032x}", u128::from_be_bytes(*session.as_bytes())));
        if let Some(stream) = stream { session.join(stream.to_string()) } else { session }
    }
}

impl EventStore for Files {
    async fn append(&self, session: &SessionName, stream: u64, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        let folder = self.folder(session, Some(stream));
        fs::create_dir_all(&folder).await.map_err(StoreError::failed)?;
        for event in events {
            fs::write(folder.join(event.sequence.to_string()), event.data).await.map_err(StoreError::failed)?;
        }
        Ok(())
    }

    async fn read(&self, session: &SessionName, range: Range) -> Result<Vec<StoredEvent>, StoreError> {
        let (folder, mut found) = (self.folder(session, Some(range.stream)), Vec::new());
        for sequence in (range.after + 1..=range.through).take(range.max_count).filter_map(NonZeroU64::new) {
            match fs::read(folder.join(sequence.to_string())).await {
                Err(error) if error.kind() == NotFound => break,
                data => found.push(StoredEvent { sequence, data: data.map_err(StoreError::failed)?.into() }),
            }
        }
        Ok(range.cut(&found))
    }

    async fn forget(&self, session: &SessionName, stream: Option<u64>) -> Result<(), StoreError> {
        match fs::remove_dir_all(self.folder(session, stream)).await {
            Err(error) if error.kind() != NotFound => Err(StoreError::failed(error)),
            _ => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |number, default: &str| std::env::args().nth(number).unwrap_or_else(|| default.to_owned());
    let files = Files(argument(2, "events").into());
    // Memory keeps a few events of a stream, and the files all.
    let session = SessionConfig { resume: true, log_count: 8, ..SessionConfig::default() };
    let config = Config { session, ..Config::default() };
    let manager = Builder::new(Smol::global()).handler(Demo::new()).config(config).event_store(files).build()?;
    manager.start()?;
    let listener = std::net::TcpListener::bind(argument(1, "127.0.0.1:8080"))?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let service = manager.service()?.path("/mcp");
    smol::block_on(serve(Smol::global(), listener, service, ServeConfig::default(), std::future::pending()))?;
    Ok(())
}
