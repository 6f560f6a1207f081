//! How a child is started, and what it gets to see of our environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::watch::GroupWatcher;

/// What every child gets of our environment, where it is set: what the official SDKs pass, and what decides the
/// language, the time zone and the place of temporary files. Everything else may hold secrets that are none of its
/// business.
pub(super) const PASSED: [&str; 11] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// A command to run for each session, and how its process is treated.
#[derive(Clone)]
#[non_exhaustive]
pub struct StdioConfig {
    /// The program. A name without a slash is searched for in the child's `PATH`. There is no shell.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set for the child; they win over passed ones.
    pub env: Vec<(OsString, OsString)>,
    /// Names of variables to pass from our environment, where they are set, in addition to `HOME`, `LANG`, `LC_ALL`,
    /// `LC_CTYPE`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ` and `USER`.
    pub pass_env: Vec<OsString>,
    /// The working directory; ours by default. A relative program with a slash in it is looked for there.
    pub cwd: Option<PathBuf>,
    /// How long a child may take to exit after its standard input was closed, before SIGTERM. Default: 2 s.
    pub stop_grace: Duration,
    /// How long it may take after SIGTERM, before SIGKILL. Default: 5 s.
    pub kill_grace: Duration,
    /// The longest line that a child may write, in bytes; a longer one ends its session. Default: 64 MiB.
    pub max_line: usize,
    /// How many children may serve modern requests (2026-07-28), which share one child for each principal. At the limit
    /// the longest idle one gives way; if none is idle, requests of further principals get an error. Default: 100.
    pub modern_children: usize,
    /// How long such a child may be without a request before it is stopped. Default: 5 min.
    pub modern_idle: Duration,
    /// How long a child that is asked which eras it speaks may take to answer. Default: 5 s.
    pub probe_timeout: Duration,
    /// Who is told of the child's birth and of its end. Default: nobody.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
}

impl StdioConfig {
    /// Runs `program` without arguments, with the defaults.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            pass_env: Vec::new(),
            cwd: None,
            stop_grace: Duration::from_secs(2),
            kill_grace: Duration::from_secs(5),
            max_line: 64 * 1024 * 1024,
            modern_children: 100,
            modern_idle: Duration::from_secs(5 * 60),
            probe_timeout: Duration::from_secs(5),
            watcher: None,
        }
    }

    pub(super) fn command(&self) -> Command {
        self.command_from(|name| env::var_os(name))
    }

    fn command_from(&self, our_env: impl Fn(&OsStr) -> Option<OsString>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        for name in PASSED.iter().map(OsStr::new).chain(self.pass_env.iter().map(OsString::as_os_str)) {
            if let Some(value) = our_env(name) {
                command.env(name, value);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// Says what could not be started: the system's words alone don't tell a missing program from a missing directory.
    pub(super) fn describe(&self, error: &io::Error) -> io::Error {
        let what = match &self.cwd {
            Some(cwd) if !cwd.is_dir() => format!("no working directory {}: {error}", cwd.display()),
            _ => format!("cannot start {}: {error}", self.program.display()),
        };
        io::Error::new(error.kind(), what)
    }
}

/// Shows no argument and no value: they may be secrets.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("pass_env", &self.pass_env)
            .field("cwd", &self.cwd)
            .field("stop_grace", &self.stop_grace)
            .field("kill_grace", &self.kill_grace)
            .field("max_line", &self.max_line)
            .field("modern_children", &self.modern_children)
            .field("modern_idle", &self.modern_idle)
            .field("probe_timeout", &self.probe_timeout)
            .field("watcher", &self.watcher.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_argument_and_no_value() {
        let mut config = StdioConfig::new("server");
        config.args = vec!["--token=secret".into()];
        config.env = vec![("KEY".into(), "secret".into())];
        let shown = format!("{config:?}");
        assert!(shown.contains("KEY") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_child_gets_what_is_passed_and_what_is_set_and_nothing_else() {
        let ours = [("AWS_SECRET", "no"), ("HOME", "/h"), ("LANG", "C"), ("PATH", "/bin"), ("TOKEN", "t"), ("X", "x")];
        let mut config = StdioConfig::new("server");
        config.pass_env = vec!["TOKEN".into(), "UNSET".into(), "X".into()];
        config.env = vec![("LANG".into(), "de".into()), ("X".into(), "y".into())];
        let command = config
            .command_from(|name| ours.iter().find(|(ours, _)| name == *ours).map(|(_, value)| OsString::from(value)));
        let mut given: Vec<_> = command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        given.sort_unstable();
        assert_eq!(
            given,
            [("HOME", "/h"), ("LANG", "de"), ("PATH", "/bin"), ("TOKEN", "t"), ("X", "y")]
                .map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
        );
    }
}
