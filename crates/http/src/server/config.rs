//! The settings of an HTTP server; every bound has a default (invariant 8).

use std::time::Duration;

use rescind_proto::dialect::mcp;

use super::{
    asked_by::PoolMember,
    door::{Access, Door, Hosts},
};

/// Settings of an [`HttpServer`](super::HttpServer).
#[derive(Clone, Debug)]
pub struct HttpServerConfig {
    /// The path of the endpoint, such as `/mcp`; any other is answered 404. `None` takes every path, for a program that
    /// has its own router.
    pub path: Option<Box<str>>,
    /// The hosts that a request may name; any other is answered 403. A server that is reached under a name of its own,
    /// itself or through a proxy, needs that name here.
    pub hosts: Hosts,
    /// Origins whose pages may use the server, as `https://example.com`, beside those of loopback. A request without an
    /// origin is from no page.
    pub origins: Vec<Box<str>>,
    /// Who may use the server, and as whom. Unless it is [`Access::Open`], `Authorization` is consumed here.
    pub access: Access,
    /// Which program serves the sessions of revisions up to 2025-11-25.
    pub sessions: Sessions,
    /// Whether the program behind is a server at which clients sign in. Then it receives the `Authorization` of each message
    /// ([`LinkInput::Credentials`](super::LinkInput::Credentials)), and requests outside a session share a link only with
    /// those that have the same. Its refusals become statuses of HTTP (401, 403, `WWW-Authenticate`), and the pages by which
    /// clients find out how to sign in are asked for ([`PageWanted`](super::HttpServerEvent::PageWanted)).
    ///
    /// It means nothing where the header is for [`access`](Self::access), or where sessions [share](Sessions::SharedLink) one
    /// there.
    pub passes_authorization: bool,
    /// Whether a program gets the [`Caller`](super::Caller) of each request, by which its handlers are also counted for
    /// clients. A relay has no use for it, and without it each request costs less.
    pub passes_callers: bool,
    /// Its place among several that serve the same, if requests are placed among all of them ([`place`](super::place)): it
    /// then remembers which tasks were made here, and marks each `requestState` that its program gives. A
    /// [`Pool`](crate::shell::Pool) sets it.
    pub pool_member: Option<PoolMember>,
    /// Notifications of clients that are passed on to a program which several share. Others are refused, but for cancels
    /// and those that the protocol wants of every client, which are not passed on. Where a program has one client, all are.
    pub notifications: Vec<Box<str>>,
    /// Whether requests that name their revision themselves are served, and by what (2026-07-28).
    pub stateless: Stateless,
    /// Time to wait for an answer before the response begins as a stream of events. Until then it is plain JSON, which
    /// costs less; from then on a client can resume, and its hang-up can be noticed through proxies.
    pub stream_after: Duration,
    /// The same while nothing came under the credentials of its client, where these are the server's to judge: a
    /// response has its status at the beginning.
    pub prove_within: Duration,
    /// The longest silence on an open stream: then a comment is sent. It is how long the hang-up of a client that
    /// vanished may stay unnoticed (D40).
    pub keep_alive: Duration,
    /// How long a session lives on without a request in flight and without an open stream.
    pub idle: Duration,
    /// How long the messages of a stream that has ended can still be fetched by a client that was away. So long a client may
    /// also be silent and without an open stream while it has requests in flight. Then its session is over, and they are
    /// cancelled.
    pub resume_within: Duration,
    /// How long the server may take to answer which era it speaks ([`Stateless::Ask`]), and for the handshake of a shared
    /// link ([`Sessions::SharedLink`]).
    pub ask_within: Duration,
    /// How long a client must have been silent, with no request in flight and no stream open, before its session makes room
    /// for another ([`max_sessions`](Self::max_sessions)); never longer than [`resume_within`](Self::resume_within).
    pub room_after: Duration,
    /// Sessions at once, and links of owners or credentials without one. For one more an idle one makes room: of the owner,
    /// or the address, that has most, the session whose client has been silent for longest, and for
    /// [`room_after`](Self::room_after) at least. Of an address with more than half of all any idle one does, but for those
    /// of this machine. It ends as if its client had deleted it: the client's next request is answered 404, and the client
    /// begins anew. A session with a request in flight or with a stream open never makes room, nor does one of an owner or
    /// an address with no more of them than the newcomer has. If there is none, the newcomer is refused with 503.
    ///
    /// An owner takes another of these places only while it has fewer than are free: so one owner alone has at most half of
    /// them. Beyond that an idle session of its own makes room.
    pub max_sessions: usize,
    /// Requests in flight of one session, of all that share a link, and of all stateless ones together; one more is
    /// refused.
    pub max_in_flight: usize,
    /// Members of a batch (2025-03-26); a longer one is refused with 413, and nothing of it reaches a program. Each is a
    /// step of the machine, and all steps of a batch come before what other clients have sent.
    pub max_batch: usize,
    /// HTTP requests that are being answered at once; one more is refused with 503.
    pub max_replies: usize,
    /// Bytes of bodies that are being read, of all requests together; at least twice the longest message. One owner, or one
    /// address, has half of it at most. Beyond, the largest body of the one that has most is refused with 503.
    pub max_bodies: usize,
    /// Time in which a body must bring 64 KiB more, or its end; otherwise the request is refused with 408.
    pub body_patience: Duration,
    /// Whether the [address](super::ClientAddress) distinguishes clients without an owner, so that none of them takes the
    /// share of the others: of bodies, of handlers, and of the connections of a [`Listener`](crate::shell::Listener). Behind
    /// a proxy all come from one: then it should be `false`.
    pub parts_addresses: bool,
    /// Bytes that wait for a link to take them; beyond, requests are refused.
    pub max_input: usize,
    /// Bytes of a stream that wait for its client to read them. Beyond, the connection is given up: the client of a
    /// session may come back for the rest, another has hung up.
    pub max_unsent: usize,
    /// Bytes of all streams together that their clients have not read, or may ask for again, and of answers over 64 KiB that
    /// are being read; at least twice the longest message. One owner, or one address, has half of it at most. Beyond, the
    /// largest stream of the one that has most pays: first it forgets what was read; then its connection is given up, as
    /// beyond `max_unsent`; of one without a reader, messages are forgotten, and a warning or an error takes their place.
    pub max_unread: usize,
    /// Bytes of a session that are kept for a client that was away.
    pub max_kept: usize,
    /// Tools whose arguments are compared with the headers that repeat them (2026-07-28); of more, the last in the list.
    pub max_tools: usize,
    /// The longest message, in bytes.
    pub max_message: usize,
    /// Seeds the hash of ids, so that a peer cannot choose ids that collide. With 0, the default, each
    /// [`Endpoint`](crate::shell::Endpoint) draws one from the system; a test may pin another.
    pub seed: u64,
}

