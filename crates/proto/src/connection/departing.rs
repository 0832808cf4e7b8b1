//! What has become of our requests and their cancels that were handed to what carries the connection, and could be taken
//! back (D51).

use super::{Connection, link::Link, outgoing::Outgoing};
use crate::{
    cause::{Cause, CauseCode},
    link::Departure,
    receipt::Outcome,
    time::Instant,
};

impl Connection {
    /// Records what has become of a message that was taken and had not left, where that is reported
    /// ([`ConnectionConfig::departs`](super::ConnectionConfig::departs)). Departures come in the order in which they came
    /// to be, and before the answer that followed. One of a request that is not known, or waits here, changes nothing.
    pub fn handle_departure(&mut self, now: Instant, departure: &Departure) {
        self.step(now, |this| {
            let Self { outgoing, link, .. } = this;
            let Some(key) = departure.id().and_then(|id| id.as_integer()).and_then(|id| outgoing.by_id(&id)) else {
                return;
            };
            let Some(call) = outgoing.get_mut(key).filter(|call| !link.outbox.holds(call.frame)) else { return };
            match departure {
                Departure::Request(_) => call.has_left = true,
                Departure::Returned(_) => call.has_left = false,
                Departure::Cancel(_) if link.has_handed_cancel(call) => this.cancel_gone(key, Outcome::Sent),
                Departure::Withdrawn(_) if link.has_handed_cancel(call) => {
                    // What had left was answered, and that answer is not given any more.
                    let outcome = if call.has_left { Outcome::CompletedFirst } else { Outcome::NeverSent };
                    this.cancel_gone(key, outcome);
                    // A caller that waits after its cancel gets no answer: its first cause stays.
                    this.cancel_call(key, Cause::new(CauseCode::Caller), None);
                }
                Departure::Cancel(_) | Departure::Withdrawn(_) | Departure::Session => {}
            }
        });
    }
}

impl Link {
    /// Whether a request has begun to leave, and cannot be taken back any more.
    pub(super) fn has_left(&self, call: &Outgoing) -> bool {
        if self.config.departs { call.has_left } else { self.outbox.has_begun(call.frame) }
    }

    /// Whether the cancel of a request was handed on and has not left, as far as is known.
    pub(super) fn has_handed_cancel(&self, call: &Outgoing) -> bool {
        let is_handed = |frame| self.config.departs && !self.outbox.holds(frame);
        call.outcome() == Some(Outcome::Asked) && call.cancel.as_ref().and_then(|it| it.frame).is_some_and(is_handed)
    }
}
