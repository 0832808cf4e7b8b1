//! The messages of one stream: what a POSTed request, or a GET, is sent.
//!
//! In a session a stream outlives its connection: its events keep their numbers, and a client that comes back goes on
//! behind the last one that it has. Elsewhere it ends with it.

use core::hash::{Hash, Hasher};
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use rescind_proto::{dialect::Dialect, error_code, id::RequestId, message, time::Instant};

use super::reply::Reply;
use crate::{
    server::{
        calls::CallKey,
        door::{Holder, Owner},
        keys::{LinkKey, ReplyKey, SessionKey, StreamKey},
    },
    sse,
};

/// The most bytes that are handed out at once: what is handed out is not counted any more.
pub(crate) const CHUNK: usize = 64 << 10;

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) link: LinkKey,
    pub(crate) dialect: &'static Dialect,
    /// Whose it is; `None` where nobody is told apart.
    pub(crate) owner: Option<Owner>,
    /// Whom its bytes are counted for: who reads it, or did last.
    pub(crate) holder: Holder,
    /// The response that carries it now.
    pub(crate) reply: Option<ReplyKey>,
    /// Where it stands in its session; `None` where nothing can be resumed.
    pub(crate) place: Option<Place>,
    /// The requests whose answers it waits for. A stream of a GET has none.
    pub(crate) calls: Vec<CallKey>,
    /// Its first event was made: the client may know it, and come back.
    pub(crate) has_begun: bool,
    /// Since when nothing more is said on it.
    pub(crate) ended: Option<Instant>,
    /// It ended too long ago: once nobody reads it, it is forgotten.
    pub(crate) is_final: bool,
    /// It was said an answer, and not only reports of requests that have none.
    pub(crate) has_answered: bool,
    events: VecDeque<StreamEvent>,
    /// How many of `events` were handed out.
    sent: usize,
    /// How many bytes of the next were. It is counted until all of it was.
    begun: usize,
    /// The number of the next event.
    next: u64,
    /// What those of `events` take that were not handed out.
    pub(crate) unsent: usize,
    /// What `events` and `gone_answers` take, whether its client is there or not.
    pub(crate) bytes: usize,
    /// Events up to this number were handed out, and are gone.
    gone: u64,
    /// The answers among those.
    gone_answers: Vec<(u64, RequestId)>,
    /// The last message among those that is no answer.
    gone_other: u64,
}

/// The place of a stream in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) session: SessionKey,
    /// Which the ids of its events have.
    pub(crate) number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StreamEvent {
    number: u64,
    bytes: Bytes,
    part: Part,
}

impl StreamEvent {
    /// Bytes of memory that it takes.
    const fn cost(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// What is on a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The answer to this request.
    Answer(RequestId),
    /// Progress under this token; the newest has all.
    Progress(RequestId),
    /// Any other message.
    Other,
    /// No message: an id to come back behind.
    Primer,
    /// Ours: messages are missing.
    Gap,
    /// Ours: the answer to this request is missing.
    NotKept(RequestId),
}

impl Stream {
    pub(crate) fn new(link: LinkKey, dialect: &'static Dialect, owner: Option<Owner>, place: Option<Place>) -> Self {
        Self {
            link,
            dialect,
            owner,
            holder: Holder::Anyone,
            reply: None,
            place,
            calls: Vec::new(),
            has_begun: false,
            ended: None,
            is_final: false,
            has_answered: false,
            events: VecDeque::new(),
            sent: 0,
            begun: 0,
            next: 0,
            unsent: 0,
            bytes: 0,
            gone: 0,
            gone_answers: Vec::new(),
            gone_other: 0,
        }
    }

    /// Has it, of this key, begin with the response that is to carry it.
    pub(crate) fn answer_by(&mut self, key: StreamKey, reply_key: ReplyKey, reply: &mut Reply) {
        (self.reply, reply.stream) = (Some(reply_key), Some(key));
        self.holder = reply.holder.clone();
    }

    /// Whether a client that was away may come back to it.
    pub(crate) const fn is_resumable(&self) -> bool {
        self.place.is_some()
    }

