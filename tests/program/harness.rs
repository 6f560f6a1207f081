//! A running program, and the processes that it has started.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit, test_kill_process};

/// No condition of these tests takes that long, unless it never comes.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// What is prompt, on a machine with much else to do.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// The stdio server that misbehaves on demand.
pub(crate) const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile-child");
/// The variable that children, and what they start, are known by.
const MARK: &str = "TEST_OF_SESSILE";

/// A running program. Dropping it kills it and all that it has started.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) address: SocketAddr,
    child: Child,
    mark: String,
    stderr: Arc<Mutex<Vec<u8>>>,
    stdout: BufReader<ChildStdout>,
}

/// How to start one.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    options: Vec<String>,
    command: Vec<String>,
    deaf: bool,
    /// What starts the program, if it isn't started directly.
    launcher: Vec<String>,
}

impl Setup {
    /// The demo server.
    pub(crate) fn new(options: &[&str]) -> Self {
        Self { options: strings(options), ..Self::default() }
    }

    /// A command to serve.
    pub(crate) fn command(mut self, command: &[&str]) -> Self {
        self.command = strings(command);
        self
    }

    /// Nobody reads what the program writes on standard error.
    pub(crate) fn with_unread_stderr(mut self) -> Self {
        self.deaf = true;
        self
    }

    /// The program is started by this.
    pub(crate) fn under(mut self, launcher: &[&str]) -> Self {
        self.launcher = strings(launcher);
        self
    }

    pub(crate) fn start(self) -> Program {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let mut command = sessile_under(&self.launcher);
        if !self.options.iter().any(|option| option == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(&self.options);
        if !self.command.is_empty() {
            command.args(["--env", &format!("{MARK}={mark}"), "--"]).args(&self.command);
        }
        let mut child = command.spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if !self.deaf {
            let (mut pipe, stderr) = (child.stderr.take().expect("a pipe"), Arc::clone(&stderr));
            thread::spawn(move || {
                let mut buffer = [0; 8192];
                while let Ok(len @ 1..) = pipe.read(&mut buffer) {
                    stderr.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..len]);
                }
            });
        }
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let address = line.strip_prefix("sessile listening on http://").and_then(|rest| rest.strip_suffix("/mcp\n"));
        let address = address.unwrap_or_else(|| panic!("the first line is {line:?}")).parse().expect("an address");
        Program { address, child, mark, stderr, stdout }
    }
}

/// The program, its pipes open, its environment free of settings.
pub(crate) fn sessile() -> Command {
    sessile_under(&[])
}

fn sessile_under(launcher: &[String]) -> Command {
    let program = env!("CARGO_BIN_EXE_sessile-under-test");
    let mut command = Command::new(launcher.first().map_or(program, String::as_str));
    if !launcher.is_empty() {
        command.args(&launcher[1..]).arg(program);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SESSILE_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Program {
    /// Serves hostile children.
    pub(crate) fn hostile(options: &[&str], of_the_child: &[&str]) -> Self {
        Setup::new(options).command(&[&[HOSTILE], of_the_child].concat()).start()
    }

    /// The children of sessions that run now, and what they have started.
    pub(crate) fn tree(&self) -> Vec<u32> {
        marked(&self.mark)
    }

    /// Waits until no process is left but the program.
    pub(crate) fn wait_until_childless(&self) {
        until("the children are gone", || self.tree().is_empty().then_some(()));
        // The kernel shows a zombie without environment; nobody but the program can reap it.
        until("the children are reaped", || zombies_of(self.child.id()).is_empty().then_some(()));
    }

    /// What was logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    pub(crate) fn wait_for_log(&self, text: &str) {
        until(text, || self.log().contains(text).then_some(()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(self.id(), signal);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process that ends the children should the program be killed.
    pub(crate) fn warden(&self) -> Option<u32> {
        children_of(self.id()).into_iter().find(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == b"--warden")
        })
    }

    /// Waits for its end. Whatever it still had to say must not have gone to standard output.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = until("the program ends", || self.child.try_wait().expect("it is ours"));
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "standard output has one line");
        status
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it is there").count()
    }

    /// Lets it open so many, from now on.
    pub(crate) fn limit_descriptors(&self, count: usize) {
        let limit = Rlimit { current: Some(count as u64), maximum: Some(1024) };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit).expect("a lower limit");
    }

    /// How long it has computed so far.
    pub(crate) fn computed(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it is there");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Memory in use, in MiB.
    pub(crate) fn memory(&self) -> usize {
        self.status("VmRSS:") / 1024
    }

    pub(crate) fn threads(&self) -> usize {
        self.status("Threads:")
    }

    fn status(&self, name: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it is there");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Program {
    #[expect(clippy::print_stdout, reason = "the test runner shows it with the failure")]
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let start = log.len().saturating_sub(8192);
            println!("the program's log:\n{}", String::from_utf8_lossy(&log.as_bytes()[start..]));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.tree() {
            kill(pid);
        }
    }
}

pub(crate) fn send_signal(pid: u32, signal: Signal) {
    kill_process(to_pid(pid), signal).expect("it is there");
}

/// Kills a process at once.
pub(crate) fn kill(pid: u32) {
    let _ = kill_process(to_pid(pid), Signal::KILL);
}

/// Whether a process is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    test_kill_process(to_pid(pid)).is_ok() && state(pid).is_some_and(|(state, _)| state != 'Z')
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().expect("a process id")).expect("not zero")
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("a system with /proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn marked(mark: &str) -> Vec<u32> {
    let variable = format!("{MARK}={mark}");
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    processes().filter(is_marked).collect()
}

pub(crate) fn zombies_of(parent: u32) -> Vec<u32> {
    processes().filter(|pid| state(*pid) == Some(('Z', parent))).collect()
}

pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    processes().filter(|pid| state(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

/// The state of a process and its parent.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Waits until there is a value.
///
/// # Panics
///
/// If there is none for [`LONG`].
#[track_caller]
pub(crate) fn until<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(start.elapsed() < LONG, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Does something that must not take long.
#[track_caller]
pub(crate) fn soon<T>(what: &str, act: impl FnOnce() -> T) -> T {
    within(SOON, what, act)
}

/// Does something that must take no longer than `limit`.
#[track_caller]
pub(crate) fn within<T>(limit: Duration, what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = act();
    let taken = start.elapsed();
    assert!(taken <= limit, "{what} took {taken:?}");
    value
}

/// A path of this test alone, where nothing is.
pub(crate) fn scratch(name: &str) -> String {
    let path = format!("{}/{name}-{}", env!("CARGO_TARGET_TMPDIR"), id());
    let _ = fs::remove_dir_all(&path);
    let _ = fs::remove_file(&path);
    path
}
