//! The table as data: a script of events in, the actions that follow from them out, in virtual time.
//!
//! ```text
//! cargo run -p sessile-core --example scripted [SCRIPT]
//! ```
//!
//! Without a script it runs `life.script`, which lies beside this file; what that prints is in `life.out`. A script has one event on each
//! line, in the words of [`Event`]; sessions are `s1`, `s2` and so on, in the order of their creation:
//!
//! ```text
//! # a comment
//! arrive PRINCIPAL initialize
//! arrive PRINCIPAL SESSION
//! arrive PRINCIPAL nothing
//! initialized SESSION VERSION
//! finish SESSION
//! alarm SESSION TIME|never
//! exit SESSION crashed|finished
//! close SESSION abandoned|deleted|dismissed
//! begin-shutdown
//! finish-shutdown
//! tick
//! wait TIME
//! ```
//!
//! `wait` lets time pass as a driver does: it sleeps until the next deadline and ticks, again and again. A time is like `30m`, `5s` or
//! `200ms`; that of an alarm is counted from now.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::time::Duration;

use sessile_core::config::TableConfig;
use sessile_core::{
    Action, CloseReason, Event, ProtocolVersion, Reap, SessionId, SessionKey, SessionTable, TaskExit, Timestamp,
};

/// The defaults but for a short init timeout and room for two, so that a short script meets every limit.
fn settings() -> TableConfig {
    TableConfig { init_timeout: Some(Duration::from_secs(10)), max_sessions: 2, ..TableConfig::default() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let script = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => include_str!("life.script").to_owned(),
    };
    let mut run = Run::new()?;
    for (number, line) in (1..).zip(script.lines()) {
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        if !words.is_empty() {
            run.line(&words).map_err(|why| format!("line {number}: {why}"))?;
        }
    }
    Ok(())
}

/// The table and what names things in scripts.
struct Run {
    ids: u128,
    now: Timestamp,
    /// In the order of their creation, `s1` first.
    sessions: Vec<(SessionKey, SessionId)>,
    table: SessionTable<String>,
}

impl Run {
    fn new() -> Result<Self, Box<dyn Error>> {
        let table = SessionTable::new(settings())?;
        Ok(Self { ids: 0, now: Timestamp::ZERO, sessions: Vec::new(), table })
    }

    fn line(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let event = match *words {
            ["wait", time] => {
                self.wait(duration(time)?);
                return Ok(());
            }
            ["tick"] => {
                self.tick();
                return Ok(());
            }
            ["arrive", principal, what] => Event::RequestArrived {
                session: match what {
                    "initialize" | "nothing" => None,
                    session => Some(self.session(session)?.1),
                },
                principal: principal.to_owned(),
                may_create: what == "initialize",
            },
            ["initialized", session, version] => Event::Initialized {
                key: self.session(session)?.0,
                version: ProtocolVersion::parse(version.as_bytes()).ok_or("no such version")?,
            },
            ["finish", session] => Event::ResponseFinished { key: self.session(session)?.0 },
            ["alarm", session, "never"] => Event::SetAlarm { key: self.session(session)?.0, at: None },
            ["alarm", session, time] => {
                Event::SetAlarm { key: self.session(session)?.0, at: Some(self.now.saturating_add(duration(time)?)) }
            }
            ["exit", session, "crashed"] => {
                Event::TaskExited { key: self.session(session)?.0, exit: TaskExit::Crashed }
            }
            ["exit", session, "finished"] => {
                Event::TaskExited { key: self.session(session)?.0, exit: TaskExit::Finished }
            }
            ["close", session, reason] => Event::Close {
                key: self.session(session)?.0,
                reason: match reason {
                    "abandoned" => CloseReason::Abandoned,
                    "deleted" => CloseReason::Deleted,
                    "dismissed" => CloseReason::Dismissed,
                    _ => return Err("no such reason".into()),
                },
            },
            ["begin-shutdown"] => Event::BeginShutdown,
            ["finish-shutdown"] => Event::FinishShutdown,
            _ => return Err("no such event".into()),
        };
        let action = self.handle(event);
        self.print(&words.join(" "), &action);
        Ok(())
    }

    fn handle(&mut self, event: Event<String>) -> Action {
        let ids = &mut self.ids;
        // A driver takes the bits from the system.
        let action = self.table.handle_event(self.now, event, &mut || {
            *ids += 1;
            SessionId::from_bytes(ids.to_be_bytes())
        });
        if let Action::Create { key, id, .. } = action {
            self.sessions.push((key, id));
        }
        action
    }

    /// Ticks until nothing is due; when something will be.
    fn tick(&mut self) -> Option<Timestamp> {
        loop {
            let action = self.handle(Event::Tick);
            self.print("tick", &action);
            if let Action::Idle { next } = action {
                return next;
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now.saturating_add(time);
        while let Some(next) = self.table.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.tick();
        }
        self.now = until;
    }

    fn session(&self, name: &str) -> Result<(SessionKey, SessionId), String> {
        let position = name.strip_prefix('s').and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
        position.and_then(|position| self.sessions.get(position)).copied().ok_or_else(|| format!("no session {name}"))
    }

    fn name(&self, key: SessionKey) -> String {
        let position = self.sessions.iter().position(|(other, _)| *other == key);
        position.map_or_else(|| "?".to_owned(), |position| format!("s{}", position + 1))
    }

    fn print(&self, event: &str, action: &Action) {
        let reaped = |reap: &Reap| format!("reap {}: {}", self.name(reap.key), reap.reason.as_str());
        let action = match action {
            Action::Alarm { key } => format!("alarm of {}", self.name(*key)),
            Action::Create { key, evicted: None, .. } => format!("create {}", self.name(*key)),
            Action::Create { key, evicted: Some(reap), .. } => format!("create {}, {}", self.name(*key), reaped(reap)),
            Action::Idle { next: None } => "idle".to_owned(),
            Action::Idle { next: Some(next) } => format!("idle until {next:?}"),
            Action::Reap(reap) => reaped(reap),
            Action::Reject(rejection) => {
                format!("reject: {}, status {}", rejection.log_reason(), rejection.outcome().status().as_u16())
            }
            Action::Route { key, version: None } => format!("route to {}", self.name(*key)),
            Action::Route { key, version: Some(version) } => format!("route to {}, {version}", self.name(*key)),
        };
        println!("{:>10}  {event:<32} {action}", format!("{:?}", self.now));
    }
}

fn duration(text: &str) -> Result<Duration, Box<dyn Error>> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse()?;
    Ok(match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        _ => return Err(format!("a time needs a unit, ms, s or m: {text}").into()),
    })
}
