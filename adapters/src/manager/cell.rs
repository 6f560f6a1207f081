//! One session as the adapters hold it: the pure session behind its lock, with the wakers of those who wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use sessile_core::session::{
    ConnectionKey, Delivery, Effect, EndReason, Kind, RequestKey, ServerRequestKey, Session, StoreRequest,
};
use sessile_core::{Fingerprint, Message, MessageKind, ProtocolVersion, Response, SessionId, SessionKey, Timestamp};

use super::asking::AskingSide;
use super::client::ClientInfo;
use super::hooks::{Initialized, Told};
use super::totals::{Added, Totals};
use crate::principal::Principal;
use crate::store::SessionName;
use crate::trace::{self, Spans};

/// What is known of a session, without its secret id.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) key: SessionKey,
    pub(crate) kind: Kind,
    pub(crate) principal: Principal,
}

impl SessionInfo {
    /// The short name of the session in logs.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The handle of the session.
    #[must_use]
    pub const fn key(&self) -> SessionKey {
        self.key
    }

    /// Whether this is a session at all, or one request that belongs to none.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Who created the session and owns it.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }
}

/// A session with the state `S` that its app keeps.
pub(crate) struct Cell<S> {
    pub(crate) id: SessionId,
    pub(crate) info: SessionInfo,
    pub(crate) state: S,
    /// Of a session alone.
    client: OnceLock<ClientInfo>,
    inner: Mutex<Inner>,
    /// The number of the last alarm that the table was told of; changed under the table's lock.
    alarms_set: AtomicU64,
}

/// What the lock of a session guards.
pub(crate) struct Inner {
    pub(crate) session: Session<Arc<Parts>>,
    pub(crate) spans: Spans,
    /// How far the hooks have been told of it.
    pub(crate) told: Told,
    /// What of it is in the totals.
    added: Added,
    /// How many alarms the session has asked for.
    alarms: u64,
    /// What it takes to ask the store, once something is asked.
    asking: Option<Box<AskingSide>>,
    /// Who waits for a message of the client, or for the end: the app, or calls that answer nothing.
    app: Wakers<usize>,
    pub(crate) answers: Wakers<ServerRequestKey>,
    pub(crate) calls: Wakers<RequestKey>,
    pub(crate) connections: Wakers<ConnectionKey>,
}

impl<S> Cell<S> {
    pub(crate) fn new(id: SessionId, info: SessionInfo, state: S, delivery: Delivery) -> Self {
        let kind = info.kind;
        let session = match kind {
            Kind::Session => Session::new(delivery),
            Kind::Modern | Kind::Stateless => Session::sessionless(delivery, kind),
        };
        let inner = Inner {
            session,
            spans: Spans::default(),
            told: Told::default(),
            added: Added::new(kind),
            alarms: 0,
            asking: None,
            app: Wakers::default(),
            answers: Wakers::default(),
            calls: Wakers::default(),
            connections: Wakers::default(),
        };
        Self { id, info, state, client: OnceLock::new(), inner: Mutex::new(inner), alarms_set: AtomicU64::new(0) }
    }

    /// The lock is held for one call of the core and never across an await or a write.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // The core does not panic; if it ever did, the other sessions and this one's end must go on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this alarm is newer than those the table knows. Two threads may come from the session's lock to the table's in either
    /// order; only under the latter may this be called.
    pub(crate) fn is_news(&self, alarm: &Alarm) -> bool {
        self.alarms_set.fetch_max(alarm.number, Ordering::Relaxed) < alarm.number
    }

    /// Who the client says it is. The first word counts, and there is no other.
    pub(super) fn introduce(&self, client: ClientInfo) {
        let _ = self.client.set(client);
    }

    /// Who the client says it is, once it was introduced.
    pub(super) fn client(&self) -> Option<&ClientInfo> {
        self.client.get()
    }

    /// The name of the session for the store, from now on; `None` if a task asks for it already.
    pub(crate) fn begin_asking(&self, name: impl FnOnce() -> [u8; 16]) -> Option<SessionName> {
        let mut inner = self.lock();
        let asking = inner.asking.get_or_insert_with(|| {
            Box::new(AskingSide { name: SessionName::new(name(), self.info.fingerprint), busy: false })
        });
        (!std::mem::replace(&mut asking.busy, true)).then(|| asking.name.clone())
    }

    /// The next thing to ask of the store. After `None` nobody asks until [`Self::begin_asking`].
    pub(crate) fn next_store_request(&self) -> Option<StoreRequest> {
        let mut inner = self.lock();
        let request = inner.session.poll_store_request();
        if request.is_none()
            && let Some(asking) = &mut inner.asking
        {
            asking.busy = false;
        }
        request
    }

