//! What a server with some settings holds at most (invariant 8).

use super::{
    config::{HttpServerConfig, Sessions},
    door::{Access, MAX_CREDENTIALS, MAX_KEYRING, MAX_OWNER},
    posted::MAX_NAME,
    programs::MAX_LIST,
    streams::{CHUNK, MAX_ENDED, MAX_LISTENING, MAX_PAGE, MAX_PAGES, MAX_SUBSCRIBED},
    task_owners::{MAX_TASK_ID, MAX_TASKS},
};
use crate::mirror::tools::TOOL;

impl HttpServerConfig {
    /// What all bodies take together that are being read: one of the longest must find a place in half of it.
    pub(crate) const fn bodies_bound(&self) -> usize {
        let least = 2 * (self.max_message + STREAM);
        if self.max_bodies > least { self.max_bodies } else { least }
    }

    /// What all streams take together: one of the longest messages must find a place in half of it.
    pub(crate) const fn unread_bound(&self) -> usize {
        let least = 2 * (self.max_message + MAX_NAME + STREAM);
        if self.max_unread > least { self.max_unread } else { least }
    }

    /// The most bytes of memory that a server with these settings holds ([`HttpServer::held`](super::HttpServer::held)), if
    /// programs send no longer messages than clients may, and its driver closes a link whose session has ended (invariant
    /// 8).
    ///
    /// It is what all clients and programs together can cause at their worst. One whose responses are read holds little more
    /// than its requests in flight.
    #[must_use]
    pub const fn most_held(&self) -> usize {
        let requests = self.max_in_flight * REQUEST;
        let name = if self.access.has_owners() { MAX_OWNER } else { 0 };
        let streams = (self.max_in_flight + MAX_ENDED + MAX_LISTENING) * (STREAM + name);
        // Buffers of queues are at most twice as long as what is in them.
        let input = 2 * (self.max_input + self.max_message + REQUEST);
        let (credentials, pages) =
            if self.passes_credentials() { (2 * (MAX_CREDENTIALS + REQUEST), MAX_PAGES * MAX_PAGE) } else { (0, 0) };
        let owner = if self.access.has_owners() { 2 * (MAX_OWNER + REQUEST) } else { 0 };
        let has_shared_tasks = self.access.has_owners() && matches!(self.sessions, Sessions::SharedLink);
        let tasks = if has_shared_tasks { MAX_TASKS * (MAX_TASK_ID + MAX_OWNER + STREAM) } else { 0 };
        let made = if self.pool_member.is_some() { MAX_TASKS * (MAX_TASK_ID + STREAM) } else { 0 };
        let waiting_for_keys = if matches!(self.access, Access::Issuer(_)) { self.max_input + MAX_KEYRING } else { 0 };
        // A whole answer up to that length waits for its head to be taken.
        let reply = STREAM + CHUNK;
        let subscribed = 2 * MAX_SUBSCRIBED;
        // One link for all stateless requests, and one that sessions may share, whose handshake is kept.
        let tools = self.max_tools * TOOL;
        (self.max_sessions + 2) * (requests + streams + input + subscribed + credentials + owner + tools)
            + self.max_replies * reply
            + self.bodies_bound()
            + 2 * self.unread_bound()
            + 2 * self.max_input
            + self.max_message
            + MAX_LIST
            + waiting_for_keys
            + tasks
            + made
            + pages
    }
}

/// More than a request in flight takes beside its message and its stream: several copies of its id and of its token.
const REQUEST: usize = 8 * (MAX_NAME + 64);

/// More than a stream or a response takes without its messages.
const STREAM: usize = 1024;
