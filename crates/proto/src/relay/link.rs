//! One side's bytes: what of a message has arrived, and what waits to be written.

use core::{hint::cold_path, ops::Range};

use super::{
    Core, KEPT_RECORDS, Relay, RelayConfig, Settled,
    clocks::Timer,
    exchange::{Down, Up},
    step::Step,
    tag::{PackedTag, Part, Tag},
};
use crate::{
    frame,
    framing::{Decoder, Framed, Framing},
    id::RequestId,
    message,
    outbox::{OWN, Outbox, Ticket},
    side::Side,
    time::Instant,
    timer_queue::{TimerKey, TimerQueue},
};

/// One side's bytes.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Absent only while its own bytes are being taken in.
    pub(super) decoder: Option<Box<Decoder>>,
    pub(super) outbox: Outbox<PackedTag>,
    /// The part of the backlog that is refusals of our own: what this side's bad input has cost.
    pub(super) own_backlog: usize,
    /// Its input has ended.
    pub(super) ended: bool,
    /// Nothing can be written to it any more.
    pub(super) write_closed: bool,
    /// When it is given up unless it reads something.
    pub(super) stalled: TimerKey,
}

/// What becomes of a message that goes on to the other side.
pub(super) struct Passed {
    /// A span of the body to replace by an id.
    pub(super) splice: Option<(Range<usize>, RequestId)>,
    pub(super) tag: Tag,
    /// It is a cancel of a request that has been sent: it may pass other frames (D13).
    pub(super) urgent: bool,
}

impl Passed {
    pub(super) const PLAIN: Self = Self { splice: None, tag: Tag::Plain, urgent: false };
}

impl Link {
    pub(super) fn new(config: &RelayConfig) -> Self {
        Self {
            decoder: Some(Box::new(Decoder::new(config.framing, config.max_message))),
            outbox: Outbox::new(),
            own_backlog: 0,
            ended: false,
            write_closed: false,
            stalled: TimerKey::NOT,
        }
    }

    pub(super) fn is_between_messages(&self) -> bool {
        self.decoder.as_deref().is_some_and(Decoder::is_between_messages)
    }

    /// Its reader has read something, or never will.
    pub(super) fn stops_stalling(&mut self, timers: &mut TimerQueue<Timer>) {
        if self.stalled.is_armed() {
            timers.disarm(core::mem::replace(&mut self.stalled, TimerKey::NOT));
        }
    }

    /// Queues a frame: untouched, or with one id replaced (D33).
    fn pass(&mut self, framing: Framing, framed: Framed<'_>, passed: Passed) {
        let Passed { splice, tag, urgent } = passed;
        let (outbox, tag) = (&mut self.outbox, PackedTag::from(tag));
        if let Some((span, id)) = splice {
            let write = |out: &mut Vec<u8>| {
                message::frame(framing, out, |out| frame::splice(framed.body(), span, &id, out));
            };
            if urgent {
                outbox.push_urgent(tag, write)
            } else {
                outbox.push_sized(tag, framed.raw().len(), write)
            };
        } else if urgent {
            outbox.push_urgent(tag, |out| out.extend_from_slice(framed.raw()));
        } else if framed.raw().len() >= OWN {
            outbox.push_owned(tag, framed.into_raw());
        } else {
            outbox.push(tag, |out| out.extend_from_slice(framed.raw()));
        }
    }
}

impl Core {
    /// Queues a message of our own for `to`, unless nothing can be written there.
    pub(super) fn write(&mut self, to: Side, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        let framing = self.framing;
        let link = &mut self.links[to];
        (!link.write_closed).then(|| link.outbox.push(tag.into(), |out| message::frame(framing, out, write)))
    }
}

impl Relay {
    /// Passes a frame on to the other side.
    #[inline]
    pub(super) fn pass(&mut self, now: Instant, from: Side, framed: Framed<'_>, passed: Passed) {
        let to = from.other();
        if self.core.links[to].write_closed {
            return self.frame_lost(now, passed.tag);
        }
        let ticket = self.core.links[to].outbox.upcoming(passed.urgent);
        if let Tag::Of(request, part) = passed.tag {
            self.step(now, request, |step| step.frame_waits(part, ticket));
        }
        self.core.links[to].pass(self.core.framing, framed, passed);
    }

    /// Passes a message on in a frame of its own, whatever frame it came in.
    pub(super) fn pass_alone(&mut self, now: Instant, to: Side, body: &[u8], Passed { splice, tag, .. }: Passed) {
        if self.core.links[to].write_closed {
            return self.frame_lost(now, tag);
        }
        let ticket = self.core.links[to].outbox.upcoming(false);
        if let Tag::Of(request, part) = tag {
            self.step(now, request, |step| step.frame_waits(part, ticket));
        }
        let framing = self.core.framing;
        self.core.links[to].outbox.push_sized(tag.into(), body.len(), |out| {
            message::frame(framing, out, |out| frame::splice_or_copy(body, splice, out));
        });
    }

