//! What drivers need that look at messages before the engine, or the peer, does: filters.
//!
//! A message that a filter keeps back leaves nobody waiting: a request of the peer is answered with an error, one of
//! ours fails, as does one whose answer is kept back; a cancel of ours was not sendable.

use super::{Connection, Tag};
use crate::{
    error_code,
    frame::{self, Frame, ResponseId},
    framing::{Chunk, Decoder, Overlong},
    id::RequestId,
    link::Rejected,
    outbox::Outbox,
    receipt::Outcome,
    slab::Key,
    time::Instant,
};

/// A frame that was taken out of what is pending; say what became of it with [`Connection::handle_taken`].
#[derive(Debug)]
#[must_use = "the connection must be told whether the frame was written or vetoed"]
pub struct Taken {
    tag: Tag,
    len: usize,
    /// The id of a request of ours.
    request: Option<RequestId>,
}

impl Connection {
    /// The peer sent a message that a filter keeps back.
    pub fn handle_vetoed(&mut self, now: Instant, body: &[u8]) {
        self.now = now;
        if self.phase.input_ended {
            return;
        }
        self.counters.received += 1;
        match frame::parse(body) {
            Ok(Frame::Request(request)) if !self.is_in_flight(&request.id) => {
                self.refuse(&request.id, error_code::INVALID_REQUEST, "refused by policy", None);
            }
            Ok(Frame::Response(response)) => {
                if let Some(ResponseId::Exact(id)) = &response.id {
                    self.fail_call(now, id, Rejected::Vetoed);
                }
            }
            Ok(Frame::Request(_) | Frame::Notification(_) | Frame::Batch(_)) | Err(_) => {}
        }
        self.refused(Rejected::Vetoed, None, body, None);
        self.finish(now);
    }

    /// A message longer than the limit has ended, as a driver's own decoder found.
    pub fn handle_overlong(&mut self, now: Instant, message: &Overlong) {
        self.now = now;
        if !self.phase.input_ended {
            self.counters.received += 1;
            self.take_overlong(message, now);
            self.finish(now);
        }
    }

    /// Bytes arrived that belong to no message, as a driver's own decoder found.
    pub fn handle_garbage(&mut self, now: Instant, bytes: &[u8]) {
        self.now = now;
        if !self.phase.input_ended {
            self.take_garbage(bytes);
            self.finish(now);
        }
    }

    /// Takes the next whole frame out of what is [`pending`](Self::pending): from now on it cannot be withdrawn.
    /// `None` if nothing is pending, or the next frame has begun to leave.
    pub fn take_frame(&mut self) -> Option<(Vec<u8>, Taken)> {
        let mut pending = self.outbox.pending();
        let len = match Decoder::new(Some(self.config.framing), usize::MAX).decode(&mut pending)? {
            Chunk::Frame(framed) => framed.raw().len(),
            Chunk::Overlong(_) | Chunk::Broken(_) => return None,
        };
        let mut taken = None;
        self.outbox.written(len, |tag, frame| taken = Some((tag, frame.to_vec())));
        let (tag, frame) = taken?;
        let request = if tag == Tag::Plain { self.request_in(&frame) } else { None };
        let len = frame.len();
        Some((frame, Taken { tag, len, request }))
    }

    /// What became of a frame that was taken: written, or vetoed by a filter.
    pub fn handle_taken(&mut self, now: Instant, taken: Taken, written: bool) {
        self.now = now;
        let Taken { tag, len, request } = taken;
        self.counters.sent += u64::from(written);
        match tag {
            Tag::Cancel(key) if !written => self.cancel_vetoed(now, key),
            Tag::Answer(key) if !written => {
                self.owed -= len + Outbox::<Tag>::RECORD;
                self.answer_over(now, key, false);
            }
            Tag::Plain | Tag::Owed | Tag::Answer(_) | Tag::Cancel(_) => self.frame_left(now, tag, len),
        }
        if let (Some(id), false) = (request, written) {
            self.fail_call(now, &id, Rejected::Vetoed);
        }
        self.finish(now);
    }

    fn request_in(&self, frame: &[u8]) -> Option<RequestId> {
        let mut frame = frame;
        let mut decoder = Decoder::new(Some(self.config.framing), usize::MAX);
        let Some(Chunk::Frame(framed)) = decoder.decode(&mut frame) else { return None };
        match frame::parse(framed.body()).ok()? {
            Frame::Request(request) => Some(request.id),
            Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_) => None,
        }
    }

    /// A cancel that a filter kept back: the request goes on, as far as the peer knows.
    fn cancel_vetoed(&mut self, now: Instant, key: Key) {
        let Some(call) = self.outgoing.get_mut(key) else { return };
        let settled = call.is_settled();
        let Some(cancel) = &mut call.cancel else { return };
        cancel.frame = None;
        cancel.receipt.outcome = Outcome::NotSendable;
        self.report_receipt(key);
        if settled {
            self.rest(now, key);
        }
    }
}
