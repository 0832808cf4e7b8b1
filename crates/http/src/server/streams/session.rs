//! A session: what one client has opened, and the streams of it that can be resumed.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rescind_proto::{
    dialect::{Dialect, mcp, negotiation::Negotiation},
    framing::Framing,
    side::{Side, Sides},
    time::Instant,
};

use super::{
    reply::Reply,
    stream::{Place, Stream},
};
use crate::server::{
    door::{Holder, Owner},
    keyed::Keyed,
    keys::{LinkKey, SessionKey, StreamKey},
};

/// The request that opens a session.
pub(crate) const HANDSHAKE: &str = "initialize";

/// The number of the stream that opens a session.
pub(crate) const HANDSHAKE_STREAM: u64 = 1;

/// Streams of a session that listen. A client needs one; more are from connections that broke.
pub(crate) const MAX_LISTENING: usize = 16;

/// Streams of a session that have ended and can be fetched. A client has that many requests at once, or is slow to come
/// back.
pub(crate) const MAX_ENDED: usize = 1024;

/// A session: what its client has opened.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: Box<str>,
    /// Who has opened it. Nobody else finds it.
    pub(crate) owner: Option<Owner>,
    /// Whom is counted for what is kept of streams that nobody has read yet.
    pub(crate) holder: Holder,
    pub(crate) link: LinkKey,
    pub(crate) negotiation: Negotiation,
    /// Its streams by number, the ended ones that can be fetched included.
    pub(crate) streams: Keyed<BTreeMap<u64, StreamKey>>,
    next_stream: u64,
    /// Those of its streams that have ended and can be fetched, oldest first.
    pub(crate) ended: VecDeque<StreamKey>,
    /// Streams of a GET, oldest first.
    pub(crate) listening: Vec<StreamKey>,
    /// Addresses of the resources that its client has subscribed to, where its program is shared.
    pub(crate) subscriptions: BTreeSet<Box<str>>,
    /// HTTP requests of its that are being answered.
    pub(crate) replies: usize,
    /// Bytes that are kept for a client that was away.
    pub(crate) kept: usize,
    /// Since when it has had nothing open and nothing in flight.
    pub(crate) idle_since: Instant,
    /// When its client last said something, or was being answered.
    pub(crate) heard: Instant,
}

impl Session {
    /// A session whose client has asked for it with these params.
    pub(crate) fn new(
        id: Box<str>,
        owner: Option<Owner>,
        holder: Holder,
        link: LinkKey,
        params: Option<&[u8]>,
        now: Instant,
    ) -> Self {
        let mut negotiation = Negotiation::new(Sides { client: None, server: None });
        negotiation.saw_initialize(Framing::Line, params);
        Self {
            id,
            owner,
            holder,
            link,
            negotiation,
            streams: Keyed::default(),
            ended: VecDeque::new(),
            next_stream: HANDSHAKE_STREAM,
            listening: Vec::new(),
            subscriptions: BTreeSet::new(),
            replies: 0,
            kept: 0,
            idle_since: now,
            heard: now,
        }
    }

    /// The dialect that its client speaks now.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        let agreed = self.negotiation.of(Side::Client, Framing::Line);
        // A handshake that agrees on a revision without sessions has opened one all the same.
        if agreed.http.is_some() && !agreed.stateless { agreed } else { &mcp::LATEST_LEGACY }
    }

    /// A stream of the session, of this key, which is to be kept.
    pub(crate) fn new_stream(&mut self, session: SessionKey, key: StreamKey) -> Stream {
        let number = self.next_stream;
        self.next_stream += 1;
        self.streams.insert(number, key);
        let mut stream = Stream::new(self.link, self.dialect(), self.owner.clone(), Some(Place { session, number }));
        stream.holder = self.holder.clone();
        stream
    }

    /// Counts a response to its client, which is to carry one of its streams.
    pub(crate) const fn answer_by(&mut self, session: SessionKey, reply: &mut Reply) {
        self.replies += 1;
        reply.session = Some(session);
    }

    /// Bytes of memory that its subscriptions take.
    pub(crate) fn subscribed(&self) -> usize {
        self.subscriptions.iter().map(|uri| size_of::<Box<str>>() + uri.len()).sum()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let streams = self.streams.len() * size_of::<(u64, StreamKey)>();
        size_of::<Self>()
            + self.owner.as_ref().map_or(0, |owner| owner.name().len())
            + self.subscribed()
            + streams
            + self.ended.capacity() * size_of::<StreamKey>()
    }

    /// Feeds what decides its future into a hasher, but for its link and which streams are ended or listen.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        self.dialect().name.hash(state);
        (&self.id, &self.owner, &self.holder, self.next_stream, self.replies, now.since(self.idle_since)).hash(state);
        now.since(self.heard).hash(state);
        self.streams.keys().for_each(|number| number.hash(state));
        self.subscriptions.hash(state);
    }
}
