//! A link to the program behind: the one of a session, the one that sessions share, or the one that all stateless requests
//! share.

use core::{
    hash::{Hash, Hasher},
    num::NonZero,
};
use std::collections::{BTreeMap, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use http::HeaderValue;
use rescind_proto::{id::RequestId, time::Instant};

use super::{
    SessionKey, StreamKey,
    door::{Caller, Credentials},
};
use crate::mirror::tools::{TOOL, Tools};

/// Ids in the program's eyes that are ours, within a session, count down from here: few clients count so far.
const OWN_IDS: i64 = 1 << 30;

/// Places for what is urgent that a link keeps when there is nothing.
const SPARE_INPUTS: usize = 8;

/// The place of what waits for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputNumber(u64);

impl Hash for InputNumber {
    /// Not what decides the machine's future: that is what waits, and in which order.
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// What a link is to take in.
///
/// It never grows: a program that was not given one of them would miss a message or a cancel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkInput {
    /// A message: a line with its line break.
    Message(Vec<u8>),
    /// A request whose caller is known, or which is counted for one of several clients: a line with its line break.
    Request(Vec<u8>, Caller),
    /// The client of the request with this id has closed its stream, which in its dialect cancels it (MCP-H03).
    StreamClosed(RequestId),
    /// What follows belongs to these, the value of `Authorization`, or to nobody who said who he is.
    Credentials(Option<HeaderValue>),
    /// The client is gone: it ended its session, was away for too long, or has made room for another. The requests in flight
    /// are cancelled.
    End,
}

impl LinkInput {
    /// Bytes of memory that it takes.
    fn held(&self) -> usize {
        let owned = match self {
            Self::Message(line) | Self::Request(line, _) => line.capacity(),
            Self::StreamClosed(id) => id.heap_bytes(),
            Self::Credentials(value) => value.as_ref().map_or(0, HeaderValue::len),
            Self::End => 0,
        };
        size_of::<Self>() + owned
    }
}

/// Whose messages a link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkUse {
    /// Those of one session.
    Session(SessionKey),
    /// Those of all sessions.
    Sessions,
    /// Those of requests outside a session.
    Stateless,
}

impl LinkUse {
    /// Whether several clients share it, whose ids and tokens say nothing (D42).
    pub(crate) const fn is_shared(self) -> bool {
        match self {
            Self::Session(_) => false,
            Self::Sessions | Self::Stateless => true,
        }
    }
}

/// One link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) serves: LinkUse,
    /// To whom belongs what is said on it now.
    pub(crate) credentials: Credentials,
    /// Streams whose key is not below this one were opened under them.
    pub(crate) since: NonZero<u64>,
    /// The server has answered something under them.
    pub(crate) is_proved: bool,
    /// When something was last said on it, or answered.
    pub(crate) idle_since: Instant,
    /// What goes before everything else: our own messages, and cancels of what the program has taken, so that no flood of
    /// requests delays them. Of those there is one at most for each request in flight.
    urgent: VecDeque<LinkInput>,
    /// What waits, by number.
    input: BTreeMap<InputNumber, LinkInput>,
    next_input: InputNumber,
    /// What `urgent` and `input` take.
    pub(crate) input_bytes: usize,
    /// Its program has not shaken hands, and is told only what is urgent.
    pub(crate) is_greeting: bool,
    /// It was reported as having input and not polled since.
    pub(crate) is_reported: bool,
    /// Requests in flight, by the id that the program knows.
    pub(crate) requests: HashMap<RequestId, StreamKey, FixedState>,
    /// Those that asked for progress, by token.
    pub(crate) tokens: HashMap<RequestId, StreamKey, FixedState>,
    next_id: i64,
    tokens_made: u64,
    /// Those of the program's tools that want arguments in headers, as the list said that went through here.
    pub(crate) tools: Option<Box<Tools>>,
    /// Nothing more is taken for it.
    pub(crate) is_closed: bool,
}

