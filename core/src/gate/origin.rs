//! May the page that sends this talk to us?
//!
//! Owns the check of `Origin` (RFC 6454, 6.2; 2025-11-25, transports, security warning: a bad one is 403). Only
//! browsers send it, so a request without one passes; whatever else is not known to be good is refused. Does not
//! own what scripts may read, nor the answer to a browser that asks first.

use http::HeaderMap;
use http::header::ORIGIN;

use super::field::single;
use super::host::{Authority, Host, split_any_port};
use crate::config::ConfigError;

/// The origins that may talk to us.
#[derive(Debug)]
pub(super) struct Origins {
    allowed: Box<[Allowed]>,
    loopback: bool,
}

impl Origins {
    /// Compiles the entries of [`GateConfig::allowed_origins`](crate::config::GateConfig::allowed_origins).
    pub(super) fn new(entries: &[String], loopback: bool) -> Result<Self, ConfigError> {
        let allowed = entries
            .iter()
            .map(|entry| Allowed::parse(entry).ok_or_else(|| ConfigError::Origin { given: entry.clone() }))
            .collect::<Result<_, _>>()?;
        Ok(Self { allowed, loopback })
    }

    /// Whether the head comes from one of them, or from no page at all.
    pub(super) fn allow(&self, headers: &HeaderMap) -> bool {
        match single(headers, ORIGIN) {
            Ok(None) => true,
            Ok(Some(text)) => Origin::parse(text).is_some_and(|(_, origin)| self.allow_origin(&origin)),
            Err(_) => false,
        }
    }

    /// Whether the head comes from an origin at all, and not from `null` or from nowhere.
    pub(super) fn is_one(headers: &HeaderMap) -> bool {
        matches!(single(headers, ORIGIN), Ok(Some(text)) if Origin::parse(text).is_some())
    }

    fn allow_origin(&self, origin: &Origin<'_>) -> bool {
        (self.loopback && default_port(origin.scheme).is_some() && origin.host.is_loopback())
            || self.allowed.iter().any(|allowed| allowed.matches(origin))
    }
}

/// One entry of the list.
#[derive(Debug)]
struct Allowed {
    any_port: bool,
    host: Host<Box<str>>,
    port: Option<u16>,
    scheme: Box<str>,
}

impl Allowed {
    fn parse(entry: &str) -> Option<Self> {
        let (text, any_port) = split_any_port(entry);
        let (given, origin) = Origin::parse(text.as_bytes())?;
        if any_port && given.is_some() {
            return None;
        }
        Some(Self { any_port, host: origin.host.to_owned(), port: origin.port, scheme: origin.scheme.into() })
    }

    fn matches(&self, origin: &Origin<'_>) -> bool {
        (self.any_port || self.port == origin.port)
            && self.scheme.eq_ignore_ascii_case(origin.scheme)
            && self.host.same(&origin.host)
    }
}

/// A scheme, a host and a port.
struct Origin<'a> {
    host: Host<&'a str>,
    /// The port that is meant: the one that is given, else the scheme's. `None` where a scheme has none.
    port: Option<u16>,
    scheme: &'a str,
}

impl<'a> Origin<'a> {
    /// Reads one serialized origin, and the port that is written in it. `None` for `null`, and for whatever has
    /// more to it than a scheme, a host and a port.
    fn parse(text: &'a [u8]) -> Option<(Option<u16>, Self)> {
        let (scheme, rest) = str::from_utf8(text).ok()?.split_once("://")?;
        let good = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        if !good {
            return None;
        }
        let Authority { host, port } = Authority::parse(rest.as_bytes())?;
        Some((port, Self { host, port: port.or_else(|| default_port(scheme)), scheme }))
    }
}

