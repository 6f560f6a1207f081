//! Notifications from outside of any call.

use std::sync::Arc;

use serde::Serialize;
use sessile_core::SessionKey;
use sessile_core::session::{OutsideNote, OutsideNoteError};

use super::Manager;
use super::cell::{Cell, SessionInfo};
use super::hub::Hub;
use crate::app::Backend;
use crate::principal::Principal;
use crate::runtime::Runtime;

/// Whom a notification from outside reaches is decided by what clients have asked for, so that whoever sends it need know neither the
/// era of a client nor what an app was told:
///
/// - A *session* hears on its standalone stream, which its client reads by GET. Until it does, notes wait within the bounds of
///   `session.log_count` and `session.log_bytes`; the oldest go, and are counted in [`Stats::notes_dropped`](crate::Stats::notes_dropped).
///   `notifications/resources/updated` goes to sessions that have subscribed to that very URI, all else to every session.
/// - A *subscription* of the modern era hears of list changes and updated resources, as far as its app has acknowledged them, and of
///   nothing else (2026-07-28, subscriptions); its id is added to the note. What subscribed is the request, so that it has no key.
///
/// Nothing waits for a client here, and no app sees the notification. The parameters are a JSON object, or `&()` if there
/// are none. An app that says in its capabilities that it tells of such changes, and lists what has changed, is needed all the same.
impl<R: Runtime, B: Backend> Manager<R, B> {
    /// Sends a notification to one session. Whether it is on its way: not if the session is over or not yet initialized, or if
    /// it has not subscribed to the resource.
    ///
    /// # Errors
    ///
    /// If the parameters are no JSON object.
    pub fn notify<T: Serialize + ?Sized>(
        &self,
        key: SessionKey,
        method: &str,
        params: &T,
    ) -> Result<bool, OutsideNoteError> {
        let note = OutsideNote::new(method, params)?;
        Ok(self.shared.hub.push_to(key, &note))
    }

    /// Sends a notification to all who want to hear of it; to how many sessions and subscriptions.
    ///
    /// ```
    /// # fn example<R: sessile::runtime::Runtime, B: sessile::app::Backend>(
    /// #     manager: &sessile::Manager<R, B>,
    /// # ) -> Result<(), sessile::OutsideNoteError> {
    /// manager.notify_all("notifications/tools/list_changed", &())?;
    /// manager.notify_all("notifications/resources/updated", &serde_json::json!({ "uri": "file:///project/config.json" }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the parameters are no JSON object.
    pub fn notify_all<T: Serialize + ?Sized>(&self, method: &str, params: &T) -> Result<usize, OutsideNoteError> {
        let note = OutsideNote::new(method, params)?;
        Ok(self.push_where(&note, |_| true))
    }

    /// The same to those of one principal.
    ///
    /// # Errors
    ///
    /// If the parameters are no JSON object.
    pub fn notify_all_of<T: Serialize + ?Sized>(
        &self,
        principal: &Principal,
        method: &str,
        params: &T,
    ) -> Result<usize, OutsideNoteError> {
        let note = OutsideNote::new(method, params)?;
        Ok(self.push_where(&note, |session| session.principal() == principal))
    }

    fn push_where(&self, note: &OutsideNote, wanted: impl Fn(&SessionInfo) -> bool) -> usize {
        [&self.shared.hub, &self.shared.subscriptions].map(|hub| hub.push_where(note, &wanted)).iter().sum()
    }
}

impl<S> Hub<S> {
    fn push_to(self: &Arc<Self>, key: SessionKey, note: &OutsideNote) -> bool {
        let cell = self.lock().cell(key);
        cell.is_some_and(|cell| self.push(&cell, note))
    }

    fn push_where(self: &Arc<Self>, note: &OutsideNote, wanted: impl Fn(&SessionInfo) -> bool) -> usize {
        let cells: Vec<_> = self.lock().cells().filter(|cell| wanted(&cell.info)).cloned().collect();
        cells.iter().filter(|cell| self.push(cell, note)).count()
    }

    fn push(self: &Arc<Self>, cell: &Arc<Cell<S>>, note: &OutsideNote) -> bool {
        let now = self.now();
        let mut inner = cell.lock();
        let sent = inner.session.push_outside_note(now, &self.config.session, note);
        self.settle(cell, inner);
        sent
    }
}
