//! The log on stderr, which never makes the service wait.
//!
//! Lines go through a bounded channel to a thread that writes them. When nobody reads stderr the channel fills, and lines
//! are dropped and counted; the count is told with the next line that gets through.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;

use super::options::{LogFormat, LogLevel};

/// Lines that wait for the writer.
const BACKLOG: usize = 1_024;
/// How long the last lines may take when the program ends.
const FLUSH: Duration = Duration::from_millis(500);

/// Where lines go. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Log {
    lines: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
    format: LogFormat,
}

/// Waits for the last lines when it is dropped, but not for ever.
#[derive(Debug)]
pub(super) struct Flush(Receiver<()>, Log);

impl Log {
    /// Starts the writer and sends the program's events to it.
    pub(super) fn start(level: LogLevel, format: LogFormat) -> io::Result<(Self, Flush)> {
        let (log, flush) = Self::to(io::stderr(), format)?;
        let level = match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        };
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(log.clone());
        // Each event says what it is about; spans would cost something with every call, and say no more.
        let events = filter_fn(|metadata| !metadata.is_span());
        // A subscriber that is there already stays: whoever embeds us decides.
        let _ = match format {
            LogFormat::Json => set_global_default(lines.json().flatten_event(true).finish().with(events)),
            LogFormat::Text => set_global_default(lines.with_ansi(colours).with_target(false).finish().with(events)),
        };
        Ok((log, flush))
    }

    fn to(sink: impl Write + Send + 'static, format: LogFormat) -> io::Result<(Self, Flush)> {
        let (lines, queue) = sync_channel(BACKLOG);
        let (ended, end) = channel();
        let log = Self { lines, dropped: Arc::default(), format };
        let dropped = Arc::clone(&log.dropped);
        thread::Builder::new().name("log".into()).spawn(move || {
            write_all(&queue, sink, &dropped, format);
            drop(ended);
        })?;
        let flush = Flush(end, log.clone());
        Ok((log, flush))
    }

    /// Writes whole lines for people, whatever the level; where every line is for machines, none. Never waits.
    pub(super) fn line(&self, line: &str) {
        if self.format == LogFormat::Text {
            self.push(format!("{line}\n").into_bytes());
        }
    }

    fn push(&self, line: Vec<u8>) {
        if self.lines.try_send(line).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An empty line asks the writer to end: events are never empty.
fn write_all(queue: &Receiver<Vec<u8>>, mut sink: impl Write, dropped: &AtomicU64, format: LogFormat) {
    while let Ok(line) = queue.recv() {
        if line.is_empty() {
            break;
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(sink, "{}", told(lost, format));
        }
        // A closed stderr is no reason to end; the lines are lost then.
        let _ = sink.write_all(&line);
    }
    let _ = sink.flush();
}

/// A line about lines that are missing. It can't be an event, which might be dropped in turn.
fn told(lost: u64, format: LogFormat) -> String {
    let message = format!("{lost} log lines were dropped since nobody read them");
    if format == LogFormat::Text {
        return message;
    }
    let mut timestamp = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    serde_json::json!({ "timestamp": timestamp, "level": "WARN", "message": message, "dropped": lost }).to_string()
}

impl Drop for Flush {
    fn drop(&mut self) {
        // If there is no room the reader is stuck, and waiting would be in vain.
        if self.1.lines.try_send(Vec::new()).is_ok() {
            let (Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout)) = self.0.recv_timeout(FLUSH);
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// One call is one event.
impl Write for &Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.push(bytes.to_vec());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes lines only while it is unlocked.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_before_the_end() {
        let sink = Sink::default();
        let (log, flush) = Log::to(sink.clone(), LogFormat::Text).unwrap();
        for number in 0..100 {
            log.line(&format!("line {number}"));
        }
        drop(flush);
        assert_eq!(sink.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 100);
    }

    #[test]
    fn a_stuck_reader_costs_lines_and_no_time() {
        let sink = Sink::default();
        let (log, flush) = Log::to(sink.clone(), LogFormat::Text).unwrap();
        let stuck = sink.0.lock().unwrap();
        for _ in 0..BACKLOG * 3 {
            log.line("line");
        }
        drop(stuck);
        for _ in 0..5_000 {
            log.line("last");
            if String::from_utf8_lossy(&sink.0.lock().unwrap()).contains(" log lines were dropped") {
                return drop(flush);
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("the count was not told");
    }

    #[test]
    fn for_machines_each_line_is_an_object() {
        let value: serde_json::Value = serde_json::from_str(&told(7, LogFormat::Json)).unwrap();
        assert_eq!((&value["dropped"], &value["level"]), (&7.into(), &"WARN".into()));
        assert!(value["timestamp"].as_str().unwrap().ends_with('Z'), "{value}");
        let sink = Sink::default();
        let (log, flush) = Log::to(sink.clone(), LogFormat::Json).unwrap();
        log.line("for people");
        drop(flush);
        assert!(sink.0.lock().unwrap().is_empty());
    }
}
