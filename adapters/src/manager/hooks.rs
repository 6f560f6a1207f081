//! Hooks: what whoever runs the server is told of the life of its sessions.
//!
//! Owns that each is told once, and in order: `opened`, then perhaps `initialized`, then `closed`. No lock is held meanwhile, so
//! a hook may ask the manager for anything.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::value::RawValue;
use sessile_core::{Message, MessageKind, ProtocolVersion, ReapReason};
use tracing::warn;

use super::cell::{Cell, SessionInfo};
use super::client::ClientInfo;

/// What is to be done when sessions open, are initialized and close. Given to [`Builder::hooks`](crate::Builder::hooks).
///
/// Each session has exactly one `opened` and, after it, exactly one `closed`, on whatever way it came to its end. `initialized`
/// comes between the two, at most once. Those of different sessions may run at the same time.
///
/// A hook is told the fingerprint of a session, its key and its principal. It is never told the session's id, which is a secret: whoever
/// knows it, and is of that principal, can use the session. The fingerprint says the same in logs and labels.
///
/// Hooks run in the midst of an exchange, or of the one reaper of all sessions, and should give their work to others if it takes
/// time. They may call the [`Manager`](crate::Manager). A panic in a hook is caught and logged, and costs nothing else. Requests
/// that belong to no session have no hooks.
pub trait Hooks: Send + Sync + 'static {
    /// There is a new session. Its app has not seen it, and has not answered `initialize`, which may still fail.
    fn opened(&self, session: &SessionInfo) {
        let _ = session;
    }

    /// The client has begun to use its session: with `notifications/initialized`, or with another request once `initialize` was
    /// answered, whichever came first. A GET alone is not enough. Never called for a session whose client does neither.
    fn initialized(&self, session: &SessionInfo, initialized: &Initialized) {
        let _ = (session, initialized);
    }

    /// The session is over, and its id unknown. Nothing about it is called any more; its app may still be cleaning up.
    fn closed(&self, session: &SessionInfo, reason: ReapReason) {
        let _ = (session, reason);
    }
}

/// What client and app have agreed on. Everything but the version is the client's word and proves nothing.
#[derive(Clone)]
#[non_exhaustive]
pub struct Initialized {
    /// The capabilities of the client, as they were sent. `None` if they take more than 64 KiB.
    pub capabilities: Option<Box<RawValue>>,
    /// Who the client says it is.
    pub client: ClientInfo,
    /// What was negotiated. `None` if the app named a revision that nobody knows.
    pub version: Option<ProtocolVersion>,
}

const CAPABILITIES: usize = 64 << 10;

impl Initialized {
    fn new(client: ClientInfo, capabilities: Option<&RawValue>) -> Self {
        let capabilities = capabilities.filter(|raw| raw.get().len() <= CAPABILITIES).map(ToOwned::to_owned);
        Self { capabilities, client, version: None }
    }
}

/// Without the capabilities, which may hold anything.
impl fmt::Debug for Initialized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initialized")
            .field("client", &self.client)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The hooks that were given, if any.
#[derive(Clone, Default)]
pub(crate) struct HookSet(pub(super) Option<Arc<dyn Hooks>>);

impl HookSet {
    pub(super) fn opened(&self, session: &SessionInfo) {
        self.call("opened", session, |hooks| hooks.opened(session));
    }

    pub(super) fn closed(&self, session: &SessionInfo, reason: ReapReason) {
        self.call("closed", session, |hooks| hooks.closed(session, reason));
    }

    /// Remembers what the client says of itself: who it is for as long as the session lives, the rest until it is told.
    pub(crate) fn introduce<S>(&self, cell: &Cell<S>, initialize: &Message) {
        let (client, capabilities) = ClientInfo::read(initialize);
        if self.0.is_some() {
            cell.lock().told.client = Some(Box::new(Initialized::new(client.clone(), capabilities)));
        }
        cell.introduce(client);
    }

    /// The one word that [`Told::take_due`] has given leave for; and the end, if it has come meanwhile.
    pub(super) fn initialized<S>(&self, cell: &Cell<S>, initialized: &Initialized) {
        self.call("initialized", &cell.info, |hooks| hooks.initialized(&cell.info, initialized));
        let late = cell.lock().told.initialized();
        if let Some(reason) = late {
            self.closed(&cell.info, reason);
        }
    }

    fn call(&self, name: &'static str, session: &SessionInfo, call: impl FnOnce(&dyn Hooks)) {
        let Some(hooks) = &self.0 else { return };
        if catch_unwind(AssertUnwindSafe(|| call(&**hooks))).is_err() {
            warn!(session = %session.fingerprint(), hook = name, "a hook panicked");
        }
    }
}

impl fmt::Debug for HookSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "HookSet(given)" } else { "HookSet(none)" })
    }
}

