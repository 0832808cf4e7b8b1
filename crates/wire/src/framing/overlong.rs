//! A message beyond the limit, scanned to its end in constant memory.
//!
//! What is learnt is enough to answer the one request that is lost with it
//! (D36): its id, its method, what it is. The same is learnt from a message that
//! cannot be read, and from one behind a byte order mark or noise (D43).
//! Strings and nesting are followed; that brackets are of the right kind, UTF-8, the grammar inside payloads and
//! what follows the first kibibyte of a member are not checked.

use std::borrow::Cow;

use super::mark::MARK;
use crate::{id::RequestId, json, kind::MessageKind};

/// An id is learnt if its text has at most this many bytes.
const MAX_ID: usize = 1024;

/// A method is learnt if its text has at most this many bytes, quotes not counted.
const MAX_METHOD: usize = 256;

/// Bytes kept of a member: more than the longest id takes with its key, however that is written.
const MAX_MEMBER: usize = MAX_ID + 128;

/// The names of which one begins a message, in their quotes.
pub(crate) const NAMES: [&[u8]; 6] =
    [b"\"jsonrpc\"", b"\"id\"", b"\"method\"", b"\"params\"", b"\"result\"", b"\"error\""];

/// What could be learnt from a message that was too long to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlong {
    /// Its id; `None` if it has none, or none that is plain: repeated, escaped key, over a kibibyte, not an id.
    pub id: Option<RequestId>,
    /// Its method, if it has at most 256 bytes.
    pub method: Option<String>,
    /// What it was; `Unknown` if it was not even shaped like an object or array.
    pub kind: MessageKind,
    /// Its length in bytes.
    pub len: u64,
}

/// Learns what it can from a message that cannot be read, so that the one request that is lost with it can be
/// answered (D43). Of an object that breaks off, the members before that count.
#[must_use]
pub fn learn(body: &[u8]) -> Overlong {
    let mut scan = OverlongScan::default();
    scan.feed(body);
    if scan.place == Place::Object {
        scan.read_member(false);
    }
    scan.learnt()
}

/// The state between two pieces of the message.
#[derive(Debug, Default, Clone)]
pub(super) struct OverlongScan {
    len: u64,
    place: Place,
    in_string: bool,
    escaped: bool,
    /// Containers open inside the member.
    depth: u64,
    /// What there is of the member: its start without white space before it, and of a container only the bracket.
    member: Vec<u8>,
    has_members: bool,
    id: Seen,
    method: Seen,
    result: Seen,
    error: Seen,
}

/// The text of a member's value, if the member is there; empty if that is too long, broken off or repeated.
type Seen = Option<Vec<u8>>;

/// Where the scan is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    /// After an opening bracket: that of a batch, or of `[INFO]`.
    Bracket,
    /// In what stands before the message.
    Noise,
    /// After an opening brace in the noise, where the start of a name is what there is of the member.
    Brace,
    Object,
    /// After the last bracket.
    After,
    Array,
    /// Not an object, or not JSON.
    Lost,
}

