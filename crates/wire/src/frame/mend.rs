//! Bytes that are not UTF-8, put right where they are payload (D43).
//!
//! Most readers replace them without a word, so a message that holds some must
//! not be lost here. They are replaced as those readers replace them, by U+FFFD,
//! but never where a message is told from another: in names, ids, methods and
//! tokens.

use core::ops::Range;

use super::{Frame, ResponseBody, parse_member, span_of};
use crate::json;

/// What [`mend`] made of a message.
///
/// It never grows: a message is mended, is too long to be, or is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mend {
    /// The message with U+FFFD in place of what was not UTF-8.
    Mended(Vec<u8>),
    /// It could be mended, but would have this many bytes, more than the limit.
    TooLong(u64),
    /// It is UTF-8, or the fault lies where nothing may be replaced, or it has another fault as well.
    No,
}

/// Members of a notification's params that name something: nothing in them is replaced.
const NAMES: [&str; 6] = ["requestId", "id", "progressToken", "token", "sessionId", "_meta"];

/// Replaces what is not UTF-8 inside `result`, `error.message`, `error.data` or a notification's `params`.
///
/// `body` is one message, not a batch. The result has at most `limit` bytes.
#[must_use]
pub fn mend(body: &[u8], limit: usize) -> Mend {
    if core::str::from_utf8(body).is_ok() {
        return Mend::No;
    }
    let len: u64 = body.utf8_chunks().map(|chunk| mended_len(chunk.valid(), chunk.invalid()) as u64).sum();
    if len > limit as u64 {
        return Mend::TooLong(len);
    }
    let mended = String::from_utf8_lossy(body).into_owned().into_bytes();
    if !parse_member(&mended).is_ok_and(|message| is_payload(body, &mended, &message)) {
        return Mend::No;
    }
    Mend::Mended(mended)
}

const fn mended_len(valid: &str, invalid: &[u8]) -> usize {
    valid.len() + if invalid.is_empty() { 0 } else { char::REPLACEMENT_CHARACTER.len_utf8() }
}

/// Whether everything that was replaced lies where it may be.
fn is_payload(body: &[u8], mended: &[u8], message: &Frame<'_>) -> bool {
    let span = |part: Option<&[u8]>| part.and_then(|part| span_of(mended, part)).unwrap_or_default();
    let (allowed, exempt): ([Range<usize>; 2], Vec<Range<usize>>) = match message {
        Frame::Response(response) => match response.body {
            ResponseBody::Result(result) => ([span(Some(result)), 0..0], Vec::new()),
            ResponseBody::Error(error) => (["message", "data"].map(|name| span(json::member(error, name))), Vec::new()),
        },
        Frame::Notification(notification) => {
            let params = notification.params.raw;
            let named = |name: &&str| Some(span(Some(json::member(params?, name)?)));
            ([span(params), 0..0], NAMES.iter().filter_map(named).collect())
        }
        Frame::Request(_) | Frame::Batch(_) => return false,
    };
    let mut at = 0;
    body.utf8_chunks().all(|chunk| {
        let place = at + chunk.valid().len();
        at += mended_len(chunk.valid(), chunk.invalid());
        chunk.invalid().is_empty()
            || (allowed.iter().any(|span| span.contains(&place)) && !exempt.iter().any(|span| span.contains(&place)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(body: &[u8]) -> Option<String> {
        match mend(body, 1000) {
            Mend::Mended(mended) => Some(String::from_utf8(mended).expect("UTF-8")),
            Mend::TooLong(_) | Mend::No => None,
        }
    }

    #[test]
    fn payload_is_mended_as_readers_read_it() {
        for (body, expected) in [
            (&b"{\"id\":1,\"result\":{\"text\":\"caf\xe9\"}}"[..], "{\"id\":1,\"result\":{\"text\":\"caf\u{fffd}\"}}"),
            (b"{\"result\":\"\xff\xfe\",\"id\":1}", "{\"result\":\"\u{fffd}\u{fffd}\",\"id\":1}"),
            (
                b"{\"id\":1,\"error\":{\"code\":1,\"message\":\"\xe2\x82\",\"data\":\"\x80\"}}",
                "{\"id\":1,\"error\":{\"code\":1,\"message\":\"\u{fffd}\",\"data\":\"\u{fffd}\"}}",
            ),
            (
                b"{\"method\":\"log\",\"params\":{\"text\":\"\xe9\"}}",
                "{\"method\":\"log\",\"params\":{\"text\":\"\u{fffd}\"}}",
            ),
        ] {
            assert_eq!(mended(body).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_names_something_is_never_mended() {
        for body in [
            &b"{\"id\":\"\xe9\",\"result\":{}}"[..],
            b"{\"id\":1,\"res\xe9ult\":1,\"result\":{}}",
            b"{\"id\":1,\"error\":{\"code\":1,\"m\xe9\":1}}",
            b"{\"id\":1,\"method\":\"m\",\"params\":{\"text\":\"\xe9\"}}",
            b"{\"method\":\"m\xe9\",\"params\":{}}",
            b"{\"method\":\"m\",\"params\":{\"requestId\":\"\xe9\"}}",
            b"{\"method\":\"m\",\"params\":{\"progressToken\":\"\xe9\"}}",
            b"{\"method\":\"m\",\"params\":{\"_meta\":{\"a\":\"\xe9\"}}}",
            b"{\"id\":1,\"result\":{\"text\":\"\xe9\"]}",
            b"[{\"id\":1,\"result\":\"\xe9\"}]",
        ] {
            assert_eq!(mend(body, 1000), Mend::No, "{}", body.escape_ascii());
        }
        assert_eq!(mend(b"{\"id\":1,\"result\":\"plain\"}", 1000), Mend::No);
    }

    #[test]
    fn the_mended_size_counts_against_the_limit() {
        let body = b"{\"id\":1,\"result\":\"\xe9\xe9\xe9\"}";
        assert_eq!(mend(body, body.len() + 5), Mend::TooLong(body.len() as u64 + 6));
        assert!(matches!(mend(body, body.len() + 6), Mend::Mended(_)));
    }
}
