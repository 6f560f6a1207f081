//! A plain async function as a server.

use std::future::Future;

use sessile_core::Message;

use super::{Context, Handler, Reply};
use crate::manager::SessionInfo;

/// A function that answers messages, as a [`Handler`] without state. Made by [`handler_fn`].
#[derive(Clone, Debug)]
pub struct Function<F>(F);

/// Makes a server of a function that answers one message at a time.
///
/// ```
/// use sessile::app::{Context, handler_fn};
/// use sessile::core::Message;
///
/// let server = handler_fn(|context: Context<()>, message: Message| async move {
///     match message.method() {
///         Some("ping") => context.result(&serde_json::json!({})),
///         _ => context.error(-32601, "Method not found"),
///     }
/// });
/// # let _ = server;
/// ```
pub const fn handler_fn<F, Fut>(function: F) -> Function<F>
where
    F: Fn(Context<()>, Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Reply> + Send,
{
    Function(function)
}

impl<F, Fut> Handler for Function<F>
where
    F: Fn(Context<()>, Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Reply> + Send,
{
    type State = ();

    fn open(&self, _: &SessionInfo) {}

    fn call(&self, context: Context<()>, message: Message) -> impl Future<Output = Reply> + Send {
        (self.0)(context, message)
    }
}
