//! The options of the program, and what they mean together.
//!
//! Owns names, defaults, the environment, and every line that tells somebody what they got wrong. Does not own what is done
//! with the [`Settings`].

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{EnumValueParser, Styles};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use sessile_core::config::{ResponseMode, WhenFull};
use sessile_core::{Config, ConfigError, Eras, Gate};

use super::listen::Listen;
use super::units;
use crate::app::stdio::StdioConfig;
use crate::http::ServeConfig;

/// All that the program was told.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) bearer_tokens: Option<PathBuf>,
    /// What to serve; without it the demo server.
    pub(super) child: Option<StdioConfig>,
    pub(super) config: Config,
    pub(super) drain_timeout: Duration,
    pub(super) eras: Eras,
    pub(super) listen: Listen,
    pub(super) log_format: LogFormat,
    pub(super) log_level: LogLevel,
    pub(super) path: String,
    pub(super) serve: ServeConfig,
    /// The permissions of a Unix socket's file.
    pub(super) socket_mode: u32,
}

/// Why there are no settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Help or the version was asked for: the text for stdout.
    Asked(String),
    /// One line that says what is wrong.
    Wrong(String),
}

/// Reads the command line, and for what it does not say, the environment.
///
/// # Errors
///
/// One line for the first thing that is wrong, or the text that was asked for.
pub(super) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Settings, Refusal> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.is_empty() {
        arguments.push("sessile".into());
    }
    let given = command().try_get_matches_from(&arguments).map_err(|error| refusal(&error, None))?;
    // The environment speaks through options put before the others, so that both are read by one parser.
    let mut all = vec![arguments.remove(0)];
    for argument in command().get_arguments() {
        let (Some(long), id) = (argument.get_long(), argument.get_id().as_str()) else { continue };
        let variable = variable(long);
        let Some(value) = environment(&variable).filter(|value| !value.is_empty()) else { continue };
        if given.value_source(id) == Some(clap::parser::ValueSource::CommandLine) {
            continue;
        }
        for value in split(id, value, &variable)? {
            let mut option = OsString::from(format!("--{long}="));
            option.push(value);
            let alone = command().try_get_matches_from([OsStr::new("sessile"), &option]);
            alone.map_err(|error| refusal(&error, Some(&variable)))?;
            all.push(option);
        }
    }
    all.append(&mut arguments);
    let matches = command().try_get_matches_from(all).map_err(|error| refusal(&error, None))?;
    settings(Options::from_arg_matches(&matches).map_err(|error| refusal(&error, None))?, |id| {
        if given.value_source(id) == Some(clap::parser::ValueSource::CommandLine) {
            Some(format!("--{}", id.replace('_', "-")))
        } else if matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine) {
            Some(variable(&id.replace('_', "-")))
        } else {
            None
        }
    })
    .map_err(Refusal::Wrong)
}

/// The variable that stands for an option.
fn variable(long: &str) -> String {
    format!("SESSILE_{}", long.replace('-', "_").to_ascii_uppercase())
}

/// The values in a variable: lists are split at commas, assignments at line ends since their values may hold commas.
fn split(id: &str, value: OsString, variable: &str) -> Result<Vec<OsString>, Refusal> {
    let separator = match id {
        "allowed_host" | "allowed_origin" | "cors_origin" | "pass_env" => ',',
        "env" => '\n',
        _ => return Ok(vec![value]),
    };
    let Some(text) = value.to_str() else { return Err(Refusal::Wrong(format!("{variable} is not UTF-8"))) };
    Ok(text.split(separator).map(str::trim).filter(|part| !part.is_empty()).map(OsString::from).collect())
}

fn command() -> clap::Command {
    Options::command().styles(Styles::plain())
}

