//! Rewrites JSON as it is read, without a tree of it: objects keep the order of their members, and members that come twice.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rescind_proto::dialect::Dialect;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{
    names::{Named, Names},
    rule::{Rule, is_word},
    vocabulary as words,
};

/// How far ids may be ahead of the number of messages and still count.
const AHEAD: u64 = 1000;

/// Where the shim's own ids begin, which it counts down.
const OWN_IDS: u64 = i32::MAX as u64;

/// Where numbers begin that stand for other numbers, beyond all that are kept.
const OTHER_NUMBERS: u64 = 4_000_000_000;

/// Rewrites the lines of one recording.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    names: Names,
    /// The time of the last line.
    at: u64,
    pub(super) messages: u64,
    pub(super) replaced: u64,
}

impl Redactor {
    /// Rewrites the first line; false if it is not JSON.
    pub(super) fn header(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        self.rewrite(text, Rule::Header, out)
    }

    /// Rewrites a line; false if it is not an object.
    pub(super) fn line(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        text.first() == Some(&b'{') && self.rewrite(text, Rule::Line, out)
    }

    /// Writes a line for one that cannot be read.
    pub(super) fn unreadable(&self, length: Option<usize>, out: &mut Vec<u8>) {
        let size = length.map(|length| format!(r#","size":{length}"#)).unwrap_or_default();
        out.extend_from_slice(format!(r#"{{"t":{},"kind":"unreadable"{size}}}"#, self.at).as_bytes());
    }

    /// Rewrites JSON; of what is not JSON nothing is written.
    fn rewrite(&mut self, text: &[u8], rule: Rule, out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        let mut input = serde_json::Deserializer::from_slice(text);
        let value = Rewriting { redactor: self, out, rule };
        let done = value.deserialize(&mut input).and_then(|()| input.end()).is_ok();
        if !done {
            out.truncate(begin);
        }
        done
    }

    /// Rewrites the bytes of a message, and returns what length it had without its framing. That is kept, without headers of
    /// others; what is not JSON is replaced as a whole.
    fn frame(&mut self, frame: &[u8]) -> (Vec<u8>, usize) {
        self.messages += 1;
        let has_headers = frame.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case(b"content-"));
        let end_of_headers = frame.windows(4).position(|bytes| bytes == b"\r\n\r\n").filter(|_| has_headers);
        let (body, end) = match end_of_headers {
            Some(at) => (&frame[at + 4..], &b""[..]),
            None => frame.split_at(frame.trim_ascii_end().len()),
        };
        let mut made = Vec::new();
        if !body.is_empty() && !self.rewrite(body, Rule::Message, &mut made) {
            self.replaced += 1;
            made = placeholder(body.len()).into_bytes();
        }
        if end_of_headers.is_some() {
            let header = format!("Content-Length: {}\r\n\r\n", made.len());
            made.splice(..0, header.into_bytes());
        }
        // White space at its end is framing.
        made.extend(end.iter().filter(|byte| matches!(byte, b'\r' | b'\n')));
        (made, body.len())
    }

    fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        self.replaced += 1;
        placeholder(text.len())
    }

    fn other(&mut self, named: Named, name: &str) -> String {
        self.replaced += 1;
        self.names.other(named, name)
    }

    /// An id as text: one of the shim's own stays.
    fn id(&mut self, id: &str) -> String {
        let own = ["rescind-", "rescind task "].iter().find_map(|begin| id.strip_prefix(begin));
        match own.and_then(|number| number.parse().ok()) {
            Some(number) if self.may_count(number) => id.to_owned(),
            _ => self.other(Named::Id, id),
        }
    }

    /// An id as a number: one that a side may have counted up to stays.
    fn counted(&mut self, id: u64) -> u64 {
        // One that was renamed while few messages had passed keeps its other name.
        let text = format!("{id}#");
        match self.names.known(Named::Id, &text) {
            None if self.may_count(id) => id,
            _ => self.renumbered(&text),
        }
    }

    /// Whether a side, or the shim, can have counted up or down to this number by now.
    const fn may_count(&self, number: u64) -> bool {
        let most = AHEAD + self.messages;
        number <= most || (number <= OWN_IDS && OWN_IDS - number <= most)
    }

    fn renumbered(&mut self, text: &str) -> u64 {
        self.replaced += 1;
        OTHER_NUMBERS + self.names.number(Named::Id, text)
    }

    fn method(&mut self, method: &str) -> String {
        if words::METHODS.contains(method) {
            return method.to_owned();
        }
        // The beginning shows how a side has to treat it.
        let kind = ["notifications/", "$/", "_"].into_iter().find(|kind| method.starts_with(kind)).unwrap_or_default();
        kind.to_owned() + &self.other(Named::Method, method)
    }

    fn string(&mut self, rule: Rule, text: &str) -> String {
        let kept = match rule {
            Rule::Own => is_word(text),
            Rule::Command => return self.program(text),
            Rule::Dialect => text == "auto" || Dialect::by_name(text).is_some(),
            Rule::Program => text.strip_prefix("rescind ").is_some_and(|version| {
                version.len() <= 32
                    && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
            }),
            Rule::Started => humantime::parse_rfc3339(text).is_ok(),
            Rule::Count | Rule::Id => return self.id(text),
            Rule::Name => return self.other(Named::Name, text),
            Rule::Method => return self.method(text),
            Rule::Revision => is_revision(text),
            Rule::JsonRpc => text == "2.0",
            Rule::Word => words::WORDS.contains(text),
            Rule::Phrase => words::is_phrase(text),
            Rule::Header | Rule::Line | Rule::Message | Rule::Frame | Rule::Base64 => false,
            Rule::Open | Rule::Opaque | Rule::Code | Rule::ExitCode => false,
        };
        if kept { text.to_owned() } else { self.text(text) }
    }

    /// The first word of a command.
    fn program(&mut self, word: &str) -> String {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        if words::LAUNCHERS.contains(name) { name.to_owned() } else { self.text(word) }
    }

    fn integer(&mut self, rule: Rule, value: i128) -> i128 {
        let is_kept = match rule {
            Rule::Own => true,
            Rule::Count => match u64::try_from(value) {
                Ok(id) => return self.counted(id).into(),
                Err(_) => return self.renumbered(&format!("{value}#")).into(),
            },
            Rule::Id | Rule::Name => return self.renumbered(&format!("{value}#")).into(),
            Rule::Revision => (1..=2).contains(&value),
            // Those that JSON-RPC, its protocols and HTTP define, and ours.
            Rule::Code => (-33_000..=-31_000).contains(&value) || (100..=599).contains(&value),
            Rule::ExitCode => (0..=255).contains(&value),
            Rule::Header
            | Rule::Line
            | Rule::Message
            | Rule::Open
            | Rule::Opaque
            | Rule::Command
            | Rule::Frame
            | Rule::Base64
            | Rule::Dialect
            | Rule::Program
            | Rule::Started
            | Rule::Method
            | Rule::JsonRpc
            | Rule::Word
            | Rule::Phrase => value == 0,
        };
        self.replaced += u64::from(!is_kept);
        if is_kept { value } else { 0 }
    }
}

/// What stands for a text of this many bytes.
fn placeholder(length: usize) -> String {
    format!("({length} bytes)")
}

/// Whether this is the date of a revision of MCP: no earlier date than that of the first one.
fn is_revision(text: &str) -> bool {
    let is_date = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
    is_date && ("2024-11-05".."2030").contains(&text)
}

/// One value that is read and written.
struct Rewriting<'a> {
    redactor: &'a mut Redactor,
    out: &'a mut Vec<u8>,
    rule: Rule,
}

impl Rewriting<'_> {
    fn write<E: serde::de::Error>(self, value: &impl serde::Serialize) -> Result<(), E> {
        serde_json::to_writer(self.out, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Rewriting<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rewriting<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.write(&())
    }

    /// Where members are not known, truth may be a secret, too.
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        let is_kept = self.rule != Rule::Opaque;
        self.redactor.replaced += u64::from(!is_kept);
        self.write(&(value && is_kept))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        let value = self.redactor.integer(self.rule, value.into());
        self.write(&value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        let value = self.redactor.integer(self.rule, value.into());
        self.write(&value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if self.rule == Rule::Own {
            self.write(&value)
        } else if matches!(self.rule, Rule::Count | Rule::Id | Rule::Name) {
            let number = self.redactor.renumbered(&format!("{value}#"));
            self.write(&number)
        } else {
            self.redactor.replaced += 1;
            self.write(&0)
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let made = self.redactor.string(self.rule, text);
        self.write(&made)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { redactor, out, rule } = self;
        out.push(b'[');
        let mut index = 0;
        loop {
            let begin = out.len();
            if index > 0 {
                out.push(b',');
            }
            let element = Rewriting { redactor: &mut *redactor, out: &mut *out, rule: rule.of_element(index) };
            if list.next_element_seed(element)?.is_none() {
                out.truncate(begin);
                break;
            }
            index += 1;
        }
        out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { redactor, out, rule } = self;
        out.push(b'{');
        let is_line = rule == Rule::Line;
        let mut is_first = true;
        while let Some(key) = members.next_key::<String>()? {
            if !core::mem::take(&mut is_first) {
                out.push(b',');
            }
            let of_member = rule.of_member(&key);
            let shown = if of_member.is_some() { key.clone() } else { redactor.other(Named::Key, &key) };
            serde_json::to_writer(&mut *out, &shown).map_err(A::Error::custom)?;
            out.push(b':');
            match of_member {
                Some(of_frame @ (Rule::Frame | Rule::Base64)) => {
                    let text: String = members.next_value()?;
                    let (made, size) = if of_frame == Rule::Base64 {
                        let (made, size) = redactor.frame(&STANDARD.decode(text).unwrap_or_default());
                        (STANDARD.encode(made), size)
                    } else {
                        let (made, size) = redactor.frame(text.as_bytes());
                        (String::from_utf8(made).unwrap_or_default(), size)
                    };
                    serde_json::to_writer(&mut *out, &made).map_err(A::Error::custom)?;
                    out.extend_from_slice(format!(r#","size":{size}"#).as_bytes());
                }
                of_member => {
                    let begin = out.len();
                    let rule = of_member.unwrap_or(Rule::Opaque);
                    let member = Rewriting { redactor: &mut *redactor, out: &mut *out, rule };
                    members.next_value_seed(member)?;
                    if is_line && key == "t" {
                        let written = std::str::from_utf8(&out[begin..]).ok().and_then(|text| text.parse().ok());
                        redactor.at = written.unwrap_or(redactor.at);
                    }
                }
            }
        }
        if rule == Rule::Header {
            out.extend_from_slice(if is_first { &br#""redacted":true"#[..] } else { br#","redacted":true"# });
        }
        out.push(b'}');
        Ok(())
    }
}
