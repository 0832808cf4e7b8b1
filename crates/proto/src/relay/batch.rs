//! Batches: one array, many messages (MCP-B01, D36).

use core::ops::Range;
use std::borrow::Cow;

use super::{
    Relay, RelayEvent, Settled,
    exchange::{Down, Up},
    link::Passed,
    step::Step,
    tag::{Part, Tag},
};
use crate::{
    frame::{self, Batch},
    link::Rejected,
    message,
    side::Side,
    time::Instant,
};

/// Bytes of refusals that the members of one batch are given at most (D36).
const MAX_REFUSALS: usize = 64 << 10;

/// Remarks on the members of one batch that become events at most.
const MAX_REMARKS: usize = 1024;

/// What may still be reported and refused of the batch that is being read: its members can be millions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Bytes of refusals.
    refusals: usize,
    remarks: usize,
    /// Remarks that were not made.
    unmade: u64,
}

impl Allowance {
    const FULL: Self = Self { refusals: MAX_REFUSALS, remarks: MAX_REMARKS, unmade: 0 };

    /// Whether nothing more of the batch is refused in words.
    pub(super) const fn is_spent(&self) -> bool {
        self.refusals == 0
    }

    /// A refusal was written that costs so much; whether it was the last.
    pub(super) const fn spend(&mut self, cost: usize) -> bool {
        self.refusals = self.refusals.saturating_sub(cost);
        self.refusals == 0
    }

    /// Whether one more remark may be made; counted either way.
    pub(super) const fn allows_remark(&mut self) -> bool {
        let allows = self.remarks > 0;
        self.remarks = self.remarks.saturating_sub(1);
        self.unmade += !allows as u64;
        allows
    }
}

/// The members that go on, as one array.
#[derive(Debug, Default)]
struct Array {
    /// Members, each with a comma behind it.
    text: Vec<u8>,
    /// Where those stand that are about a request.
    tagged: Vec<(Range<usize>, Tag)>,
}

impl Array {
    fn add(&mut self, body: &[u8], passed: Passed) {
        let start = self.text.len();
        frame::splice_or_copy(body, passed.splice, &mut self.text);
        self.text.push(b',');
        if passed.tag != Tag::Plain {
            self.tagged.push((start..self.text.len(), passed.tag));
        }
    }

    /// Takes out the members that `is_withdrawn` names.
    fn remove(&mut self, is_withdrawn: impl Fn(Tag) -> bool) {
        let mut withdrawn = self.tagged.iter().filter(|(_, tag)| is_withdrawn(*tag)).peekable();
        if withdrawn.peek().is_none() {
            return;
        }
        let (mut text, mut copied) = (Vec::with_capacity(self.text.len()), 0);
        for (span, _) in withdrawn {
            text.extend_from_slice(&self.text[copied..span.start]);
            copied = span.end;
        }
        text.extend_from_slice(&self.text[copied..]);
        self.text = text;
        self.tagged.retain(|(_, tag)| !is_withdrawn(*tag));
    }
}

impl Relay {
    /// Takes in every member, then passes on those that remain: as one array where the other side's
    /// revision has batches, else one by one. A request cancelled in its own array is never sent, and an
    /// array in which nothing remains is no message.
    ///
    /// A client's array is refused as a whole, with one error, if its revision has no batches or no member can be
    /// read. What is said of single members is bounded.
    pub(super) fn handle_batch(&mut self, now: Instant, from: Side, body: &[u8], batch: Batch<'_>) {
        if from == Side::Client {
            let fault = if !self.may_batch(from) {
                Some("an array, and this revision has no batches")
            } else if !batch.has_message() {
                Some("a batch without a message")
            } else {
                None
            };
            if let Some(text) = fault {
                return self.core.refuse_garbage(from, Rejected::Batch, body, text);
            }
        }
        self.core.reports.allowance = Some(Allowance::FULL);
        let to = from.other();
        let joins = self.core.spoken(to).batches;
        let mut array = Array::default();
        for member in batch.members() {
            let passed = match frame::parse_member(member) {
                Ok(parsed) => self.handle_message(now, from, member, parsed).map(|passed| (member.into(), passed)),
                Err(malformed) => {
                    let mended = self.handle_unreadable(now, from, member, malformed);
                    mended.map(|(body, passed)| (Cow::Owned(body), passed))
                }
            };
            match passed {
                None => {}
                Some((body, passed)) if joins => array.add(&body, passed),
                // One that is cancelled in its own array is withdrawn, as every request is.
                Some((body, passed)) => self.pass_alone(now, to, &body, passed),
            }
        }
        if let Some(Allowance { unmade: unmade @ 1.., .. }) = self.core.reports.allowance.take() {
            let excerpt = format!("{unmade} more remarks on one batch").into_bytes().into();
            self.core.reports.emit(RelayEvent::Rejected { from, why: Rejected::Batch, excerpt });
        }
        self.pass_array(now, to, array);
    }

    /// Whether arrays of `side` may be batches: not in a revision that is known to have none.
    fn may_batch(&self, side: Side) -> bool {
        !self.core.negotiation.is_known(side) || self.core.spoken(side).batches
    }

    fn pass_array(&mut self, now: Instant, to: Side, mut array: Array) {
        array.remove(|tag| self.is_withdrawn(tag));
        if self.core.links[to].write_closed {
            return array.tagged.into_iter().for_each(|(_, tag)| self.frame_lost(now, tag));
        }
        let Some((_comma, members)) = array.text.split_last() else { return };
        for &(_, tag) in &array.tagged {
            if let Tag::Of(request, part) = tag {
                self.step(now, request, |step| step.frame_bundled(part));
            }
        }
        // A notice in an array cannot be withdrawn, and so is none of those that wait.
        let tags = array.tagged.into_iter().map(|(_, tag)| tag).filter(|tag| !matches!(tag, Tag::Of(_, Part::Notice)));
        let bundle = self.bundles.insert(tags.collect());
        let framing = self.core.framing;
        self.core.links[to].outbox.push_sized(Tag::Many(bundle).into(), members.len(), |out| {
            message::frame(framing, out, |out| {
                out.push(b'[');
                out.extend_from_slice(members);
                out.push(b']');
            });
        });
    }

    /// Whether a later member of the same array has cancelled this one.
    fn is_withdrawn(&self, tag: Tag) -> bool {
        let is_never_sent = |request| self.exchange(request).is_none_or(|ex| ex.up == Up::Never);
        matches!(tag, Tag::Of(request, Part::Request) if is_never_sent(request))
    }
}

impl Step<'_> {
    /// A frame about the request waits to be written with others, and so cannot be withdrawn.
    fn frame_bundled(&mut self, part: Part) {
        match part {
            Part::Request => self.exchange.up = Up::Bundled,
            Part::Answer => {
                self.exchange.down = Down::Bundled(Settled::Answered);
                self.mark_changed();
            }
            Part::Cancel | Part::Notice => {}
        }
    }
}
