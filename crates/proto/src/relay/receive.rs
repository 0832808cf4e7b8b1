//! What a side sends, taken in: its bytes become messages, and each message is passed on, answered here, or swallowed.

use core::mem::replace;

use super::{Hop, Relay, RelayEvent, link::Passed};
use crate::{
    frame::{self, Frame},
    framing::{Chunk, Decoder, Framed, Framing, Leftover},
    link::Rejected,
    side::Side,
    time::Instant,
};

impl Relay {
    pub(super) fn receive(&mut self, now: Instant, side: Side, mut bytes: &[u8]) {
        if self.core.links[side].ended {
            return;
        }
        let Some(mut decoder) = self.core.links[side].decoder.take() else { return };
        // Before the first message: what is written because of it is framed as it is.
        if let Some(framing) = decoder.detect(&mut bytes) {
            self.adopt_framing(framing);
        }
        while let Some(chunk) = decoder.decode(&mut bytes) {
            self.handle_chunk(now, side, chunk);
        }
        self.core.links[side].decoder = Some(decoder);
    }

    fn handle_chunk(&mut self, now: Instant, from: Side, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Frame(framed) => self.handle_frame(now, from, framed),
            Chunk::Overlong(message) => self.handle_overlong(now, from, &message),
            Chunk::Broken(broken) => self.core.refuse_garbage(from, Rejected::Broken, broken.raw, "not a message"),
        }
    }

    fn handle_frame(&mut self, now: Instant, from: Side, framed: Framed<'_>) {
        if self.core.config.emit.frames {
            self.core.reports.emit(RelayEvent::Frame { hop: Hop::From(from), bytes: framed.raw().into() });
        }
        let body = framed.body();
        match frame::parse(body) {
            Ok(Frame::Batch(batch)) => self.handle_batch(now, from, body, batch),
            Ok(message) => {
                if let Some(passed) = self.handle_message(now, from, body, message) {
                    self.pass(now, from, framed, passed);
                }
            }
            Err(malformed) => {
                if let Some((body, passed)) = self.handle_unreadable(now, from, body, malformed) {
                    self.pass_alone(now, from.other(), &body, passed);
                }
            }
        }
    }

    /// Takes in one message that is no batch; `body` is its text, in which spans count.
    pub(super) fn handle_message(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        mut message: Frame<'_>,
    ) -> Option<Passed> {
        // Read where they lie: they are large, and have just been written.
        match &mut message {
            Frame::Request(request) => {
                let id = replace(&mut request.id, crate::id::RequestId::NULL);
                self.handle_request(now, from, id, request)
            }
            Frame::Notification(notification) => self.handle_notification(now, from, body, notification),
            Frame::Response(response) => self.handle_response(now, from, response),
            // The caller has taken batches apart; a nested one is malformed.
            Frame::Batch(_) => None,
        }
    }

    /// Takes in the last bytes of an input that ended in the middle of something.
    pub(super) fn receive_leftover(&mut self, now: Instant, from: Side) {
        match self.core.links[from].decoder.as_deref_mut().and_then(Decoder::finish) {
            None => {}
            // A last line without its line break is a message if it can be read as one: `printf '…' | server`.
            Some(Leftover::Line(mut line)) if frame::parse(&line).is_ok() => {
                line.push(b'\n');
                let longest = self.core.config.max_message.saturating_add(1);
                let mut whole = Decoder::new(Some(Framing::Line), longest);
                if let Some(chunk) = whole.decode(&mut &line[..]) {
                    self.handle_chunk(now, from, chunk);
                }
            }
            Some(Leftover::Line(bytes)) if from == Side::Client => {
                self.core.refuse_garbage(from, Rejected::NotJson, &bytes, "not JSON");
            }
            Some(Leftover::Line(bytes) | Leftover::Half(bytes)) => {
                self.core.reject(from, Rejected::Unfinished, &bytes);
            }
            Some(Leftover::Overlong(message)) => self.handle_overlong(now, from, &message),
        }
    }
}