/// The port that an origin of this scheme has when it names none.
fn default_port(scheme: &str) -> Option<u16> {
    if scheme.eq_ignore_ascii_case("http") {
        Some(80)
    } else if scheme.eq_ignore_ascii_case("https") {
        Some(443)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn origins(entries: &[&str], loopback: bool) -> Result<Origins, ConfigError> {
        Origins::new(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>(), loopback)
    }

    fn allow(origins: &Origins, lines: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ORIGIN, HeaderValue::from_bytes(line.as_bytes()).expect("a header value"));
        }
        origins.allow(&headers)
    }

    /// R160.
    #[test]
    fn no_origin_and_loopback_origins_pass() {
        let origins = origins(&[], true).expect("good");
        for good in [
            &[][..],
            &["http://localhost"],
            &["https://localhost:8443"],
            &["HTTP://LOCALHOST:3000"],
            &["http://127.0.0.1:5173"],
            &["http://127.8.8.8"],
            &["http://[::1]:3000"],
        ] {
            assert!(allow(&origins, good), "{good:?}");
        }
    }

    /// R157, R165.
    #[test]
    fn whatever_is_not_known_to_be_good_is_refused() {
        let origins = origins(&["https://app.test"], true).expect("good");
        for bad in [
            &[""][..],
            &["null"],
            &["NULL"],
            &["file://"],
            &["file:///etc/passwd"],
            &["*"],
            &["localhost"],
            &["//localhost"],
            &["http:localhost"],
            &["http:/localhost"],
            &["http://"],
            &["http://:80"],
            &["://localhost"],
            &["1http://localhost"],
            &["ht tp://localhost"],
            &["ws://localhost"],
            &["chrome-extension://localhost"],
            &["http://evil.test"],
            &["http://localhost.evil.test"],
            &["http://localhost."],
            &["http://localhost/"],
            &["http://localhost/path"],
            &["http://localhost?x"],
            &["http://localhost#x"],
            &["http://localhost:"],
            &["http://localhost:0"],
            &["http://localhost:65536"],
            &["http://localhost:1@evil.com"],
            &["http://user@localhost"],
            &["http://localhost\\@evil.test"],
            &["http://0.0.0.0"],
            &["http://127.1"],
            &["http://::1"],
            &["http://[::1"],
            &["http://[::ffff:127.0.0.1]"],
            &["http://localhost http://localhost"],
            &["http://localhost, http://localhost"],
            &["http://localhost", "http://localhost"],
            &["https://app.test", "http://evil.test"],
            &["http://localhost://x"],
        ] {
            assert!(!allow(&origins, bad), "{bad:?}");
        }
    }

    /// R161.
    #[test]
    fn an_origin_without_port_has_its_schemes_default() {
        let origins = origins(
            &[
                "http://127.0.0.1:5555",
                "https://app.test",
                "http://any.test:*",
                "vscode-webview://abc",
                "http://p.test:80",
            ],
            false,
        )
        .expect("good");
        for (origin, expected) in [
            ("http://127.0.0.1:5555", true),
            ("http://127.0.0.1", false),
            ("http://127.0.0.1:80", false),
            ("https://app.test", true),
            ("HTTPS://App.Test", true),
            ("https://app.test:443", true),
            ("https://app.test:80", false),
            ("http://app.test", false),
            ("http://app.test:443", false),
            ("https://sub.app.test", false),
            ("http://any.test", true),
            ("http://any.test:9999", true),
            ("https://any.test", false),
            ("vscode-webview://abc", true),
            ("vscode-webview://abc:80", false),
            ("vscode-webview://abd", false),
            ("http://p.test", true),
            // Loopback origins are off here.
            ("http://localhost", false),
        ] {
            assert_eq!(allow(&origins, &[origin]), expected, "{origin}");
        }
    }

    #[test]
    fn entries_that_are_no_origin_are_refused() {
        for bad in [
            "",
            "*",
            "null",
            "app.test",
            "https://",
            "https://*",
            "https://*.app.test",
            "https://app.test/",
            "https://app.test:0",
            "https://app.test:1:*",
            "https://user@app.test",
            "https://app.test:443 ",
            "file://",
        ] {
            assert_eq!(origins(&[bad], true).unwrap_err(), ConfigError::Origin { given: bad.to_owned() });
        }
    }
}
