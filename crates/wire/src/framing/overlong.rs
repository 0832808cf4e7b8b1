//! A message beyond the limit, scanned to its end in constant memory.
//!
//! What is learnt is enough to answer the one request that is lost with it
//! (D36): its id, its method, what it is. The same is learnt from a message that
//! cannot be read (D43). Strings and nesting are followed;
//! that brackets are of the right kind, UTF-8 and the grammar inside payloads
//! are not checked.

use std::borrow::Cow;

use crate::{id::RequestId, json, kind::MessageKind};

/// An id is learnt if its text has at most this many bytes.
const MAX_ID: usize = 1024;

/// A method is learnt if its text has at most this many bytes, quotes not counted.
const MAX_METHOD: usize = 256;

/// The longest way to write the name of an envelope member, and some.
const MAX_KEY: usize = 64;

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
    match scan.place {
        Place::Before | Place::Array => scan.finish(),
        Place::FirstKey
        | Place::Key
        | Place::InKey
        | Place::Colon
        | Place::Value
        | Place::InString
        | Place::InScalar
        | Place::InContainer
        | Place::AfterValue
        | Place::After
        | Place::Lost => {
            scan.break_off();
            scan.learnt()
        }
    }
}

/// The state between two pieces of the message.
#[derive(Debug, Default, Clone)]
pub(super) struct OverlongScan {
    len: u64,
    place: Place,
    /// Inside a value: containers open.
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// The key or value being read, as far as it is wanted.
    text: Vec<u8>,
    /// Bytes of it wanted; one more is kept, to tell that it was longer.
    wanted: usize,
    member: Name,
    id: Seen,
    method: Seen,
    result: Seen,
    error: Seen,
}

/// Where in the outermost object the scan is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    /// After `{`.
    FirstKey,
    /// After a comma.
    Key,
    InKey,
    Colon,
    Value,
    InString,
    InScalar,
    InContainer,
    AfterValue,
    /// After the last bracket.
    After,
    Array,
    /// Not an object, or not JSON.
    Lost,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Name {
    Id,
    Method,
    Result,
    Error,
    #[default]
    Other,
}

/// What is known of a member.
#[derive(Debug, Default, Clone)]
enum Seen {
    #[default]
    Absent,
    Text(Vec<u8>),
    /// It is there, but too long, repeated or (the id only) behind a key with escapes.
    Unclear,
}

impl Seen {
    fn is_null_or_absent(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => text == b"null",
            Self::Unclear => false,
        }
    }

    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Unclear => None,
        }
    }
}

