//! One side's bytes: what of a message has arrived, what waits to be written, and what each frame is to the relay.

use core::{hint::cold_path, ops::Range};

use super::{
    Core, KEPT_RECORDS, Relay, RelayConfig, Settled, Step, Timer,
    exchange::{Down, Up},
};
use crate::{
    frame,
    framing::{Decoder, Framed, Framing},
    id::RequestId,
    link::RequestKey,
    message,
    outbox::{OWN, Outbox, Ticket},
    receipt::Outcome,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::TimerKey,
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
    /// What is written to it is taken, and leaves later (D51).
    pub(super) departs: bool,
    /// Only what passes other frames is written to it: it has not been greeted yet, or there is none (D64).
    pub(super) gated: bool,
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tag {
    /// Nothing.
    Plain,
    /// The end of the client's handshake, which a server that is started again gets from us (D64).
    Initialized,
    /// A reply to bad input; it counts as the side's own backlog.
    Refusal,
    /// A batch: what its members are stands among the bundles.
    Many(Key),
    /// A request.
    Of(RequestKey, Part),
    /// The cancel of a child (D54).
    Child(Key),
}

/// What a frame is to the request that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Itself, on its way to the other side.
    Request,
    /// Its answer, on the way to its requester.
    Answer,
    /// Its cancel, on the way to the other side.
    Cancel,
    /// A notification about it, on the way to its requester.
    Notice,
}

/// A tag in one word.
///
/// It is written and read several times for each message, and each time soon after. In several pieces it would be
/// written by halves and read as a whole, for which a processor waits longer than for all the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PackedTag(u64);

/// Hundreds of thousands of small frames can wait.
const _: () = assert!(Outbox::<PackedTag>::RECORD <= 40);

/// Where the kind stands, three bits wide, above one bit for the side and the key.
const KIND: u32 = 61;
const SIDE: u32 = 60;

/// A key's place is kept in so many bits: entries of its slab beyond them would take forty gigabytes.
const PLACE_BITS: u32 = SIDE - u32::BITS;

impl PackedTag {
    pub(super) const PLAIN: Self = Self(0);

    const fn new(kind: u64, from: Side, key: Key) -> Self {
        debug_assert!(key.index() >> PLACE_BITS == 0, "an outbox names more requests than it can tell apart");
        Self(kind << KIND | (from as u64) << SIDE | key.word())
    }

    #[inline]
    pub(super) fn read(self) -> Tag {
        let from = if self.0 >> SIDE & 1 == 0 { Side::Client } else { Side::Server };
        let Some(key) = Key::from_word(self.0 & ((1 << SIDE) - 1)) else {
            return match self.0 >> KIND {
                0 => Tag::Plain,
                6 => Tag::Initialized,
                _ => Tag::Refusal,
            };
        };
        let part = match self.0 >> KIND {
            1 => Part::Request,
            2 => Part::Answer,
            3 => Part::Cancel,
            4 => Part::Notice,
            7 => return Tag::Child(key),
            _ => return Tag::Many(key),
        };
        Tag::Of(RequestKey { from, key }, part)
    }
}

impl From<Tag> for PackedTag {
    #[inline]
    fn from(tag: Tag) -> Self {
        match tag {
            Tag::Plain => Self::PLAIN,
            Tag::Initialized => Self(6 << KIND),
            Tag::Of(request, part) => Self::new(part as u64 + 1, request.from, request.key),
            Tag::Refusal => Self(5 << KIND),
            Tag::Many(bundle) => Self::new(6, Side::Client, bundle),
            Tag::Child(child) => Self::new(7, Side::Client, child),
        }
    }
}

/// What becomes of a message that goes on to the other side.
pub(super) struct Passed {
    /// A span of the body to replace by an id.
    pub(super) splice: Option<(Range<usize>, RequestId)>,
    pub(super) tag: Tag,
    /// It is a cancel of a request that has been sent: it may pass other frames (D13).
    pub(super) urgent: bool,
}

/// What has become of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameState {
    /// It has been taken whole, and leaves or is taken back later.
    Handed,
    /// It has been written whole.
    Left,
    /// It will never be.
    Lost,
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
            departs: false,
            gated: false,
        }
    }

    /// The next bytes to write to it.
    #[inline]
    pub(super) fn pending(&self) -> &[u8] {
        if self.gated && !self.outbox.is_urgent_next() { &[] } else { self.outbox.pending() }
    }
}

impl Core {
    /// Queues a message of our own for `to`, unless nothing can be written there.
    pub(super) fn write(&mut self, to: Side, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        let (framing, is_bare) = (self.framing, self.spoken(to).threads.is_some());
        let link = &mut self.links[to];
        let write = |out: &mut Vec<u8>| if is_bare { message::bare(out, write) } else { write(out) };
        (!link.write_closed).then(|| link.outbox.push(tag.into(), |out| message::frame(framing, out, write)))
    }
}

