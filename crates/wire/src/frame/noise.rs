//! What stands in front of a message: a byte order mark, or noise on the same line (D43).

use super::{Malformed, parse_member};
use crate::json;

/// A byte order mark in UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The names of which one begins a message.
const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// A message, and what stood in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BehindNoise<'a> {
    /// What is for the log; empty for a byte order mark and white space.
    pub noise: &'a [u8],
    /// The message, up to the end of the body. Whether it is whole, its parse can tell.
    pub message: &'a [u8],
}

/// The body without a byte order mark before it.
#[must_use]
pub fn without_mark(body: &[u8]) -> &[u8] {
    body.trim_ascii_start().strip_prefix(MARK).unwrap_or(body)
}

/// Finds the message in a body that cannot be read because something stands in front of it.
///
/// A message starts with a brace and the name of a member that messages have. It is not looked for inside an object or a
/// batch that is broken: what such a payload holds was never sent as a message.
#[must_use]
pub fn behind_noise(body: &[u8]) -> Option<BehindNoise<'_>> {
    let unmarked = without_mark(body);
    let start = start_of_message(unmarked)?;
    let (noise, message) = unmarked.split_at(start);
    (message.len() < body.len()).then_some(BehindNoise { noise: noise.trim_ascii(), message })
}

fn start_of_message(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
        match text[at] {
            b'{' if begins_message(&text[at..]) => return Some(at),
            // A whole object that is not a message, such as a line of a log.
            b'{' => {
                let end = json::value_end(text, at)?;
                if !matches!(parse_member(&text[at..end]), Err(Malformed::Invalid { .. })) {
                    return None;
                }
                at = end;
            }
            b'[' if text[at + 1..].trim_ascii_start().starts_with(b"{") => return (at == 0).then_some(0),
            _ => break,
        }
    }
    memchr::memchr_iter(b'{', &text[at..]).map(|brace| at + brace).find(|brace| begins_message(&text[*brace..]))
}

/// Whether `text`, which starts with a brace, goes on with the name of a member that messages have.
fn begins_message(text: &[u8]) -> bool {
    let Some(key) = text[1..].trim_ascii_start().strip_prefix(b"\"") else { return false };
    NAMES.iter().any(|name| key.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"\"")))
}
