//! The program `sessile`: its options, its log, its signals.
//!
//! ```text
//! sessile [OPTIONS] [-- COMMAND [ARG]...]
//! ```
//!
//! Exit codes: 0 after a signal and an orderly end; 1 if it can't serve, or if a second signal stopped it; 2 for wrong
//! options. Standard output carries one line, when the server is ready; the rest goes to standard error.

mod descriptors;
mod init;
mod listen;
mod log;
mod options;
mod run;
mod tokens;
mod units;
mod warden;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use sessile_core::Config;

use self::descriptors::Descriptors;
use self::listen::{Bound, Listen};
use self::log::Log;
use self::options::{Refusal, Settings};
use self::run::{End, until_signal};
use self::warden::Warden;
use crate::app::stdio::{Stdio, StdioConfig};
use crate::app::{Backend, Demo};
use crate::http::BearerTokens;
use crate::runtime::program::{self, Signals};
use crate::runtime::{Net, Processes};
use crate::{Builder, Manager};

/// Runs the program with this process's arguments and environment.
#[must_use]
pub fn main() -> ExitCode {
    if warden::is_asked_for() {
        return warden::watch();
    }
    match options::parse(std::env::args_os(), |name| std::env::var_os(name)) {
        Ok(_) if init::is_needed() => init::run().unwrap_or_else(|error| failed(&format!("can't start: {error}"))),
        Ok(settings) => start(settings),
        Err(Refusal::Asked(text)) => {
            say(io::stdout(), text.trim_end());
            ExitCode::SUCCESS
        }
        Err(Refusal::Wrong(line)) => wrong(&line),
    }
}

/// How long it takes to see that a killed child is gone.
const MOMENT: Duration = Duration::from_secs(1);

fn start(mut settings: Settings) -> ExitCode {
    let tokens = match settings.bearer_tokens.as_deref().map(tokens::load).transpose() {
        Ok(tokens) => tokens,
        Err(line) => return wrong(&line),
    };
    let (log, flush) = match Log::start(settings.log_level, settings.log_format) {
        Ok(log) => log,
        Err(error) => return failed(&format!("can't start the log: {error}")),
    };
    let tokens = tokens.map(|(tokens, exposed)| {
        if exposed {
            tracing::warn!("every user of this machine may read the file of --bearer-tokens");
        }
        tokens
    });
    let descriptors = Descriptors::raise();
    let warden = settings.child.as_mut().and_then(|child| watched(child, descriptors));
    let end = program::run(|runtime| run(runtime, settings, tokens, log, descriptors));
    if let Some(warden) = warden {
        warden.end();
    }
    drop(flush);
    match end {
        Ok(Ok(End::Drained)) => ExitCode::SUCCESS,
        Ok(Ok(End::Stopped)) => ExitCode::FAILURE,
        Ok(Err(line)) => failed(&line),
        Err(error) => failed(&format!("can't start: {error}")),
    }
}

/// How many clients may be served at once, each with an app of its own.
const fn sessions(config: &Config) -> usize {
    if config.gate.stateless { config.sessionless.max_requests } else { config.table.max_sessions }
}

/// Children of this command end with us, whatever ends us. Not being able to rule that out is no reason not to serve.
fn watched(child: &mut StdioConfig, descriptors: Descriptors) -> Option<Arc<Warden>> {
    let warden = Warden::start();
    let warden = warden.inspect_err(|error| {
        tracing::warn!(%error, "no warden: if this program is killed, children may live on");
    });
    let warden = warden.ok();
    child.watcher = Some(descriptors.give_back(warden.clone().map(|warden| warden as _)));
    warden
}

/// This program, also where its file has been replaced since.
fn this_program() -> PathBuf {
    let this = Path::new("/proc/self/exe");
    if this.exists() {
        return this.to_owned();
    }
    std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into())
}

fn wrong(line: &str) -> ExitCode {
    say(io::stderr(), &format!("sessile: {line}"));
    ExitCode::from(2)
}

fn failed(line: &str) -> ExitCode {
    say(io::stderr(), &format!("sessile: {line}"));
    ExitCode::FAILURE
}

/// Writes a line; a reader that has gone is no reason to fail.
fn say(mut to: impl Write, line: &str) {
    let _ = writeln!(to, "{line}").and_then(|()| to.flush());
}

/// Serves what the settings say, until a signal. The error is one line.
async fn run<R: Net + Processes>(
    runtime: R,
    settings: Settings,
    tokens: Option<BearerTokens>,
    log: Log,
    descriptors: Descriptors,
) -> Result<End, String> {
    let sessions = sessions(&settings.config);
    let builder = Builder::new(runtime.clone()).config(settings.config.clone()).eras(settings.eras);
    match settings.child.clone() {
        Some(child) => {
            // Stopping a child may take both times, and its reaping a moment.
            let stop = child.stop_grace + child.kill_grace + MOMENT;
            let stdio = Stdio::new(child, runtime.clone());
            let manager = builder.app(stdio.clone()).build().map_err(|error| error.to_string())?;
            let asked = settings.eras.modern;
            let ready = |_: &str| {
                descriptors.check(sessions, true);
                if asked {
                    stdio.probe();
                }
            };
            run_manager(runtime, manager, settings, tokens, stop, ready, stdio.shutdown()).await
        }
        None => {
            let manager = builder.handler(Demo::new()).build().map_err(|error| error.to_string())?;
            let ready = |url: &str| {
                descriptors.check(sessions, false);
                log.line(&how_to_connect(url));
            };
            run_manager(runtime, manager, settings, tokens, MOMENT, ready, std::future::ready(())).await
        }
    }
}

async fn run_manager<R: Net, B: Backend>(
    runtime: R,
    manager: Manager<R, B>,
    settings: Settings,
    tokens: Option<BearerTokens>,
    stop: Duration,
    ready: impl FnOnce(&str),
    last: impl Future<Output = ()>,
) -> Result<End, String> {
    // The file of a socket lasts as long as this.
    let Bound { socket, at, file: _file } = settings.listen.bind(settings.socket_mode)?;
    // Before anybody can know that we are there.
    let mut signals = Signals::listen().map_err(|error| format!("can't listen to signals: {error}"))?;
    manager.start().map_err(|error| error.to_string())?;
    let mut service = manager.service().map_err(|error| error.to_string())?.path(&settings.path);
    if let Some(tokens) = tokens {
        service = service.authenticate(tokens);
    } else if !at.is_loopback() {
        tracing::warn!("listening on {at} without authentication: whoever reaches it can open sessions");
    }
    let url = match &at {
        Listen::Tcp(address) => format!("http://{address}{}", settings.path),
        Listen::Unix(_) => format!("http://localhost{} over {at}", settings.path),
    };
    say(io::stdout(), &format!("sessile listening on {url}"));
    ready(&url);
    let drain = settings.drain_timeout;
    until_signal(
        runtime,
        socket,
        service,
        settings.serve,
        async || signals.next().await,
        async || {
            if let Err(error) = manager.shutdown(drain, stop).await {
                tracing::error!(%error, "shutdown");
            }
            last.await;
        },
    )
    .await
    .map_err(|error| format!("can't serve: {error}"))
}

fn how_to_connect(url: &str) -> String {
    format!(
        "This is the demo server. Point an MCP client at {url} (Streamable HTTP), or serve your own stdio server:\n\
         \n    sessile -- COMMAND [ARG]...\n"
    )
}
