//! Batches: one array, many messages (MCP-B01, D36).

use super::{
    Passed, Relay, Settled, Tag,
    exchange::{Down, Up},
};
use crate::{
    frame::{self, Batch, Frame},
    message,
    side::Side,
    time::Instant,
};

impl Relay {
    /// Takes in every member, then passes on those that remain: as one array where the other side's
    /// revision has batches, else one by one. A request cancelled in its own array is never sent, and an
    /// array in which nothing remains is no message.
    pub(super) fn handle_batch(&mut self, now: Instant, from: Side, batch: Batch<'_>) {
        let to = from.other();
        let mut taken = Vec::with_capacity(batch.len());
        for body in batch.members() {
            match frame::parse_member(body) {
                Ok(Frame::Batch(_)) => {}
                Ok(parsed) => taken.extend(self.handle_message(now, from, body, parsed).map(|passed| (body, passed))),
                Err(malformed) => self.handle_malformed(now, from, body, malformed),
            }
        }
        taken.retain(|(_, passed)| !self.is_withdrawn(&passed.tag));
        if self.links[to].deaf {
            for (_, passed) in taken {
                self.handle_lost(now, passed.tag);
            }
            return;
        }
        if taken.is_empty() {
            return;
        }
        let framing = self.framing;
        if !self.era.of(to, framing).batches {
            for (body, Passed { splice, tag, .. }) in taken {
                self.waits(&tag, self.links[to].outbox.upcoming(false));
                self.links[to].outbox.push(tag, |out| {
                    message::frame(framing, out, |out| write_member(body, splice.as_ref(), out));
                });
            }
            return;
        }
        let mut array = Vec::new();
        for (at, (body, passed)) in taken.iter().enumerate() {
            array.push(if at == 0 { b'[' } else { b',' });
            write_member(body, passed.splice.as_ref(), &mut array);
        }
        array.push(b']');
        let tags: Box<[Tag]> = taken.into_iter().map(|(_, passed)| passed.tag).collect();
        for tag in &tags {
            match tag {
                Tag::Request(request) => {
                    if let Some(exchange) = self.exchange_mut(*request) {
                        exchange.up = Up::Bundled;
                    }
                }
                Tag::Answer(request) => {
                    if let Some(exchange) = self.exchange_mut(*request) {
                        exchange.down = Down::Bundled(Settled::Answered);
                    }
                    self.touch(*request);
                }
                Tag::Plain | Tag::Cancel(_) | Tag::Notice(_) | Tag::Refusal | Tag::Many(_) => {}
            }
        }
        self.links[to].outbox.push(Tag::Many(tags), |out| {
            message::frame(framing, out, |out| out.extend_from_slice(&array));
        });
    }

    /// Whether a later member of the same array has cancelled this one.
    fn is_withdrawn(&self, tag: &Tag) -> bool {
        match tag {
            Tag::Request(request) => self.exchange(*request).is_none_or(|ex| ex.up == Up::Never),
            Tag::Plain | Tag::Answer(_) | Tag::Cancel(_) | Tag::Notice(_) | Tag::Refusal | Tag::Many(_) => false,
        }
    }
}

fn write_member(body: &[u8], splice: Option<&(core::ops::Range<usize>, crate::id::RequestId)>, out: &mut Vec<u8>) {
    match splice {
        Some((span, id)) => frame::splice(body, span.clone(), id, out),
        None => out.extend_from_slice(body),
    }
}