    /// The session in which it can be resumed.
    pub(crate) fn session(&self) -> Option<SessionKey> {
        self.place.map(|place| place.session)
    }

    /// Its number in its session.
    fn number(&self) -> Option<u64> {
        self.place.map(|place| place.number)
    }

    /// Leaves its session: a client cannot come back to it any more, and what was handed out is forgotten.
    pub(crate) fn leave_session(&mut self) {
        self.events.drain(..core::mem::take(&mut self.sent));
        self.gone_answers = Vec::new();
        (self.place, self.bytes) = (None, self.unsent);
    }

    /// Has this response carry it, or none. What was not handed out to the end is handed out from its beginning.
    pub(crate) const fn carry(&mut self, reply: Option<ReplyKey>) {
        (self.reply, self.begun) = (reply, 0);
    }

    /// What is kept for a client that is or may be away. What one who is there has not read yet is not.
    pub(crate) const fn kept(&self) -> usize {
        if self.reply.is_some() { self.bytes - self.unsent } else { self.bytes }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let calls = self.calls.capacity() * size_of::<CallKey>();
        let places = self.events.capacity() - self.events.len();
        let owner = self.owner.as_ref().map_or(0, |owner| owner.name().len());
        size_of::<Self>() + owner + self.bytes + places * size_of::<StreamEvent>() + calls
    }

    /// Feeds what decides its future into a hasher, but for its link, its requests, its session and its response.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        (&self.holder, self.begun).hash(state);
        (self.dialect.name, &self.owner, self.number(), self.has_begun, self.is_final, self.has_answered).hash(state);
        (self.ended.map(|ended| now.since(ended)), self.sent, self.next).hash(state);
        (self.gone, &self.gone_answers, self.gone_other, &self.events).hash(state);
    }

    /// Panics if what it counts is not what it has.
    pub(crate) fn check(&self) {
        let bytes = |from: usize| -> usize { self.events.range(from..).map(StreamEvent::cost).sum() };
        let gone: usize = self.gone_answers.iter().map(|(_, id)| cost_of_gone(id)).sum();
        assert_eq!(self.bytes, bytes(0) + gone, "a stream counts the bytes that it keeps");
        assert_eq!(self.unsent, bytes(self.sent), "a stream counts the bytes that wait");
        let next = self.events.get(self.sent).map_or(1, |event| event.bytes.len());
        assert!(self.begun < next, "a stream has handed out more of an event than there is");
        assert!(self.events.iter().is_sorted_by_key(|event| event.number), "the events of a stream are in order");
        assert!(self.ended.is_none() || self.calls.is_empty(), "a stream that has ended waits for an answer");
    }

    /// Whether all of it was handed out, and nothing more will be.
    pub(crate) fn is_spent(&self) -> bool {
        self.ended.is_some() && self.sent == self.events.len()
    }

    /// Whether it begins with an event that only gives an id to come back behind (MCP-H07).
    pub(crate) fn has_primer(&self) -> bool {
        self.dialect.http.is_some_and(|form| form.primer)
    }

    /// Makes the event that only gives an id to come back behind.
    pub(crate) fn prime(&mut self) {
        let Some(stream) = self.number() else { return };
        self.has_begun = true;
        let mut bytes = Vec::new();
        let number = self.allocate_number();
        sse::write_primer(stream, number, &mut bytes);
        self.insert(self.events.len(), StreamEvent { number, bytes: bytes.into(), part: Part::Primer });
    }

    /// Adds a message.
    pub(crate) fn push(&mut self, message: &[u8], part: Part) {
        self.has_begun = true;
        self.has_answered |= matches!(part, Part::Answer(_));
        // Without a reader, of several reports of a request's progress the newest is enough.
        if matches!(part, Part::Progress(_))
            && self.reply.is_none()
            && self.sent < self.events.len()
            && let Some(last) = self.events.pop_back_if(|last| last.part == part)
        {
            self.unsent -= last.cost();
            self.bytes -= last.cost();
        }
        let number = self.allocate_number();
        let event = self.event(number, message, part);
        self.insert(self.events.len(), event);
    }