    /// The negotiated revision, once it is known.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.lock().session.version()
    }
}

impl<S> std::fmt::Debug for Cell<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("info", &self.info).finish_non_exhaustive()
    }
}

/// When the session wants to be looked at.
pub(crate) struct Alarm {
    /// Orders the alarms of a session.
    number: u64,
    pub(crate) at: Option<Timestamp>,
}

/// What the effects of one call ask for, gathered under the lock and done after it.
#[derive(Default)]
pub(crate) struct Todo {
    pub(crate) alarm: Option<Alarm>,
    pub(crate) end: Option<EndReason>,
    pub(crate) established: bool,
    pub(crate) initialized: Option<Box<Initialized>>,
    pub(crate) released: u32,
    /// The spans of requests that have ended without an answer of their app.
    cancelled: Vec<tracing::Span>,
    /// There is something to ask of the store.
    pub(crate) store: bool,
    wake: Vec<Waker>,
}

impl Inner {
    /// Whether the session has ended; if not, the app is woken by its end, and by the next message.
    pub(crate) fn poll_ended(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.poll_ended_for(0, cx)
    }

    /// The same for one of several who wait, told apart by a number.
    pub(crate) fn poll_ended_for(&mut self, who: usize, cx: &Context<'_>) -> Poll<()> {
        if self.session.ended().is_some() {
            return Poll::Ready(());
        }
        self.app.register(who, cx.waker());
        Poll::Pending
    }

    /// It waits no longer.
    pub(crate) fn forget(&mut self, who: usize) {
        self.app.take(who);
    }

    /// No client asks for this: we do, and nothing of it becomes part of the totals.
    pub(crate) const fn is_ours(&mut self) {
        self.added.is_ours();
    }

    /// The span of the request that a message of the app answers.
    pub(crate) fn take_span(&mut self, message: &Message) -> Option<tracing::Span> {
        let MessageKind::Response(Response { id: Some(id), .. }) = message.kind() else { return None };
        self.spans.take(self.session.request_with_id(id)?)
    }

    /// Takes the effects of what was just called, and adds what has changed to the totals.
    pub(crate) fn take_effects(&mut self, totals: &Totals) -> Todo {
        totals.add(&mut self.added, &self.session);
        let mut todo = Todo::default();
        while let Some(effect) = self.session.poll_effect() {
            let waker = match effect {
                Effect::Alarm(at) => {
                    self.alarms += 1;
                    todo.alarm = Some(Alarm { number: self.alarms, at });
                    None
                }
                Effect::AskStore => {
                    todo.store |= self.asking.as_ref().is_none_or(|asking| !asking.busy);
                    None
                }
                Effect::End(reason) => {
                    todo.end = todo.end.or(Some(reason));
                    None
                }
                Effect::Established => {
                    todo.established = true;
                    self.told.establish();
                    None
                }
                Effect::Release => {
                    todo.released += 1;
                    None
                }
                Effect::WakeAnswer(key) => self.answers.take(key),
                Effect::WakeApp => {
                    todo.wake.extend(self.app.take_all());
                    None
                }
                Effect::WakeCall(key) => self.calls.take(key),
                Effect::WakeConnection(key) => self.connections.take(key),
            };
            todo.wake.extend(waker);
        }
        todo.initialized = self.told.take_due(self.session.version());
        todo.cancelled = self.spans.take_over(|request| !self.session.is_in_flight(request));
        todo
    }
}

impl Todo {
    /// Whether the table has to hear of it.
    pub(crate) const fn concerns_the_table(&self) -> bool {
        self.alarm.is_some() || self.end.is_some() || self.established || self.released > 0
    }

    /// Wakes whoever has something to do, and ends spans. Not under a lock.
    pub(crate) fn wake(&mut self) {
        self.cancelled.drain(..).for_each(|span| trace::cancelled(&span));
        for waker in self.wake.drain(..) {
            waker.wake();
        }
    }
}

/// Who waits for what: a short list, since only those that have nothing to do stand in it.
pub(crate) struct Wakers<K>(Vec<(K, Waker)>);

impl<K> Default for Wakers<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq> Wakers<K> {
    pub(crate) fn register(&mut self, key: K, waker: &Waker) {
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, known)) => known.clone_from(waker),
            None => {
                if self.0.capacity() == 0 {
                    self.0.reserve_exact(1);
                }
                self.0.push((key, waker.clone()));
            }
        }
    }

    fn take_all(&mut self) -> impl Iterator<Item = Waker> {
        self.0.drain(..).map(|(_, waker)| waker)
    }

    pub(crate) fn take(&mut self, key: K) -> Option<Waker> {
        let at = self.0.iter().position(|(other, _)| *other == key)?;
        Some(self.0.swap_remove(at).1)
    }
}
