//! Which pages' scripts may read our answers?
//!
//! Owns cross-origin resource sharing (Fetch, 3.3): how a browser that asks first is known, and the headers that it looks for
//! in every answer. Off unless origins are listed. Credentials that a browser keeps by itself, such as cookies, are never
//! asked for: what counts is a header that a script has to set. Does not own which origins may send requests at all.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use super::field::{elements, is_token_byte};
use super::origin::Origins;
use crate::config::ConfigError;

/// What a script may do: all that is served.
const METHODS: &str = "GET, POST, DELETE";
/// What it may send besides what is always allowed (2025-11-25 and 2026-07-28, transports).
const SENT: &str = "content-type, accept, authorization, mcp-session-id, mcp-protocol-version, last-event-id, \
     mcp-method, mcp-name";
/// How the headers begin that mirror a call's arguments, whose names a server chooses (2026-07-28).
const MIRRORED: &[u8] = b"mcp-param-";
/// What it may read besides what is always readable.
const READ: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";
/// For how many seconds a browser need not ask again; none remembers it for longer.
const MAX_AGE: &str = "7200";

/// The origins whose scripts may read answers.
#[derive(Debug)]
pub(super) struct Cors {
    any: bool,
    listed: Origins,
}

impl Cors {
    /// Compiles the entries of [`GateConfig::cors_origins`](crate::config::GateConfig::cors_origins). `None`: there are none.
    pub(super) fn new(entries: &[String]) -> Result<Option<Self>, ConfigError> {
        let wrong = |given: &String| ConfigError::CorsOrigin { given: given.clone() };
        match entries {
            [] => Ok(None),
            [every] if every == "*" => Ok(Some(Self { any: true, listed: Origins::new(&[], false)? })),
            entries => match Origins::new(entries, false) {
                Ok(listed) => Ok(Some(Self { any: false, listed })),
                Err(ConfigError::Origin { given }) => Err(wrong(&given)),
                Err(other) => Err(other),
            },
        }
    }

    /// Whether the head comes from one of them. It may then talk to us, whatever else is allowed.
    pub(super) fn lists(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(ORIGIN) && if self.any { Origins::is_one(headers) } else { self.listed.allow(headers) }
    }

    /// The headers for the answer to this head.
    pub(super) fn headers(&self, head: &Parts) -> CorsHeaders {
        let origin = if !self.lists(&head.headers) {
            None
        } else if self.any {
            Some(HeaderValue::from_static("*"))
        } else {
            head.headers.get(ORIGIN).cloned()
        };
        let preflight = (origin.is_some() && is_preflight(head)).then(|| allowed(&head.headers));
        CorsHeaders { origin, preflight }
    }
}

/// Whether a browser asks if it may send a request.
pub(super) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(ORIGIN)
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The headers that may be sent: those that are known, and those that mirror arguments and are asked for.
fn allowed(headers: &HeaderMap) -> HeaderValue {
    let mut list = SENT.as_bytes().to_vec();
    let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().flat_map(|line| elements(line.as_bytes()));
    for name in asked.filter(|name| is_mirrored(name)) {
        list.extend_from_slice(b", ");
        list.extend_from_slice(name);
    }
    // Bytes of names can't make a value that is none.
    HeaderValue::from_bytes(&list).unwrap_or_else(|_| HeaderValue::from_static(SENT))
}

fn is_mirrored(name: &[u8]) -> bool {
    let prefix = name.get(..MIRRORED.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(MIRRORED)) && name.iter().all(|byte| is_token_byte(*byte))
}

/// What the answer to one request says to a browser. The same for a good answer and for a refusal, so that a script learns
/// why it was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsHeaders {
    /// `None`: the request comes from no listed origin, and no script may read the answer.
    origin: Option<HeaderValue>,
    /// What may be sent, for one who asks first.
    preflight: Option<HeaderValue>,
}

