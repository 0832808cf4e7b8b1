//! Server-sent events, read as their bytes come.
//!
//! The rule to know first: the events of a stream do not depend on how its bytes are cut, and what an event may take of
//! memory does not depend on its length. The data of an event is gathered as a line of messages is elsewhere, so one that
//! is too long is scanned to its end, and what can be learnt of it is ([`Overlong`]).

use std::time::Duration;

use memchr::memchr2;
use rescind_proto::framing::{Chunk, Decoder, Framing, Overlong};

/// The longest id that is kept. Behind a longer one nothing can be resumed.
const MAX_ID: usize = 1024;

/// Bytes kept of a value that is neither data nor an id.
const MAX_VALUE: usize = 64;

/// Bytes kept of the name of a field: more than the longest that counts, behind a byte order mark.
const MAX_NAME: usize = 9;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A reader of one response.
#[derive(Clone, Debug)]
pub(crate) struct EventReader {
    /// The data of the event so far.
    data: Decoder,
    has_data: bool,
    place: Place,
    /// The name of the field, as far as it was read.
    name: [u8; MAX_NAME],
    name_len: usize,
    /// The value of a field that is not data.
    value: Vec<u8>,
    /// The last byte was a carriage return, so a line feed belongs to it.
    after_return: bool,
    is_first_line: bool,
    /// What kind of event it is; empty for a message.
    kind: Vec<u8>,
    /// The id that the next event has, its own or one before it.
    id: Option<Box<[u8]>>,
    has_own_id: bool,
    /// The id of the last event that ended.
    last_id: Option<Box<[u8]>>,
    retry: Option<Duration>,
}

/// Where in a line the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Name,
    /// Behind the colon, where one space is not a part of the value.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Other,
}

/// An event that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) content: Content,
    /// Whether it brought an id; otherwise that of an earlier one counts.
    pub(crate) has_own_id: bool,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A message, not yet parsed.
    Message(Vec<u8>),
    /// A message that was too long to keep.
    Overlong(Overlong),
    /// Nothing: it only gave an id to resume behind (MCP-H07).
    Empty,
    /// An event of another kind.
    Other(Vec<u8>),
}

impl EventReader {
    /// A reader of messages up to this length.
    pub(crate) fn new(max_message: usize) -> Self {
        Self {
            data: Decoder::new(Some(Framing::Line), max_message),
            has_data: false,
            place: Place::Name,
            name: [0; MAX_NAME],
            name_len: 0,
            value: Vec::new(),
            after_return: false,
            is_first_line: true,
            kind: Vec::new(),
            id: None,
            has_own_id: false,
            last_id: None,
            retry: None,
        }
    }

    /// The id behind which the stream can be resumed.
    pub(crate) fn last_id(&self) -> Option<&[u8]> {
        self.last_id.as_deref()
    }

    /// How long the server wants a client to wait before it comes back.
    pub(crate) const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The next event of `input`, which loses the bytes that were used; `None` once they all were. Call until `None`.
    pub(crate) fn read(&mut self, input: &mut &[u8]) -> Option<Event> {
        while let Some((&byte, rest)) = input.split_first() {
            if core::mem::take(&mut self.after_return) && byte == b'\n' {
                *input = rest;
                continue;
            }
            match (self.place, byte) {
                (_, b'\r' | b'\n') => {
                    *input = rest;
                    self.after_return = byte == b'\r';
                    let event = self.end_line();
                    if event.is_some() {
                        return event;
                    }
                }
                (Place::Name, b':') => {
                    *input = rest;
                    self.place = Place::Colon(self.begin_field());
                }
                (Place::Name, _) => {
                    *input = rest;
                    if let Some(place) = self.name.get_mut(self.name_len) {
                        *place = byte;
                        self.name_len += 1;
                    }
                }
                (Place::Colon(field), _) => {
                    self.place = Place::Value(field);
                    *input = if byte == b' ' { rest } else { input };
                }
                (Place::Value(field), _) => {
                    let end = memchr2(b'\r', b'\n', input).unwrap_or(input.len());
                    let (part, rest) = input.split_at(end);
                    self.append(field, part);
                    *input = rest;
                }
            }
        }
        None
    }

