//! The examples run, and do what they say.
//!
//! Cargo builds examples with `cargo test`, but not where single test targets are named.

mod readiness_loop;
mod scripted;
mod wire;

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A command that starts an example, which lies beside the folder of this test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("it lies in a target directory");
    let path: PathBuf = folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built; cargo test -p sessile-core builds it", path.display());
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}
