//! Which requests have changed, for an observer.
//!
//! A change is noted by its request's key, once until it is asked for, whatever happened in between: so a busy link costs
//! an observer one entry a request, and a link that is not observed a look at an absent queue.

use std::collections::VecDeque;

use super::{
    Relay, Settled,
    exchange::Down,
    exchanges::Exchanges,
    tag::{Part, Tag},
};
use crate::{
    link::RequestKey,
    side::{Side, Sides},
    time::Instant,
};

/// Keys that wait at most; an observer that asks so rarely starts again.
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
    /// Who received it.
    pub to: Side,
    /// When its last byte was written.
    pub at: Instant,
    /// The message with its framing.
    pub frame: Box<[u8]>,
}

impl Changes {
    /// Notes a change; one too many, and none of those that wait is worth anything.
    pub(super) fn note(&mut self, request: RequestKey) {
        self.keys.push_back(request);
        if self.keys.len() > MAX {
            self.keys = VecDeque::new();
            self.lost = true;
        }
    }

    /// Keeps a frame that has left for `to`, if it is of our own.
    pub(super) fn note_written(&mut self, now: Instant, to: Side, tag: Tag, frame: &[u8], tables: &Sides<Exchanges>) {
        let request = match tag {
            Tag::Of(request, Part::Cancel) => request,
            Tag::Of(request, Part::Answer) => {
                let exchange = tables[request.from].get(request.key);
                let is_ours = |down| matches!(down, Down::Answering(_, Settled::AnsweredHere { .. }));
                if !exchange.is_some_and(|exchange| is_ours(exchange.down)) {
                    return;
                }
                request
            }
            Tag::Plain | Tag::Of(_, Part::Request) | Tag::Of(_, Part::Notice) | Tag::Refusal | Tag::Many(_) => return,
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
        self.core.reports.changes = on.then(Changes::default);
        self.clear_changed();
    }

    /// A request that has changed since this last gave its key. What became of it is in [`view`](Self::view); one without
    /// a view is over and forgotten.
    pub fn poll_changed(&mut self) -> Option<RequestKey> {
        let request = self.core.reports.changes.as_mut()?.keys.pop_front()?;
        if let Some(exchange) = self.tables[request.from].get_mut(request.key) {
            exchange.changed = false;
        }
        Some(request)
    }

    /// Whether [`poll_changed`](Self::poll_changed) or [`poll_lost_changes`](Self::poll_lost_changes) has something to
    /// report.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.core.reports.changes.as_ref().is_some_and(|changes| changes.lost || !changes.keys.is_empty())
    }

    /// Whether more changed than could be noted: then everything has to be looked at anew. Reported once.
    pub fn poll_lost_changes(&mut self) -> bool {
        let lost = self.core.reports.changes.as_mut().is_some_and(|changes| core::mem::take(&mut changes.lost));
        if lost {
            self.clear_changed();
        }
        lost
    }

    /// Messages of the relay's own about requests, the latest 256 since observing began, but for those beyond 16 KiB.
    pub fn own_messages(&self) -> impl Iterator<Item = &OwnMessage> {
        self.core.reports.changes.iter().flat_map(|changes| &changes.own_messages)
    }

    fn clear_changed(&mut self) {
        for side in Side::BOTH {
            self.tables[side].iter_mut().for_each(|exchange| exchange.changed = false);
        }
    }
}
