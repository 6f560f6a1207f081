//! A handler whose panics end one request. rmcp runs each request in a task of its own and never hears of a panic in it, so that
//! the client would wait for ever.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::pin;

use rmcp::model::{ClientNotification, ClientRequest, ErrorData, ProtocolVersion, ServerConfig, ServerResult};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, Service};

use crate::app::poll_guarded;

pub(super) struct Guarded<S>(pub(super) S);

impl<S: Service<RoleServer>> Service<RoleServer> for Guarded<S> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        guarded(self.0.handle_request(request, context)).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        guarded(self.0.handle_notification(notification, context)).await
    }

    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}

async fn guarded<T>(handling: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    let mut handling = pin!(handling);
    poll_fn(|cx| poll_guarded(handling.as_mut(), cx))
        .await
        .unwrap_or_else(|panicked| Err(ErrorData::internal_error(panicked.to_string(), None)))
}
