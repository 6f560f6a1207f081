//! Who a request comes from.

use std::fmt;
use std::sync::Arc;

/// The verified identity that a request carries. The one that created a session owns it.
///
/// [`McpService::authenticate`](crate::http::McpService::authenticate) finds it out, or an authentication layer in front of the
/// service puts it into the request's extensions; without either every request is anonymous.
/// It must be a stable name of the identity (client, issuer and subject together), never a credential: tokens are refreshed, and
/// what is compared here must not change with them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// Nobody in particular.
    pub const ANONYMOUS: Self = Self(None);

    /// The identity with this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(Some(name.into()))
    }

    /// Its name. `None` for anonymous requests.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("anonymous"))
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({self})")
    }
}
