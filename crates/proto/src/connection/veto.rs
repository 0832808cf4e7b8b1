//! Filters: drivers that look at messages before the engine, or the peer, does.
//!
//! A message that a filter keeps back leaves nothing waiting: a request of the peer is answered with an error, one of
//! ours fails, as does one whose answer is kept back; a cancel of ours was not sendable.

use super::{Connection, Settlement, link::Tag};
use crate::{
    error_code,
    frame::{self, Frame, Response, ResponseId},
    framing::{Chunk, Decoder, Overlong},
    id::RequestId,
    link::Rejected,
    time::Instant,
};

/// A frame that was detached from what is pending; report what became of it with [`Connection::handle_detached`].
#[derive(Debug)]
#[must_use = "the connection must learn whether the frame was written or vetoed"]
pub struct DetachedFrame {
    tag: Tag,
    len: usize,
    /// The id of a request of ours.
    request: Option<RequestId>,
}

impl Connection {
    /// Handles a message of the peer that a filter keeps back.
    pub fn handle_vetoed(&mut self, now: Instant, body: &[u8]) {
        self.receive(now, |this| {
            this.link.counters.received += 1;
            match frame::parse(body) {
                Ok(Frame::Request(request)) if !this.is_in_flight(&request.id) => {
                    this.link.refuse(Some(&request.id), error_code::INVALID_REQUEST, "refused by policy", None);
                }
                Ok(Frame::Response(Response { id: Some(ResponseId::Exact(id)), .. })) => {
                    this.fail_call(&id, Settlement::Unreadable(Rejected::Vetoed));
                }
                Ok(Frame::Request(_) | Frame::Response(_) | Frame::Notification(_) | Frame::Batch(_)) | Err(_) => {}
            }
            this.link.report_rejected(Rejected::Vetoed, None, body, None);
        });
    }

    /// Handles the end of a message longer than the limit, as a driver's own decoder found it.
    pub fn handle_overlong(&mut self, now: Instant, message: &Overlong) {
        self.receive(now, |this| this.receive_overlong(message));
    }

    /// Handles bytes that belong to no message, as a driver's own decoder found them.
    pub fn handle_garbage(&mut self, now: Instant, bytes: &[u8]) {
        self.receive(now, |this| this.receive_garbage(bytes));
    }

    /// Detaches the next whole frame from what is [`pending`](Self::pending): from now on it cannot be withdrawn.
    /// `None` if nothing is pending, or the next frame has begun to leave.
    pub fn detach_frame(&mut self) -> Option<(Vec<u8>, DetachedFrame)> {
        let link = &mut self.link;
        let mut pending = link.outbox.pending();
        let mut decoder = Decoder::new(Some(link.config.framing), usize::MAX);
        let Chunk::Frame(framed) = decoder.decode(&mut pending)? else { return None };
        let request = match frame::parse(framed.body()) {
            Ok(Frame::Request(request)) => Some(request.id),
            Ok(Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => None,
        };
        let len = framed.raw().len();
        let mut detached = None;
        link.outbox.written(len, |tag, frame| detached = Some((tag, frame.to_vec())));
        let (tag, frame) = detached?;
        link.detached += 1;
        let detached = DetachedFrame { tag, len: frame.len(), request };
        Some((frame, detached))
    }

    /// Handles what became of a detached frame: written, or vetoed by a filter.
    pub fn handle_detached(&mut self, now: Instant, frame: DetachedFrame, written: bool) {
        self.link.now = now;
        let DetachedFrame { tag, len, request } = frame;
        self.link.detached -= 1;
        self.link.counters.sent += u64::from(written);
        self.frame_gone(tag, len, written);
        if let (Some(id), false) = (request, written) {
            self.fail_call(&id, Settlement::Unreadable(Rejected::Vetoed));
        }
        self.finish();
    }
}
