//! What comes back for an HTTP request: its head, its body, or nothing.

use http::{HeaderMap, StatusCode, header, response::Parts};
use rescind_proto::{
    error_code,
    frame::{self, Frame},
    link::{Fault, Rejected},
    time::Instant,
};

use super::{
    FetchKey, HttpClient, HttpClientNotice, StreamKey,
    event_reader::{Content, EventReader},
    failure::Failure,
    fetch::{Fetch, OneWayKind, Phase, Probe, Reader, Refusal, Role},
    message,
    one_way::Retry,
    stream::{Purpose, Stage},
    words::{self, Challenge},
};

/// How a connection that carried a stream ended.
#[derive(Clone, Debug)]
pub(crate) enum Interruption {
    /// The server ended the response in order.
    Ended,
    /// It broke.
    Broken(String),
    /// Nobody could be reached.
    Unreached(String),
    /// The server refused to go on for now.
    Refused(StatusCode),
}

impl HttpClient {
    /// Takes in the head of a response.
    pub fn handle_head(&mut self, now: Instant, key: FetchKey, head: &Parts) {
        let Some(fetch) = self.fetches.get(&key) else { return };
        if matches!(fetch.phase, Phase::Handed | Phase::SigningIn) {
            // Its driver does not report what it writes, or there is no token to be had.
            self.begin_writing(now, key);
        }
        if head.status.is_redirection() && self.handle_redirect(now, key, head) {
            return;
        }
        let Some(fetch) = self.fetches.get(&key) else { return };
        match fetch.role.clone() {
            Role::Post(stream) => self.handle_post_head(now, key, stream, head),
            Role::Get(stream) => self.handle_get_head(now, key, stream, head),
            Role::OneWay(one_way) => self.handle_one_way_head(now, key, &one_way, head),
            Role::Probe(_) => {
                let is_stream = head.status.is_success() && content_type(&head.headers) == ContentType::Events;
                if is_stream {
                    self.set_reader(key, Reader::Events(Box::new(self.event_reader())));
                } else {
                    self.end_probe(now, key, false);
                }
            }
            Role::End { .. } => self.ignore(now, key),
        }
    }

