//! The runtime's clock, timers and tasks behind one object, for those parts that must not depend on the runtime's type.

use std::future::Future;
use std::pin::Pin;

use sessile_core::Timestamp;

use crate::runtime::Runtime;

pub(crate) trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

pub(crate) struct RuntimeClock<R>(pub(crate) R);

impl<R: Runtime> Clock for RuntimeClock<R> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.timer_at(at))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(task);
    }
}
