//! The grammar of header fields (RFC 9110, 5.5, 5.6 and 8.3.1).
//!
//! Owns how a field's value is read: single values, lists, tokens, quoted strings, parameters, media types.
//! Does not own what any field means. Everything borrows; nothing here allocates.

use http::{HeaderMap, HeaderName};

/// A field that may come once came twice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Twice;

/// The one value of a field, without the white space around it.
pub(super) fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&[u8]>, Twice> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next();
    if lines.next().is_some() {
        return Err(Twice);
    }
    Ok(first.map(|value| trim(value.as_bytes())))
}

/// Takes off the optional white space at both ends, which is no part of a value.
pub(super) const fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The elements of a comma-separated list, trimmed; empty ones are left out, as 5.6.1.2 demands. A comma inside a
/// quoted string separates nothing.
pub(super) fn elements(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |byte| {
        if escaped {
            escaped = false;
        } else {
            match byte {
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' => return !quoted,
                _ => {}
            }
        }
        false
    })
    .map(trim)
    .filter(|element| !element.is_empty())
}

/// A media type, or a media range, since `*` is a token too.
#[derive(Debug)]
pub(super) struct MediaType<'a> {
    kind: &'a [u8],
    subtype: &'a [u8],
    /// What comes after the subtype, unread.
    pub(super) parameters: Parameters<'a>,
}

impl<'a> MediaType<'a> {
    /// Reads the type and the subtype. `None` if they are malformed.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let (kind, rest) = token(trim(text))?;
        let (subtype, rest) = token(rest.strip_prefix(b"/")?)?;
        Some(Self { kind, subtype, parameters: Parameters { rest } })
    }

    /// Whether it is `kind/subtype`, in any case.
    pub(super) fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind.as_bytes()) && self.subtype.eq_ignore_ascii_case(subtype.as_bytes())
    }
}

/// A parameter that follows no grammar; there is none after it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The parameters of a media type, with the empty ones that 5.6.6 allows left out.
#[derive(Debug)]
pub(super) struct Parameters<'a> {
    rest: &'a [u8],
}

impl<'a> Parameters<'a> {
    fn parameter(text: &'a [u8]) -> Option<(Parameter<'a>, &'a [u8])> {
        let (name, rest) = token(text)?;
        let rest = rest.strip_prefix(b"=")?;
        let (value, rest) = match rest.strip_prefix(b"\"") {
            Some(rest) => quoted(rest)?,
            None => token(rest).map(|(value, rest)| (Value::Token(value), rest))?,
        };
        Some((Parameter { name, value }, rest))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = trim(std::mem::take(&mut self.rest));
            if rest.is_empty() {
                return None;
            }
            let Some(rest) = rest.strip_prefix(b";").map(trim) else { return Some(Err(Malformed)) };
            if matches!(rest, [] | [b';', ..]) {
                self.rest = rest;
                continue;
            }
            let Some((parameter, rest)) = Self::parameter(rest) else { return Some(Err(Malformed)) };
            self.rest = rest;
            return Some(Ok(parameter));
        }
    }
}

/// One `name=value`.
#[derive(Debug)]
pub(super) struct Parameter<'a> {
    name: &'a [u8],
    /// Its value.
    pub(super) value: Value<'a>,
}

impl Parameter<'_> {
    /// Whether it has this name, in any case.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The value of a parameter.
#[derive(Debug)]
pub(super) enum Value<'a> {
    /// What stands between the quotes, escapes included.
    Quoted(&'a [u8]),
    /// A bare token.
    Token(&'a [u8]),
}

impl Value<'_> {
    /// Whether it says `text`, in any case; a quoted string says the same as a token (8.3.1).
    pub(super) fn is(&self, text: &str) -> bool {
        match self {
            Self::Token(token) => token.eq_ignore_ascii_case(text.as_bytes()),
            Self::Quoted(inner) => {
                let mut expected = text.bytes();
                let mut bytes = inner.iter();
                while let Some(byte) = bytes.next() {
                    let byte = if *byte == b'\\' { bytes.next() } else { Some(byte) };
                    match (byte, expected.next()) {
                        (Some(one), Some(other)) if one.eq_ignore_ascii_case(&other) => {}
                        _ => return false,
                    }
                }
                expected.next().is_none()
            }
        }
    }
}

/// A token and what follows it. `None` if there isn't one.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

pub(super) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// A quoted string whose opening quote is gone already, and what follows it. `None` if it doesn't end.
fn quoted(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some((Value::Quoted(&text[..at]), &text[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HOST;

    use super::*;

    #[test]
    fn a_single_value_is_trimmed_and_never_one_of_two() {
        let mut headers = HeaderMap::new();
        assert_eq!(single(&headers, HOST), Ok(None));
        headers.append(HOST, HeaderValue::from_static(" \ta "));
        assert_eq!(single(&headers, HOST), Ok(Some(&b"a"[..])));
        headers.append(HOST, HeaderValue::from_static("a"));
        assert_eq!(single(&headers, HOST), Err(Twice));
    }

    #[test]
    fn lists_split_at_commas_outside_quotes() {
        for (text, expected) in [
            ("", &[][..]),
            (" , ,, ", &[]),
            ("a", &["a"]),
            (" a ,b,, c d ", &["a", "b", "c d"]),
            (r#"a;x=",",b"#, &[r#"a;x=",""#, "b"]),
            (r#"a;x="\",",b"#, &[r#"a;x="\",""#, "b"]),
            (r#"a;x=",b"#, &[r#"a;x=",b"#]),
            (r"a\,b", &[r"a\", "b"]),
        ] {
            let found: Vec<_> = elements(text.as_bytes()).map(|element| str::from_utf8(element).unwrap()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn media_types_and_their_parameters_follow_the_grammar() {
        let read = |text: &'static str| -> Option<Vec<Option<bool>>> {
            let media = MediaType::parse(text.as_bytes())?;
            Some(media.parameters.map(|read| read.ok().map(|parameter| parameter.value.is("v w"))).collect())
        };
        for (text, expected) in [
            ("a/b", Some(vec![])),
            (" a/b ; ", Some(vec![])),
            ("a/b;;x=v", Some(vec![Some(false)])),
            (r#"a/b; x="v w""#, Some(vec![Some(true)])),
            (r#"a/b; x="\V \w""#, Some(vec![Some(true)])),
            (r#"a/b; x="v w ""#, Some(vec![Some(false)])),
            (r#"a/b; x="v""#, Some(vec![Some(false)])),
            (r#"a/b; x="""#, Some(vec![Some(false)])),
            ("a/b x=v", Some(vec![None])),
            ("a/b; x", Some(vec![None])),
            ("a/b; x =v", Some(vec![None])),
            ("a/b; x=", Some(vec![None])),
            (r#"a/b; x="v"#, Some(vec![None])),
            (r#"a/b; x="v\"#, Some(vec![None])),
            (r#"a/b; x="v\""#, Some(vec![None])),
            (r#"a/b; x="v"w; y=z"#, Some(vec![Some(false), None])),
            ("", None),
            ("a", None),
            ("a/", None),
            ("/b", None),
            ("a /b", None),
            ("a/ b", None),
            ("\"a\"/b", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
