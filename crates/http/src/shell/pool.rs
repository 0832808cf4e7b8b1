//! Several endpoints behind one socket, each with a server process of its own.

use std::{future::poll_fn, sync::Arc, task::Poll};

use http::Request;
use http_body::Body;

use super::{endpoint::Endpoint, service::Respond};
use crate::server::{Access, HttpServerConfig, KeySet};

/// Endpoints that serve the same. A session stays with the one that began it, and a task with the one whose program has it;
/// who comes goes to the one where least is going on. Bodies that are being read share one bound, the first one's
/// ([`max_bodies`](HttpServerConfig::max_bodies)). A handle: clones are of the same endpoints.
///
/// Each is served by itself: [`accept`](Endpoint::accept) its links, [`drain`](Endpoint::drain) and
/// [`close`](Endpoint::close) it.
#[derive(Clone, Debug)]
pub struct Pool {
    members: Arc<[Endpoint]>,
}

impl Pool {
    /// So many endpoints with these settings, at least one. `max_sessions` is for all together. Call it on a tokio runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(count: usize, config: &HttpServerConfig) -> Self {
        let count = count.max(1);
        let max_sessions = config.max_sessions.div_ceil(count);
        let is_one_of_several = count > 1;
        let member = |_| Endpoint::new(HttpServerConfig { max_sessions, is_one_of_several, ..config.clone() });
        Self { members: (0..count).map(member).collect() }
    }

    /// Its endpoints.
    #[must_use]
    pub fn members(&self) -> &[Endpoint] {
        &self.members
    }

    /// Waits until one of them wants the keys of the issuer, for [`supply_keys`](Self::supply_keys); what the others have
    /// wanted until then is forgotten.
    pub async fn wanted_keys(&self) {
        poll_fn(|cx| match self.members.iter().filter(|member| member.poll_wanted_keys(cx).is_ready()).count() {
            0 => Poll::Pending,
            1.. => Poll::Ready(()),
        })
        .await;
    }

    /// Supplies all of them with the keys of the issuer ([`Endpoint::supply_keys`]).
    pub fn supply_keys(&self, keys: Option<&KeySet>) {
        self.members.iter().for_each(|member| member.supply_keys(keys.cloned()));
    }

    /// From now on these tokens are good, for all of them ([`Endpoint::supply_access`]).
    pub fn supply_access(&self, access: &Access) {
        self.members.iter().for_each(|member| member.supply_access(access.clone()));
    }

    /// Answers an HTTP request, by the endpoint that it is for.
    pub fn respond<B: Body>(&self, request: Request<B>) -> Respond<B> {
        match &*self.members {
            [member] => member.respond(request),
            [reader, ..] => Respond::of_several(reader, &self.members, request),
            [] => unreachable!("a pool has at least one member"),
        }
    }

    /// Whether clients are told apart by their address.
    pub(super) fn parts_addresses(&self) -> bool {
        self.members.iter().all(Endpoint::parts_addresses)
    }
}

impl From<Endpoint> for Pool {
    fn from(endpoint: Endpoint) -> Self {
        Self { members: Arc::new([endpoint]) }
    }
}
