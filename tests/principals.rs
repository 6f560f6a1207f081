//! Who asks, where nobody stands before the service who would say so: a header names them.

use http::HeaderName;
use http::request::Parts;
use sessile::Principal;
use sessile::http::{Authenticate, CredentialsError};

/// The header that [`InHeader`] believes.
pub const WHO: HeaderName = HeaderName::from_static("x-who");

/// Believes what [`WHO`] says; without it a client is anonymous. For tests alone.
#[derive(Clone, Copy, Debug)]
pub struct InHeader;

impl Authenticate for InHeader {
    fn authenticate(&self, head: &Parts) -> Result<Principal, CredentialsError> {
        let Some(who) = head.headers.get(WHO) else { return Ok(Principal::ANONYMOUS) };
        who.to_str().map(Principal::named).map_err(|_| CredentialsError::Wrong)
    }
}