impl Relay {
    /// Passes a frame on to the other side: untouched, or with one id replaced (D33).
    #[inline]
    pub(super) fn pass(&mut self, now: Instant, to: Side, framed: Framed<'_>, passed: &Passed) {
        let &Passed { ref splice, tag, urgent } = passed;
        let Core { links, framing, .. } = &mut self.core;
        let Link { outbox, write_closed: false, .. } = &mut links[to] else {
            return self.frame_gone(now, to, tag, 0, FrameState::Lost);
        };
        let packed = PackedTag::from(tag);
        let ticket = match splice {
            Some((span, id)) if urgent => outbox.push_urgent(packed, |out| {
                message::frame(*framing, out, |out| frame::splice(framed.body(), span.clone(), id, out));
            }),
            Some((span, id)) => outbox.push_sized(packed, framed.raw().len(), |out| {
                message::frame(*framing, out, |out| frame::splice(framed.body(), span.clone(), id, out));
            }),
            None if urgent => outbox.push_urgent(packed, |out| out.extend_from_slice(framed.raw())),
            None if framed.raw().len() >= OWN => outbox.push_owned(packed, framed.into_raw()),
            None => outbox.push(packed, |out| out.extend_from_slice(framed.raw())),
        };
        self.frame_waits(tag, Some(ticket));
    }

    /// Passes a message on in a frame of its own, whatever frame it came in.
    pub(super) fn pass_alone(&mut self, now: Instant, to: Side, body: &[u8], passed: Passed) {
        let Passed { splice, tag, urgent } = passed;
        let Core { links, framing, .. } = &mut self.core;
        let Link { outbox, write_closed: false, .. } = &mut links[to] else {
            return self.frame_gone(now, to, tag, 0, FrameState::Lost);
        };
        let write = |out: &mut Vec<u8>| message::frame(*framing, out, |out| frame::splice_or_copy(body, splice, out));
        let ticket = match urgent {
            true => outbox.push_urgent(tag.into(), write),
            false => outbox.push_sized(tag.into(), body.len(), write),
        };
        self.frame_waits(tag, Some(ticket));
    }

    /// Records that the first `bytes` of [`pending`](Self::pending) were written to `side`.
    pub fn handle_written(&mut self, now: Instant, side: Side, bytes: usize) {
        match &mut self.bridge {
            Some(bridge) if side == Side::Server => bridge.handle_written(now, bytes),
            Some(_) | None => self.frames_written(now, side, bytes),
        }
        self.finish(now);
    }

