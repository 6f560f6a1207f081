//! Every outcome that can be had without resumption stands in a row.

use sessile_core::{Era, HeaderFault, Outcome};

use crate::row::{Expected, Kind, all};

/// All but those that a row can't have: [`Outcome::StreamOver`] needs a stream that was resumed, [`Outcome::StoreUnavailable`] a store,
/// and [`Outcome::CredentialsRefused`] somebody who verifies them.
fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Accepted,
        Outcome::AlreadyInitialized,
        Outcome::AppFailed,
        Outcome::BodyTooLarge,
        Outcome::BodyTooSlow,
        Outcome::Deleted,
        Outcome::DuplicateRequestId,
        Outcome::HeaderMalformed { name: "Content-Length" },
        Outcome::HeaderMalformed { name: "Content-Type" },
        Outcome::HeaderMalformed { name: "Last-Event-ID" },
        Outcome::HeaderMalformed { name: "MCP-Protocol-Version" },
        Outcome::HeaderMalformed { name: "Mcp-Session-Id" },
        Outcome::HostNotAllowed,
        Outcome::InboxFull { request: false },
        Outcome::InboxFull { request: true },
        Outcome::InitializeIncomplete,
        Outcome::HeaderMismatch { name: "MCP-Protocol-Version".into(), fault: HeaderFault::Missing },
        Outcome::HeaderMismatch { name: "Mcp-Method".into(), fault: HeaderFault::Differs },
        Outcome::HeaderMismatch { name: "Mcp-Name".into(), fault: HeaderFault::Malformed },
        Outcome::HeaderMismatch { name: "Mcp-Name".into(), fault: HeaderFault::Twice },
        Outcome::MetaMissing { key: "io.modelcontextprotocol/protocolVersion" },
        Outcome::MetaMissing { key: "io.modelcontextprotocol/clientCapabilities" },
        Outcome::MethodNotAllowed { era: Era::Legacy },
        Outcome::MethodNotAllowed { era: Era::Modern },
        Outcome::MissingSession,
        Outcome::NotAcceptable,
        Outcome::NotJson,
        Outcome::NotOneMessage { why: "batches are not supported" },
        Outcome::NotResumable,
        Outcome::NotTheEndpoint,
        Outcome::OriginNotAllowed,
        Outcome::Preflight,
        Outcome::RequestExpired,
        Outcome::SessionEnded,
        Outcome::SessionNotFound,
        Outcome::ShuttingDown,
        Outcome::TableFull { retry_after: 60 },
        Outcome::TooManyRequests,
        Outcome::UnknownMethod,
        Outcome::UnsupportedVersion { requested: "1999-01-01".into(), era: Era::Legacy },
        Outcome::UnsupportedVersion { requested: "1999-01-01".into(), era: Era::Modern },
        Outcome::WrongContentType,
    ]
}

fn says(expected: &Expected, outcome: &Outcome) -> bool {
    let retry_after = expected.headers.iter().find(|(name, _)| name == "retry-after").map(|(_, value)| value.clone());
    let kind = match &expected.kind {
        Kind::Error { code, message, .. } => {
            Some(*code) == outcome.code() && outcome.message().contains(message.as_str())
        }
        Kind::Empty => outcome.code().is_none(),
        Kind::Json | Kind::Pending | Kind::Sse { .. } => false,
    };
    kind && expected.status == outcome.status().as_u16() && retry_after == outcome.retry_after().map(|s| s.to_string())
}

#[test]
fn every_outcome_has_a_row() {
    let rows = all();
    for outcome in outcomes() {
        let found = rows.iter().any(|row| {
            let answers = [Some(&row.answer), row.first.as_ref()];
            answers.into_iter().flatten().any(|expected| says(expected, &outcome))
        });
        assert!(found, "no row ends in {outcome:?}");
    }
}
