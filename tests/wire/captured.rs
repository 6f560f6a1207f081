//! What a thread logs, caught.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Everything that was logged, at any level and from any target, and everything that was shown by `Debug`.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<String>>>);

thread_local! {
    /// Where this thread's logs go. A test has a thread to itself, its runtime included.
    static SINK: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// The one subscriber of this program. Subscribers that come and go with tests would make each other miss events.
struct Router;

impl Captured {
    /// Gets all that this thread logs from now on.
    pub(crate) fn of_this_thread() -> Self {
        static ROUTED: Once = Once::new();
        ROUTED.call_once(|| tracing::subscriber::set_global_default(Router).expect("there is no other"));
        let captured = Self::default();
        SINK.set(Some(captured.clone()));
        captured
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }

    pub(crate) fn push(&self, line: String) {
        self.0.lock().expect("no panic").push(line);
    }

    pub(crate) fn show(&self, what: &str, shown: &dyn fmt::Debug) {
        self.push(format!("{what}: {shown:?} {shown:#?}"));
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Router {
    fn push(line: String) {
        SINK.with_borrow(|sink| sink.iter().for_each(|sink| sink.push(line.clone())));
    }
}

impl Subscriber for Router {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = format!("span {}", span.metadata().name());
        span.record(&mut Fields(&mut line));
        Self::push(line);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = "record".to_owned();
        values.record(&mut Fields(&mut line));
        Self::push(line);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} {}", event.metadata().level(), event.metadata().target());
        event.record(&mut Fields(&mut line));
        Self::push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
