//! The view from outside: what is in flight, and a way to stop it.

use std::{sync::Arc, time::Duration};

use rescind_proto::{
    dialect::Dialect, id::RequestId, link::RequestKey, receipt::Receipt, relay::RequestState, rule::Violations,
    side::Side,
};

use super::shared::Shared;

/// Sees and stops what is in flight on a wrapped connection. Clonable; dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// One request in flight, as it was when [`Handle::in_flight`] was called.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlight {
    /// Names it for [`Handle::stop`].
    pub key: RequestKey,
    /// Who asked: the client or the server.
    pub from: Side,
    /// Its id, as its requester knows it.
    pub id: RequestId,
    /// Its method.
    pub method: Box<str>,
    /// Since it reached the relay.
    pub age: Duration,
    /// How far it is.
    pub state: RequestState,
    /// Who cancelled it, why, and what is known of that so far.
    pub cancel: Option<Receipt>,
}

impl Handle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Everything in flight in both directions, oldest first.
    #[must_use]
    pub fn in_flight(&self) -> Vec<InFlight> {
        let mut found = self.shared.with(|link, now| {
            let views = Side::BOTH.into_iter().flat_map(|side| link.relay.requests(side));
            let owned = views.map(|view| InFlight {
                key: view.key,
                from: view.key.from,
                id: view.id.clone(),
                method: view.method.into(),
                age: now.since(view.since),
                state: view.state,
                cancel: view.cancel.cloned(),
            });
            owned.collect::<Vec<_>>()
        });
        found.sort_by_key(|request| (std::cmp::Reverse(request.age), request.key));
        found
    }

    /// Stops a request, as an operator: the side that works on it gets a cancel with this reason, its requester an
    /// answer at once. What came of it is told as receipts ([`on_event`](super::Wrap::on_event)).
    ///
    /// `false` if the request was over, or is being answered, already.
    pub fn stop(&self, request: RequestKey, reason: Option<&str>) -> bool {
        self.shared.with(|link, now| link.relay.stop(now, request, reason))
    }

    /// The rules that `side` broke until now, by number.
    #[must_use]
    pub fn violations(&self, side: Side) -> Violations {
        self.shared.with(|link, _| link.relay.violations(side).clone())
    }

    /// The dialect spoken with `side`; a guess until something telling has passed (D2).
    #[must_use]
    pub fn dialect(&self, side: Side) -> &'static Dialect {
        self.shared.with(|link, _| link.relay.dialect(side))
    }

    /// Waits until the driver has ended: everything owed to the peer has left, or can never leave.
    pub async fn closed(&self) {
        let closed = self.shared.closed.notified();
        if self.shared.with(|link, _| link.is_driven()) {
            closed.await;
        }
    }
}