/// One line out of what the parser has to say.
fn refusal(error: &clap::Error, variable: Option<&str>) -> Refusal {
    use clap::error::ErrorKind;
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Refusal::Asked(text);
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    if let (ErrorKind::UnknownArgument, Some(word)) = (error.kind(), context(ContextKind::InvalidArg))
        && !word.starts_with('-')
    {
        return Refusal::Wrong(format!(
            "unexpected {word:?}: a command goes behind --, as in sessile [OPTIONS] -- COMMAND"
        ));
    }
    let option = variable
        .map(str::to_owned)
        .or_else(|| context(ContextKind::InvalidArg).map(|arg| arg.split(' ').next().unwrap_or_default().to_owned()));
    if let (ErrorKind::ValueValidation, Some(option), Some(value)) =
        (error.kind(), &option, context(ContextKind::InvalidValue))
    {
        let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        return Refusal::Wrong(format!("{option} {value:?}: {why}"));
    }
    if let (ErrorKind::InvalidValue, Some(option), Some(value), Some(ContextValue::Strings(possible))) =
        (error.kind(), &option, context(ContextKind::InvalidValue), error.get(ContextKind::ValidValue))
    {
        return Refusal::Wrong(if possible.is_empty() {
            format!("{option} needs a value")
        } else {
            format!("{option} {value:?}: expected one of {}", possible.join(", "))
        });
    }
    // The first paragraph, on one line.
    let paragraph: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = paragraph.join(" ");
    Refusal::Wrong(line.strip_prefix("error: ").unwrap_or(&line).to_owned())
}

/// Checks the options against each other. `name` tells how an option was given, if it was.
fn settings(options: Options, name: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
    let mut config = Config::default();
    config.gate.loopback_hosts = options.listen.is_loopback();
    config.gate.loopback_origins = options.listen.is_loopback();
    config.gate.allowed_hosts = options.allowed_host;
    match &options.listen {
        Listen::Unix(_) => {}
        Listen::Tcp(address) => {
            if let Some(name) = name("socket_mode") {
                return Err(format!("{name} applies to a socket, and --listen has none: --listen unix:PATH"));
            }
            if address.ip().is_unspecified() {
                config.gate.loopback_hosts = true;
            } else if !address.ip().is_loopback() {
                // Whoever reaches a given address may call it by that address.
                config.gate.allowed_hosts.push(match address {
                    SocketAddr::V4(v4) => format!("{}:*", v4.ip()),
                    SocketAddr::V6(v6) => format!("[{}]:*", v6.ip()),
                });
            }
        }
    }
    config.gate.allowed_origins = options.allowed_origin;
    config.gate.cors_origins = options.cors_origin;
    config.gate.body_timeout = options.body_timeout;
    config.gate.max_body = options.max_body;
    config.gate.response_mode = match options.response {
        Response::Auto => ResponseMode::Auto,
        Response::Json => ResponseMode::Json,
        Response::Sse => ResponseMode::Sse,
    };
    let some = |time: Duration| (!time.is_zero()).then_some(time);
    config.table.idle_timeout = some(options.idle_timeout);
    config.table.init_timeout = some(options.init_timeout);
    config.table.max_lifetime = some(options.max_lifetime);
    config.table.max_sessions = options.max_sessions;
    config.table.when_full = match options.when_full {
        Full::EvictIdle => WhenFull::EvictIdle,
        Full::Refuse => WhenFull::Refuse,
    };
    config.gate.stateless = options.stateless == Switch::On;
    if config.gate.stateless {
        for id in ["idle_timeout", "init_timeout", "max_lifetime", "max_sessions", "when_full"] {
            if let Some(name) = name(id) {
                return Err(format!("{name} applies to sessions, and --stateless has none"));
            }
        }
        config.table.idle_timeout = None;
    } else {
        config.session.detached_timeout = config.table.idle_timeout;
    }
    config.session.keep_alive = options.keep_alive;
    config.session.log_age = options.log_age;
    config.session.log_bytes = options.log_bytes;
    config.session.log_count = options.log_events;
    config.session.max_in_flight = options.max_in_flight;
    config.session.poll_after = some(options.poll_after);
    config.session.resume = options.resume == Switch::On;
    config.session.retry = options.retry;
    config.session.start_timeout = options.start_timeout;
    let checked = config.check().and_then(|()| Gate::new(&config.gate).map(drop));
    checked.map_err(
        |error| {
            if error == ConfigError::FullForEver { FULL_FOR_EVER.to_owned() } else { error.to_string() }
        },
    )?;

    let mut words = options.command.into_iter();
    let child = match words.next() {
        Some(program) if program.is_empty() => return Err("the command is empty".into()),
        Some(program) => {
            let mut child = StdioConfig::new(program);
            child.args = words.collect();
            child.cwd = options.cwd;
            child.env = options.env;
            child.pass_env = options.pass_env;
            child.stop_grace = options.stop_grace;
            child.kill_grace = options.kill_grace;
            child.modern_idle = some(options.idle_timeout).unwrap_or(Duration::MAX);
            Some(child)
        }
        None => {
            for id in ["cwd", "env", "kill_grace", "pass_env", "start_timeout", "stop_grace"] {
                if let Some(name) = name(id) {
                    return Err(format!(
                        "{name} applies to a command, and none is given: sessile [OPTIONS] -- COMMAND"
                    ));
                }
            }
            None
        }
    };
    Ok(Settings {
        bearer_tokens: options.bearer_tokens,
        child,
        config,
        drain_timeout: options.drain_timeout,
        eras: options.eras,
        listen: options.listen,
        log_format: options.log_format,
        log_level: options.log_level,
        path: options.path,
        serve: ServeConfig { keep_alive: options.keep_alive, ..ServeConfig::default() },
        socket_mode: options.socket_mode,
    })
}

