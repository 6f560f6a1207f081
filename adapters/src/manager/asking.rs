//! The store of a manager: what the sessions ask of it is asked, and they are told.
//!
//! Owns that a session has one task for it, and only while something is asked. Decides nothing: an answer that is late is late in the
//! core, which has given it up.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use sessile_core::Timestamp;
use sessile_core::session::{StoreRead, StoreRequest, StoreTicket};
use tracing::{debug, warn};

use super::cell::Cell;
use super::hub::{Hub, random_bytes};
use crate::app::poll_guarded;
use crate::clock::Clock;
use crate::store::{Answer, AnyStore, Range, SessionName, StoreError, StoredEvent};

/// Begins to ask what a session has to ask.
pub(crate) type Asking<S> = Box<dyn Fn(&Arc<Hub<S>>, &Arc<Cell<S>>) + Send + Sync>;

/// Asks this store.
pub(super) fn asking<S: Send + Sync + 'static>(store: Arc<dyn AnyStore>, clock: Arc<dyn Clock>) -> Asking<S> {
    Box::new(move |hub, cell| {
        let Some(name) = cell.begin_asking(random_bytes) else { return };
        let (hub, cell, store) = (Arc::clone(hub), Arc::clone(cell), Arc::clone(&store));
        clock.spawn(Box::pin(async move { ask_all(&hub, &cell, &name, &*store).await }));
    })
}

/// Asks one thing after another, until there is nothing more.
async fn ask_all<S>(hub: &Arc<Hub<S>>, cell: &Arc<Cell<S>>, name: &SessionName, store: &dyn AnyStore) {
    while let Some(request) = cell.next_store_request() {
        let until = hub.now().saturating_add(hub.config.session.store_timeout);
        let asked = Asked { hub, cell, until };
        match request {
            StoreRequest::Append { ticket, stream, events } => {
                let stored = asked.answer(store.append(name, stream, events)).await;
                asked.stored(ticket, stored);
            }
            StoreRequest::Forget { stream } => asked.forgotten(store.forget(name, Some(stream))).await,
            StoreRequest::ForgetSession => asked.forgotten(store.forget(name, None)).await,
            StoreRequest::Read { ticket, stream, after, through, max_count, max_bytes } => {
                let range = Range { stream, after, through, max_count, max_bytes };
                let found = asked.answer(store.read(name, range)).await;
                asked.found(ticket, found);
            }
        }
    }
}

/// Something that was asked for a session, and until when.
struct Asked<'a, S> {
    hub: &'a Arc<Hub<S>>,
    cell: &'a Arc<Cell<S>>,
    until: Timestamp,
}

impl<S> Asked<'_, S> {
    /// What the store says. `None` if it says nothing in time, which the session knows by itself.
    async fn answer<T>(&self, mut answer: Answer<'_, T>) -> Option<Result<T, StoreError>> {
        let mut timer = None;
        let said = poll_fn(|cx| {
            if let Poll::Ready(said) = poll_guarded(answer.as_mut(), cx) {
                return Poll::Ready(Some(said.unwrap_or(Err(StoreError::Panicked))));
            }
            let timer = timer.get_or_insert_with(|| self.hub.clock.sleep_until(self.until));
            timer.as_mut().poll(cx).map(|()| None)
        })
        .await;
        let session = self.cell.info.fingerprint();
        match &said {
            None => warn!(%session, "the store has not answered in time"),
            Some(Err(error)) => debug!(%session, %error, "the store has failed"),
            Some(Ok(_)) => {}
        }
        said
    }

    fn stored(&self, ticket: StoreTicket, said: Option<Result<(), StoreError>>) {
        let Some(said) = said else { return };
        let mut inner = self.cell.lock();
        inner.session.handle_stored(self.hub.now(), &self.hub.config.session, ticket, said.is_ok());
        self.hub.settle(self.cell, inner);
    }

    fn found(&self, ticket: StoreTicket, said: Option<Result<Vec<StoredEvent>, StoreError>>) {
        let found = match said {
            None => return,
            Some(Ok(events)) => StoreRead::Events(events),
            Some(Err(_)) => StoreRead::Failed,
        };
        let mut inner = self.cell.lock();
        inner.session.handle_read(self.hub.now(), &self.hub.config.session, ticket, found);
        self.hub.settle(self.cell, inner);
    }

    /// Nobody waits for it.
    async fn forgotten(&self, answer: Answer<'_, ()>) {
        let _ = self.answer(answer).await;
    }
}

/// What a session needs to ask a store, once it does.
pub(super) struct AskingSide {
    pub(super) name: SessionName,
    /// A task asks for it.
    pub(super) busy: bool,
}
