//! How large does the client say its body is?
//!
//! Owns the reading of `Content-Length` (RFC 9110, 8.6). Does not count the bytes that really come; the driver
//! does, up to the gate's limit.

use http::HeaderMap;
use http::header::CONTENT_LENGTH;

use super::field::{Malformed, elements};

/// The declared size, `None` if there is none. Saturates, so that a number beyond all limits is too large and not
/// malformed.
///
/// The same size given several times is that size; different ones, and whatever is no number, are malformed.
pub(super) fn declared(headers: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut size = None;
    for line in headers.get_all(CONTENT_LENGTH) {
        let mut empty = true;
        for element in elements(line.as_bytes()) {
            empty = false;
            let next = element.iter().try_fold(0_u64, |size, byte| {
                byte.is_ascii_digit().then(|| size.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
            });
            let next = next.ok_or(Malformed)?;
            if *size.get_or_insert(next) != next {
                return Err(Malformed);
            }
        }
        if empty {
            return Err(Malformed);
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_size_is_read_strictly_and_once() {
        for (lines, expected) in [
            (&[][..], Ok(None)),
            (&["0"], Ok(Some(0))),
            (&["12"], Ok(Some(12))),
            (&["007"], Ok(Some(7))),
            (&["12", "12"], Ok(Some(12))),
            (&["12, 12"], Ok(Some(12))),
            (&["18446744073709551615"], Ok(Some(u64::MAX))),
            (&["99999999999999999999999999"], Ok(Some(u64::MAX))),
            (&["12", "13"], Err(Malformed)),
            (&["12, 13"], Err(Malformed)),
            (&[""], Err(Malformed)),
            (&["-1"], Err(Malformed)),
            (&["+1"], Err(Malformed)),
            (&["1.0"], Err(Malformed)),
            (&["0x10"], Err(Malformed)),
            (&["1 2"], Err(Malformed)),
            (&["chunked"], Err(Malformed)),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CONTENT_LENGTH, HeaderValue::from_static(line));
            }
            assert_eq!(declared(&headers), expected, "{lines:?}");
        }
    }
}
