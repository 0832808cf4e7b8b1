//! The messages of one stream: what a POSTed request, or a GET, is sent.
//!
//! In a session a stream outlives its connection: its events keep their numbers, and a client that comes back goes on
//! behind the last one that it has. Elsewhere it ends with it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use rescind_proto::{dialect::Dialect, error_code, id::RequestId, message, time::Instant};

use super::{LinkKey, ReplyKey};
use crate::sse;

/// The most bytes that are handed out at once.
const CHUNK: usize = 64 << 10;

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) link: LinkKey,
    pub(crate) dialect: &'static Dialect,
    /// The response that carries it now.
    pub(crate) reply: Option<ReplyKey>,
    /// Its number in its session, which the ids of its events have; `None` where nothing can be resumed.
    pub(crate) number: Option<u64>,
    /// The requests whose answers it waits for. A stream of a GET has none.
    pub(crate) waiting: Vec<Waiting>,
    /// Its first event was made: the client may know it, and come back.
    pub(crate) has_begun: bool,
    /// Since when nothing more is said on it.
    pub(crate) ended: Option<Instant>,
    /// Its request was cancelled: nobody may come back to it (D41).
    pub(crate) is_final: bool,
    events: VecDeque<StreamEvent>,
    /// How many of `events` were handed out.
    sent: usize,
    /// The number of the next event.
    next: u64,
    /// Bytes of `events` that were not handed out.
    unsent: usize,
    /// Bytes of `events`.
    kept: usize,
    /// Events up to this number are gone.
    evicted: u64,
    /// The answers among those.
    evicted_answers: Vec<(u64, RequestId)>,
}

/// A request whose answer a stream waits for.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// As its client knows it.
    pub(crate) client_id: RequestId,
    /// As the link knows it.
    pub(crate) link_id: RequestId,
    /// Its progress token, as the link knows it, and as JSON of its client.
    pub(crate) token: Option<(RequestId, Bytes)>,
}

impl Waiting {
    fn held(&self) -> usize {
        let ids = self.client_id.heap_bytes() + self.link_id.heap_bytes();
        let token = self.token.as_ref().map_or(0, |(known, asked)| known.heap_bytes() + asked.len());
        size_of::<Self>() + ids + token
    }
}

#[derive(Clone, Debug)]
struct StreamEvent {
    number: u64,
    bytes: Bytes,
    /// The request that it answers.
    answers: Option<RequestId>,
    is_progress: bool,
}

/// What a message on a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The answer to this request.
    Answer(&'a RequestId),
    /// Progress, of which the newest says all.
    Progress,
    /// Anything else.
    Other,
}

impl Stream {
    pub(crate) fn new(link: LinkKey, dialect: &'static Dialect, number: Option<u64>) -> Self {
        Self {
            link,
            dialect,
            reply: None,
            number,
            waiting: Vec::new(),
            has_begun: false,
            ended: None,
            is_final: false,
            events: VecDeque::new(),
            sent: 0,
            next: 0,
            unsent: 0,
            kept: 0,
            evicted: 0,
            evicted_answers: Vec::new(),
        }
    }

    /// Whether a client that was away may come back to it.
    pub(crate) const fn is_resumable(&self) -> bool {
        self.number.is_some()
    }

    pub(crate) const fn unsent(&self) -> usize {
        self.unsent
    }

