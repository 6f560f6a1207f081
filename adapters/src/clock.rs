//! The runtime's clock and timers behind one object, for those parts of an app that must not depend on the runtime's type.

use std::future::Future;
use std::pin::Pin;

use sessile_core::Timestamp;

use crate::runtime::Runtime;

pub(crate) trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

pub(crate) struct RuntimeClock<R>(pub(crate) R);

impl<R: Runtime> Clock for RuntimeClock<R> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.timer_at(at))
    }
}
