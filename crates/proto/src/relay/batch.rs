//! Batches: one array, many messages (MCP-B01, D36).

use core::ops::Range;

use super::{
    Relay, RelayEvent,
    exchange::Up,
    link::{FrameState, Part, Passed, Tag},
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
    pub(super) refusals: usize,
    remarks: usize,
    /// Remarks that were not made.
    unmade: u64,
}

impl Allowance {
    const FULL: Self = Self { refusals: MAX_REFUSALS, remarks: MAX_REMARKS, unmade: 0 };

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
            if self.core.negotiation.is_known(from) && !self.core.spoken(from).batches {
                let text = "an array, and this revision has no batches";
                return self.core.refuse_garbage(from, Rejected::Batch, body, text);
            }
            if !batch.has_message() {
                return self.core.refuse_garbage(from, Rejected::Batch, body, "a batch without a JSON-RPC message");
            }
        }
        self.core.reports.allowance = Some(Allowance::FULL);
        let to = from.other();
        // While they wait for a server that has not started, each can be taken back by itself (D70).
        let waits = self.core.welcome.as_ref().is_some_and(|early| early.is_told());
        let joins = self.core.spoken(to).batches && !waits;
        let mut array = Array::default();
        for member in batch.members() {
            let passed = match &mut frame::parse_member(member) {
                Ok(parsed) => self.handle_message(now, from, member, parsed).map(|passed| (member.into(), passed)),
                Err(malformed) => self.handle_unreadable(now, from, member, malformed),
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

    fn pass_array(&mut self, now: Instant, to: Side, Array { text, tagged }: Array) {
        let (withdrawn, tagged): (Vec<_>, Vec<_>) = tagged.into_iter().partition(|(_, tag)| self.is_withdrawn(*tag));
        if self.core.links[to].write_closed {
            return tagged.into_iter().for_each(|(_, tag)| self.frame_gone(now, to, tag, 0, FrameState::Lost));
        }
        let len = text.len() - withdrawn.iter().map(|(span, _)| span.len()).sum::<usize>();
        if len == 0 {
            return;
        }
        tagged.iter().for_each(|(_, tag)| self.frame_waits(*tag, None));
        // A notice in an array cannot be withdrawn, and so is none of those that wait.
        let tags = tagged.into_iter().map(|(_, tag)| tag).filter(|tag| !matches!(tag, Tag::Of(_, Part::Notice)));
        let bundle = self.bundles.insert(tags.collect());
        let framing = self.core.framing;
        self.core.links[to].outbox.push_sized(Tag::Many(bundle).into(), len, |out| {
            message::frame(framing, out, |out| {
                out.push(b'[');
                let mut copied = 0;
                for (span, _) in withdrawn {
                    out.extend_from_slice(&text[copied..span.start]);
                    copied = span.end;
                }
                out.extend_from_slice(&text[copied..]);
                let _comma = out.pop();
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