impl Link {
    /// A link that is opened with a message of these, under a key not below `since`.
    pub(crate) fn new(serves: LinkUse, credentials: Credentials, since: NonZero<u64>, now: Instant, seed: u64) -> Self {
        let state = FixedState::with_seed(seed);
        Self {
            next_id: if serves.is_shared() { 1 } else { OWN_IDS },
            serves,
            credentials,
            since,
            is_proved: false,
            idle_since: now,
            urgent: VecDeque::new(),
            input: BTreeMap::new(),
            next_input: InputNumber(0),
            input_bytes: 0,
            is_greeting: false,
            is_reported: false,
            requests: HashMap::with_hasher(state.clone()),
            tokens: HashMap::with_hasher(state),
            tokens_made: 0,
            tools: None,
            is_closed: false,
        }
    }

    /// Has this wait for the program to take it; the number by which it can be withdrawn.
    pub(crate) fn push(&mut self, input: LinkInput) -> Option<InputNumber> {
        if self.is_closed {
            return None;
        }
        self.input_bytes += input.held();
        let number = self.next_input;
        self.input.insert(number, input);
        self.next_input = InputNumber(number.0 + 1);
        Some(number)
    }

    /// The same for what goes before everything else.
    pub(crate) fn push_urgent(&mut self, input: LinkInput) {
        if self.is_closed {
            return;
        }
        self.input_bytes += input.held();
        self.urgent.push_back(input);
    }

    /// Takes back what waits; `false` if the program has it.
    pub(crate) fn withdraw(&mut self, number: InputNumber) -> bool {
        let waiting = self.input.remove(&number);
        self.input_bytes -= waiting.as_ref().map_or(0, LinkInput::held);
        waiting.is_some()
    }

    /// Takes nothing more. What a program was not told that never shook hands, it is not to be told.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.requests.clear();
        self.tokens.clear();
        if core::mem::take(&mut self.is_greeting) {
            let end = self.input.pop_last().map(|(_, input)| input).filter(|input| *input == LinkInput::End);
            (self.urgent, self.input) = (end.into_iter().collect(), BTreeMap::new());
            self.input_bytes = self.urgent.iter().map(LinkInput::held).sum();
        }
    }

    pub(crate) fn pop(&mut self) -> Option<LinkInput> {
        let input = match self.urgent.pop_front() {
            Some(urgent) => urgent,
            None if self.is_greeting => return None,
            None => self.input.pop_first()?.1,
        };
        self.input_bytes -= input.held();
        if self.urgent.is_empty() && self.urgent.capacity() > SPARE_INPUTS {
            self.urgent = VecDeque::new();
        }
        Some(input)
    }

    /// Whether nothing is in flight on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        // A node of the tree is half full at least.
        let places = self.urgent.capacity() - self.urgent.len() + self.input.len();
        let numbers = 2 * self.input.len() * size_of::<InputNumber>();
        let input = self.input_bytes + places * size_of::<LinkInput>() + numbers;
        let table = |table: &HashMap<RequestId, StreamKey, FixedState>| -> usize {
            let names: usize = table.keys().map(RequestId::heap_bytes).sum();
            table.capacity() * size_of::<(RequestId, StreamKey)>() + names
        };
        let credentials = self.credentials.as_ref().map_or(0, HeaderValue::len);
        let tools = self.tools.as_ref().map_or(0, |tools| tools.len() * TOOL);
        size_of::<Self>() + credentials + input + table(&self.requests) + table(&self.tokens) + tools
    }

    /// Feeds what decides its future into a hasher. What its tables of requests hold stands with their streams.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (self.is_closed, self.is_greeting, self.is_reported, self.next_id, self.tokens_made).hash(state);
        (&self.urgent, &self.input).hash(state);
        (&self.credentials, self.is_proved, &self.tools).hash(state);
    }

    /// The id under which the program is to know a request: its own in a session, unless another in flight has it; one of
    /// ours where several clients share the program (D42).
    pub(crate) fn id_for(&mut self, client_id: &RequestId) -> RequestId {
        if !self.serves.is_shared() && !self.requests.contains_key(client_id) {
            return client_id.clone();
        }
        loop {
            let id = RequestId::integer(self.next_id);
            self.next_id += if self.serves.is_shared() { 1 } else { -1 };
            if !self.requests.contains_key(&id) {
                return id;
            }
        }
    }

    /// The token under which the program is to report progress of a request: its own in a session, unless another in
    /// flight has it.
    pub(crate) fn token_for(&mut self, token: &RequestId) -> RequestId {
        if !self.serves.is_shared() && !self.tokens.contains_key(token) {
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
}
