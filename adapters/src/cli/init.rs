//! As process 1, of a container for instance.
//!
//! Process 1 inherits every process whose parent has gone, such as what children start and leave behind, and has to reap it.
//! It also gets no signal that it has no handler for. Both are kept apart from serving: process 1 starts the program once
//! more, passes SIGINT and SIGTERM on to it, reaps whatever ends, and ends as the program does. So the program needs to know
//! nothing of strangers, and nothing here can reap a child of a session before its time.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc::sync_channel;
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use crate::runtime::program::{self, Signals};

/// Whether this process is the one that inherits all others.
pub(super) fn is_needed() -> bool {
    std::process::id() == 1
}

/// Runs the program as a child, until it ends.
///
/// # Errors
///
/// If it can't be started.
pub(super) fn run() -> io::Result<ExitCode> {
    // Before the program is there: what asks it to end must not get lost.
    let (child, started) = sync_channel(1);
    let (listening, listens) = sync_channel(1);
    thread::Builder::new().name("signals".into()).spawn(move || {
        let ended = program::run(|_| async move {
            let mut signals = Signals::listen()?;
            let _ = listening.send(());
            let mut child = None;
            loop {
                let name = signals.next().await;
                let signal = if name == "SIGINT" { Signal::INT } else { Signal::TERM };
                if child.is_none() {
                    child = started.recv().ok();
                }
                let Some(child) = child else { return io::Result::Ok(()) };
                // Process 1 ends as soon as it has reaped this one, so its number is nobody else's.
                let _ = kill_process(child, signal);
            }
        });
        drop(ended);
    })?;
    listens.recv().map_err(|_| io::Error::other("can't listen to signals"))?;
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("sessile"));
    // In a group of its own, so that a terminal's Ctrl-C comes once, through us.
    let program = Command::new(super::this_program()).arg0(name).args(words).process_group(0).spawn()?;
    let pid = Pid::from_child(&program);
    let _ = child.send(pid);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => {
                let signalled = status.terminating_signal().map(|signal| 128 + signal);
                let code = status.exit_status().or(signalled).unwrap_or(1);
                return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