    pub(crate) const fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Waiting::held).sum();
        let evicted: usize =
            self.evicted_answers.iter().map(|(_, id)| size_of::<(u64, RequestId)>() + id.heap_bytes()).sum();
        size_of::<Self>() + self.events.capacity() * size_of::<StreamEvent>() + self.kept + waiting + evicted
    }

    /// Panics if what it counts is not what it has.
    pub(crate) fn check(&self) {
        let bytes = |from: usize| -> usize { self.events.range(from..).map(|event| event.bytes.len()).sum() };
        assert_eq!(self.kept, bytes(0), "a stream counts the bytes that it keeps");
        assert_eq!(self.unsent, bytes(self.sent), "a stream counts the bytes that wait");
        assert!(self.events.iter().is_sorted_by_key(|event| event.number), "the events of a stream are in order");
        assert!(self.ended.is_none() || self.waiting.is_empty(), "a stream that has ended waits for an answer");
    }

    /// Whether all that was said was handed out, and nothing more will be.
    pub(crate) fn is_spent(&self) -> bool {
        self.ended.is_some() && self.sent == self.events.len()
    }

    /// Makes the event that only gives an id to come back behind.
    pub(crate) fn prime(&mut self) {
        let Some(stream) = self.number else { return };
        let mut bytes = Vec::new();
        let number = self.allocate_number();
        sse::write_primer(stream, number, &mut bytes);
        self.insert(StreamEvent { number, bytes: bytes.into(), answers: None, is_progress: false });
    }

    /// Adds a message.
    pub(crate) fn push(&mut self, message: &[u8], part: Part<'_>) {
        self.has_begun = true;
        let is_progress = part == Part::Progress;
        // Nobody reads: of several reports of progress the newest says all.
        if is_progress
            && self.reply.is_none()
            && self.sent < self.events.len()
            && let Some(last) = self.events.pop_back_if(|last| last.is_progress)
        {
            self.unsent -= last.bytes.len();
            self.kept -= last.bytes.len();
        }
        let number = self.allocate_number();
        let mut bytes = Vec::new();
        sse::write_event(self.number.map(|stream| (stream, number)), message, &mut bytes);
        let answers = match part {
            Part::Answer(id) if self.is_resumable() => Some(id.clone()),
            Part::Answer(_) | Part::Progress | Part::Other => None,
        };
        self.insert(StreamEvent { number, bytes: bytes.into(), answers, is_progress });
    }

    fn allocate_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn insert(&mut self, event: StreamEvent) {
        self.unsent += event.bytes.len();
        self.kept += event.bytes.len();
        self.events.push_back(event);
    }

    /// The next bytes for the client; empty if there are none.
    pub(crate) fn take(&mut self) -> Bytes {
        let resumable = self.is_resumable();
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
            self.unsent -= length;
            if resumable {
                self.sent += 1;
            } else {
                self.kept -= length;
                self.events.pop_front();
            }
        }
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        if gathered.is_empty() { single } else { gathered.freeze() }
    }

    /// Goes back to behind the event of this number. What of it is gone is said in words: a warning, and an error for each
    /// answer.
    pub(crate) fn rewind(&mut self, after: u64) {
        self.sent = self.events.partition_point(|event| event.number <= after);
        self.unsent = self.events.range(self.sent..).map(|event| event.bytes.len()).sum();
        let is_told = self.events.get(self.sent).is_some_and(|event| event.number == self.evicted);
        if after >= self.evicted || is_told {
            return;
        }
        let lost: Vec<RequestId> =
            self.evicted_answers.iter().filter(|(number, _)| *number > after).map(|(_, id)| id.clone()).collect();
        let mut told = Vec::new();
        if lost.is_empty() {
            told.push(GAP.as_bytes().to_vec());
        }
        told.extend(lost.iter().map(not_kept));
        // With the number of the last that is gone: who comes back again gets them again.
        let number = self.evicted;
        for text in told.into_iter().rev() {
            let mut bytes = Vec::new();
            sse::write_event(self.number.map(|stream| (stream, number)), &text, &mut bytes);
            self.unsent += bytes.len();
            self.kept += bytes.len();
            self.events
                .insert(self.sent, StreamEvent { number, bytes: bytes.into(), answers: None, is_progress: false });
        }
    }

    /// Forgets its oldest event, if that was handed out; `true` if there was one.
    pub(crate) fn evict_sent(&mut self) -> bool {
        if self.sent == 0 {
            return false;
        }
        self.sent -= 1;
        self.evict_first();
        true
    }

    /// Forgets what nobody has read. An answer among it is replaced by an error.
    pub(crate) fn evict_unsent(&mut self) {
        let answers: Vec<RequestId> =
            self.events.range(self.sent..).filter_map(|event| event.answers.clone()).collect();
        while !self.events.is_empty() {
            self.evict_first();
        }
        (self.sent, self.unsent) = (0, 0);
        for id in answers {
            // The error takes the place of the answer.
            self.evicted_answers.retain(|(_, lost)| *lost != id);
            let number = self.allocate_number();
            let mut bytes = Vec::new();
            sse::write_event(self.number.map(|stream| (stream, number)), &not_kept(&id), &mut bytes);
            self.insert(StreamEvent { number, bytes: bytes.into(), answers: Some(id), is_progress: false });
        }
    }

    fn evict_first(&mut self) {
        let Some(event) = self.events.pop_front() else { return };
        self.kept -= event.bytes.len();
        self.evicted = event.number;
        self.evicted_answers.extend(event.answers.map(|id| (event.number, id)));
    }
}

/// Says that messages are missing. A client takes it for a log line.
const GAP: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"rescind","#,
    r#""data":"messages of this stream were not kept while the client was away"}}"#
);

fn not_kept(id: &RequestId) -> Vec<u8> {
    let mut out = Vec::new();
    message::error(Some(id), error_code::NOT_KEPT, "the answer was not kept while the client was away", None, &mut out);
    out
}
