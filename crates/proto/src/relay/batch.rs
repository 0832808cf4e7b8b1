//! Batches: one array, many messages (MCP-B01, D36).

use core::ops::Range;
use std::borrow::Cow;

use super::{
    Passed, Relay, RelayEvent, Settled,
    exchange::{Down, Up},
    tag::{PackedTag, Tag},
};
use crate::{
    bug::SeededBug,
    frame::{self, Batch},
    link::{Rejected, RequestKey},
    message,
    side::Side,
    time::Instant,
};

/// Bytes of refusals that the members of one batch are given at most (D36).
const MAX_REFUSALS: usize = 64 << 10;

/// Remarks on the members of one batch that become events at most.
const MAX_REMARKS: usize = 1024;

/// What may still be said of the batch that is being read: its members can be millions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Bytes of refusals.
    pub(super) refusals: usize,
    remarks: usize,
    /// Remarks that were not made.
    unmade: u64,
}

impl Allowance {
    const FULL: Self = Self { refusals: MAX_REFUSALS, remarks: MAX_REMARKS, unmade: 0 };
    const UNLIMITED: Self = Self { refusals: usize::MAX, remarks: usize::MAX, unmade: 0 };
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
        if passed.tag != PackedTag::PLAIN {
            self.tagged.push((start..self.text.len(), passed.tag.read()));
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
        let bounded = !self.config.has(SeededBug::AnswerToEachMember);
        if from == Side::Client && bounded {
            if !self.may_batch(from) {
                return self.refuse_garbage(from, Rejected::Batch, body, "an array, and this revision has no batches");
            }
            if !batch.has_message() {
                return self.refuse_garbage(from, Rejected::Batch, body, "a batch without a message");
            }
        }
        self.allowance = Some(if bounded { Allowance::FULL } else { Allowance::UNLIMITED });
        let to = from.other();
        let joins = self.negotiation.of(to, self.framing).batches;
        let mut array = Array::default();
        for member in batch.members() {
            let passed = match frame::parse_member(member) {
                Ok(parsed) => self.handle_message(now, from, member, parsed).map(|passed| (member.into(), passed)),
                Err(malformed) => {
                    let mended = self.handle_unread(now, from, member, malformed);
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
        if let Some(Allowance { unmade: unmade @ 1.., .. }) = self.allowance.take() {
            let excerpt = format!("{unmade} more remarks on one batch").into_bytes();
            self.events.push_back(RelayEvent::Rejected { from, why: Rejected::Batch, excerpt: excerpt.into() });
        }
        self.pass_array(now, to, array);
    }

    /// Whether arrays of `side` may be batches: not in a revision that is known to have none.
    fn may_batch(&self, side: Side) -> bool {
        !self.negotiation.is_known(side) || self.negotiation.of(side, self.framing).batches
    }

    fn pass_array(&mut self, now: Instant, to: Side, mut array: Array) {
        array.remove(|tag| self.is_withdrawn(tag));
        if self.links[to].write_closed {
            return array.tagged.into_iter().for_each(|(_, tag)| self.frame_lost(now, tag));
        }
        let Some((_comma, members)) = array.text.split_last() else { return };
        for &(_, tag) in &array.tagged {
            self.bundle(tag);
        }
        let framing = self.framing;
        // A notice in an array cannot be taken back, and so is none of those that wait.
        let tags = array.tagged.into_iter().map(|(_, tag)| tag).filter(|tag| !matches!(tag, Tag::Notice(_)));
        let bundle = self.bundles.insert(tags.collect());
        self.links[to].outbox.push_sized(Tag::Many(bundle).into(), members.len(), |out| {
            message::frame(framing, out, |out| {
                out.push(b'[');
                out.extend_from_slice(members);
                out.push(b']');
            });
        });
    }

    /// A member waits to be written with others, and so cannot be withdrawn.
    fn bundle(&mut self, tag: Tag) {
        match tag {
            Tag::Request(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.up = Up::Bundled;
                }
            }
            Tag::Answer(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.down = Down::Bundled(Settled::Answered);
                }
                self.mark_changed(request);
            }
            Tag::Plain | Tag::Cancel(_) | Tag::Notice(_) | Tag::Refusal | Tag::Many(_) => {}
        }
    }

    /// Whether a later member of the same array has cancelled this one.
    fn is_withdrawn(&self, tag: Tag) -> bool {
        let is_never_sent = |request: RequestKey| self.exchange(request).is_none_or(|ex| ex.up == Up::Never);
        matches!(tag, Tag::Request(request) if is_never_sent(request))
    }

    /// Queues a remark on what passed, unless the batch that it is about has had its share.
    pub(super) fn remark(&mut self, event: RelayEvent) {
        if let Some(allowance) = &mut self.allowance {
            if allowance.remarks == 0 {
                allowance.unmade += 1;
                return;
            }
            allowance.remarks -= 1;
        }
        self.events.push_back(event);
    }
}
