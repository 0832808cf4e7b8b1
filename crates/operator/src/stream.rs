//! A reader of server-sent events.

use std::{collections::VecDeque, time::Duration};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use rescind_feed::Event;
use tokio::time::timeout;

use super::ShimError;

/// The longest silence of a stream: three times the interval of the comment lines.
const SILENCE: Duration = Duration::from_secs(45);

/// The longest event that is read.
const MAX_EVENT: usize = 16 << 20;

/// The event stream of a shim.
#[derive(Debug)]
pub struct ShimEvents {
    body: Incoming,
    parser: Parser,
    read: VecDeque<RawEvent>,
}

/// One event with its data unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEvent {
    /// Its kind: `snapshot`, `changes`, `ended`, or one from a newer shim.
    pub kind: String,
    /// Its number, if it has one.
    pub number: Option<u64>,
    /// Its data, JSON.
    pub data: String,
}

impl RawEvent {
    /// Parses its data.
    ///
    /// # Errors
    ///
    /// [`ShimError::Unreadable`].
    pub fn event(&self) -> Result<Event, ShimError> {
        serde_json::from_str(&self.data).map_err(ShimError::unreadable)
    }
}

impl ShimEvents {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, parser: Parser::default(), read: VecDeque::new() }
    }

    /// The next event; `None` if the shim closed the stream.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`ShimError`], after which the stream must not be used.
    pub async fn next(&mut self) -> Result<Option<RawEvent>, ShimError> {
        loop {
            if let Some(message) = self.read.pop_front() {
                return Ok(Some(message));
            }
            let frame = match timeout(SILENCE, self.body.frame()).await {
                Err(_) => return Err(ShimError::NotAnswering),
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => frame.map_err(|error| ShimError::from_hyper(&error))?,
            };
            if let Ok(data) = frame.into_data() {
                self.parser.read(&data, &mut self.read)?;
            }
        }
    }
}

/// Parses bytes into events. Lines end with LF, CR LF or CR.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    after_cr: bool,
    message: RawEvent,
    has_data: bool,
}

impl Parser {
    fn read(&mut self, bytes: &[u8], messages: &mut VecDeque<RawEvent>) -> Result<(), ShimError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            if self.line.len() + self.message.data.len() > MAX_EVENT {
                return Err(ShimError::unreadable("an event longer than 16 MiB"));
            }
            let Some(end) = end else { break };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(ShimError::unreadable)?;
            messages.extend(self.receive_line(line));
        }
        Ok(())
    }

    fn receive_line(&mut self, line: &str) -> Option<RawEvent> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.message.kind),
            "id" => self.message.number = value.parse().ok(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // A comment, `retry`, or an unknown field.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<RawEvent> {
        let (mut parser, mut messages) = (Parser::default(), VecDeque::new());
        for chunk in chunks {
            parser.read(chunk, &mut messages).unwrap();
        }
        messages.into()
    }

    fn message(kind: &str, number: Option<u64>, data: &str) -> RawEvent {
        RawEvent { kind: kind.into(), number, data: data.into() }
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = ": hello\r\n\r\nevent: changes\nid: 17\ndata: {\"a\":\ndata: \"\u{e9}\"}\n\nretry: 5\rid:18\rdata\r\rdata: x\n";
        let expected = [message("changes", Some(17), "{\"a\":\n\"\u{e9}\"}"), message("", Some(18), "")];
        assert_eq!(read(&[text.as_bytes()]), expected);
        let one_by_one: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&one_by_one), expected);
    }

    #[test]
    fn an_event_without_an_end_is_not_collected_for_ever() {
        let (mut parser, mut messages) = (Parser::default(), VecDeque::new());
        let mebibyte = vec![b'x'; 1 << 20];
        let refused = (0..17).find_map(|_| parser.read(&mebibyte, &mut messages).err());
        assert!(matches!(refused, Some(ShimError::Unreadable(_))));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        let mut messages = VecDeque::new();
        assert!(Parser::default().read(b"data: \xff\n", &mut messages).is_err());
    }
}