impl HttpServerConfig {
    /// Whether the server behind receives the credentials of each message.
    pub(crate) const fn passes_credentials(&self) -> bool {
        self.passes_authorization && matches!(self.access, Access::Open) && matches!(self.sessions, Sessions::OwnLink)
    }

    /// Whom the server admits.
    pub(crate) fn door(&self) -> Door<'_> {
        Door {
            path: self.path.as_deref(),
            hosts: &self.hosts,
            origins: &self.origins,
            access: &self.access,
            passes_credentials: self.passes_credentials(),
            parts_addresses: self.parts_addresses,
        }
    }

    /// Whether one program serves several owners.
    pub(crate) const fn serves_owners_together(&self) -> bool {
        self.access.has_owners() && matches!(self.sessions, Sessions::SharedLink)
    }

    /// Whether requests outside a session go to the program that sessions share.
    pub(crate) const fn joins_eras(&self) -> bool {
        matches!((self.stateless, self.sessions), (Stateless::Joined, Sessions::SharedLink))
    }

    /// Whether a notification of a client is passed on to a program which several share.
    pub(crate) fn passes_notification(&self, method: &str) -> bool {
        method == mcp::ABANDONED || self.notifications.iter().any(|known| **known == *method)
    }

    /// Whether requests outside a session share a link only with those of the same owner or credentials.
    pub(crate) const fn parts_people(&self) -> bool {
        self.passes_credentials() || self.access.has_owners()
    }
}

/// Which program serves a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sessions {
    /// One of its own, behind a link of its own.
    OwnLink,
    /// One for all sessions, behind one link, for programs that bear several clients: each client's requests, answers and
    /// progress are its own, and what the program sends to no request reaches all. It can ask no client anything
    /// (D42).
    SharedLink,
}

/// Whether requests outside a session are served (D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stateless {
    /// Yes, all by one shared link; where owners or credentials are distinguished, by one for each.
    Served,
    /// No: they are answered as a legacy server would, so that clients of both eras fall back.
    Refused,
    /// The shared link is asked once, with `server/discover`, before the first of them is served.
    Ask,
    /// Yes, by the link that sessions share ([`Sessions::SharedLink`]), which is to take requests of both eras, as a relay
    /// with a bridge does ([`BridgeConfig::is_shared`](rescind_proto::bridge::BridgeConfig)).
    Joined,
}

impl Default for HttpServerConfig {
    fn default() -> Self {
        Self {
            path: Some("/mcp".into()),
            hosts: Hosts::Loopback,
            origins: Vec::new(),
            access: Access::Open,
            sessions: Sessions::OwnLink,
            passes_authorization: false,
            passes_callers: true,
            pool_member: None,
            notifications: Vec::new(),
            stateless: Stateless::Ask,
            stream_after: Duration::from_millis(100),
            prove_within: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            idle: Duration::from_secs(60 * 60),
            resume_within: Duration::from_secs(5 * 60),
            ask_within: Duration::from_secs(30),
            room_after: Duration::from_secs(10),
            max_sessions: 1024,
            max_in_flight: 65_536,
            max_batch: 1000,
            max_replies: 65_536,
            max_bodies: 128 << 20,
            body_patience: Duration::from_secs(30),
            parts_addresses: true,
            max_input: 16 << 20,
            max_unsent: 16 << 20,
            max_unread: 256 << 20,
            max_kept: 1 << 20,
            max_tools: 1024,
            max_message: 64 << 20,
            seed: 0,
        }
    }
}
