//! The program without a command.

use rustix::process::Signal;
use serde_json::json;

use crate::harness::Setup;
use crate::session::{ANY, JSON, SSE, Session, text};

#[test]
fn it_serves_the_demo() {
    let mut program = Setup::new(&[]).start();
    let session = Session::open(&program);
    for accept in [JSON, SSE, ANY] {
        let response = session.start("echo", &json!({ "text": "hello" }), accept).response();
        assert_eq!(text(&response), "hello");
    }
    program.wait_for_log(&format!("http://{}/mcp", program.address));
    program.signal(Signal::TERM);
    assert!(program.wait().success());
}

#[test]
fn it_serves_another_path_alone() {
    let mut command = crate::harness::sessile();
    let mut child = command.args(["--listen", "127.0.0.1:0", "--path", "/a/b"]).spawn().expect("it starts");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().expect("a pipe")), &mut line)
        .expect("a line");
    let _ = child.kill();
    let _ = child.wait();
    assert!(line.starts_with("sessile listening on http://127.0.0.1:") && line.ends_with("/a/b\n"), "{line}");
}
