//! What follows from a script, word for word.

use super::example;

#[test]
fn the_life_of_sessions_is_as_it_was_written_down() {
    let output = example("scripted").output().expect("it starts");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), include_str!("../../examples/scripted/life.out"));
}

#[test]
fn a_script_of_ones_own_is_run_and_its_faults_are_named() {
    let path = std::env::temp_dir().join(format!("sessile-script-{}", std::process::id()));
    std::fs::write(&path, "arrive alice initialize\n\nfinish s2\n").expect("a file");
    let output = example("scripted").arg(&path).stderr(std::process::Stdio::piped()).output().expect("it starts");
    std::fs::remove_file(&path).expect("it is ours");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("create s1\n"));
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 3: no session s2"));
}
