//! Who asks? The seam for those who verify credentials, and the one implementation that needs nothing else: bearer tokens.
//!
//! Owns the list of tokens, its text form and the comparison. Does not own the answer to whoever is refused, nor the place
//! of the check among the others; both are the core's.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use sessile_core::Outcome;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::principal::Principal;

/// Verifies the credentials of each request, before anything about sessions is looked at.
///
/// See [`McpService::authenticate`](super::McpService::authenticate). What has to ask others, such as an OAuth issuer, is
/// better a layer in front of the service, which may wait.
pub trait Authenticate: Send + Sync + 'static {
    /// Who sends this request.
    ///
    /// # Errors
    ///
    /// Whether there were no credentials or wrong ones; the client is told that, and no more.
    fn authenticate(&self, head: &Parts) -> Result<Principal, CredentialsError>;
}

/// Why a request is refused with 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// It carries none of the kind that is asked for.
    #[error("credentials are missing")]
    Missing,
    /// It carries wrong ones.
    #[error("credentials are wrong")]
    Wrong,
}

impl CredentialsError {
    pub(super) const fn outcome(self) -> Outcome {
        Outcome::CredentialsRefused { given: matches!(self, Self::Wrong) }
    }
}

/// A list of bearer tokens (RFC 6750) and of whom each stands for.
///
/// A name may have several tokens, so that one can be replaced while the other still works: what owns a session is the name.
/// Each request is compared with every token, in a time that depends on their lengths and number only. That bounds the
/// list's useful size: it is meant for tens of tokens, not for thousands.
#[derive(Clone)]
pub struct BearerTokens(Vec<(Box<[u8]>, Principal)>);

/// What is wrong with the text of a list. Never shows any of the text, since that may be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BearerTokensError {
    /// Counted from 1; `None` if it is the list as a whole.
    line: Option<usize>,
    why: &'static str,
}

impl fmt::Display for BearerTokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(self.why)
    }
}

impl std::error::Error for BearerTokensError {}

impl BearerTokens {
    /// Reads lines of a name, white space and a token. Empty lines are skipped, and those that begin with `#`.
    ///
    /// # Errors
    ///
    /// The first line that is wrong, or that there is no token at all, which would shut everybody out.
    pub fn parse(text: &str) -> Result<Self, BearerTokensError> {
        let mut tokens: Vec<(Box<[u8]>, Principal)> = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let wrong = |why| Err(BearerTokensError { line: Some(line), why });
            let mut words = content.split_whitespace();
            let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
                return wrong("expected a name and a token");
            };
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return wrong("the token has characters that no header can carry");
            }
            if tokens.iter().any(|(other, _)| **other == *token.as_bytes()) {
                return wrong("the token is in the list already");
            }
            tokens.push((token.as_bytes().into(), Principal::named(name)));
        }
        if tokens.is_empty() {
            return Err(BearerTokensError { line: None, why: "there is no token in it" });
        }
        Ok(Self(tokens))
    }

    /// Looks at every token, so that the time does not tell which were nearly right. `subtle` keeps the compiler from making a
    /// shortcut of it.
    fn find(&self, given: &[u8]) -> Option<&Principal> {
        let mut found = u64::MAX;
        for (at, (token, _)) in (0_u64..).zip(&self.0) {
            let equal: Choice = token.ct_eq(given);
            found.conditional_assign(&at, equal);
        }
        self.0.get(usize::try_from(found).ok()?).map(|(_, principal)| principal)
    }
}

impl Authenticate for BearerTokens {
    fn authenticate(&self, head: &Parts) -> Result<Principal, CredentialsError> {
        let token = bearer(&head.headers)?;
        self.find(token).cloned().ok_or(CredentialsError::Wrong)
    }
}

/// The one token of a head. Credentials of another scheme are none; two are as good as wrong.
fn bearer(headers: &HeaderMap) -> Result<&[u8], CredentialsError> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let first = lines.next().ok_or(CredentialsError::Missing)?;
    if lines.next().is_some() {
        return Err(CredentialsError::Wrong);
    }
    let value = first.as_bytes().trim_ascii();
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, token) = value.split_at(end);
    if scheme.eq_ignore_ascii_case(b"Bearer") { Ok(token.trim_ascii_start()) } else { Err(CredentialsError::Missing) }
}

/// Shows whom they stand for, and no token.
impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, principal)| principal)).finish()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn ask(tokens: &BearerTokens, lines: &[&str]) -> Result<String, CredentialsError> {
        let (mut head, ()) = http::Request::new(()).into_parts();
        for line in lines {
            head.headers.append(AUTHORIZATION, HeaderValue::from_str(line).expect("a header's value"));
        }
        tokens.authenticate(&head).map(|principal| principal.to_string())
    }

    #[test]
    fn each_token_stands_for_a_name() {
        let text = "\u{feff}# who may\r\nalice s3cret\r\n\n \talice\t n3w== \nbob #1\n#carol s4cret\nzoë \"x\":y";
        let tokens = BearerTokens::parse(text).expect("a good list");
        for (lines, expected) in [
            (&["Bearer s3cret"][..], Ok("alice")),
            (&["bearer s3cret"], Ok("alice")),
            (&["BEARER   n3w== "], Ok("alice")),
            (&["Bearer #1"], Ok("bob")),
            (&["Bearer \"x\":y"], Ok("zoë")),
            (&["Bearer s4cret"], Err(CredentialsError::Wrong)),
            (&["Bearer s3cre"], Err(CredentialsError::Wrong)),
            (&["Bearer s3crets"], Err(CredentialsError::Wrong)),
            (&["Bearer S3cret"], Err(CredentialsError::Wrong)),
            (&["Bearer s3cret n3w=="], Err(CredentialsError::Wrong)),
            (&["Bearer s3cret, Bearer n3w=="], Err(CredentialsError::Wrong)),
            (&["Bearer alice"], Err(CredentialsError::Wrong)),
            (&["Bearer"], Err(CredentialsError::Wrong)),
            (&["Bearer "], Err(CredentialsError::Wrong)),
            (&["Bearer s3cret", "Bearer s3cret"], Err(CredentialsError::Wrong)),
            (&["Bearer s3cret", "Basic x"], Err(CredentialsError::Wrong)),
            (&[], Err(CredentialsError::Missing)),
            (&[""], Err(CredentialsError::Missing)),
            (&["s3cret"], Err(CredentialsError::Missing)),
            (&["Bearers3cret"], Err(CredentialsError::Missing)),
            (&["Basic YWxpY2U6czNjcmV0"], Err(CredentialsError::Missing)),
        ] {
            assert_eq!(ask(&tokens, lines).as_deref(), expected.as_ref().copied(), "{lines:?}");
        }
        assert_eq!(format!("{tokens:?}"), "[Principal(alice), Principal(alice), Principal(bob), Principal(zoë)]");
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said_without_its_tokens() {
        for (text, expected) in [
            ("", "there is no token in it"),
            ("# alice s3cret\n\n", "there is no token in it"),
            ("s3cret", "line 1: expected a name and a token"),
            ("\n\nalice s3cret now", "line 3: expected a name and a token"),
            ("alice s3crét", "line 1: the token has characters that no header can carry"),
            ("alice s3cret\nbob s3cret", "line 2: the token is in the list already"),
            ("alice s3cret\nalice s3cret", "line 2: the token is in the list already"),
        ] {
            assert_eq!(BearerTokens::parse(text).expect_err(text).to_string(), expected, "{text}");
        }
    }
}