/// Serves a stdio MCP server over Streamable HTTP, one child process per session; without a command, a demo server
#[derive(Debug, Parser)]
#[command(name = "sessile", version, override_usage = "sessile [OPTIONS] [-- COMMAND [ARG]...]", after_help = AFTER_HELP)]
struct Options {
    /// Address and port to listen on, port 0 takes a free one; or unix: and the path of a socket
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = listen)]
    listen: Listen,
    /// Permissions of that socket, in octal digits
    #[arg(long, value_name = "MODE", default_value = "0600", value_parser = mode)]
    socket_mode: u32,
    /// Path of the MCP endpoint
    #[arg(long, default_value = "/mcp", value_parser = path)]
    path: String,
    /// End sessions that were idle for so long; 0 = never
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = units::duration)]
    idle_timeout: Duration,
    /// End sessions whose client does not come back after initialize; 0 = never
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    init_timeout: Duration,
    /// End sessions after so long, busy or not; 0 = never
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration)]
    max_lifetime: Duration,
    /// Sessions at once
    #[arg(long, value_name = "N", default_value = "10000", value_parser = units::count)]
    max_sessions: usize,
    /// Eras to serve, as far as the server speaks them: legacy (with sessions), modern (without), or both
    #[arg(long, value_name = "ERAS", default_value = "legacy,modern", value_parser = eras)]
    eras: Eras,
    /// Serve each request of the legacy era by a fresh server, without sessions
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_value = "off",
        default_missing_value = "on", value_parser = EnumValueParser::<Switch>::new())]
    stateless: Switch,
    /// What happens to a new client when all sessions are taken
    #[arg(long, value_name = "POLICY", default_value = "refuse", value_parser = EnumValueParser::<Full>::new())]
    when_full: Full,
    /// Requests in flight at once in a session
    #[arg(long, value_name = "N", default_value = "1024", value_parser = units::count)]
    max_in_flight: usize,
    /// Size of a request's body
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::size)]
    max_body: usize,
    /// How long a request's body may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::positive_duration)]
    body_timeout: Duration,
    /// How requests are answered where the client leaves a choice
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = EnumValueParser::<Response>::new())]
    response: Response,
    /// How often a silent stream carries a comment; 0 = never
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = units::duration)]
    keep_alive: Duration,
    /// When clients come back to a stream that was ended early
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::positive_duration)]
    retry: Duration,
    /// Whether clients that lost a connection can resume its stream
    #[arg(long, value_name = "SWITCH", default_value = "on", value_parser = EnumValueParser::<Switch>::new())]
    resume: Switch,
    /// Messages kept in one stream, those that were sent included
    #[arg(long, value_name = "N", default_value = "1024", value_parser = units::count)]
    log_events: usize,
    /// Their size
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::size)]
    log_bytes: usize,
    /// How long what was sent can be resumed
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::positive_duration)]
    log_age: Duration,
    /// End the connection of a request's stream after so long, so that its client polls; 0 = never
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration)]
    poll_after: Duration,
    /// Name that clients may call this server by: NAME, NAME:PORT, NAME:* or *; may be repeated
    #[arg(long, value_name = "HOST")]
    allowed_host: Vec<String>,
    /// Origin that browsers may call from: SCHEME://NAME, or with :PORT or :*; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allowed_origin: Vec<String>,
    /// Origin whose pages may read answers (CORS), in the same form, or * for all; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
    /// File with a name and a bearer token per line; requests without one of them get 401
    #[arg(long, value_name = "FILE")]
    bearer_tokens: Option<PathBuf>,
    /// Variable to set for the command; may be repeated
    #[arg(long, help_heading = "Options for the command", value_name = "NAME=VALUE", value_parser = assignment)]
    env: Vec<(OsString, OsString)>,
    /// Variable of this process to hand on to the command; may be repeated
    #[arg(long, help_heading = "Options for the command", value_name = "NAME", value_parser = variable_name)]
    pass_env: Vec<OsString>,
    /// Working directory of the command
    #[arg(long, help_heading = "Options for the command", value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// How long the command may take to answer initialize
    #[arg(long, help_heading = "Options for the command", value_name = "TIME", default_value = "120s", value_parser = units::positive_duration)]
    start_timeout: Duration,
    /// How long the command may take to end after its input was closed, before SIGTERM
    #[arg(long, help_heading = "Options for the command", value_name = "TIME", default_value = "2s", value_parser = units::duration)]
    stop_grace: Duration,
    /// How long it may take after SIGTERM, before SIGKILL
    #[arg(long, help_heading = "Options for the command", value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    kill_grace: Duration,
    /// How long calls may take to finish after SIGTERM or SIGINT
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    drain_timeout: Duration,
    /// What is logged to stderr
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = EnumValueParser::<LogLevel>::new())]
    log_level: LogLevel,
    /// How it is written: lines for people, or a JSON object per line
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = EnumValueParser::<LogFormat>::new())]
    log_format: LogFormat,
    /// The MCP server to run for each session, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const FULL_FOR_EVER: &str =
    "--idle-timeout 0 needs --max-lifetime or --when-full evict-idle: otherwise a full server would stay full";

