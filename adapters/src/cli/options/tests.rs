use super::*;

fn parse_with(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Settings, Refusal> {
    let arguments = std::iter::once("sessile").chain(arguments.iter().copied()).map(OsString::from);
    parse(arguments, |name| {
        environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(*value))
    })
}

fn good(arguments: &[&str]) -> Settings {
    parse_with(arguments, &[]).unwrap_or_else(|refusal| panic!("{arguments:?}: {refusal:?}"))
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_defaults() {
    let settings = good(&[]);
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.path, "/mcp");
    assert_eq!(settings.drain_timeout, secs(10));
    assert_eq!(settings.log_format, LogFormat::Text);
    assert_eq!(settings.log_level, LogLevel::Info);
    assert!(settings.child.is_none());
    // R028, R182.
    assert_eq!((settings.config.table.idle_timeout, settings.config.table.max_sessions), (Some(secs(1_800)), 10_000));
    // The core and the server have the same defaults of their own.
    let mut config = Config::default();
    config.session.resume = true;
    assert_eq!(format!("{:?}", settings.config), format!("{config:?}"));
    assert_eq!(format!("{:?}", settings.serve), format!("{:?}", ServeConfig::default()));
}

#[test]
fn a_command_is_taken_as_it_is() {
    let child = good(&["--", "server", "--listen", "-x", ""]).child.unwrap();
    assert_eq!(child.program, "server");
    assert_eq!(child.args, ["--listen", "-x", ""]);
    let default = StdioConfig::new("server");
    assert_eq!((child.stop_grace, child.kill_grace), (default.stop_grace, default.kill_grace));
}

type Shown = fn(&Settings) -> String;

