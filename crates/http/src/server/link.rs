//! A link to the program behind: the one of a session, the one that sessions share, or the one that all stateless requests
//! share.

use core::{
    hash::{Hash, Hasher},
    num::NonZero,
};
use std::collections::VecDeque;

use http::HeaderValue;
use rescind_proto::{id::RequestId, time::Instant};

use super::{
    HttpServerEvent, LinkKey, SessionKey,
    calls::Calls,
    door::{Caller, Credentials},
    keys::InputNumber,
};
use crate::mirror::tools::{TOOL, Tools};

/// Places for what is urgent that a link keeps when there is nothing.
const SPARE_INPUTS: usize = 8;

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
    /// Whether several clients share it, whose ids and tokens name nothing (D42).
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
    /// What waits, by number; nothing in place of what was withdrawn.
    input: VecDeque<(InputNumber, Option<LinkInput>)>,
    /// How many of those are.
    withdrawn: usize,
    next_input: InputNumber,
    /// What `urgent` and `input` take.
    pub(crate) input_bytes: usize,
    /// Its program has not shaken hands, and is told only what is urgent.
    pub(crate) is_greeting: bool,
    /// It was reported as having input and not polled since.
    pub(crate) is_reported: bool,
    /// Requests in flight.
    pub(crate) calls: Calls,
    /// Those of the program's tools that want arguments in headers, by the list that went through here.
    pub(crate) tools: Option<Box<Tools>>,
    /// Nothing more is taken for it.
    pub(crate) is_closed: bool,
}

impl Link {
    /// A link that is opened with a message of these, under a key not below `since`.
    pub(crate) fn new(serves: LinkUse, credentials: Credentials, since: NonZero<u64>, now: Instant, seed: u64) -> Self {
        Self {
            calls: Calls::new(serves.is_shared(), seed),
            serves,
            credentials,
            since,
            is_proved: false,
            idle_since: now,
            urgent: VecDeque::new(),
            input: VecDeque::new(),
            withdrawn: 0,
            next_input: InputNumber::default(),
            input_bytes: 0,
            is_greeting: false,
            is_reported: false,
            tools: None,
            is_closed: false,
        }
    }

    /// Has this wait for the program to take it.
    pub(crate) fn push(&mut self, input: LinkInput) {
        if self.is_closed {
            return;
        }
        self.input_bytes += input.held();
        self.input.push_back((self.next_input, Some(input)));
        self.next_input.0 += 1;
    }

    /// The number by which what is pushed next can be withdrawn.
    pub(crate) const fn next_input(&self) -> InputNumber {
        self.next_input
    }

    /// The same for what goes before everything else.
    pub(crate) fn push_urgent(&mut self, input: LinkInput) {
        if self.is_closed {
            return;
        }
        self.input_bytes += input.held();
        self.urgent.push_back(input);
    }

    /// Has the driver look at what waits, unless it is to look anyway.
    pub(crate) fn report(&mut self, key: LinkKey, events: &mut VecDeque<HttpServerEvent>) {
        if !core::mem::replace(&mut self.is_reported, true) {
            events.push_back(HttpServerEvent::InputReady(key));
        }
    }

    /// Takes back what waits; `false` if the program has it.
    pub(crate) fn withdraw(&mut self, number: InputNumber) -> bool {
        let place = self.input.binary_search_by_key(&number, |(number, _)| *number).ok();
        let Some(input) = place.and_then(|place| self.input[place].1.take()) else { return false };
        self.input_bytes -= input.held();
        self.withdrawn += 1;
        if self.withdrawn > self.input.len() / 2 {
            self.input.retain(|(_, input)| input.is_some());
            self.input.shrink_to_fit();
            self.withdrawn = 0;
        }
        true
    }

    /// Takes nothing more. What a program was not told that never shook hands, it is not to be told.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.calls.clear();
        if core::mem::take(&mut self.is_greeting) {
            let end = self.input.pop_back().and_then(|(_, input)| input).filter(|input| *input == LinkInput::End);
            (self.urgent, self.input, self.withdrawn) = (end.into_iter().collect(), VecDeque::new(), 0);
            self.input_bytes = self.urgent.iter().map(LinkInput::held).sum();
        }
    }

    pub(crate) fn pop(&mut self) -> Option<LinkInput> {
        let input = match self.urgent.pop_front() {
            Some(urgent) => urgent,
            None if self.is_greeting => return None,
            None => loop {
                match self.input.pop_front()? {
                    (_, Some(input)) => break input,
                    (_, None) => self.withdrawn -= 1,
                }
            },
        };
        self.input_bytes -= input.held();
        if self.input.is_empty() && self.input.capacity() > SPARE_INPUTS {
            self.input = VecDeque::new();
        }
        if self.urgent.is_empty() && self.urgent.capacity() > SPARE_INPUTS {
            self.urgent = VecDeque::new();
        }
        Some(input)
    }

    /// Whether nothing is in flight on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.len() == 0
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let waiting = self.urgent.len() + self.input.len() - self.withdrawn;
        let places = self.urgent.capacity() + self.input.capacity() - waiting;
        let numbers = self.input.capacity() * size_of::<InputNumber>();
        let input = self.input_bytes + places * size_of::<LinkInput>() + numbers;
        let credentials = self.credentials.as_ref().map_or(0, HeaderValue::len);
        let tools = self.tools.as_ref().map_or(0, |tools| tools.len() * TOOL);
        size_of::<Self>() + credentials + input + self.calls.held() + tools
    }

    /// Feeds what decides its future into a hasher. Its requests stand with their streams.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (self.is_closed, self.is_greeting, self.is_reported).hash(state);
        self.calls.hash_state(state);
        (&self.urgent, self.input.len() - self.withdrawn).hash(state);
        self.input.iter().filter_map(|(_, input)| input.as_ref()).for_each(|input| input.hash(state));
        (&self.credentials, self.is_proved, &self.tools).hash(state);
    }
}