impl CorsHeaders {
    /// Puts them into an answer.
    pub fn apply(self, headers: &mut HeaderMap) {
        // Also where nothing is allowed: a cache must not give one origin what it has kept for another.
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let Some(origin) = self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        match self.preflight {
            Some(allowed) => {
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
            }
            None => drop(headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn cors(entries: &[&str]) -> Result<Option<Cors>, ConfigError> {
        Cors::new(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    fn head(method: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a head").into_parts().0
    }

    fn said(cors: &Cors, head: &Parts) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        cors.headers(head).apply(&mut headers);
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_star_stands_alone_and_nothing_is_off() {
        assert!(cors(&[]).expect("good").is_none());
        for good in [&["*"][..], &["https://a.test"], &["https://a.test", "http://b.test:*"]] {
            assert!(cors(good).expect("good").is_some(), "{good:?}");
        }
        for (bad, which) in [
            (&["*", "https://a.test"][..], "*"),
            (&["https://a.test", "*"], "*"),
            (&["null"], "null"),
            (&["https://a.test/"], "https://a.test/"),
            (&["https://*"], "https://*"),
            (&[""], ""),
        ] {
            assert_eq!(cors(bad).unwrap_err(), ConfigError::CorsOrigin { given: which.to_owned() });
        }
    }

    /// R156: a script reads the session's id, and what a refusal tells it to do.
    #[test]
    fn a_listed_origin_is_named_and_others_are_not() {
        let cors = cors(&["https://app.test", "http://localhost:*"]).expect("good").expect("on");
        for origin in ["https://app.test", "HTTPS://App.Test:443", "http://localhost:5173"] {
            let expected =
                [("vary", "Origin"), ("access-control-allow-origin", origin), ("access-control-expose-headers", READ)];
            assert_eq!(said(&cors, &head("POST", &[("origin", origin)])), pairs(&expected), "{origin}");
        }
        for fields in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "")],
            &[("origin", "https://evil.test")],
            &[("origin", "https://app.test.evil.test")],
            &[("origin", "http://app.test")],
            &[("origin", "https://app.test"), ("origin", "https://app.test")],
        ] {
            assert_eq!(said(&cors, &head("POST", fields)), pairs(&[("vary", "Origin")]), "{fields:?}");
        }
    }

    #[test]
    fn a_star_names_nobody_and_is_no_invitation_for_what_is_no_origin() {
        let cors = cors(&["*"]).expect("good").expect("on");
        let any = said(&cors, &head("POST", &[("origin", "https://app.test")]));
        assert_eq!(any[1], ("access-control-allow-origin".to_owned(), "*".to_owned()));
        for origin in ["null", "", "*", "file://", "https://a.test/path"] {
            assert_eq!(said(&cors, &head("POST", &[("origin", origin)])), pairs(&[("vary", "Origin")]), "{origin}");
        }
    }

    /// R153.
    #[test]
    fn a_preflight_allows_what_clients_send() {
        let cors = cors(&["https://app.test"]).expect("good").expect("on");
        let ask = |asked: &[&'static str]| {
            let mut fields = vec![("origin", "https://app.test"), ("access-control-request-method", "POST")];
            fields.extend(asked.iter().map(|names| ("access-control-request-headers", *names)));
            said(&cors, &head("OPTIONS", &fields))
        };
        let answer = |allowed: &str| {
            pairs(&[
                ("vary", "Origin"),
                ("access-control-allow-origin", "https://app.test"),
                ("access-control-allow-methods", "GET, POST, DELETE"),
                ("access-control-allow-headers", allowed),
                ("access-control-max-age", "7200"),
            ])
        };
        let known = "content-type, accept, authorization, mcp-session-id, mcp-protocol-version, last-event-id, \
             mcp-method, mcp-name";
        for asked in [&[][..], &["content-type,mcp-session-id"], &["x-other, cookie"], &[""], &["mcp-param"]] {
            assert_eq!(ask(asked), answer(known), "{asked:?}");
        }
        assert_eq!(
            ask(&["mcp-param-region,x-other", "MCP-Param-User_Id , mcp-param-a b, mcp-param-\"x\""]),
            answer(&format!("{known}, mcp-param-region, MCP-Param-User_Id"))
        );
        let other = head("OPTIONS", &[("origin", "https://evil.test"), ("access-control-request-method", "POST")]);
        assert_eq!(said(&cors, &other), pairs(&[("vary", "Origin")]));
    }

    #[test]
    fn a_preflight_is_known_by_three_things() {
        let origin = ("origin", "https://app.test");
        let asks = ("access-control-request-method", "POST");
        assert!(is_preflight(&head("OPTIONS", &[origin, asks])));
        assert!(!is_preflight(&head("OPTIONS", &[origin])));
        assert!(!is_preflight(&head("OPTIONS", &[asks])));
        assert!(!is_preflight(&head("POST", &[origin, asks])));
    }
}
