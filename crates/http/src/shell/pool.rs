//! Several endpoints behind one socket, each with a server process of its own.
//!
//! Each is a machine with its link, its sessions and its back-off, and none knows of the others. Which one a request is for
//! is a function of its head, its `requestState`, and what each machine says of it (`server/placement.rs`). One machine with
//! several shared links would have made each question about *the* link one about which. A body that has to be waited for is
//! read by the first machine, so that one bound is for all, and its request is placed when it is complete.

use std::{future::poll_fn, sync::Arc, task::Poll};

use http::Request;
use http_body::Body;
use rescind_proto::holder::Holder;

use super::{endpoint::Endpoint, seed, service::Respond};
use crate::server::{Access, HttpServerConfig, KeySet, PoolMember};

/// Endpoints that serve the same. A session stays with the one that began it, a task with the one whose program has it, and a
/// call in several rounds (2026-07-28) with the one whose program asks; who comes goes to the one where least is going on.
///
/// For the latter, a mark before the `requestState` that a client is given names the pool and the member; the program gets
/// its own state back. The mark gives no rights: the program judges the state, as without a pool. A state from another pool,
/// such as that of another process, or with a mark that a client made up, goes without the mark to the least busy member. A
/// program that keeps its calls in memory, as an [`mcp::Server`](rescind::mcp::Server) does, refuses it in words (-32602),
/// and the client sends its call again. One whose states hold all that a call needs goes on.
///
/// Bodies that are being read share one bound, the first one's
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
        let places = (0..).take(count);
        // Clients see it, so it is drawn for nothing else.
        let pool = seed::pinned_or_drawn(0);
        let member = |place| {
            let pool_member = (count > 1).then_some(PoolMember { pool, place });
            Endpoint::new(HttpServerConfig { max_sessions, pool_member, ..config.clone() })
        };
        Self { members: places.map(member).collect() }
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

    /// A client is gone, and does not come back.
    pub(super) fn lose(&self, client: &Holder) {
        self.members.iter().for_each(|member| member.with(|server, now| server.handle_client_gone(now, client)));
    }

    /// Whether clients are distinguished by their address.
    pub(super) fn parts_addresses(&self) -> bool {
        self.members.iter().all(Endpoint::parts_addresses)
    }
}

impl From<Endpoint> for Pool {
    fn from(endpoint: Endpoint) -> Self {
        Self { members: Arc::new([endpoint]) }
    }
}
