//! Which requests have changed, for whoever shows them.
//!
//! A change is noted by its request's key, once until it is asked for, whatever
//! happened in between: so a busy link costs a watcher one entry a request, and
//! a link that nobody watches a look at an absent queue.

use std::collections::VecDeque;

use super::{Relay, Settled, Tag, exchange::Down, exchanges::Exchanges};
use crate::{
    link::RequestKey,
    side::{Side, Sides},
    time::Instant,
};

/// Keys that wait at most; a watcher that asks so rarely starts again.
const MAX: usize = 1 << 18;

/// Messages of our own that are kept at most.
const MAX_OWN_MESSAGES: usize = 256;

/// Longer ones are not: ids and sessions in them are the peers', of any length.
const MAX_FRAME: usize = 16 << 10;

#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    keys: VecDeque<RequestKey>,
    lost: bool,
    own_messages: VecDeque<OwnMessage>,
}

/// A message of the relay's own about a request: a cancel that went to one side, an answer that went to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMessage {
    /// The request.
    pub request: RequestKey,
    /// Who was told.
    pub to: Side,
    /// When its last byte was written.
    pub at: Instant,
    /// The message with its framing.
    pub frame: Box<[u8]>,
}

impl Changes {
    /// A frame has left for `to`, whole.
    pub(super) fn note_written(&mut self, now: Instant, to: Side, tag: Tag, frame: &[u8], tables: &Sides<Exchanges>) {
        let request = match tag {
            Tag::Cancel(request) => request,
            Tag::Answer(request) => {
                let exchange = tables[request.from].get(request.key);
                let is_ours = |down| matches!(down, Down::Answering(_, Settled::AnsweredHere { .. }));
                if !exchange.is_some_and(|exchange| is_ours(exchange.down)) {
                    return;
                }
                request
            }
            Tag::Plain | Tag::Request(_) | Tag::Notice(_) | Tag::Refusal | Tag::Many(_) => return,
        };
        if frame.len() > MAX_FRAME {
            return;
        }
        if self.own_messages.len() == MAX_OWN_MESSAGES {
            self.own_messages.pop_front();
        }
        self.own_messages.push_back(OwnMessage { request, to, at: now, frame: frame.into() });
    }
}

impl Relay {
    /// Begins or ends noting which requests change. Off at first; turning it on again begins anew.
    ///
    /// A key that is noted costs 12 bytes, at most 262,144 of them.
    pub fn watch(&mut self, on: bool) {
        self.changes = on.then(Changes::default);
        for side in Side::BOTH {
            self.tables[side].clear_changed();
        }
    }

    /// A request that has changed since this last gave its key. What became of it is in [`view`](Self::view); one
    /// without a view is over and forgotten.
    pub fn poll_changed(&mut self) -> Option<RequestKey> {
        let request = self.changes.as_mut()?.keys.pop_front()?;
        if let Some(exchange) = self.exchange_mut(request) {
            exchange.changed = false;
        }
        Some(request)
    }

    /// Whether [`poll_changed`](Self::poll_changed) or [`take_lost_changes`](Self::take_lost_changes) has something to
    /// say.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.lost || !changes.keys.is_empty())
    }

    /// Whether more changed than could be noted: then everything has to be looked at anew. Says so once.
    pub fn take_lost_changes(&mut self) -> bool {
        self.changes.as_mut().is_some_and(|changes| core::mem::take(&mut changes.lost))
    }

    /// Messages of the relay's own about requests, the latest 256 since watching began, but for those beyond 16 KiB.
    pub fn own_messages(&self) -> impl Iterator<Item = &OwnMessage> {
        self.changes.iter().flat_map(|changes| &changes.own_messages)
    }

    /// Notes that a request has changed.
    #[inline]
    pub(super) fn mark_changed(&mut self, request: RequestKey) {
        if self.changes.is_some() {
            self.note_change(request);
        }
    }

    fn note_change(&mut self, request: RequestKey) {
        let Self { changes: Some(changes), tables, .. } = self else { return };
        let Some(exchange) = tables[request.from].get_mut(request.key) else { return };
        if core::mem::replace(&mut exchange.changed, true) {
            return;
        }
        changes.keys.push_back(request);
        if changes.keys.len() > MAX {
            changes.keys = VecDeque::new();
            changes.lost = true;
            for side in Side::BOTH {
                tables[side].clear_changed();
            }
        }
    }
}
