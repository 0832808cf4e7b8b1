//! Lists and stops what is in flight on a wrapped connection.

use std::{sync::Arc, time::Duration};

use rescind_proto::{
    dialect::Dialect, id::RequestId, link::RequestKey, receipt::Receipt, relay::RequestState, rule::Violations,
    side::Side,
};

use super::shared::SharedLink;

/// Lists and stops what is in flight on a wrapped connection. It can be cloned; dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<SharedLink>);

/// One request in flight, as it was when [`Handle::in_flight`] was called.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrappedRequest {
    /// Identifies it for [`Handle::stop`].
    pub key: RequestKey,
    /// The side that sent it.
    pub from: Side,
    /// Its id, as its requester knows it.
    pub id: RequestId,
    /// Its method.
    pub method: Box<str>,
    /// Time since it reached the relay.
    pub age: Duration,
    /// Its state.
    pub state: RequestState,
    /// The receipt of its cancel, as of now.
    pub cancel: Option<Receipt>,
}

impl Handle {
    /// Everything in flight in both directions, oldest first.
    #[must_use]
    pub fn in_flight(&self) -> Vec<WrappedRequest> {
        let mut found = self.0.with(|link, now| {
            let views = Side::BOTH.into_iter().flat_map(|side| link.relay.requests(side));
            let owned = views.map(|view| WrappedRequest {
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

    /// Stops a request as an operator: the side that works on it gets a cancel with this reason, and its requester gets
    /// an answer at once. Receipts report the outcome ([`on_event`](super::Wrap::on_event)).
    ///
    /// `false` if the request is already over or being answered.
    pub fn stop(&self, request: RequestKey, reason: Option<&str>) -> bool {
        self.0.with(|link, now| link.relay.stop(now, request, reason))
    }

    /// The rules that `side` has broken so far, by number.
    #[must_use]
    pub fn violations(&self, side: Side) -> Violations {
        self.0.with(|link, _| link.relay.tally().violations[side].clone())
    }

    /// The dialect spoken with `side`: a guess until a message has decided it (D2).
    #[must_use]
    pub fn dialect(&self, side: Side) -> &'static Dialect {
        self.0.with(|link, _| link.relay.dialect(side))
    }

    /// Waits until the driver has ended: everything owed to the peer is written, or never can be.
    pub async fn closed(&self) {
        let closed = self.0.closed.notified();
        if self.0.with(|link, _| link.driven) {
            closed.await;
        }
    }
}