impl OverlongScan {
    /// Takes the next piece of the message.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.len += piece.len() as u64;
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.place {
                Place::Array | Place::Lost => return,
                Place::Object if self.in_string => self.string(rest),
                Place::Object => {
                    self.token(byte);
                    after
                }
                Place::Noise => {
                    let Some(brace) = memchr::memchr(b'{', rest) else { return };
                    self.place = Place::Brace;
                    &rest[brace + 1..]
                }
                Place::Brace => {
                    self.seek_name(byte);
                    after
                }
                Place::Before | Place::Bracket | Place::After => {
                    self.place = self.place_after(byte);
                    after
                }
            };
        }
    }

    /// The message has ended.
    pub(super) fn finish(self) -> Overlong {
        match self.place {
            Place::After | Place::Array => self.learnt(),
            Place::Before | Place::Bracket | Place::Noise | Place::Brace | Place::Object | Place::Lost => {
                Self { len: self.len, ..Self::default() }.learnt()
            }
        }
    }

    /// Where a byte leads that stands outside of every object.
    fn place_after(&self, byte: u8) -> Place {
        // A whole object may be a line of a log.
        let was_message = [&self.id, &self.method, &self.result, &self.error].into_iter().any(Option::is_some);
        match (self.place, byte) {
            (place, _) if is_space(byte) => place,
            (Place::After, _) if was_message => Place::Lost,
            (Place::Bracket, b'{') => Place::Array,
            (Place::Before, _) if MARK.contains(&byte) => Place::Before,
            (Place::Before | Place::After, b'{') => Place::Object,
            (Place::Before, b'[') => Place::Bracket,
            _ => Place::Noise,
        }
    }

    /// Takes a byte behind a brace in the noise. The message begins if a name that messages have stands there.
    fn seek_name(&mut self, byte: u8) {
        if is_space(byte) && self.member.is_empty() {
            return;
        }
        self.member.push(byte);
        if NAMES.contains(&&*self.member) {
            self.place = Place::Object;
        } else if !NAMES.iter().any(|name| name.starts_with(&self.member)) {
            self.member.clear();
            self.place = if byte == b'{' { Place::Brace } else { Place::Noise };
        }
    }

    /// What the members say that could be told apart before it broke off.
    fn learnt(self) -> Overlong {
        let is_null = |seen: &Seen| seen.as_deref() == Some(b"null");
        let has_outcome = self.result.is_some() || (self.error.is_some() && !is_null(&self.error));
        let has_method = self.method.is_some() && !(has_outcome && is_null(&self.method));
        let kind = match (has_method, &self.id) {
            (true, None) => MessageKind::Notification,
            (true, Some(_)) => MessageKind::Request,
            (false, _) if has_outcome => MessageKind::Response,
            (false, _) if self.place == Place::Array => MessageKind::Batch,
            (false, _) => MessageKind::Unknown,
        };
        let method = self.method.as_deref().and_then(json::text).map(Cow::into_owned);
        Overlong { id: self.id.as_deref().and_then(RequestId::from_json), method, kind, len: self.len }
    }

    /// Bytes inside a string; gives what follows the part it has dealt with.
    fn string<'p>(&mut self, rest: &'p [u8]) -> &'p [u8] {
        if core::mem::take(&mut self.escaped) {
            self.keep(&rest[..1]);
            return &rest[1..];
        }
        let end = memchr::memchr2(b'"', b'\\', rest).map_or(rest.len(), |end| end + 1);
        let (text, after) = rest.split_at(end);
        self.keep(text);
        self.escaped = text.ends_with(b"\\");
        self.in_string = !text.ends_with(b"\"");
        after
    }

    /// A byte of the object outside its strings.
    fn token(&mut self, byte: u8) {
        match byte {
            b',' | b'}' if self.depth == 0 => return self.end_member(byte),
            b'}' | b']' if self.depth > 0 => self.depth -= 1,
            _ if is_space(byte) && self.member.last().is_none_or(|last| is_space(*last)) => {}
            _ => self.keep(&[byte]),
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            _ => {}
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.depth == 0 {
            let room = MAX_MEMBER - self.member.len();
            self.member.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn end_member(&mut self, byte: u8) {
        let is_empty_object = byte == b'}' && self.member.is_empty() && !self.has_members;
        let is_sound = is_empty_object || self.read_member(true);
        self.has_members = true;
        self.place = match byte {
            _ if !is_sound => Place::Lost,
            b'}' => Place::After,
            _ => Place::Object,
        };
    }

    /// Notes the member; false if it is not one. Its text may break off: with the message, or because no more was kept.
    fn read_member(&mut self, has_ended: bool) -> bool {
        let text = core::mem::take(&mut self.member);
        let is_cut = text.len() == MAX_MEMBER;
        // What breaks off may have gone on as it should.
        let is_whole = has_ended && !is_cut;
        let Some((key, rest)) = split_string(&text) else { return !is_whole && text.starts_with(b"\"") };
        let (name, is_escaped) = (json::unescape(key).unwrap_or_default(), key.contains(&b'\\'));
        if is_escaped && *name == *b"id" {
            self.id = Some(Vec::new());
        }
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start) else {
            return !is_whole && rest.trim_ascii().is_empty();
        };
        // The value and what stands behind it; `None` if the value breaks off.
        let split = match value.first() {
            Some(b'"') => split_string(value),
            Some(b'{' | b'[') => (self.depth == 0 || value.len() > 1).then(|| value.split_at(1)),
            _ => {
                let end = value.iter().position(|byte| is_delimiter(*byte)).unwrap_or(value.len());
                (is_whole || end < value.len()).then(|| value.split_at(end))
            }
        };
        let is_sound = split.is_none_or(|(value, garbage)| !value.is_empty() && garbage.trim_ascii().is_empty());
        let is_missing = split.map_or(!is_cut, |(value, _)| value.is_empty());
        let (value, _) = split.unwrap_or_default();
        let (seen, wanted) = match &*name {
            _ if is_escaped => return is_sound,
            b"id" => (&mut self.id, MAX_ID),
            b"method" => (&mut self.method, MAX_METHOD + 2),
            b"result" => (&mut self.result, b"null".len()),
            b"error" => (&mut self.error, b"null".len()),
            _ => return is_sound,
        };
        // One that never came does not make an earlier one unclear.
        if seen.is_none() || !is_missing {
            let is_clear = seen.is_none() && value.len() <= wanted;
            *seen = Some(if is_clear { value.to_vec() } else { Vec::new() });
        }
        is_sound
    }
}

/// The string that `text` starts with, and what follows it.
fn split_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = text.starts_with(b"\"").then_some(1)?;
    loop {
        end += match text.get(end)? {
            b'"' => return Some(text.split_at(end + 1)),
            b'\\' => 2,
            _ => 1,
        };
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_delimiter(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b'}' | b']' | b':' | b'{' | b'[' | b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_any_length_takes_constant_memory() {
        let mut scan = OverlongScan::default();
        scan.feed(b"{\"text\":\"");
        for _ in 0..1000 {
            scan.feed(&[b'a'; 1000]);
            assert!(scan.member.capacity() <= 2 * MAX_MEMBER);
        }
    }
}
