//! Is it us that the request is for?
//!
//! Owns authorities (RFC 3986, 3.2) and the check of `Host` (RFC 9110, 7.2; 2025-11-25, transports, security
//! warning), which keeps a web page from reaching a local server through a name of its own. Fails closed: what is
//! missing, given twice or malformed is nobody. Does not own `Origin`, which builds on the authorities here.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::request::Parts;

use super::field::single;
use crate::config::ConfigError;

/// The names under which we may be asked.
#[derive(Debug)]
pub(super) struct Hosts {
    allowed: Box<[Allowed]>,
    any: bool,
    loopback: bool,
}

impl Hosts {
    /// Compiles the entries of [`GateConfig::allowed_hosts`](crate::config::GateConfig::allowed_hosts).
    pub(super) fn new(entries: &[String], loopback: bool) -> Result<Self, ConfigError> {
        let mut allowed = Vec::with_capacity(entries.len());
        let mut any = false;
        for entry in entries {
            if entry == "*" {
                any = true;
            } else {
                allowed.push(Allowed::parse(entry).ok_or_else(|| ConfigError::Host { given: entry.clone() })?);
            }
        }
        Ok(Self { allowed: allowed.into(), any, loopback })
    }

    /// Whether the head asks for one of them: in `Host` and in its target, where it names an authority (HTTP/2, and the
    /// absolute form of HTTP/1.1). One of the two must be there, and both must be good where both are.
    pub(super) fn allow(&self, head: &Parts) -> bool {
        let Ok(host) = single(&head.headers, HOST) else { return false };
        let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        (host.is_some() || target.is_some()) && [host, target].into_iter().flatten().all(|text| self.allow_text(text))
    }

    fn allow_text(&self, text: &[u8]) -> bool {
        let Some(authority) = Authority::parse(text) else { return false };
        self.any
            || (self.loopback && authority.host.is_loopback())
            || self.allowed.iter().any(|allowed| allowed.matches(&authority))
    }
}

/// One entry of the list.
#[derive(Debug)]
struct Allowed {
    host: Host<Box<str>>,
    /// `None` is every port.
    port: Option<u16>,
}

impl Allowed {
    fn parse(entry: &str) -> Option<Self> {
        let (text, any_port) = split_any_port(entry);
        let authority = Authority::parse(text.as_bytes())?;
        if any_port && authority.port.is_some() {
            return None;
        }
        Some(Self { host: authority.host.to_owned(), port: authority.port })
    }

    fn matches(&self, asked: &Authority<'_>) -> bool {
        let port = match (self.port, asked.port) {
            (None, _) => true,
            (Some(port), Some(asked)) => port == asked,
            // Clients leave the default port out, and which one that is only a proxy in front knows.
            (Some(port), None) => port == 80 || port == 443,
        };
        port && self.host.same(&asked.host)
    }
}

/// Takes the `:*` off an entry that allows every port.
pub(super) fn split_any_port(entry: &str) -> (&str, bool) {
    entry.strip_suffix(":*").map_or((entry, false), |rest| (rest, true))
}

/// A host and, if it is given, a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Authority<'a> {
    /// The host.
    pub(super) host: Host<&'a str>,
    /// The port.
    pub(super) port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `host` or `host:port`. `None` for anything else: user information, a bare IPv6 address, a zone, an
    /// escape, an empty or padded port.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let (host, rest) = if let Some(rest) = text.strip_prefix('[') {
            let (inside, rest) = rest.split_once(']')?;
            (Host::V6(inside.parse().ok()?), rest)
        } else {
            let end = text.find(':').unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            if name.is_empty() || !name.bytes().all(is_name_byte) {
                return None;
            }
            (Host::Name(name), rest)
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self { host, port })
    }
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// One spelling for each port: digits alone, no zero in front.
fn port(digits: &str) -> Option<u16> {
    if digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// A name, an IPv4 address (which stays text, so that only its canonical form equals it) or an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host<T> {
    /// What stands there; compared in any case. A dot at the end makes another name.
    Name(T),
    /// The address in the brackets; compared by value.
    V6(Ipv6Addr),
}

impl Host<&str> {
    /// Whether it is `localhost`, in 127.0.0.0/8 in the canonical dotted form, or `[::1]`.
    pub(super) fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => {
                name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
            }
            Self::V6(ip) => ip.is_loopback(),
        }
    }

    /// The same host for a list.
    pub(super) fn to_owned(self) -> Host<Box<str>> {
        match self {
            Self::Name(name) => Host::Name(name.into()),
            Self::V6(ip) => Host::V6(ip),
        }
    }
}

