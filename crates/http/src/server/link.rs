//! A link to the program behind: the one of a session, or the one that all stateless requests share.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rescind_proto::{dialect::negotiation::Negotiation, framing::Framing, id::RequestId, side::Side, time::Instant};

use super::StreamKey;

/// Ids in the program's eyes that are ours, within a session, count down from here: few clients count so far.
const OWN_IDS: i64 = 1 << 30;

/// What a link is to take in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkInput {
    /// A message: a line with its line break.
    Message(Vec<u8>),
    /// The client of the request with this id has closed its stream, which in its dialect cancels it (MCP-H03).
    StreamClosed(RequestId),
    /// The client is gone: it ended its session, or was away for too long. The requests in flight are cancelled.
    End,
}

impl LinkInput {
    /// Bytes of memory that it takes.
    fn held(&self) -> usize {
        let owned = match self {
            Self::Message(line) => line.capacity(),
            Self::StreamClosed(id) => id.heap_bytes(),
            Self::End => 0,
        };
        size_of::<Self>() + owned
    }
}

/// One link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Its session; `None` if stateless requests share it.
    pub(crate) session: Option<Session>,
    pub(crate) input: VecDeque<LinkInput>,
    /// What `input` takes.
    pub(crate) input_bytes: usize,
    /// It was reported as having input and not polled since.
    pub(crate) is_reported: bool,
    /// Requests in flight, by the id that the program knows.
    pub(crate) requests: HashMap<RequestId, StreamKey, FixedState>,
    /// Those that asked for progress, by token.
    pub(crate) tokens: HashMap<RequestId, StreamKey, FixedState>,
    next_id: i64,
    tokens_made: u64,
    /// Nothing more is taken for it.
    pub(crate) is_closed: bool,
}

/// A session: what its client has opened.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: Box<str>,
    pub(crate) negotiation: Negotiation,
    /// Its streams by number, the ended ones that can be fetched included.
    pub(crate) streams: BTreeMap<u64, StreamKey>,
    next_stream: u64,
    /// Those of its streams that have ended and can be fetched, oldest first.
    pub(crate) ended: VecDeque<StreamKey>,
    /// Streams of a GET, oldest first.
    pub(crate) listening: Vec<StreamKey>,
    /// Requests whose id the program does not know, since another had it: by their client's id.
    pub(crate) renamed: HashMap<RequestId, Vec<RequestId>, FixedState>,
    /// HTTP requests of its that are being answered.
    pub(crate) replies: usize,
    /// Bytes that are kept for a client that was away.
    pub(crate) kept: usize,
    /// Since when it has had nothing open and nothing in flight.
    pub(crate) idle_since: Instant,
}

impl Link {
    pub(crate) fn new(session: Option<Session>, seed: u64) -> Self {
        let state = FixedState::with_seed(seed);
        Self {
            next_id: if session.is_some() { OWN_IDS } else { 1 },
            session,
            input: VecDeque::new(),
            input_bytes: 0,
            is_reported: false,
            requests: HashMap::with_hasher(state.clone()),
            tokens: HashMap::with_hasher(state),
            tokens_made: 0,
            is_closed: false,
        }
    }

    pub(crate) fn push(&mut self, input: LinkInput) {
        if self.is_closed {
            return;
        }
        self.input_bytes += input.held();
        self.input.push_back(input);
    }

    pub(crate) fn pop(&mut self) -> Option<LinkInput> {
        let input = self.input.pop_front()?;
        self.input_bytes -= input.held();
        if self.input.is_empty() {
            self.input = VecDeque::new();
        }
        Some(input)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let places = self.input.capacity() - self.input.len();
        let input = self.input_bytes + places * size_of::<LinkInput>();
        let table = |table: &HashMap<RequestId, StreamKey, FixedState>| -> usize {
            let names: usize = table.keys().map(RequestId::heap_bytes).sum();
            table.capacity() * size_of::<(RequestId, StreamKey)>() + names
        };
        let session = self.session.as_ref().map_or(0, |session| {
            let renamed = session.renamed.iter().map(|(id, known)| {
                let known: usize = known.iter().map(|id| size_of::<RequestId>() + id.heap_bytes()).sum();
                id.heap_bytes() + size_of::<(RequestId, Vec<RequestId>)>() + known
            });
            let streams = session.streams.len() * size_of::<(u64, StreamKey)>();
            streams + session.ended.capacity() * size_of::<StreamKey>() + renamed.sum::<usize>()
        });
        size_of::<Self>() + input + table(&self.requests) + table(&self.tokens) + session
    }

    /// Feeds what decides its future into a hasher. What its tables of requests hold stands with their streams.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        (self.is_closed, self.is_reported, self.next_id, self.tokens_made, &self.input).hash(state);
        let Some(session) = &self.session else { return };
        session.negotiation.of(Side::Client, Framing::Line).name.hash(state);
        (&session.id, session.next_stream, session.replies, now.since(session.idle_since)).hash(state);
        session.streams.keys().for_each(|number| number.hash(state));
    }

    /// The id under which the program is to know a request: its own in a session, unless another in flight has it; one of
    /// ours where several clients share the program (D42).
    pub(crate) fn id_for(&mut self, client_id: &RequestId) -> RequestId {
        if self.session.is_some() && !self.requests.contains_key(client_id) {
            return client_id.clone();
        }
        loop {
            let id = RequestId::integer(self.next_id);
            self.next_id += if self.session.is_some() { -1 } else { 1 };
            if !self.requests.contains_key(&id) {
                return id;
            }
        }
    }

    /// The token under which the program is to report progress of a request: its own in a session, unless another in
    /// flight has it.
    pub(crate) fn token_for(&mut self, token: &RequestId) -> RequestId {
        if self.session.is_some() && !self.tokens.contains_key(token) {
            return token.clone();
        }
        loop {
            self.tokens_made += 1;
            let token = RequestId::string(&format!("rescind-{}", self.tokens_made));
            if !self.tokens.contains_key(&token) {
                return token;
            }
        }
    }

    /// The id that the program knows for a request that its client calls `id`; `None` if it has none in flight, or
    /// several, so that none can be meant (D7).
    pub(crate) fn id_of(&self, id: &RequestId, is_of: impl Fn(StreamKey) -> bool) -> Option<RequestId> {
        let renamed = self.session.as_ref().and_then(|session| session.renamed.get(id)).map_or(&[][..], Vec::as_slice);
        let plain = self.requests.get(id).is_some_and(|stream| is_of(*stream));
        match (plain, renamed) {
            (true, []) => Some(id.clone()),
            (false, [only]) => Some(only.clone()),
            _ => None,
        }
    }
}

impl Session {
    pub(crate) fn new(id: Box<str>, negotiation: Negotiation, now: Instant, seed: u64) -> Self {
        Self {
            id,
            negotiation,
            streams: BTreeMap::new(),
            ended: VecDeque::new(),
            next_stream: 1,
            listening: Vec::new(),
            renamed: HashMap::with_hasher(FixedState::with_seed(seed)),
            replies: 0,
            kept: 0,
            idle_since: now,
        }
    }

    pub(crate) fn allocate_stream(&mut self) -> u64 {
        self.next_stream += 1;
        self.next_stream - 1
    }
}
