//! Is the body JSON in UTF-8, by its own word?
//!
//! Owns the rule for `Content-Type` (RFC 9110, 8.3; RFC 8259, 8.1). Does not look at the body.

use super::field::MediaType;

/// Whether this `Content-Type` is `application/json` in UTF-8.
///
/// The media type is compared in any case. A `charset` must be `utf-8`, as a token or quoted; other parameters
/// say nothing about JSON and are let through, malformed ones are not.
pub(super) fn is_json(value: &[u8]) -> bool {
    // What nearly every client sends.
    if value == b"application/json" {
        return true;
    }
    MediaType::parse(value).is_some_and(|media| {
        media.is("application", "json")
            && media.parameters.into_iter().all(|parameter| {
                parameter.is_ok_and(|parameter| !parameter.is_named("charset") || parameter.value.is("utf-8"))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R143, R144.
    #[test]
    fn json_in_utf_8_is_known_in_every_spelling() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json;",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            r#"application/json; charset="utf-8""#,
            r#"application/json ; Charset="UTF\-8""#,
            "application/json; odata=verbose",
            r#"application/json; note="; charset=utf-16""#,
        ] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
    }

    /// R143.
    #[test]
    fn anything_else_is_not() {
        for bad in [
            "",
            "json",
            "application/jsonx",
            "application/json5",
            "application/json-rpc",
            "application/*",
            "*/*",
            "text/plain",
            "text/json",
            "application/json; charset=utf-16",
            r#"application/json; charset="utf-16""#,
            "application/json; charset=utf-8; charset=utf-16",
            "application/json; charset=",
            "application/json; charset",
            r#"application/json; charset="utf-8"#,
            "application/json charset=utf-8",
            "application/json, application/json",
            "text/plain; x=application/json",
            "application/json\u{e9}",
        ] {
            assert!(!is_json(bad.as_bytes()), "{bad}");
        }
    }
}