    /// The first `bytes` of what waits for `side` were written.
    pub(super) fn note_written(&mut self, now: Instant, side: Side, bytes: usize) {
        let Self { core: Core { links, reports, .. }, left, tables, .. } = self;
        // Mostly one frame leaves at a time.
        let mut first = None;
        links[side].outbox.written(bytes, |tag, bytes| {
            if reports.observes_frames() {
                cold_path();
                reports.note_written(now, side, tag.read(), bytes, tables);
            }
            if first.is_none() {
                first = Some((tag, bytes.len()));
            } else {
                left.push((tag, bytes.len()));
            }
        });
        if let Some((tag, len)) = first {
            self.frame_left(now, side, tag.read(), len);
        }
        if !self.left.is_empty() {
            self.frames_left(now, side);
        }
    }

    fn frames_left(&mut self, now: Instant, side: Side) {
        let mut left = core::mem::take(&mut self.left);
        for (tag, len) in left.drain(..) {
            self.frame_left(now, side, tag.read(), len);
        }
        left.shrink_to(KEPT_RECORDS);
        self.left = left;
    }

    /// A frame has left for `to`, whole.
    #[inline]
    fn frame_left(&mut self, now: Instant, to: Side, tag: Tag, len: usize) {
        match tag {
            Tag::Plain => {}
            Tag::Of(request, part) => self.step(now, request, |step| step.frame_left(part)),
            Tag::Refusal => {
                let own_backlog = &mut self.core.links[to].own_backlog;
                *own_backlog = own_backlog.saturating_sub(len + Outbox::<PackedTag>::RECORD);
            }
            Tag::Many(bundle) => {
                for tag in self.bundles.remove(bundle).unwrap_or_default() {
                    self.frame_left(now, to, tag, 0);
                }
            }
        }
    }

    /// A frame will never leave.
    #[cold]
    pub(super) fn frame_lost(&mut self, now: Instant, tag: Tag) {
        match tag {
            Tag::Plain | Tag::Refusal => {}
            Tag::Of(request, part) => self.step(now, request, |step| step.frame_lost(part)),
            Tag::Many(bundle) => {
                for tag in self.bundles.remove(bundle).unwrap_or_default() {
                    self.frame_lost(now, tag);
                }
            }
        }
    }

    /// Nothing will be written to `side` again.
    pub(super) fn close(&mut self, now: Instant, side: Side) {
        let Core { links, timers, .. } = &mut self.core;
        let link = &mut links[side];
        link.write_closed = true;
        link.own_backlog = 0;
        link.stops_stalling(timers);
        let mut lost = Vec::new();
        link.outbox.clear(|tag| lost.push(tag.read()));
        for tag in lost {
            self.frame_lost(now, tag);
        }
    }

    /// Arms the timer of a side with a backlog beyond the bound (D13).
    #[inline]
    pub(super) fn watch_backlog(&mut self, now: Instant, side: Side) {
        let Core { links, config, timers, .. } = &mut self.core;
        let link = &mut links[side];
        if link.outbox.backlog() > config.max_backlog && !link.stalled.is_armed() {
            link.stalled = timers.arm(now + config.stall_limit, Timer::Stalled(side));
        }
    }

    /// The first framing seen is the framing of both sides.
    pub(super) fn adopt_framing(&mut self, framing: Framing) {
        self.core.framing = framing;
        for side in Side::BOTH {
            let decoder = &mut self.core.links[side].decoder;
            if decoder.as_ref().is_some_and(|decoder| decoder.framing().is_none() && decoder.buffered() == 0) {
                *decoder = Some(Box::new(Decoder::new(Some(framing), self.core.config.max_message)));
            }
        }
    }
}

impl Step<'_> {
    /// A frame about the request waits, alone, and so can be withdrawn.
    #[inline]
    fn frame_waits(&mut self, part: Part, ticket: Ticket) {
        match part {
            Part::Request => self.exchange.up = Up::Queued(ticket),
            Part::Answer => {
                self.exchange.down = Down::Answering(ticket, Settled::Answered);
                self.mark_changed();
            }
            Part::Notice => self.exchange.rare().notices.push_back(ticket),
            Part::Cancel => {}
        }
    }

    /// A frame about the request has left.
    #[inline]
    fn frame_left(&mut self, part: Part) {
        match (part, self.exchange.down) {
            (Part::Request, _) => {
                self.exchange.up = Up::Sent;
                self.mark_changed();
            }
            (Part::Answer, Down::Answering(_, how) | Down::Bundled(how)) => self.settle(how),
            (Part::Answer, Down::Waiting | Down::Done(..)) => {}
            (Part::Cancel, _) => self.cancel_written(),
            (Part::Notice, _) => drop(self.exchange.rare().notices.pop_front()),
        }
    }

    /// A frame about the request will never leave.
    fn frame_lost(&mut self, part: Part) {
        match part {
            Part::Request => {
                self.exchange.up = Up::Lost;
                self.mark_changed();
            }
            Part::Answer => self.settle(Settled::Gone),
            Part::Cancel => self.cancel_lost(),
            Part::Notice => self.exchange.rare().notices.clear(),
        }
    }
}