impl OverlongScan {
    /// Takes the next piece of the message.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.len += piece.len() as u64;
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.place {
                Place::Lost | Place::Array => return,
                Place::InString | Place::InKey | Place::InContainer if self.in_string => self.string(rest),
                Place::InContainer => {
                    self.container(byte);
                    after
                }
                Place::InScalar if !is_delimiter(byte) => {
                    self.keep(&[byte]);
                    after
                }
                Place::InScalar => {
                    self.settle();
                    rest
                }
                Place::Before
                | Place::FirstKey
                | Place::Key
                | Place::InKey
                | Place::Colon
                | Place::Value
                | Place::InString
                | Place::AfterValue
                | Place::After => {
                    if !is_space(byte) {
                        self.token(byte);
                    }
                    after
                }
            };
        }
    }

    /// The message has ended.
    pub(super) fn finish(self) -> Overlong {
        if self.place != Place::After {
            let kind = if self.place == Place::Array { MessageKind::Batch } else { MessageKind::Unknown };
            return Overlong { id: None, method: None, kind, len: self.len };
        }
        self.learnt()
    }

    /// What the members say that could be told apart before it broke off.
    fn learnt(self) -> Overlong {
        let has_outcome = !matches!(self.result, Seen::Absent) || !self.error.is_null_or_absent();
        let has_method = match &self.method {
            Seen::Absent => false,
            Seen::Text(text) => text != b"null" || !has_outcome,
            Seen::Unclear => true,
        };
        let kind = match (has_method, &self.id) {
            (true, Seen::Absent) => MessageKind::Notification,
            (true, Seen::Text(_) | Seen::Unclear) => MessageKind::Request,
            (false, _) if has_outcome => MessageKind::Response,
            (false, _) => MessageKind::Unknown,
        };
        let method = self.method.text().and_then(json::text).map(Cow::into_owned);
        Overlong { id: self.id.text().and_then(RequestId::from_json), method, kind, len: self.len }
    }

    /// The place at which reading broke off: the member that it lies in is there, if not whole.
    fn break_off(&mut self) {
        let is_in_value = matches!(self.place, Place::Value | Place::InString | Place::InScalar | Place::InContainer);
        let member = if is_in_value { self.member } else { Name::Other };
        if let Some(seen @ Seen::Absent) = self.seen(member) {
            *seen = Seen::Unclear;
        }
    }

    /// A byte between the values of the outermost object.
    fn token(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Before, b'{') => Place::FirstKey,
            (Place::Before, b'[') => Place::Array,
            (Place::FirstKey | Place::Key, b'"') => {
                self.start(MAX_KEY, byte);
                self.in_string = true;
                Place::InKey
            }
            (Place::FirstKey | Place::AfterValue, b'}') => Place::After,
            (Place::Colon, b':') => Place::Value,
            (Place::Value, _) => {
                self.start(self.member.wanted(), byte);
                match byte {
                    b'"' => {
                        self.in_string = true;
                        Place::InString
                    }
                    b'{' | b'[' => {
                        self.depth = 1;
                        Place::InContainer
                    }
                    _ if is_delimiter(byte) => {
                        self.break_off();
                        Place::Lost
                    }
                    _ => Place::InScalar,
                }
            }
            (Place::AfterValue, b',') => Place::Key,
            _ => {
                self.break_off();
                Place::Lost
            }
        };
    }

    /// Bytes inside a string; gives what follows the part it has dealt with.
    fn string<'p>(&mut self, rest: &'p [u8]) -> &'p [u8] {
        if core::mem::take(&mut self.escaped) {
            self.keep(&rest[..1]);
            return &rest[1..];
        }
        let Some(end) = memchr::memchr2(b'"', b'\\', rest) else {
            self.keep(rest);
            return &[];
        };
        let (text, after) = rest.split_at(end + 1);
        self.keep(text);
        if text.ends_with(b"\\") {
            self.escaped = true;
        } else {
            self.in_string = false;
            if self.place == Place::InKey {
                self.name();
            } else if self.place == Place::InString {
                self.settle();
            }
        }
        after
    }

    fn container(&mut self, byte: u8) {
        self.keep(&[byte]);
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.settle();
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, wanted: usize, first: u8) {
        self.text.clear();
        self.wanted = wanted;
        self.keep(&[first]);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (self.wanted + 1).saturating_sub(self.text.len());
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The key has ended.
    fn name(&mut self) {
        self.place = Place::Colon;
        self.member = Name::Other;
        if self.text.len() > self.wanted {
            return;
        }
        let escaped = self.text.contains(&b'\\');
        let Some(key) = json::unescape(&self.text) else { return };
        let member = Name::of(&key);
        if !escaped {
            self.member = member;
        } else if member == Name::Id {
            self.id = Seen::Unclear;
        }
    }

    /// The value has ended.
    fn settle(&mut self) {
        self.place = Place::AfterValue;
        let whole = self.text.len() <= self.wanted;
        let text = core::mem::take(&mut self.text);
        if let Some(seen) = self.seen(self.member) {
            *seen = match seen {
                Seen::Absent if whole => Seen::Text(text),
                Seen::Absent | Seen::Text(_) | Seen::Unclear => Seen::Unclear,
            };
        }
    }

    fn seen(&mut self, member: Name) -> Option<&mut Seen> {
        match member {
            Name::Id => Some(&mut self.id),
            Name::Method => Some(&mut self.method),
            Name::Result => Some(&mut self.result),
            Name::Error => Some(&mut self.error),
            Name::Other => None,
        }
    }
}

impl Name {
    fn of(key: &[u8]) -> Self {
        match key {
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => Self::Other,
        }
    }

    /// How much of the value is of interest.
    fn wanted(self) -> usize {
        match self {
            Self::Id => MAX_ID,
            Self::Method => MAX_METHOD + 2,
            Self::Result | Self::Error => b"null".len(),
            Self::Other => 0,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_delimiter(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b'}' | b']' | b':' | b'{' | b'[' | b'"')
}