    /// Ends it with this answer alone, as it is.
    pub(crate) fn answer_whole(&mut self, now: Instant, message: Bytes, id: RequestId) {
        self.ended = Some(now);
        let number = self.allocate_number();
        self.insert(self.events.len(), StreamEvent { number, bytes: message, part: Part::Answer(id) });
    }

    /// The request whose answer is the next message.
    pub(crate) fn next_answer(&self) -> Option<&RequestId> {
        match &self.events.get(self.sent)?.part {
            Part::Answer(id) => Some(id),
            Part::Progress(_) | Part::Other | Part::Primer | Part::Gap | Part::NotKept(_) => None,
        }
    }

    /// Takes back the progress under this token that was not handed out, since its request's answer is about to be: a
    /// client that reads both at once takes such progress for unknown, and may end the connection (D62).
    pub(crate) fn withdraw_progress(&mut self, token: &RequestId) {
        let is_void = |event: &StreamEvent| matches!(&event.part, Part::Progress(of) if of == token);
        // What has begun goes on to its end.
        let untouched = self.sent + usize::from(self.begun > 0);
        if !self.events.range(untouched..).any(is_void) {
            return;
        }
        for event in self.events.split_off(untouched) {
            if is_void(&event) {
                self.unsent -= event.cost();
                self.bytes -= event.cost();
            } else {
                self.events.push_back(event);
            }
        }
    }

    /// Whether this is the number of an event that was made.
    pub(crate) const fn knows(&self, number: u64) -> bool {
        0 < number && number <= self.next
    }

    const fn allocate_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn event(&self, number: u64, message: &[u8], part: Part) -> StreamEvent {
        let mut bytes = Vec::new();
        sse::write_event(self.number().map(|stream| (stream, number)), message, &mut bytes);
        StreamEvent { number, bytes: bytes.into(), part }
    }

    /// Inserts an event that was not handed out.
    fn insert(&mut self, place: usize, event: StreamEvent) {
        self.unsent += event.cost();
        self.bytes += event.cost();
        self.events.insert(place, event);
    }

    /// The next bytes for the client; empty if there are none.
    pub(crate) fn take(&mut self) -> Bytes {
        if let Some(event) = self.events.get(self.sent).filter(|event| event.bytes.len() > CHUNK) {
            // A slice of it would keep all of it.
            let end = event.bytes.len().min(self.begun + CHUNK);
            let part = Bytes::copy_from_slice(&event.bytes[self.begun..end]);
            if end < event.bytes.len() {
                self.begun = end;
            } else {
                self.note_sent();
            }
            return part;
        }
        let mut gathered = BytesMut::new();
        let mut single = Bytes::new();
        while let Some(event) = self.events.get(self.sent) {
            let length = event.bytes.len();
            if !single.is_empty() && single.len() + gathered.len() + length > CHUNK {
                break;
            }
            if single.is_empty() {
                single = event.bytes.clone();
            } else {
                if gathered.is_empty() {
                    gathered.extend_from_slice(&single);
                }
                gathered.extend_from_slice(&event.bytes);
            }
            self.note_sent();
        }
        if gathered.is_empty() { single } else { gathered.freeze() }
    }

