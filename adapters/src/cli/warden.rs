//! The warden: a process that ends the children when the program itself was killed and can't.
//!
//! It is this program once more, started with a hidden argument, in a process group of its own and deaf to what a terminal
//! or an operator sends to a whole job. It reads a pipe: `+PGID` when a child is born, `-PGID` when its group is gone. When
//! the pipe ends, whatever the reason, so has the program, and what is left of the groups gets SIGKILL.
//!
//! # Whom a signal may hit
//!
//! A number is signalled only between its `+` and its `-`, and the `-` is sent before the leader is reaped, so while the
//! program lives the number can't be anybody else's. When the program is killed the system closes its files first, which
//! ends the pipe, and only then hands its children to another parent, who may reap a leader that has exited: the signal
//! comes within moments of that, and the number is free only if nobody is left in the group, and then used again only when
//! all others have been. What is left open: a child that was being started when the program was killed, so that its `+` was
//! never written, is told by the end of its input alone; and a process that has left its group was never ours to find.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::app::stdio::GroupWatcher;
use crate::runtime::program;

/// The argument that makes a warden of the program.
const ARGUMENT: &str = "--warden";
/// How long it may take to kill what is left, once the program ends in order.
const LAST_KILLS: Duration = Duration::from_secs(1);

/// Whether this process was started to be a warden.
pub(super) fn is_asked_for() -> bool {
    std::env::args_os().skip(1).eq([ARGUMENT])
}

/// Is a warden until the pipe ends.
pub(super) fn watch() -> ExitCode {
    // Deaf or not, there is work to do.
    let _deaf = program::deafen();
    // What kills programs by name must not find it under ours.
    let _ = rustix::thread::set_name(c"warden");
    let left = read(io::stdin().lock());
    for group in left.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

/// The groups that are left when there is no more to read.
fn read(lines: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in lines.lines() {
        // What can't be read is the end too.
        let Ok(line) = line else { break };
        let Some((sign, group)) = line.split_at_checked(1) else { continue };
        // 1 is everybody to the system, and never a child.
        let group = group.parse().ok().filter(|group| *group > 1);
        match (sign, group) {
            ("+", Some(group)) => drop(groups.insert(group)),
            ("-", Some(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    groups
}

/// The program's side.
#[derive(Debug)]
pub(super) struct Warden {
    /// `None`: it is no longer spoken to.
    pipe: Mutex<Option<ChildStdin>>,
    process: Arc<Mutex<Child>>,
    ended: Mutex<Receiver<()>>,
}

impl Warden {
    /// Starts one.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let mut process = Command::new(super::this_program())
            .arg0("warden")
            .arg(ARGUMENT)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = process.stdin.take().ok_or_else(|| io::Error::other("a pipe is missing"))?;
        // A warden that was stopped must not stop us.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let pid = Pid::from_child(&process);
        let (tell, ended) = channel();
        let warden = Arc::new(Self {
            pipe: Mutex::new(Some(pipe)),
            process: Arc::new(Mutex::new(process)),
            ended: Mutex::new(ended),
        });
        let weak = Arc::downgrade(&warden);
        let process = Arc::clone(&warden.process);
        thread::Builder::new().name("warden".into()).spawn(move || {
            // Unreaped until the lock is held, so that nobody else is killed in its place.
            let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), exited));
            let status = lock(&process).wait();
            if let Some(warden) = weak.upgrade()
                && lock(&warden.pipe).take().is_some()
            {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                tracing::error!(status, "the warden has ended: if this program is killed, children may live on");
            }
            drop(tell);
        })?;
        Ok(warden)
    }

    /// Lets it kill what is left, and waits for that.
    pub(super) fn end(&self) {
        lock(&self.pipe).take();
        let _ = lock(&self.ended).recv_timeout(LAST_KILLS);
    }

    fn tell(&self, sign: char, group: u32) {
        let mut pipe = lock(&self.pipe);
        let Some(to) = pipe.as_mut() else { return };
        // Short enough to be written whole or not at all.
        if let Err(error) = to.write_all(format!("{sign}{group}\n").as_bytes()) {
            // It must not go on with a list that has gaps: a number in it may be anybody's by then.
            let _ = lock(&self.process).kill();
            tracing::debug!(%error, "the warden does not listen");
        }
    }
}

impl GroupWatcher for Warden {
    fn born(&self, group: u32) {
        self.tell('+', group);
    }

    fn gone(&self, group: u32) {
        self.tell('-', group);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_was_born_and_is_not_gone() {
        for (text, expected) in [
            ("", &[][..]),
            ("+10\n+11\n-10\n+12\n", &[11, 12]),
            ("+10\n-10\n+10\n", &[10]),
            ("-10\n+10\n+10\n", &[10]),
            // Nothing that would be everybody, or ourselves.
            ("+0\n+1\n+-1\n+-7\n+\n\n10\n+x\n*10\n+4294967297\n\u{20ac}\n", &[]),
            // A line that was cut off is the number that it says, or none: the pipe takes lines whole.
            ("+10\n+11", &[10, 11]),
        ] {
            let left: Vec<_> = read(text.as_bytes()).into_iter().collect();
            assert_eq!(left, expected, "{text:?}");
        }
    }
}