const AFTER_HELP: &str = "\
Times: 500ms, 30s, 5m, 1h30m. Sizes: 65536, 512KiB, 4MiB.
Each option has a variable too, such as SESSILE_IDLE_TIMEOUT for --idle-timeout; the option wins. What may be
repeated is separated by commas there, in SESSILE_ENV by line ends.
Exit codes: 0 after SIGTERM or SIGINT, 1 if it can't serve or is stopped by a second signal, 2 for wrong options.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Full {
    Refuse,
    EvictIdle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Response {
    Auto,
    Json,
    Sse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Json,
    Text,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

fn listen(text: &str) -> Result<Listen, &'static str> {
    match text.strip_prefix("unix:") {
        Some("") => Err("expected unix:PATH such as unix:/run/sessile.sock"),
        Some(path) => Ok(Listen::Unix(path.into())),
        None => text
            .parse()
            .map(Listen::Tcp)
            .map_err(|_| "expected ADDR:PORT such as 127.0.0.1:8080 or [::1]:8080, or unix:PATH"),
    }
}

fn mode(text: &str) -> Result<u32, &'static str> {
    let octal = text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| octal && *mode <= 0o777);
    mode.ok_or("expected permissions in octal digits such as 0600 or 0660")
}

fn eras(text: &str) -> Result<Eras, &'static str> {
    let mut eras = Eras { legacy: false, modern: false };
    for era in text.split(',').map(str::trim) {
        match era {
            "legacy" => eras.legacy = true,
            "modern" => eras.modern = true,
            _ => return Err("expected legacy, modern, or both with a comma between"),
        }
    }
    Ok(eras)
}

fn path(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected a path such as /mcp";
    let path: http::uri::PathAndQuery = text.parse().map_err(|_| EXPECTED)?;
    if !text.starts_with('/') || path.as_str() != text || path.query().is_some() {
        return Err(EXPECTED);
    }
    let trimmed = text.trim_end_matches('/');
    Ok(if trimmed.is_empty() { "/" } else { trimmed }.to_owned())
}

fn assignment(text: &str) -> Result<(OsString, OsString), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((variable_name(name)?, value.into()))
}

fn variable_name(text: &str) -> Result<OsString, &'static str> {
    if text.is_empty() || text.contains(['=', '\0']) { Err("expected the name of a variable") } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests;
