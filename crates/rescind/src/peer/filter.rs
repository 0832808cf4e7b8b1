//! Filters: functions that see every message, and may veto or rewrite it.
//!
//! They stand before the engine on the way in and behind it on the way out. With an outgoing filter a message counts as sent
//! once it has passed. What they keep back is answered or fails, so that nothing waits for it.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rescind_proto::{
    connection::Connection,
    frame,
    framing::{Chunk, Decoder, Framing, Leftover, Overlong},
    id::RequestId,
    time::Instant,
};

use super::transport::Arrival;

/// A filter of one direction.
pub(crate) type Filter = Box<dyn Fn(&Message<'_>) -> Pass + Send + Sync>;

/// The decision of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pass {
    /// The message passes unchanged.
    Unchanged,
    /// This message passes in its place: JSON without a line break.
    Rewritten(Vec<u8>),
    /// The message is dropped. A vetoed request is answered with an error, and a call whose answer was vetoed fails, so
    /// that neither side waits for ever.
    Vetoed,
}

/// A message, as filters see it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    body: &'a [u8],
}

impl<'a> Message<'a> {
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self { body }
    }

    /// The whole message, JSON.
    #[must_use]
    pub const fn json(&self) -> &'a [u8] {
        self.body
    }

    /// Its method, if it is a request or a notification.
    #[must_use]
    pub fn method(&self) -> Option<String> {
        match frame::parse(self.body).ok()? {
            frame::Frame::Request(request) => Some(request.method.into_owned()),
            frame::Frame::Notification(notification) => Some(notification.method.into_owned()),
            frame::Frame::Response(_) | frame::Frame::Batch(_) => None,
        }
    }

    /// Its id, if it is a request.
    #[must_use]
    pub fn request_id(&self) -> Option<RequestId> {
        match frame::parse(self.body).ok()? {
            frame::Frame::Request(request) => Some(request.id),
            frame::Frame::Notification(_) | frame::Frame::Response(_) | frame::Frame::Batch(_) => None,
        }
    }
}

impl fmt::Debug for Message<'_> {
    /// Params may hold secrets: only the length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} bytes)", self.body.len())
    }
}

/// Applies the filters of one direction to a message; one that panics lets it pass. The error is a message that is vetoed.
pub(crate) fn apply(filters: &[Filter], mut body: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
    for filter in filters {
        let pass = catch_unwind(AssertUnwindSafe(|| filter(&Message::new(&body))));
        match pass {
            Ok(Pass::Unchanged) | Err(_) => {}
            Ok(Pass::Rewritten(new)) => body = new,
            Ok(Pass::Vetoed) => return Err(body),
        }
    }
    Ok(body)
}

/// A piece of the input after the filters.
#[derive(Debug)]
pub(crate) enum FilteredMessage {
    Passed(Arrival),
    Vetoed(Vec<u8>),
    Overlong(Overlong),
}

impl FilteredMessage {
    /// Applies the filters to an item of the input; what is not a message passes.
    pub(crate) fn of(filters: &[Filter], mut arrival: Arrival) -> Self {
        if let Some(message) = arrival.message_mut() {
            match apply(filters, message.to_vec()) {
                Ok(passed) => *message = passed.into(),
                Err(vetoed) => return Self::Vetoed(vetoed),
            }
        }
        Self::Passed(arrival)
    }

    fn message(filters: &[Filter], body: Vec<u8>) -> Self {
        Self::of(filters, Arrival::Message(body.into()))
    }

    pub(crate) fn feed(&self, conn: &mut Connection, now: Instant) {
        match self {
            Self::Passed(arrival) => arrival.feed(conn, now),
            Self::Vetoed(body) => conn.handle_vetoed(now, body),
            Self::Overlong(message) => conn.handle_overlong(now, message),
        }
    }
}

/// Splits the input into messages, and applies the filters to each.
pub(crate) fn decode(decoder: &mut Decoder, filters: &[Filter], mut bytes: &[u8]) -> Vec<FilteredMessage> {
    let mut filtered = Vec::new();
    while let Some(chunk) = decoder.decode(&mut bytes) {
        filtered.push(match chunk {
            Chunk::Frame(framed) => FilteredMessage::message(filters, framed.body().to_vec()),
            Chunk::Overlong(message) => FilteredMessage::Overlong(message),
            Chunk::Broken(broken) => FilteredMessage::Passed(Arrival::Garbage(broken.raw.to_vec().into())),
        });
    }
    filtered
}

/// Ends the input: a last line without its line break counts as a message if it can be read as one.
pub(crate) fn finish(decoder: &mut Decoder, filters: &[Filter]) -> Option<FilteredMessage> {
    match decoder.finish()? {
        Leftover::Line(line) if frame::parse(&line).is_ok() => Some(FilteredMessage::message(filters, line)),
        Leftover::Overlong(message) => Some(FilteredMessage::Overlong(message)),
        Leftover::Line(_) | Leftover::Half(_) => None,
    }
}

/// The message in a frame.
pub(crate) fn body(frame: &[u8], framing: Framing) -> Vec<u8> {
    let mut rest = frame;
    match Decoder::new(Some(framing), usize::MAX).decode(&mut rest) {
        Some(Chunk::Frame(framed)) => framed.body().to_vec(),
        Some(Chunk::Overlong(_) | Chunk::Broken(_)) | None => frame.to_vec(),
    }
}