/// What a message of the client says about whether it uses its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// `notifications/initialized`.
    Initialized,
    /// Nothing.
    Other,
    /// A request that is not `initialize`.
    Request,
}

impl Word {
    pub(crate) fn of(message: &Message) -> Self {
        match message.kind() {
            MessageKind::Notification(note) if note.method == "notifications/initialized" => Self::Initialized,
            MessageKind::Request(request) if request.initialize.is_none() => Self::Request,
            MessageKind::Notification(_) | MessageKind::Request(_) | MessageKind::Response(_) => Self::Other,
        }
    }
}

/// How far the story of a session has been told. It is guarded by the session's lock, under which it is decided who tells what comes
/// next; the telling itself holds none.
#[derive(Debug, Default)]
pub(crate) struct Told {
    stage: Stage,
    /// The app has answered `initialize` with a result.
    established: bool,
    /// The client has begun to use the session.
    used: bool,
    client: Option<Box<Initialized>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Opened,
    /// Somebody is just telling; they tell the end too if it comes before they are done.
    Initializing(Option<ReapReason>),
    Initialized,
    Closed,
}

impl Told {
    pub(super) const fn establish(&mut self) {
        self.established = true;
    }

    /// A message of the client was taken in.
    pub(crate) const fn hear(&mut self, word: Word) {
        self.used = match word {
            Word::Initialized => true,
            Word::Other => self.used,
            Word::Request => self.used || self.established,
        };
    }

    /// What whoever gets it has to tell, and nobody else gets.
    pub(super) fn take_due(&mut self, version: Option<ProtocolVersion>) -> Option<Box<Initialized>> {
        if self.stage != Stage::Opened || !self.established || !self.used {
            return None;
        }
        let mut client = self.client.take()?;
        self.stage = Stage::Initializing(None);
        client.version = version;
        Some(client)
    }

    /// It is told. The reason of the end that is to be told now, if it has come meanwhile.
    fn initialized(&mut self) -> Option<ReapReason> {
        match self.stage {
            Stage::Initializing(Some(reason)) => {
                self.stage = Stage::Closed;
                Some(reason)
            }
            Stage::Initializing(None) => {
                self.stage = Stage::Initialized;
                None
            }
            Stage::Opened | Stage::Initialized | Stage::Closed => None,
        }
    }

    /// The session is over. Whether the caller tells it; if not, whoever is telling does.
    pub(super) fn close(&mut self, reason: ReapReason) -> bool {
        self.client = None;
        match self.stage {
            Stage::Initializing(_) => {
                self.stage = Stage::Initializing(Some(reason));
                false
            }
            Stage::Opened | Stage::Initialized => {
                self.stage = Stage::Closed;
                true
            }
            Stage::Closed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Option<Box<Initialized>> {
        Some(Box::new(Initialized::new(ClientInfo::default(), None)))
    }

    #[test]
    fn capabilities_are_bounded_and_not_shown() {
        let long = format!(r#"{{"roots":"{}"}}"#, "x".repeat(CAPABILITIES));
        for (text, kept) in [(r#"{"roots":{}}"#, true), (&long, false)] {
            let raw = RawValue::from_string(text.to_owned()).expect("JSON");
            let initialized = Initialized::new(ClientInfo::default(), Some(&raw));
            assert_eq!(initialized.capabilities.is_some(), kept);
            assert!(!format!("{initialized:?}").contains("roots"));
        }
    }

    #[test]
    fn an_end_that_comes_while_the_beginning_is_told_is_told_after_it() {
        let mut told = Told { client: client(), ..Told::default() };
        told.establish();
        told.hear(Word::Initialized);
        assert!(told.take_due(None).is_some());
        assert!(told.take_due(None).is_none(), "once");
        assert!(!told.close(ReapReason::Deleted), "not while it is told");
        assert_eq!(told.initialized(), Some(ReapReason::Deleted));
        assert!(!told.close(ReapReason::Idle));
        assert_eq!(told.initialized(), None);
    }

    #[test]
    fn after_the_end_nothing_is_told() {
        let mut told = Told { client: client(), ..Told::default() };
        told.establish();
        assert!(told.close(ReapReason::Idle));
        told.hear(Word::Initialized);
        assert!(told.take_due(None).is_none());
        assert!(!told.close(ReapReason::Idle));
    }

    #[test]
    fn a_request_counts_once_the_app_has_answered_and_the_notification_waits_for_it() {
        let mut told = Told { client: client(), ..Told::default() };
        told.hear(Word::Request);
        told.establish();
        assert!(told.take_due(None).is_none());
        told.hear(Word::Other);
        assert!(told.take_due(None).is_none());
        told.hear(Word::Request);
        assert!(told.take_due(None).is_some());

        let mut told = Told { client: client(), ..Told::default() };
        told.hear(Word::Initialized);
        assert!(told.take_due(None).is_none());
        told.establish();
        assert!(told.take_due(None).is_some());
    }
}