    /// The next event was handed out.
    fn note_sent(&mut self) {
        let Some(event) = self.events.get(self.sent) else { return };
        self.begun = 0;
        self.unsent -= event.cost();
        if self.is_resumable() {
            self.sent += 1;
            return;
        }
        self.bytes -= event.cost();
        self.events.pop_front();
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// Goes back to behind the event of this number, once no response carries it. A warning takes the place of messages that
    /// are gone, and an error that of each answer.
    pub(crate) fn rewind(&mut self, after: u64) {
        // Such words for a client that came back before.
        while let Some(told) = self.events.pop_front_if(|event| event.number <= self.gone) {
            self.bytes -= told.cost();
        }
        self.sent = self.events.partition_point(|event| event.number <= after);
        self.unsent = self.events.range(self.sent..).map(StreamEvent::cost).sum();
        if after >= self.gone {
            return;
        }
        // Each has the number of what it stands for, so that one who comes back between them goes on there.
        let answers = self.gone_answers.iter().filter(|(number, _)| *number > after);
        let mut told: Vec<_> = answers.map(|(number, id)| (*number, Part::NotKept(id.clone()))).collect();
        if self.gone_other > after {
            told.push((self.gone_other, Part::Gap));
        }
        told.sort_by_key(|(number, _)| *number);
        for (number, part) in told.into_iter().rev() {
            let event = self.event(number, &words(&part), part);
            self.insert(0, event);
        }
    }

    /// Forgets its oldest event, if that was handed out; `true` if there was one.
    pub(crate) fn evict_sent(&mut self) -> bool {
        if self.sent == 0 {
            return false;
        }
        self.sent -= 1;
        let Some(event) = self.events.pop_front() else { return false };
        self.bytes -= event.cost();
        // Words about what is gone can be made again.
        if event.number > self.gone {
            self.gone = event.number;
            match event.part {
                Part::Answer(id) | Part::NotKept(id) => {
                    self.bytes += cost_of_gone(&id);
                    self.gone_answers.push((event.number, id));
                }
                Part::Progress(_) | Part::Other | Part::Gap => self.gone_other = event.number,
                Part::Primer => {}
            }
        }
        true
    }

    /// Forgets so many bytes of what was not read, if it has them, the oldest first, and puts words in their place.
    pub(crate) fn evict_unsent(&mut self, bytes: usize) {
        let wanted = self.bytes.saturating_sub(bytes);
        while self.bytes > wanted && self.evict_sent() {}
        let mut place = self.sent;
        while self.bytes > wanted
            && let Some(event) = self.events.get(place)
        {
            let follows_gap = place > self.sent && self.events[place - 1].part == Part::Gap;
            let is_told = |event: &StreamEvent| matches!(event.part, Part::Gap | Part::NotKept(_));
            let part = match &event.part {
                Part::Answer(id) => Part::NotKept(id.clone()),
                Part::Progress(_) | Part::Other => Part::Gap,
                Part::Primer | Part::Gap | Part::NotKept(_) => {
                    place += 1;
                    continue;
                }
            };
            let told = self.event(event.number, &words(&part), part);
            // Shorter than the words would be.
            if told.bytes.len() >= event.bytes.len() && !follows_gap && self.events.get(place + 1).is_none_or(is_told) {
                place += 1;
                continue;
            }
            // Of gaps side by side the last is enough.
            if follows_gap && told.part == Part::Gap {
                place -= 1;
                self.remove(place);
            }
            self.remove(place);
            self.insert(place, told);
            place += 1;
        }
    }

    /// Forgets which answers are gone, and reports only that messages are.
    pub(crate) fn forget_gone(&mut self) {
        for (number, id) in core::mem::take(&mut self.gone_answers) {
            self.bytes -= cost_of_gone(&id);
            self.gone_other = self.gone_other.max(number);
        }
    }

    /// Forgets all that it has, and reports only that messages are missing to one who comes back behind an event.
    pub(crate) fn forget_all(&mut self) {
        (self.sent, self.begun, self.unsent) = (self.events.len(), 0, 0);
        while self.evict_sent() {}
        self.forget_gone();
    }

    /// Removes an event that was not handed out.
    fn remove(&mut self, place: usize) {
        if let Some(event) = self.events.remove(place) {
            self.unsent -= event.cost();
            self.bytes -= event.cost();
        }
    }
}

/// What it takes to remember that the answer to this request is gone.
fn cost_of_gone(id: &RequestId) -> usize {
    size_of::<(u64, RequestId)>() + id.heap_bytes()
}

/// The words for missing messages. A client takes them for a log line.
const GAP: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"rescind","#,
    r#""data":"messages of this stream were not kept while the client was away"}}"#
);

/// The words in place of what is gone.
fn words(part: &Part) -> Vec<u8> {
    let Part::NotKept(id) = part else { return GAP.as_bytes().to_vec() };
    let mut out = Vec::new();
    message::error(Some(id), error_code::NOT_KEPT, "the answer was not kept while the client was away", None, &mut out);
    out
}