/// Option, a value, what it becomes.
const OPTIONS: [(&str, &str, Shown, &str); 37] = [
    ("--listen", "[::1]:0", |s| s.listen.to_string(), "[::1]:0"),
    ("--listen", "unix:/a b/c", |s| s.listen.to_string(), "unix:/a b/c"),
    ("--path", "/a/b/", |s| s.path.clone(), "/a/b"),
    ("--idle-timeout", "5m", |s| format!("{:?}", s.config.table.idle_timeout), "Some(300s)"),
    ("--eras", "modern", |s| format!("{:?}", s.eras), "Eras { legacy: false, modern: true }"),
    ("--eras", "modern, legacy", |s| format!("{:?}", s.eras), "Eras { legacy: true, modern: true }"),
    ("--init-timeout", "0", |s| format!("{:?}", s.config.table.init_timeout), "None"),
    ("--max-lifetime", "1d", |s| format!("{:?}", s.config.table.max_lifetime), "Some(86400s)"),
    ("--max-sessions", "7", |s| s.config.table.max_sessions.to_string(), "7"),
    ("--when-full", "evict-idle", |s| format!("{:?}", s.config.table.when_full), "EvictIdle"),
    ("--max-in-flight", "3", |s| s.config.session.max_in_flight.to_string(), "3"),
    ("--max-body", "1KiB", |s| s.config.gate.max_body.to_string(), "1024"),
    ("--body-timeout", "5s", |s| format!("{:?}", s.config.gate.body_timeout), "5s"),
    ("--response", "sse", |s| format!("{:?}", s.config.gate.response_mode), "Sse"),
    ("--response", "json", |s| format!("{:?}", s.config.gate.response_mode), "Json"),
    ("--keep-alive", "7s", |s| format!("{:?} {:?}", s.config.session.keep_alive, s.serve.keep_alive), "7s 7s"),
    ("--keep-alive", "0", |s| format!("{:?} {:?}", s.config.session.keep_alive, s.serve.keep_alive), "0ns 0ns"),
    ("--retry", "3s", |s| format!("{:?}", s.config.session.retry), "3s"),
    ("--resume", "off", |s| s.config.session.resume.to_string(), "false"),
    ("--log-events", "9", |s| s.config.session.log_count.to_string(), "9"),
    ("--log-bytes", "1KiB", |s| s.config.session.log_bytes.to_string(), "1024"),
    ("--log-age", "30s", |s| format!("{:?}", s.config.session.log_age), "30s"),
    ("--poll-after", "1m", |s| format!("{:?}", s.config.session.poll_after), "Some(60s)"),
    ("--allowed-host", "a.example", |s| s.config.gate.allowed_hosts.join(" "), "a.example"),
    ("--allowed-origin", "https://a", |s| s.config.gate.allowed_origins.join(" "), "https://a"),
    ("--cors-origin", "https://a", |s| s.config.gate.cors_origins.join(" "), "https://a"),
    ("--cors-origin", "*", |s| s.config.gate.cors_origins.join(" "), "*"),
    ("--bearer-tokens", "/a,b", |s| format!("{:?}", s.bearer_tokens), r#"Some("/a,b")"#),
    ("--env", "A=b=c,d", |s| format!("{:?}", s.child.as_ref().unwrap().env), r#"[("A", "b=c,d")]"#),
    ("--pass-env", "TOKEN", |s| format!("{:?}", s.child.as_ref().unwrap().pass_env), r#"["TOKEN"]"#),
    ("--cwd", "/tmp", |s| format!("{:?}", s.child.as_ref().unwrap().cwd), r#"Some("/tmp")"#),
    ("--start-timeout", "9s", |s| format!("{:?}", s.config.session.start_timeout), "9s"),
    ("--stop-grace", "0", |s| format!("{:?}", s.child.as_ref().unwrap().stop_grace), "0ns"),
    ("--kill-grace", "9s", |s| format!("{:?}", s.child.as_ref().unwrap().kill_grace), "9s"),
    ("--drain-timeout", "0", |s| format!("{:?}", s.drain_timeout), "0ns"),
    ("--log-format", "json", |s| format!("{:?}", s.log_format), "Json"),
    ("--log-level", "debug", |s| format!("{:?}", s.log_level), "Debug"),
];

// R034: what each of them does is shown where it is done.
#[test]
fn each_option_and_its_variable() {
    for (option, value, show, expected) in OPTIONS {
        let settings = good(&[option, value, "--", "server"]);
        assert_eq!(show(&settings), expected, "{option} {value}");
        let name = variable(&option[2..]);
        let settings = parse_with(&["--", "server"], &[(&name, value)]).unwrap();
        assert_eq!(show(&settings), expected, "{name}={value}");
    }
    // None was forgotten; these have tests of their own.
    let elsewhere = ["help", "socket-mode", "stateless", "version"];
    for argument in command().get_arguments() {
        let Some(long) = argument.get_long().filter(|long| !elsewhere.contains(long)) else { continue };
        assert!(OPTIONS.iter().any(|(option, ..)| option[2..] == *long), "--{long}");
    }
}

#[test]
fn lists() {
    let settings = good(&["--allowed-host", "a", "--allowed-host", "b"]);
    assert_eq!(settings.config.gate.allowed_hosts, ["a", "b"]);
    let settings = parse_with(
        &["--", "server"],
        &[("SESSILE_ALLOWED_HOST", "a, b:*,"), ("SESSILE_PASS_ENV", "X,Y"), ("SESSILE_ENV", "A=1,2\nB=3\n")],
    )
    .unwrap();
    assert_eq!(settings.config.gate.allowed_hosts, ["a", "b:*"]);
    let child = settings.child.unwrap();
    assert_eq!(child.pass_env, ["X", "Y"]);
    assert_eq!(child.env, [("A".into(), "1,2".into()), ("B".into(), "3".into())]);
}

#[test]
fn the_command_line_wins_and_an_empty_variable_is_none() {
    let environment = [("SESSILE_MAX_SESSIONS", "many"), ("SESSILE_ALLOWED_HOST", "a"), ("SESSILE_PATH", "")];
    let settings = parse_with(&["--max-sessions", "5", "--allowed-host", "b"], &environment).unwrap();
    assert_eq!(settings.config.table.max_sessions, 5);
    assert_eq!(settings.config.gate.allowed_hosts, ["b"]);
    assert_eq!(settings.path, "/mcp");
}

// R162.
#[test]
fn hosts_and_origins_follow_the_address() {
    for (listen, hosts, loopback_hosts, loopback_origins) in [
        ("127.0.0.2:1", "", true, true),
        ("[::1]:1", "", true, true),
        ("0.0.0.0:1", "", true, false),
        ("[::]:1", "", true, false),
        ("192.0.2.1:1", "192.0.2.1:*", false, false),
        ("[2001:db8::1]:1", "[2001:db8::1]:*", false, false),
        ("unix:/run/sessile.sock", "", true, true),
    ] {
        let gate = good(&["--listen", listen]).config.gate;
        assert_eq!(gate.allowed_hosts.join(" "), hosts, "{listen}");
        assert_eq!((gate.loopback_hosts, gate.loopback_origins), (loopback_hosts, loopback_origins), "{listen}");
    }
}

#[test]
fn a_socket_has_a_mode() {
    assert_eq!(good(&["--listen", "unix:a"]).socket_mode, 0o600);
    for (arguments, environment) in [
        (&["--listen", "unix:a", "--socket-mode", "660"][..], &[][..]),
        (&["--listen", "unix:a"], &[("SESSILE_SOCKET_MODE", "0660")]),
    ] {
        assert_eq!(parse_with(arguments, environment).unwrap().socket_mode, 0o660);
    }
    for mode in ["", "+60", "0800", "1000", "rw", "77777777777"] {
        let wrong = parse_with(&["--listen", "unix:a", &format!("--socket-mode={mode}")], &[]).unwrap_err();
        let expected = "expected permissions in octal digits such as 0600 or 0660";
        assert_eq!(wrong, Refusal::Wrong(format!("--socket-mode {mode:?}: {expected}")));
    }
    let wrong = parse_with(&["--socket-mode", "0600"], &[]).unwrap_err();
    let expected = "--socket-mode applies to a socket, and --listen has none: --listen unix:PATH";
    assert_eq!(wrong, Refusal::Wrong(expected.into()));
}

#[test]
fn time_off() {
    assert_eq!(good(&["--idle-timeout", "0", "--max-lifetime", "1h"]).config.table.idle_timeout, None);
    assert_eq!(good(&["--idle-timeout", "0", "--when-full", "evict-idle"]).config.session.detached_timeout, None);
}

/// Arguments, environment, what is said.
type Wrong<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let duration = "expected a duration such as 500ms, 30s, 5m, 1h30m or 0";
    let cases: &[Wrong<'_>] = &[
        (&["--idle-timeout", "30"], &[], &format!("--idle-timeout \"30\": \"30\" has no unit: {duration}")),
        (&["--idle-timeout", "soon"], &[], &format!("--idle-timeout \"soon\": {duration}")),
        (&["--idle-timeout=-1s"], &[], &format!("--idle-timeout \"-1s\": {duration}")),
        (&[], &[("SESSILE_RETRY", "soon")], &format!("SESSILE_RETRY \"soon\": {duration}")),
        (&["--max-sessions", "0"], &[], "--max-sessions \"0\": must be greater than zero"),
        (&["--max-body", "0"], &[], "--max-body \"0\": must be greater than zero"),
        (&["--max-body", "4M"], &[], "--max-body \"4M\": expected a size such as 65536, 512KiB or 4MiB"),
        (&["--max-in-flight", "x"], &[], "--max-in-flight \"x\": expected a number"),
        (
            &["--listen", "8080"],
            &[],
            "--listen \"8080\": expected ADDR:PORT such as 127.0.0.1:8080 or [::1]:8080, or unix:PATH",
        ),
        (&["--listen", "unix:"], &[], "--listen \"unix:\": expected unix:PATH such as unix:/run/sessile.sock"),
        (&["--path", "mcp"], &[], "--path \"mcp\": expected a path such as /mcp"),
        (&["--path", "/a?b"], &[], "--path \"/a?b\": expected a path such as /mcp"),
        (&["--path", "/a#b"], &[], "--path \"/a#b\": expected a path such as /mcp"),
        (&["--response", "xml"], &[], "--response \"xml\": expected one of auto, json, sse"),
        (&["--response", ""], &[], "--response \"\": expected one of auto, json, sse"),
        (&[], &[("SESSILE_WHEN_FULL", "wait")], "SESSILE_WHEN_FULL \"wait\": expected one of refuse, evict-idle"),
        (&["--env", "A", "--", "x"], &[], "--env \"A\": expected NAME=VALUE"),
        (&["--pass-env", "A=b", "--", "x"], &[], "--pass-env \"A=b\": expected the name of a variable"),
        (&["--colour"], &[], "unexpected argument '--colour' found"),
        (
            &["python", "x.py"],
            &[],
            "unexpected \"python\": a command goes behind --, as in sessile [OPTIONS] -- COMMAND",
        ),
        (&["--listen"], &[], "--listen needs a value"),
        (&["--retry", "1s", "--retry", "2s"], &[], "the argument '--retry <TIME>' cannot be used multiple times"),
        (&["--", ""], &[], "the command is empty"),
        (&["--allowed-host", "a b"], &[], "allowed host \"a b\" is not NAME, NAME:PORT, NAME:* or *"),
        (
            &["--allowed-origin", "a"],
            &[],
            "allowed origin \"a\" is not SCHEME://NAME, SCHEME://NAME:PORT or SCHEME://NAME:*",
        ),
        (
            &["--cors-origin", "https://a", "--cors-origin", "*"],
            &[],
            "CORS origin \"*\" is not SCHEME://NAME, SCHEME://NAME:PORT, SCHEME://NAME:* or, alone, *",
        ),
        (
            &["--idle-timeout", "0"],
            &[],
            "--idle-timeout 0 needs --max-lifetime or --when-full evict-idle: otherwise a full server would stay full",
        ),
        (&["--cwd", "/"], &[], "--cwd applies to a command, and none is given: sessile [OPTIONS] -- COMMAND"),
        (
            &[],
            &[("SESSILE_ENV", "A=b")],
            "SESSILE_ENV applies to a command, and none is given: sessile [OPTIONS] -- COMMAND",
        ),
    ];
    for (arguments, environment, line) in cases {
        match parse_with(arguments, environment) {
            Err(Refusal::Wrong(wrong)) => assert_eq!(wrong, *line, "{arguments:?} {environment:?}"),
            other => panic!("{arguments:?} {environment:?}: {other:?}"),
        }
    }
    for option in ["--cwd", "--env", "--kill-grace", "--pass-env", "--start-timeout", "--stop-grace"] {
        let value = if option == "--env" { "A=b" } else { "1s" };
        assert!(matches!(parse_with(&[option, value], &[]), Err(Refusal::Wrong(line)) if line.starts_with(option)));
    }
}

#[test]
fn help_and_version() {
    let Err(Refusal::Asked(help)) = parse_with(&["--help"], &[]) else { panic!() };
    for part in [
        "Usage: sessile [OPTIONS] [-- COMMAND [ARG]...]",
        "--idle-timeout <TIME>",
        "SESSILE_IDLE_TIMEOUT",
        "[default: 30m]",
    ] {
        assert!(help.contains(part), "{part}\n{help}");
    }
    let Err(Refusal::Asked(version)) = parse_with(&["--version"], &[]) else { panic!() };
    assert_eq!(version.trim(), concat!("sessile ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_parser_is_sound() {
    command().debug_assert();
}

#[test]
fn stateless_is_a_switch_and_has_no_limits_of_sessions() {
    for (arguments, environment) in
        [(&["--stateless"][..], &[][..]), (&["--stateless=on"], &[]), (&[], &[("SESSILE_STATELESS", "on")])]
    {
        let settings = parse_with(arguments, environment).expect("good");
        assert!(settings.config.gate.stateless);
        assert_eq!(settings.config.table.idle_timeout, None);
    }
    let settings = parse_with(&["--stateless=off", "--idle-timeout", "1m"], &[]).expect("good");
    assert!(!settings.config.gate.stateless);
    for (option, value) in [("--idle-timeout", "1m"), ("--max-sessions", "3"), ("--when-full", "refuse")] {
        let wrong = parse_with(&["--stateless", option, value], &[]).expect_err("bad");
        assert_eq!(wrong, Refusal::Wrong(format!("{option} applies to sessions, and --stateless has none")));
    }
}