impl Host<Box<str>> {
    /// Whether the other is the same host.
    pub(super) fn same(&self, other: &Host<&str>) -> bool {
        match (self, other) {
            (Self::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Self::V6(one), Host::V6(other)) => one == other,
            (Self::Name(_), Host::V6(_)) | (Self::V6(_), Host::Name(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn hosts(entries: &[&str], loopback: bool) -> Result<Hosts, ConfigError> {
        Hosts::new(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>(), loopback)
    }

    fn allow(hosts: &Hosts, lines: &[&str], target: &str) -> bool {
        let (mut head, ()) = Request::builder().uri(target).body(()).expect("a target").into_parts();
        for line in lines {
            head.headers.append(HOST, HeaderValue::from_bytes(line.as_bytes()).expect("a header value"));
        }
        hosts.allow(&head)
    }

    /// R159, R160.
    #[test]
    fn loopback_is_known_in_all_its_forms() {
        let hosts = hosts(&[], true).expect("good");
        for good in [
            "localhost",
            "LOCALHOST",
            "LocalHost:3000",
            "localhost:65535",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.255.0.9:1",
            "[::1]",
            "[::1]:3000",
            "[0:0:0:0:0:0:0:1]:3000",
            " localhost ",
        ] {
            assert!(allow(&hosts, &[good], "/mcp"), "{good}");
        }
    }

    /// R162, R163: on by default, and closed for whatever only looks like us.
    #[test]
    fn look_alikes_of_loopback_are_nobody() {
        let hosts = hosts(&[], true).expect("good");
        for bad in [
            "",
            ":80",
            "evil.test",
            "attacker.com",
            "localhost.evil.test",
            "evil-localhost",
            "xlocalhost",
            "localhost.",
            "localhost.localdomain",
            "localhost:",
            "localhost:0",
            "localhost:080",
            "localhost:65536",
            "localhost:99999999999999999999",
            "localhost:+80",
            "localhost:8o",
            "localhost:80:80",
            "localhost:80@evil.test",
            "localhost@evil.test",
            "evil.test@localhost",
            "user:secret@localhost",
            "@localhost",
            "localhost/",
            "localhost/../evil.test",
            "localhost#",
            "localhost?",
            "localhost,evil.test",
            "localhost, localhost",
            "localhost evil.test",
            "local%68ost",
            "http://localhost",
            "127.1",
            "127.0.1",
            "127.0.0.01",
            "0127.0.0.1",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "0x7f000001",
            "2130706433",
            "127.0.0.1.",
            "127.0.0.1.evil.test",
            "127.0.0.256",
            "128.0.0.1",
            "0.0.0.0",
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[::1]x",
            "[::1].evil.test",
            "[::1]80",
            "[::1]:",
            "[[::1]]",
            "[::1%25lo]",
            "[::ffff:127.0.0.1]",
            "[::]",
            "[localhost]",
            "[127.0.0.1]",
            "\u{ff4c}ocalhost",
            "*",
        ] {
            assert!(!allow(&hosts, &[bad], "/mcp"), "{bad}");
        }
    }

    #[test]
    fn host_and_target_must_both_be_good_and_one_must_be_there() {
        let hosts = hosts(&["mcp.test"], true).expect("good");
        for (lines, target, expected) in [
            (&[][..], "/mcp", false),
            (&["localhost", "localhost"], "/mcp", false),
            (&["localhost", "evil.test"], "/mcp", false),
            (&[], "http://localhost:3000/mcp", true),
            (&[], "http://evil.test/mcp", false),
            (&["mcp.test"], "http://localhost/mcp", true),
            (&["evil.test"], "http://localhost/mcp", false),
            (&["localhost"], "http://evil.test/mcp", false),
            (&[], "http://user@localhost/mcp", false),
        ] {
            assert_eq!(allow(&hosts, lines, target), expected, "{lines:?} {target}");
        }
    }

    #[test]
    fn listed_names_are_good_with_the_ports_that_they_list() {
        let hosts =
            hosts(&["any.test", "star.test:*", "Port.Test:8443", "web.test:443", "[2001:DB8::1]:9", "10.0.0.1"], false)
                .expect("good");
        for (host, expected) in [
            ("any.test", true),
            ("ANY.test:1", true),
            ("star.test", true),
            ("star.test:1", true),
            ("port.test:8443", true),
            ("port.test:8444", false),
            ("port.test", false),
            // Clients leave a default port out.
            ("web.test", true),
            ("web.test:443", true),
            ("web.test:80", false),
            ("[2001:db8:0::1]:9", true),
            ("[2001:db8::1]", false),
            ("10.0.0.1:5", true),
            ("10.0.0.01", false),
            ("sub.any.test", false),
            ("any.test.evil.test", false),
            ("any.test.", false),
            // Loopback is off here.
            ("localhost", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(allow(&hosts, &[host], "/mcp"), expected, "{host}");
        }
    }

    #[test]
    fn the_star_allows_every_name_but_nothing_malformed() {
        let hosts = hosts(&["*"], false).expect("good");
        for (lines, expected) in [
            (&["evil.test"][..], true),
            (&["[2001:db8::1]:9"], true),
            (&[], false),
            (&["a", "a"], false),
            (&["user@a"], false),
            (&["a/b"], false),
        ] {
            assert_eq!(allow(&hosts, lines, "/mcp"), expected, "{lines:?}");
        }
    }

    #[test]
    fn entries_that_are_no_host_are_refused() {
        for bad in [
            "",
            ":80",
            ":*",
            "*:80",
            "*:*",
            "*.example.com",
            "a:b",
            "a:0",
            "a:1:*",
            "::1",
            "[::1",
            "http://a",
            "a/mcp",
            "user@a",
            " a",
            "b\u{fc}cher.test",
        ] {
            assert_eq!(hosts(&[bad], true).unwrap_err(), ConfigError::Host { given: bad.to_owned() });
        }
    }
}
