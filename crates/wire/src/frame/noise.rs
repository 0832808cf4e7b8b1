//! What stands beside a message: a byte order mark, noise on the same line, another message (D43).

use super::{Malformed, parse, parse_member};
use crate::{
    framing::{NAMES, without_mark},
    json,
};

/// The most pieces of one line or body that are told apart.
const MAX_PIECES: usize = 64;

/// A part of a line or body.
///
/// It never grows: what stands in a line is a message or it is noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// What is for the log; never empty.
    Noise(&'a [u8]),
    /// A message. Whether it can be read, its parse can tell.
    Message(&'a [u8]),
}

/// Takes a body apart that cannot be read because more than one message stands in it.
///
/// A message starts with a brace and the name of a member that messages have. It is not looked for inside an object or a
/// batch that is broken: what such a payload holds was never sent as a message. Nor is it taken for whole if what follows
/// it could be the rest of it, as after a bracket too many. `None` if the body is but one message, or none.
#[must_use]
pub fn apart(body: &[u8]) -> Option<Vec<Piece<'_>>> {
    let unmarked = without_mark(body);
    let mut pieces = Vec::new();
    let mut rest = unmarked;
    while let Some(start) = start_of_message(rest) {
        push_noise(&mut pieces, &rest[..start]);
        let end = json::value_end(rest, start).unwrap_or_else(|| rest.trim_ascii_end().len());
        let (message, behind) = (&rest[start..end], rest[end..].trim_ascii());
        let goes_on = matches!(behind.first(), Some(b',' | b'}' | b']' | b':' | b'"'));
        if goes_on && behind.iter().all(|byte| b"}] \t\r".contains(byte)) {
            // Brackets too many: they are a fault of this message alone.
            pieces.push(Piece::Message(rest[start..].trim_ascii_end()));
            rest = &[];
        } else if goes_on || pieces.len() >= MAX_PIECES {
            let start = start_of_message(unmarked)?;
            pieces.truncate(usize::from(matches!(pieces.first(), Some(Piece::Noise(_)))));
            pieces.push(Piece::Message(unmarked[start..].trim_ascii_end()));
            rest = &[];
        } else {
            pieces.push(Piece::Message(message));
            rest = behind;
        }
    }
    let is_none = pieces.is_empty();
    push_noise(&mut pieces, rest);
    let is_body = matches!(*pieces, [Piece::Message(message)] if message.len() == body.trim_ascii().len());
    (!is_none && !is_body).then_some(pieces)
}

/// Whether a body is a message that can be read, or holds one.
#[must_use]
pub fn holds_message(body: &[u8]) -> bool {
    let is_message = |piece| matches!(piece, Piece::Message(message) if parse(message).is_ok());
    parse(body).is_ok() || apart(body).is_some_and(|pieces| pieces.into_iter().any(is_message))
}

fn push_noise<'a>(pieces: &mut Vec<Piece<'a>>, noise: &'a [u8]) {
    let noise = without_mark(noise).trim_ascii();
    if !noise.is_empty() {
        pieces.push(Piece::Noise(noise));
    }
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
    let behind = text[1..].trim_ascii_start();
    NAMES.iter().any(|name| behind.starts_with(name))
}