    /// Takes in the next bytes of a body.
    pub fn handle_body(&mut self, now: Instant, key: FetchKey, bytes: &[u8]) {
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        let most = self.config.max_message;
        match &mut fetch.reader {
            Reader::Whole(whole) if whole.body.len() + bytes.len() > most => self.handle_too_large(now, key),
            Reader::Whole(whole) => whole.body.extend_from_slice(bytes),
            Reader::Refusal(refusal) => {
                let room = self.config.max_refusal.saturating_sub(refusal.body.len());
                refusal.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    self.abort_refusal(now, key);
                }
            }
            Reader::Ignored { left } if *left < bytes.len() => drop(self.abort(key)),
            Reader::Ignored { left } => *left -= bytes.len(),
            Reader::Events(_) => self.handle_events(now, key, bytes),
            Reader::NoHead => {}
        }
    }

    /// Records that a body has come to its end, as its server meant it.
    pub fn handle_body_end(&mut self, now: Instant, key: FetchKey) {
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        match (core::mem::replace(&mut fetch.reader, Reader::NoHead), &fetch.role) {
            (Reader::Whole(whole), Role::Post(stream)) => {
                let stream = *stream;
                self.end_fetch(key);
                self.handle_whole(now, stream, *whole);
            }
            (Reader::Refusal(refusal), Role::Post(stream)) => {
                let stream = *stream;
                self.end_fetch(key);
                self.decide(now, stream, *refusal);
            }
            (Reader::Events(_), Role::Probe(_)) => self.end_probe(now, key, false),
            (Reader::Events(reader), Role::Post(stream) | Role::Get(stream)) => {
                let stream = *stream;
                self.end_fetch(key);
                self.end_events(now, stream, &reader, Interruption::Ended);
            }
            (
                Reader::Whole(_) | Reader::Events(_) | Reader::Refusal(_) | Reader::Ignored { .. } | Reader::NoHead,
                _,
            ) => {
                self.end_fetch(key);
            }
        }
    }

    /// Records that no connection for a request could be made; `why` in a few words.
    pub fn handle_unreached(&mut self, now: Instant, key: FetchKey, why: &str) {
        let stream = self.fetches.get(&key).and_then(|fetch| match fetch.role {
            Role::Get(stream) => Some(stream),
            Role::Post(_) | Role::Probe(_) | Role::OneWay(_) | Role::End { .. } => None,
        });
        let Some(stream) = stream else { return self.handle_failed(now, key, why) };
        self.end_fetch(key);
        self.interrupt(now, stream, Interruption::Unreached(words::excerpt(why.as_bytes())));
    }

    /// Records that a request could not be sent, or that its response broke off; `why` in a few words.
    pub fn handle_failed(&mut self, now: Instant, key: FetchKey, why: &str) {
        let why = words::excerpt(why.as_bytes());
        let Some(fetch) = self.end_fetch(key) else { return };
        let origin = fetch.target.origin();
        let was_written = matches!(fetch.phase, Phase::Written(_));
        if let (Role::OneWay(_), Reader::NoHead) = (&fetch.role, &fetch.reader) {
            return self.retry_one_way(now, key, fetch, Retry::AtOnce, &why);
        }
        match (fetch.role, fetch.reader) {
            (Role::Post(stream), Reader::Refusal(refusal)) => self.decide(now, stream, *refusal),
            (Role::Post(stream) | Role::Get(stream), Reader::Events(reader)) => {
                self.end_events(now, stream, &reader, Interruption::Broken(why));
            }
            (Role::Post(stream), _) => {
                let failure = if was_written {
                    let text = format!("{origin} did not answer ({why}); the request may have been carried out");
                    Failure::unknown(Fault::Transport, text)
                } else {
                    Failure::not_run(Fault::Transport, format!("cannot reach {origin}: {why}"))
                };
                self.handle_post_failed(now, stream, &failure, &why);
            }
            (Role::Get(stream), _) => self.interrupt(now, stream, Interruption::Broken(why)),
            (Role::Probe(probe), _) => self.decide_for_good(now, probe.stream, &probe.refusal),
            (Role::End { session, origin, version, is_repeated: false }, Reader::NoHead) => {
                let again = Role::End { session, origin, version, is_repeated: true };
                self.start(self.fetch(again, Phase::Queued));
            }
            (Role::OneWay(_) | Role::End { .. }, _) => {}
        }
    }

    /// A fetch that the driver has done with.
    fn end_fetch(&mut self, key: FetchKey) -> Option<Fetch> {
        let fetch = self.remove_fetch(key)?;
        if let Role::Post(stream) | Role::Get(stream) = fetch.role
            && self.streams.get(&stream).is_some_and(|stream| stream.fetch() == Some(key))
        {
            self.set_stage(stream, Stage::Away);
        }
        Some(fetch)
    }

    pub(crate) fn handle_fetch_due(&mut self, now: Instant, key: FetchKey) {
        let Some(fetch) = self.fetches.get(&key) else { return };
        let is_waiting = fetch.phase == Phase::Waiting;
        match (fetch.role.clone(), &fetch.reader) {
            (Role::OneWay(_), _) if is_waiting => self.release(key),
            (Role::Post(_), Reader::Refusal(_)) => self.abort_refusal(now, key),
            (Role::Probe(_), _) => self.end_probe(now, key, false),
            (Role::OneWay(one_way), Reader::NoHead) => {
                if one_way.kind == OneWayKind::Initialized && self.open_gate(now, key) {
                    return self.arm_fetch(key, Some(now + self.config.accept_within));
                }
                let Some(fetch) = self.abort(key) else { return };
                self.retry_one_way(now, key, fetch, Retry::Later, "no answer in time");
            }
            (Role::OneWay(_) | Role::End { .. } | Role::Post(_) | Role::Get(_), _) => drop(self.abort(key)),
        }
    }

    fn set_reader(&mut self, key: FetchKey, reader: Reader) {
        if let Some(fetch) = self.fetches.get_mut(&key) {
            fetch.reader = reader;
        }
    }

    fn event_reader(&self) -> EventReader {
        EventReader::new(self.config.max_message)
    }

    /// Has the rest of a response read, so that its connection can be used again; not for long.
    pub(crate) fn ignore(&mut self, now: Instant, key: FetchKey) {
        self.set_reader(key, Reader::Ignored { left: self.config.max_refusal });
        self.arm_fetch(key, Some(now + self.config.accept_within));
    }

    /// What the head of a response that is no answer says.
    pub(crate) fn refusal(&self, key: FetchKey, head: &Parts) -> Refusal {
        Refusal {
            status: head.status,
            challenge: Challenge::read(&head.headers),
            retry_after: words::retry_after(&head.headers),
            unusable: None,
            body: Vec::new(),
            session: self.fetches.get(&key).and_then(|fetch| fetch.session),
        }
    }

    /// A response is no answer, and its body does not matter.
    pub(crate) fn refuse(&mut self, now: Instant, key: FetchKey, refusal: Refusal) {
        let Some(fetch) = self.abort(key) else { return };
        match fetch.role {
            Role::Post(stream) => {
                self.set_stage(stream, Stage::Away);
                self.decide_for_good(now, stream, &refusal);
            }
            Role::Get(stream) => {
                self.set_stage(stream, Stage::Away);
                self.handle_not_resumed(now, stream, refusal.status);
            }
            Role::OneWay(one_way) => {
                let why = refusal.unusable.unwrap_or_else(|| words::status(refusal.status));
                self.one_way_refused(now, key, &one_way, &why);
            }
            Role::Probe(probe) => self.decide_for_good(now, probe.stream, &probe.refusal),
            Role::End { .. } => {}
        }
    }

    fn handle_post_head(&mut self, now: Instant, key: FetchKey, stream: StreamKey, head: &Parts) {
        let content = content_type(&head.headers);
        let is_encoded = head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
        let reader = match content {
            _ if !head.status.is_success() => None,
            _ if is_encoded => None,
            ContentType::Events => Some(Reader::Events(Box::new(self.event_reader()))),
            ContentType::Json | ContentType::Missing if head.status != StatusCode::ACCEPTED => {
                let unusable = Some("gave no answer to the request".to_owned());
                Some(Reader::Whole(Box::new(Refusal { unusable, ..self.refusal(key, head) })))
            }
            ContentType::Json | ContentType::Missing | ContentType::Other(_) => None,
        };
        let Some(reader) = reader else {
            let unusable = match content {
                _ if !head.status.is_success() => None,
                _ if is_encoded => Some("compressed the answer, which it was not asked to".to_owned()),
                ContentType::Other(content) => Some(format!("answered with {content}, which is no message")),
                ContentType::Json | ContentType::Events | ContentType::Missing => {
                    Some(format!("answered {}, and gave no answer to the request", words::status(head.status)))
                }
            };
            let refusal = Refusal { unusable, ..self.refusal(key, head) };
            self.set_reader(key, Reader::Refusal(Box::new(refusal)));
            return self.arm_fetch(key, Some(now + self.config.accept_within));
        };
        let (session, origin) = match self.fetches.get(&key) {
            Some(fetch) => (fetch.session, fetch.target.origin()),
            None => return,
        };
        self.note_session_id(stream, &head.headers, origin);
        self.knows_transport = true;
        self.session.has_worked |= session.is_some_and(|session| session == self.session.generation);
        let length = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let is_too_large = matches!(reader, Reader::Whole(_))
            && length.is_some_and(|length: u64| length > self.config.max_message as u64);
        self.set_reader(key, reader);
        self.begin(stream, key);
        if is_too_large {
            self.handle_too_large(now, key);
        }
    }

    /// The server has taken the requests of a stream.
    fn begin(&mut self, key: StreamKey, fetch: FetchKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.has_begun = true;
        stream.stage = Stage::Reading(fetch);
        self.unsent -= core::mem::take(&mut stream.unsent);
        if !stream.is_subscription() {
            stream.body = bytes::Bytes::new();
        }
        self.arm_stream(key, None);
        self.release_cancels(key);
        self.settle(key);
    }

    fn handle_get_head(&mut self, now: Instant, key: FetchKey, stream: StreamKey, head: &Parts) {
        if head.status.is_success() && content_type(&head.headers) == ContentType::Events {
            self.set_reader(key, Reader::Events(Box::new(self.event_reader())));
            self.set_stage(stream, Stage::Reading(key));
            if let Some(stream) = self.streams.get_mut(&stream) {
                stream.has_begun = true;
                if core::mem::take(&mut stream.is_refused) {
                    self.notice(HttpClientNotice::HeardAgain);
                }
            }
            return;
        }
        let refusal = self.refusal(key, head);
        self.refuse(now, key, refusal);
    }

    /// The server does not let us have a stream.
    fn handle_not_resumed(&mut self, now: Instant, key: StreamKey, status: StatusCode) {
        let may_pass = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            // The next message may bring a new token.
            || status == StatusCode::UNAUTHORIZED && self.credentials.is_some();
        if may_pass {
            return self.interrupt(now, key, Interruption::Refused(status));
        }
        if let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.purpose == Purpose::Listen) {
            if !stream.has_begun {
                // It has none, and that is all right.
                self.forget_stream(key);
                return;
            }
            if matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE) {
                // Perhaps it knows the event no more, and gives a new stream.
                stream.cursor.last_id = None;
            }
            if !core::mem::replace(&mut stream.is_refused, true) {
                self.notice(HttpClientNotice::NotHeard { why: words::status(status).into() });
            }
            return self.interrupt(now, key, Interruption::Refused(status));
        }
        let text = format!(
            "the connection ended before the answer came, and {} does not resume the stream ({}); the request may have \
             been carried out",
            self.origin,
            words::status(status)
        );
        self.fail_stream(now, key, &Failure::unknown(Fault::Server, text).with_status(status));
    }

    fn handle_too_large(&mut self, now: Instant, key: FetchKey) {
        let Some(Fetch { role: Role::Post(stream), .. }) = self.abort(key) else { return };
        self.set_stage(stream, Stage::Away);
        self.fail_stream(now, stream, &self.too_large());
    }

    pub(crate) fn too_large(&self) -> Failure {
        let text = format!("the answer is longer than the limit of {} bytes", self.config.max_message);
        Failure::unreadable(error_code::TOO_LARGE, Rejected::TooLarge, text)
    }

    /// A whole body was read.
    fn handle_whole(&mut self, now: Instant, key: StreamKey, refusal: Refusal) {
        let message = message::whole(&refusal.body);
        let is_empty = message.is_empty();
        if !is_empty
            && !matches!(frame::parse(message), Ok(Frame::Response(said)) if !message::is_answer(message, &said))
        {
            self.receive(now, key, message.to_vec());
        }
        let Some(stream) = self.streams.get(&key) else { return };
        if is_empty || !stream.is_waited_for() || stream.is_subscription() || message::is_batch(message) {
            return self.interrupt(now, key, Interruption::Ended);
        }
        // The server has said something, and it is no answer: so at least it is quoted.
        self.decide_for_good(now, key, &refusal);
    }

    fn handle_events(&mut self, now: Instant, key: FetchKey, bytes: &[u8]) {
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        let stream_key = match &fetch.role {
            Role::Post(stream) | Role::Get(stream) => Some(*stream),
            Role::Probe(_) => None,
            Role::OneWay(_) | Role::End { .. } => return,
        };
        let Reader::Events(mut reader) = core::mem::replace(&mut fetch.reader, Reader::NoHead) else { return };
        let mut rest = bytes;
        while let Some(event) = reader.read(&mut rest) {
            let Some(stream_key) = stream_key else {
                let is_old = matches!(&event.content, Content::Other(kind) if kind == b"endpoint");
                return self.end_probe(now, key, is_old);
            };
            let seed = self.config.seed;
            let Some(stream) = self.streams.get_mut(&stream_key) else { return };
            // Outside a session nothing is resumed, and so nothing repeated (MCP-H06).
            if event.has_own_id && !stream.is_stateless() && !stream.cursor.note_event(&reader, seed) {
                continue;
            }
            match event.content {
                Content::Message(message) => self.receive(now, stream_key, message),
                Content::Overlong(overlong) => self.receive_overlong(now, stream_key, &overlong),
                Content::Empty | Content::Other(_) => {}
            }
            if !self.fetches.contains_key(&key) {
                return;
            }
        }
        if let Some(stream) = stream_key.and_then(|stream| self.streams.get_mut(&stream)) {
            stream.attempts = 0;
            stream.cursor.retry = reader.retry().or(stream.cursor.retry);
        }
        self.set_reader(key, Reader::Events(reader));
    }

    fn end_events(&mut self, now: Instant, key: StreamKey, reader: &EventReader, how: Interruption) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.cursor.retry = reader.retry().or(stream.cursor.retry);
            stream.cursor.end_connection();
        }
        self.interrupt(now, key, how);
    }

    /// Ends the question about the other transport.
    fn end_probe(&mut self, now: Instant, key: FetchKey, is_old: bool) {
        let Some(Fetch { role: Role::Probe(probe), .. }) = self.abort(key) else { return };
        let Probe { stream, refusal } = *probe;
        self.set_stage(stream, Stage::Away);
        if is_old {
            let text = format!(
                "{} speaks only HTTP+SSE, the transport of MCP 2024-11-05, which is not spoken here; Streamable HTTP, its \
                 successor, was refused with {}",
                self.origin,
                words::status(refusal.status)
            );
            return self.fail_stream(now, stream, &Failure::not_run(Fault::Server, text).with_status(refusal.status));
        }
        self.decide_for_good(now, stream, &refusal);
    }

    /// A refusal was read as far as it matters.
    fn abort_refusal(&mut self, now: Instant, key: FetchKey) {
        let Some(fetch) = self.abort(key) else { return };
        let (Role::Post(stream), Reader::Refusal(refusal)) = (fetch.role, fetch.reader) else { return };
        self.set_stage(stream, Stage::Away);
        self.decide(now, stream, *refusal);
    }
}

/// What a response says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ContentType {
    Json,
    Events,
    Missing,
    Other(String),
}

fn content_type(fields: &HeaderMap) -> ContentType {
    let Some(value) = fields.get(header::CONTENT_TYPE) else { return ContentType::Missing };
    let text = String::from_utf8_lossy(value.as_bytes());
    let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match &*media {
        "application/json" => ContentType::Json,
        "text/event-stream" => ContentType::Events,
        media => ContentType::Other(words::excerpt(media.as_bytes())),
    }
}
