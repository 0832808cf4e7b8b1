//! A link to the program behind: the one of a session, the one that sessions share, or the one that all stateless requests
//! share.

use core::{
    hash::{Hash, Hasher},
    num::NonZero,
};
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use http::HeaderValue;
use rescind_proto::{frame::Request, id::RequestId, json, time::Instant};

use super::{
    HttpServerConfig, HttpServerEvent, LinkKey, SessionKey,
    calls::Calls,
    door::{Caller, Credentials, Refusal},
    keys::InputNumber,
    pop,
    question::{About, Question},
};
use crate::mirror::tools::{TOOL, Tools};

/// The request for messages of a level that concerns all who share a program.
pub(crate) const SET_LEVEL: &str = "logging/setLevel";

/// The longest log level that is kept, as JSON.
const LONGEST_LEVEL: usize = 64;

/// Requests wait so long for a program that is to be started again; if it takes longer, they are refused.
const HELD_FOR: Duration = Duration::from_secs(2);

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

/// Where input for a program is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Behind what waits.
    Ordinary,
    /// Before all that is ordinary: our own messages, and cancels of what the program has taken, so that no flood of requests
    /// delays them. Of those there is one at most for each request in flight.
    Urgent,
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
    /// What waits and is urgent.
    urgent: VecDeque<LinkInput>,
    /// What waits, by number; nothing in place of what was withdrawn.
    input: VecDeque<(InputNumber, Option<LinkInput>)>,
    /// How many of those are.
    withdrawn: usize,
    next_input: InputNumber,
    /// What `urgent` and `input` take.
    pub(crate) input_bytes: usize,
    /// Its program may not be started before.
    pub(crate) rests_until: Option<Instant>,
    /// What its program was asked by us, or will be when it is started.
    pub(crate) asked: Option<Question>,
    /// The result of our handshake, which answers that of each session which shares the program.
    pub(crate) greeting: Option<Bytes>,
    /// The log level that sessions have asked for, as JSON.
    pub(crate) log_level: Option<Bytes>,
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
            rests_until: None,
            asked: None,
            greeting: None,
            log_level: None,
            is_reported: false,
            tools: None,
            is_closed: false,
        }
    }

    /// Has this wait for the program to take it.
    pub(crate) fn push(&mut self, urgency: Urgency, input: LinkInput) {
        if self.is_closed {
            return;
        }
        self.input_bytes += input.held();
        match urgency {
            Urgency::Urgent => self.urgent.push_back(input),
            Urgency::Ordinary => {
                self.input.push_back((self.next_input, Some(input)));
                self.next_input.0 += 1;
            }
        }
    }

    /// Whether its program must shake hands before it is told what is not urgent.
    pub(crate) fn is_greeting(&self) -> bool {
        self.asked.as_ref().is_some_and(|question| matches!(question.about, About::Handshake(_)))
    }

    /// Refuses a request that would wait for long until its program is started. `last_end` says how the one before ended.
    pub(crate) fn check_start(&self, now: Instant, last_end: Option<&str>) -> Result<(), Refusal> {
        let wait = self.rests_until.map(|at| at.since(now)).filter(|wait| *wait > HELD_FOR);
        let Some(wait) = wait else { return Ok(()) };
        let seconds = wait.as_secs() + 1;
        let last_end = last_end.map_or_else(String::new, |how| format!("; last time: {how}"));
        let text = format!("the server has ended again and again; it is started in {seconds} s{last_end}");
        Err(Refusal::unavailable(seconds, text))
    }

    /// Checks that it has room for so many requests more.
    pub(crate) fn check_room(&self, config: &HttpServerConfig, requests: usize) -> Result<(), Refusal> {
        if requests > 0 && self.calls.len() + requests > config.max_in_flight {
            return Err(Refusal::overloaded("too many requests in flight"));
        }
        if self.input_bytes > config.max_input {
            return Err(Refusal::overloaded("the server takes in nothing now"));
        }
        Ok(())
    }

    /// Sets the credentials of what comes next: of streams whose key is not below `since`.
    pub(crate) fn set_credentials(&mut self, since: NonZero<u64>, credentials: &Credentials) {
        if self.credentials != *credentials {
            self.credentials.clone_from(credentials);
            (self.since, self.is_proved) = (since, false);
            self.push(Urgency::Ordinary, LinkInput::Credentials(credentials.clone()));
        }
    }

    /// Notes what a session asks for of the program as a whole.
    pub(crate) fn note_level(&mut self, request: &Request<'_>) {
        if request.method == SET_LEVEL {
            let level = request.params.raw.and_then(|params| json::member(params, "level"));
            self.log_level = level.filter(|level| level.len() <= LONGEST_LEVEL).map(Bytes::copy_from_slice);
        }
    }

    /// The number by which what is pushed next can be withdrawn.
    pub(crate) const fn next_input(&self) -> InputNumber {
        self.next_input
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
        if self.is_greeting() {
            let end = self.input.pop_back().and_then(|(_, input)| input).filter(|input| *input == LinkInput::End);
            (self.urgent, self.input, self.withdrawn) = (end.into_iter().collect(), VecDeque::new(), 0);
            self.input_bytes = self.urgent.iter().map(LinkInput::held).sum();
        }
        (self.asked, self.greeting, self.log_level) = (None, None, None);
    }

    pub(crate) fn pop(&mut self) -> Option<LinkInput> {
        let input = match pop(&mut self.urgent, SPARE_INPUTS) {
            Some(urgent) => urgent,
            None if self.is_greeting() => return None,
            None => loop {
                match pop(&mut self.input, SPARE_INPUTS)? {
                    (_, Some(input)) => break input,
                    (_, None) => self.withdrawn -= 1,
                }
            },
        };
        self.input_bytes -= input.held();
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
        let shared = [&self.greeting, &self.log_level].into_iter().flatten().map(Bytes::len).sum::<usize>();
        let asked = self.asked.as_ref().map_or(0, Question::held);
        size_of::<Self>() + credentials + input + self.calls.held() + tools + shared + asked
    }

    /// Feeds what decides its future into a hasher, but for what its program was asked. Its requests stand with their streams.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (self.is_closed, &self.greeting, &self.log_level, self.is_reported).hash(state);
        self.calls.hash_state(state);
        (&self.urgent, self.input.len() - self.withdrawn).hash(state);
        self.input.iter().filter_map(|(_, input)| input.as_ref()).for_each(|input| input.hash(state));
        (&self.credentials, self.is_proved, &self.tools).hash(state);
    }
}