    /// The name of the field.
    fn name(&self) -> &[u8] {
        let name = &self.name[..self.name_len];
        if self.is_first_line { name.strip_prefix(BYTE_ORDER_MARK).unwrap_or(name) } else { name }
    }

    fn begin_field(&mut self) -> Field {
        let field = match self.name() {
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            _ => Field::Other,
        };
        match field {
            // The line breaks between the lines of a message stand between tokens of JSON.
            Field::Data if self.has_data => self.gather(b" "),
            Field::Data => self.has_data = true,
            Field::Event | Field::Id | Field::Retry => self.value.clear(),
            Field::Other => {}
        }
        field
    }

    fn append(&mut self, field: Field, part: &[u8]) {
        let most = match field {
            Field::Data => return self.gather(part),
            Field::Other => return,
            Field::Id => MAX_ID,
            Field::Event | Field::Retry => MAX_VALUE,
        };
        // One byte more than is of use shows that it is too long.
        let room = most + 1 - self.value.len();
        self.value.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Adds to the data, which has no line break.
    fn gather(&mut self, part: &[u8]) {
        let mut rest = part;
        let chunk = self.data.decode(&mut rest);
        debug_assert!(chunk.is_none(), "a message ended within a line");
    }

    fn end_line(&mut self) -> Option<Event> {
        let event = match self.place {
            Place::Name if self.name().is_empty() => self.end_event(),
            Place::Name => {
                let field = self.begin_field();
                self.end_field(field);
                None
            }
            Place::Colon(field) | Place::Value(field) => {
                self.end_field(field);
                None
            }
        };
        self.place = Place::Name;
        self.name_len = 0;
        self.is_first_line = false;
        event
    }

    fn end_field(&mut self, field: Field) {
        match field {
            Field::Event => self.kind.clone_from(&self.value),
            // An id with a NUL is none, as the standard has it.
            Field::Id if !self.value.contains(&0) => {
                let is_kept = !self.value.is_empty() && self.value.len() <= MAX_ID;
                self.id = is_kept.then(|| self.value.as_slice().into());
                self.has_own_id = true;
            }
            Field::Retry => {
                let digits = core::str::from_utf8(&self.value).ok();
                let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let millis = digits.and_then(|digits| digits.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            Field::Id | Field::Data | Field::Other => {}
        }
    }

    fn end_event(&mut self) -> Option<Event> {
        let has_own_id = core::mem::take(&mut self.has_own_id);
        if has_own_id {
            self.last_id.clone_from(&self.id);
        }
        let has_data = core::mem::take(&mut self.has_data);
        if !has_data && !has_own_id {
            self.kind.clear();
            return None;
        }
        let message = match self.data.decode(&mut b"\n".as_slice()) {
            Some(Chunk::Frame(frame)) => {
                let mut message = frame.into_raw();
                message.pop();
                Content::Message(message)
            }
            Some(Chunk::Overlong(overlong)) => Content::Overlong(overlong),
            Some(Chunk::Broken(_)) | None => Content::Empty,
        };
        let kind = core::mem::take(&mut self.kind);
        let is_message = kind.is_empty() || kind == b"message" || !has_data;
        let content = if is_message { message } else { Content::Other(kind) };
        Some(Event { content, has_own_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(reader: &EventReader) -> usize {
        reader.data.held() + reader.value.capacity() + reader.kind.capacity()
    }

    /// The events of a stream, its bytes cut at these places.
    fn read(stream: &[u8], cuts: &[usize], max_message: usize) -> (Vec<Event>, Option<Vec<u8>>, Option<Duration>) {
        let mut reader = EventReader::new(max_message);
        let mut events = Vec::new();
        let mut start = 0;
        for end in cuts.iter().copied().chain([stream.len()]) {
            let mut part = &stream[start..end];
            while let Some(event) = reader.read(&mut part) {
                events.push(event);
            }
            assert!(part.is_empty());
            start = end;
        }
        (events, reader.last_id().map(<[u8]>::to_vec), reader.retry())
    }

    fn message(text: &str) -> Event {
        Event { content: Content::Message(text.into()), has_own_id: false }
    }

    fn contents(stream: &str) -> Vec<Content> {
        read(stream.as_bytes(), &[], 1024).0.into_iter().map(|event| event.content).collect()
    }

    #[test]
    fn how_a_stream_is_cut_does_not_change_what_it_says() {
        let streams: [&[u8]; 8] = [
            b"data: {\"a\":1}\n\ndata:{\"b\":2}\r\n\r\n: comment\r\rdata: x\r\r",
            b"\xEF\xBB\xBFdata: first\n\ndata\ndata: second\n\n",
            b"id: 1\ndata:\n\nid: 2-7\nevent: message\ndata: {\ndata: }\n\n",
            b"\n\nretry: 1500\nid\n\nretry: x\ndata: y\n\nevent: endpoint\ndata: /messages\n\n",
            b"event: ping\n\ndata: after\n\nid: a\0b\ndata: nul\n\nunknown: field\ndatax: no\n: data: no\n\n",
            b"data: {\"text\":\"0123456789012345678901234567890123456789\",\"id\":1}\n\ndata: short\n\n",
            b"data: \xc3\xa9\xf0\x9f\x98\x80\n\ndata:  two spaces\n\nid:5\ndata: never ended",
            b"\xEF\xBBdata: no\n\n\r\n\r\n\n\r\ndata: a\rdata: b\r\ndata: c\n\r\n",
        ];
        for stream in streams {
            let whole = read(stream, &[], 32);
            assert!(!whole.0.is_empty());
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    assert_eq!(read(stream, &[first, second], 32), whole, "cut at {first} and {second}");
                }
            }
            let every: Vec<usize> = (0..stream.len()).collect();
            assert_eq!(read(stream, &every, 32), whole);
        }
    }

    #[test]
    fn any_stream_says_what_the_standard_makes_of_it() {
        let mut state = 7_u64;
        let mut next = |most: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % most as u64).unwrap()
        };
        let pieces: [&[u8]; 22] = [
            b"data",
            b"id",
            b"event",
            b"retry",
            b":",
            b":",
            b": ",
            b" ",
            b"\n",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"x",
            b"{}",
            b"7",
            b"message",
            b"\0",
            b"other",
            b"data: {}\n",
            b"id: 3\n",
            b"\xEF\xBB\xBF",
        ];
        for _ in 0..20_000 {
            let stream: Vec<u8> = (0..next(30)).flat_map(|_| pieces[next(pieces.len())]).copied().collect();
            let cut = next(stream.len() + 1);
            let found = read(&stream, &[cut], 1024);
            let shown = String::from_utf8_lossy(&stream);
            assert_eq!(found, by_the_standard(&stream), "{shown:?}");
        }
    }

    /// Whether there is nothing but white space and a byte order mark.
    fn is_blank(text: &str) -> bool {
        let text = text.trim();
        text.strip_prefix('\u{FEFF}').unwrap_or(text).trim().is_empty()
    }

    /// The steps of the standard, one after the other, on the whole stream.
    fn by_the_standard(stream: &[u8]) -> (Vec<Event>, Option<Vec<u8>>, Option<Duration>) {
        let stream = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
        let text = String::from_utf8(stream.to_vec()).unwrap().replace("\r\n", "\n").replace('\r', "\n");
        let lines: Vec<&str> = text.split('\n').collect();
        let (mut data, mut kind, mut id, mut own, mut last, mut retry) = (String::new(), "", None, false, None, None);
        let mut events = Vec::new();
        // What follows the last line break is not a line.
        for line in &lines[..lines.len() - 1] {
            if line.is_empty() {
                if own {
                    last = id.filter(|id: &&str| !id.is_empty()).map(|id| id.as_bytes().to_vec());
                }
                let text = data.strip_suffix('\n');
                let content = match text {
                    Some(_) if !matches!(kind, "" | "message") => Some(Content::Other(kind.into())),
                    // A message is JSON: its lines may as well stand beside each other.
                    Some(text) if !is_blank(text) => Some(Content::Message(text.replace('\n', " ").into_bytes())),
                    Some(_) => Some(Content::Empty),
                    None => own.then_some(Content::Empty),
                };
                events.extend(content.map(|content| Event { content, has_own_id: own }));
                (data, kind, own) = (String::new(), "", false);
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "data" => {
                    data.push_str(value);
                    data.push('\n');
                }
                "event" => kind = value,
                "id" if !value.contains('\0') => (id, own) = (Some(value), true),
                "retry" => {
                    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                    let number = is_number.then(|| value.parse().ok()).flatten();
                    retry = number.map(Duration::from_millis).or(retry);
                }
                _ => {}
            }
        }
        (events, last, retry)
    }

    #[test]
    fn a_message_that_is_too_long_is_told_by_its_id_and_the_next_is_read() {
        let long = format!(r#"{{"result":"{}","id":"seven"}}"#, "x".repeat(100_000));
        let stream = format!("id: 1\ndata: {long}\n\nid: 2\ndata: {{}}\n\n");
        let mut reader = EventReader::new(1000);
        let mut events = Vec::new();
        for part in stream.as_bytes().chunks(700) {
            let mut part = part;
            while let Some(event) = reader.read(&mut part) {
                events.push(event);
            }
            assert!(held(&reader) < 8192, "{}", held(&reader));
        }
        let [Event { content: Content::Overlong(overlong), .. }, next] = &events[..] else { panic!("{events:?}") };
        assert_eq!(overlong.id, Some(rescind_proto::id::RequestId::string("seven")));
        assert_eq!(next.content, Content::Message(b"{}".to_vec()));
    }

    #[test]
    fn fields_of_any_length_take_constant_memory() {
        for field in ["id: ", "event: ", "retry: ", "unknown: ", ": ", ""] {
            let mut reader = EventReader::new(1 << 20);
            let mut start = field.as_bytes();
            assert_eq!(reader.read(&mut start), None);
            for _ in 0..1000 {
                assert_eq!(reader.read(&mut [b'9'; 1000].as_slice()), None);
                assert!(held(&reader) < 8192, "{field:?}: {}", held(&reader));
            }
            let mut end = b"\ndata: {}\n\n".as_slice();
            let event = reader.read(&mut end).unwrap();
            assert_eq!(matches!(event.content, Content::Other(_)), field == "event: ", "{field:?}");
            assert_eq!((reader.last_id(), reader.retry()), (None, None), "{field:?}");
        }
    }

    #[test]
    fn many_lines_of_empty_data_take_no_more_than_a_message() {
        let mut reader = EventReader::new(1000);
        for _ in 0..100_000 {
            assert_eq!(reader.read(&mut b"data\n".as_slice()), None);
            assert!(held(&reader) < 8192);
        }
    }

    #[test]
    fn an_event_that_was_cut_off_gives_no_id() {
        let (events, last, _) = read(b"id: 1\ndata: {}\n\nid: 2\ndata: {}\n", &[], 1024);
        assert_eq!(events, [Event { has_own_id: true, ..message("{}") }]);
        assert_eq!(last.as_deref(), Some(b"1".as_slice()));
    }

    #[test]
    fn an_empty_id_takes_the_earlier_one_back() {
        let (_, last, _) = read(b"id: 1\ndata: {}\n\nid\ndata: {}\n\n", &[], 1024);
        assert_eq!(last, None);
    }

    #[test]
    fn only_messages_are_messages() {
        assert_eq!(contents("event: endpoint\ndata: /x\n\n"), [Content::Other("endpoint".into())]);
        assert_eq!(contents("data: /x\nevent: endpoint\n\ndata: {}\n\n").len(), 2);
        assert_eq!(contents("event: message\ndata: {}\n\n"), [Content::Message("{}".into())]);
        assert_eq!(contents("id: 5\ndata: \n\n"), [Content::Empty]);
        assert_eq!(contents("event: message\n\n"), []);
    }
}