    /// Records that the first `bytes` of what waits for `side` have left.
    #[inline]
    pub(super) fn frames_written(&mut self, now: Instant, side: Side, bytes: usize) {
        let Self { core: Core { links, reports, timers, .. }, left, tables, .. } = self;
        if bytes == 0 {
            return;
        }
        timers.stop(&mut links[side].stalled);
        let state = if links[side].departs { FrameState::Handed } else { FrameState::Left };
        // Mostly one frame leaves at a time.
        let mut first = None;
        links[side].outbox.written(bytes, |tag, bytes| {
            if reports.emit.frames || reports.changes.is_some() {
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
            self.frame_gone(now, side, tag.read(), len, state);
        }
        if !self.left.is_empty() {
            cold_path();
            let mut left = core::mem::take(&mut self.left);
            for (tag, len) in left.drain(..) {
                self.frame_gone(now, side, tag.read(), len, state);
            }
            left.shrink_to(KEPT_RECORDS);
            self.left = left;
        }
        self.watch_backlog(now, side);
    }

    /// Records that nothing can be written to `side` any more: what waits for it is dropped, and what comes later too.
    pub fn handle_write_closed(&mut self, now: Instant, side: Side) {
        let Core { links, timers, .. } = &mut self.core;
        let link = &mut links[side];
        link.write_closed = true;
        link.own_backlog = 0;
        timers.stop(&mut link.stalled);
        let mut lost = Vec::new();
        link.outbox.clear(|tag| lost.push(tag.read()));
        for tag in lost {
            self.frame_gone(now, side, tag, 0, FrameState::Lost);
        }
        if side == Side::Server {
            self.let_all_go(now);
            self.lose_taken_cancels(now);
            self.bridge.iter_mut().for_each(|bridge| bridge.handle_write_closed());
        }
        self.finish(now);
    }

    /// Notes that a frame waits to be written. Alone it has a ticket, by which it can be withdrawn; in an array it has none.
    #[inline]
    pub(super) fn frame_waits(&mut self, tag: Tag, ticket: Option<Ticket>) {
        // No step is taken: nothing ends by this, and nothing follows from it.
        let Tag::Of(request, part) = tag else { return };
        let Some(exchange) = self.tables[request.from].get_mut(request.key) else { return };
        match part {
            Part::Request => exchange.up = Up::Queued(ticket),
            Part::Answer => exchange.down = Down::Answering(ticket, Settled::Answered),
            Part::Cancel => return,
            Part::Notice => return exchange.rare().notices.extend(ticket),
        }
        self.core.reports.mark_changed(request, exchange);
    }

    /// Notes that a frame for `to`, of this length, has left or is lost.
    #[inline]
    pub(super) fn frame_gone(&mut self, now: Instant, to: Side, tag: Tag, len: usize, state: FrameState) {
        match tag {
            Tag::Plain | Tag::Initialized => {}
            Tag::Of(request, part) => self.step(now, request, |step| step.frame_is(part, state)),
            Tag::Child(child) => self.child_cancel_is(now, child, state),
            Tag::Refusal => {
                let own_backlog = &mut self.core.links[to].own_backlog;
                *own_backlog = own_backlog.saturating_sub(len + Outbox::<PackedTag>::RECORD);
            }
            Tag::Many(bundle) => {
                for tag in self.bundles.remove(bundle).unwrap_or_default() {
                    self.frame_gone(now, to, tag, 0, state);
                }
            }
        }
    }

    /// Arms the timer of a side with a backlog beyond the bound (D13).
    #[inline]
    pub(super) fn watch_backlog(&mut self, now: Instant, side: Side) {
        let Core { links, config, timers, .. } = &mut self.core;
        let link = &mut links[side];
        if link.outbox.backlog() > config.max_backlog {
            timers.arm_by(&mut link.stalled, now + config.stall_limit, Timer::Stalled(side));
        }
    }

    /// The first framing seen is the framing of both sides.
    pub(super) fn adopt_framing(&mut self, framing: Framing) {
        self.core.framing = framing;
        if framing == Framing::Headers {
            // No protocol with such frames has two eras.
            self.bridge = None;
            self.set_departs();
        }
        for side in Side::BOTH {
            let decoder = &mut self.core.links[side].decoder;
            if decoder.as_ref().is_some_and(|decoder| decoder.framing().is_none() && decoder.buffered() == 0) {
                *decoder = Some(Box::new(Decoder::new(Some(framing), self.core.config.max_message)));
            }
        }
    }
}

impl Step<'_> {
    /// Notes what has become of a frame about the request.
    fn frame_is(&mut self, part: Part, state: FrameState) {
        match (part, state) {
            (Part::Request, FrameState::Handed) => self.request_is(Up::Handed),
            (Part::Request, FrameState::Left) => self.request_left(),
            (Part::Request, FrameState::Lost) => self.request_is(Up::Lost),
            (Part::Answer, FrameState::Handed | FrameState::Left) => {
                if let Down::Answering(_, how) = self.exchange.down {
                    self.settle(how);
                }
            }
            (Part::Answer, FrameState::Lost) => self.settle(Settled::Gone),
            (Part::Cancel, FrameState::Handed) => {}
            (Part::Cancel, FrameState::Left) => self.cancel_written(),
            (Part::Cancel, FrameState::Lost) => self.lose_cancel(),
            (Part::Notice, FrameState::Handed | FrameState::Left) => self.exchange.rare().notice_left(),
            (Part::Notice, FrameState::Lost) => self.exchange.rare().notices.clear(),
        }
    }

    /// The cancel will never leave. What its request has shown before that stays known.
    fn lose_cancel(&mut self) {
        if self.cancel().is_some_and(|cancel| !cancel.receipt.outcome.is_final()) {
            self.learn(Outcome::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_packed_tag_is_read_as_it_was() {
        for (index, generation) in
            [(0, NonZeroU32::MIN), (7, NonZeroU32::MAX), ((1 << PLACE_BITS) - 1, NonZeroU32::MIN)]
        {
            let key = Key::from_parts(index, generation);
            for from in Side::BOTH {
                let request = RequestKey { from, key };
                for part in [Part::Request, Part::Answer, Part::Cancel, Part::Notice] {
                    let tag = Tag::Of(request, part);
                    assert_eq!(PackedTag::from(tag).read(), tag);
                }
            }
            for tag in [Tag::Many(key), Tag::Child(key)] {
                assert_eq!(PackedTag::from(tag).read(), tag);
            }
        }
        assert_eq!(PackedTag::PLAIN.read(), Tag::Plain);
        for tag in [Tag::Refusal, Tag::Initialized] {
            assert_eq!(PackedTag::from(tag).read(), tag);
        }
    }
}
