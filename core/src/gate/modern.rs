//! What must a message without a session say of itself?
//!
//! Owns the ladder of 2026-07-28: what a request's headers and its `_meta` must say, and in which order that is
//! asked (transports, request metadata and server validation; basic, `_meta`). Does not own whose turn it is, which
//! [`Gate::body`](super::Gate::body) decides, nor which parameters of a tool are repeated in headers, which its app alone
//! knows: [`ToolHeaders`](super::ToolHeaders).

use http::{HeaderMap, HeaderName};
use serde::Deserialize;

use super::accept::Accepted;
use super::{Admitted, MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, PostHead, encoded, field, version};
use crate::config::ResponseMode;
use crate::message::{Message, MessageKind, Modern, Request};
use crate::outcome::{HeaderFault, Outcome};
use crate::version::{Era, ProtocolVersion};

/// The methods of earlier revisions that this one does not have. An app that speaks both eras may still know them.
/// What an app does not know, it refuses itself.
const REMOVED: [&str; 8] = [
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
];

type Rung = fn(&Asked<'_>) -> Result<(), Outcome>;

/// The steps, each before the next. A version that is not served comes before all that depends on the version.
const LADDER: [Rung; 6] =
    [version_agrees, version_is_served, method_agrees, name_agrees, capabilities_are_declared, method_exists];

/// A request, and where it stands.
struct Asked<'a> {
    headers: &'a HeaderMap,
    message: &'a Message,
    request: &'a Request,
    modern: Option<&'a Modern>,
}

pub(super) fn admit(headers: &HeaderMap, post: &PostHead, message: &Message) -> Result<Admitted, Outcome> {
    let request = match message.kind() {
        MessageKind::Request(request) => request,
        MessageKind::Notification(_) => return Err(notification(headers, message).err().unwrap_or(Outcome::Accepted)),
        MessageKind::Response(_) => {
            return Err(Outcome::NotOneMessage { why: "a response belongs to a session" });
        }
    };
    let asked = Asked { headers, message, request, modern: request.modern.as_deref() };
    LADDER.iter().try_for_each(|step| step(&asked))?;
    let version = asked.modern.and_then(|modern| ProtocolVersion::parse(modern.version.as_bytes()));
    // The ladder has seen to it.
    let version = version.ok_or(Outcome::MetaMissing { key: VERSION_KEY })?;
    Ok(Admitted::Sessionless { mode: mode(headers, post, request)?, version })
}

/// A subscription is a stream whatever the mode: its answer is its end.
fn mode(headers: &HeaderMap, post: &PostHead, request: &Request) -> Result<ResponseMode, Outcome> {
    if !request.is_subscription() {
        return Ok(post.mode);
    }
    if Accepted::read(headers).events { Ok(ResponseMode::Sse) } else { Err(Outcome::NotAcceptable) }
}

/// Nothing is asked of a notification's headers, nor of its `_meta`, but what it says must agree and be served. It
/// is accepted and dropped: this revision has none for a client to send.
fn notification(headers: &HeaderMap, message: &Message) -> Result<(), Outcome> {
    let mark = message.modern_version();
    let header = version_header(headers)?;
    if let (Some(header), Some(mark)) = (header, mark)
        && header != mark.as_bytes()
    {
        return Err(mismatch(VERSION_HEADER, HeaderFault::Differs));
    }
    match mark.map(str::as_bytes).or(header) {
        Some(named) => served(named),
        None => Ok(()),
    }
}

fn version_agrees(asked: &Asked<'_>) -> Result<(), Outcome> {
    match (version_header(asked.headers)?, asked.modern) {
        (Some(header), Some(modern)) if header == modern.version.as_bytes() => Ok(()),
        (Some(_), Some(_)) => Err(mismatch(VERSION_HEADER, HeaderFault::Differs)),
        (header, None) => {
            // A client of another era learns which versions are served.
            let handshake = handshake(asked);
            handshake.as_deref().map(str::as_bytes).or(header).map_or(Ok(()), served)?;
            Err(match header {
                Some(_) => Outcome::MetaMissing { key: VERSION_KEY },
                None => mismatch(VERSION_HEADER, HeaderFault::Missing),
            })
        }
        (None, Some(_)) => Err(mismatch(VERSION_HEADER, HeaderFault::Missing)),
    }
}

fn version_is_served(asked: &Asked<'_>) -> Result<(), Outcome> {
    asked.modern.map_or(Ok(()), |modern| served(modern.version.as_bytes()))
}

fn method_agrees(asked: &Asked<'_>) -> Result<(), Outcome> {
    match value(asked.headers, MCP_METHOD, "Mcp-Method")? {
        None => Err(mismatch("Mcp-Method", HeaderFault::Missing)),
        Some(method) if method == asked.request.method.as_bytes() => Ok(()),
        Some(_) => Err(mismatch("Mcp-Method", HeaderFault::Differs)),
    }
}

fn name_agrees(asked: &Asked<'_>) -> Result<(), Outcome> {
    let repeats = matches!(
        &*asked.request.method,
        "prompts/get" | "resources/read" | "tasks/cancel" | "tasks/get" | "tasks/update" | "tools/call"
    );
    if !repeats {
        return Ok(());
    }
    let name = asked.modern.and_then(|modern| modern.name.as_deref());
    match (value(asked.headers, MCP_NAME, "Mcp-Name")?, name) {
        // Its parameters are wrong, which its app says better.
        (None, None) => Ok(()),
        (None, Some(_)) => Err(mismatch("Mcp-Name", HeaderFault::Missing)),
        (Some(header), name) => match encoded::decode(header) {
            None => Err(mismatch("Mcp-Name", HeaderFault::Malformed)),
            Some(header) if name.is_some_and(|name| *header == *name.as_bytes()) => Ok(()),
            Some(_) => Err(mismatch("Mcp-Name", HeaderFault::Differs)),
        },
    }
}

fn capabilities_are_declared(asked: &Asked<'_>) -> Result<(), Outcome> {
    let declared = asked.modern.is_some_and(|modern| modern.has_capabilities);
    if declared { Ok(()) } else { Err(Outcome::MetaMissing { key: CAPABILITIES_KEY }) }
}

fn method_exists(asked: &Asked<'_>) -> Result<(), Outcome> {
    if REMOVED.contains(&&*asked.request.method) { Err(Outcome::UnknownMethod) } else { Ok(()) }
}

const VERSION_HEADER: &str = "MCP-Protocol-Version";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

fn mismatch(name: &'static str, fault: HeaderFault) -> Outcome {
    Outcome::HeaderMismatch { name: name.into(), fault }
}

fn value<'a>(headers: &'a HeaderMap, name: HeaderName, shown: &'static str) -> Result<Option<&'a [u8]>, Outcome> {
    field::single(headers, name).map_err(|_| mismatch(shown, HeaderFault::Twice))
}

fn version_header(headers: &HeaderMap) -> Result<Option<&[u8]>, Outcome> {
    value(headers, MCP_PROTOCOL_VERSION, VERSION_HEADER)
}

/// Whether this version has no sessions. What has sessions is not served under the mark of this era.
fn served(version: &[u8]) -> Result<(), Outcome> {
    if ProtocolVersion::parse(version).is_some_and(ProtocolVersion::is_modern) {
        return Ok(());
    }
    Err(Outcome::UnsupportedVersion { requested: version::printable(version), era: Era::Modern })
}

/// The version that an `initialize` asks for.
fn handshake(asked: &Asked<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Handshake {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    asked.request.initialize.as_ref()?;
    asked.message.params::<Handshake>().ok().map(|params| params.version)
}
