//! What comes back for an HTTP request: its head, its body, or nothing.

use http::{StatusCode, header, response::Parts};
use rescind_proto::{
    frame::{self, Frame},
    link::Fault,
    time::Instant,
};

use super::{
    ErrandKey, FetchKey, HttpClient, HttpClientNotice,
    errand::Role,
    event_reader::{Content, EventReader},
    failure::Failure,
    fetch::{Aim, ContentType, Fetch, Phase, Reader},
    message,
    refusal::{Interruption, Refusal},
    session::SessionState,
    words,
};

impl HttpClient {
    /// Takes in the head of a response.
    pub fn handle_head(&mut self, now: Instant, key: FetchKey, head: &Parts) {
        let Some((errand, fetch)) = self.errands.fetch(key) else { return };
        let (has_stream, is_send) = (errand.has_stream(), matches!(fetch.aim, Aim::Send));
        if matches!(fetch.phase, Phase::Handed | Phase::SigningIn) {
            // Its driver does not report what it writes, or there is no token to be had.
            self.errands.begin_writing(now, key);
        }
        if head.status.is_redirection() && self.handle_redirect(now, key, head) {
            return;
        }
        match (has_stream, is_send) {
            (true, true) => self.handle_post_head(now, key, head),
            (true, false) => self.handle_get_head(now, key, head),
            (false, _) => self.handle_one_way_head(now, key, head),
        }
    }

    /// Takes in the next bytes of a body.
    pub fn handle_body(&mut self, now: Instant, key: FetchKey, bytes: &[u8]) {
        let most = self.config.max_message;
        let Some(fetch) = self.errands.fetch_mut(key) else { return };
        match &mut fetch.reader {
            Reader::Whole(whole) if whole.body.len() + bytes.len() > most => {
                self.end(now, key, Interruption::TooLarge(most));
            }
            Reader::Whole(whole) => whole.body.extend_from_slice(bytes),
            Reader::Refusal(refusal) => {
                let room = self.config.max_refusal.saturating_sub(refusal.body.len());
                refusal.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    self.end(now, key, Interruption::TimedOut);
                }
            }
            Reader::Ignored { left } if *left < bytes.len() => self.end(now, key, Interruption::TimedOut),
            Reader::Ignored { left } => *left -= bytes.len(),
            Reader::Events(_) => self.handle_events(now, key, bytes),
            Reader::NoHead => {}
        }
    }

    /// Records that a body has come to its end, as its server meant it.
    pub fn handle_body_end(&mut self, now: Instant, key: FetchKey) {
        if let Some(fetch) = self.errands.end_fetch(key) {
            self.handle_end(now, key.errand, fetch, Interruption::Ended);
        }
    }

    /// Records that no connection for a request could be made; `why` in a few words.
    pub fn handle_unreached(&mut self, now: Instant, key: FetchKey, why: &str) {
        if let Some(fetch) = self.errands.end_fetch(key) {
            self.handle_end(now, key.errand, fetch, Interruption::Unreached(words::excerpt(why.as_bytes())));
        }
    }

    /// Records that a request could not be sent, or that its response broke off; `why` in a few words.
    pub fn handle_failed(&mut self, now: Instant, key: FetchKey, why: &str) {
        if let Some(fetch) = self.errands.end_fetch(key) {
            self.handle_end(now, key.errand, fetch, Interruption::Broken(words::excerpt(why.as_bytes())));
        }
    }

    /// Gives up an HTTP request that is over as far as it matters.
    fn end(&mut self, now: Instant, key: FetchKey, how: Interruption) {
        if let Some(fetch) = self.errands.abort(key.errand) {
            self.handle_end(now, key.errand, fetch, how);
        }
    }

    /// An HTTP request is over, and was taken off its errand, which goes on without it, or ends.
    fn handle_end(&mut self, now: Instant, key: ErrandKey, fetch: Fetch, how: Interruption) {
        let Some(errand) = self.errands.get_mut(key) else { return };
        let is_ended = matches!(how, Interruption::Ended);
        if !errand.has_stream() {
            return match fetch.reader {
                Reader::NoHead => self.retry_one_way(now, key, &fetch, &how),
                Reader::Whole(_) | Reader::Events(_) | Reader::Refusal(_) | Reader::Ignored { .. } => {
                    self.errands.forget(key);
                }
            };
        }
        match (fetch.aim, fetch.reader) {
            (Aim::Probe(refusal), _) if matches!(how, Interruption::OldTransport) => {
                let failure = refusal.of_old_transport(&self.origin);
                self.fail(now, key, &failure);
            }
            (Aim::Probe(refusal), _) => self.fail_refused(now, key, &refusal),
            (_, Reader::Refusal(refusal)) => self.decide(now, key, *refusal),
            (_, Reader::Events(reader)) => {
                errand.stream.end_connection(&reader);
                self.interrupt(now, key, how);
            }
            (Aim::Get, _) => self.interrupt(now, key, how),
            (Aim::Send, Reader::Whole(whole)) if is_ended => self.handle_whole(now, key, *whole),
            (Aim::Send, _) if let Interruption::TooLarge(most) = how => self.fail(now, key, &Failure::too_large(most)),
            (Aim::Send, _) if errand.is_subscription() && errand.is_stateless() && errand.stream.has_begun => {
                self.interrupt(now, key, Interruption::Broken(how.why()));
            }
            (Aim::Send, _) => {
                let (origin, why) = (fetch.target.origin(), how.why());
                let failure = if matches!(fetch.phase, Phase::Written(_)) {
                    let text = format!("{origin} did not answer ({why}); the request may have been carried out");
                    Failure::unknown(Fault::Transport, text)
                } else {
                    Failure::not_run(Fault::Transport, format!("cannot reach {origin}: {why}"))
                };
                self.fail(now, key, &failure);
            }
        }
    }

    pub(crate) fn handle_fetch_due(&mut self, now: Instant, key: FetchKey) {
        let has_head = self.errands.fetch(key).is_some_and(|(_, fetch)| !matches!(fetch.reader, Reader::NoHead));
        if !has_head && self.session.state == SessionState::Greeting(key.errand) {
            self.handle_greeted(now, key.errand, false);
            return self.errands.arm_fetch(key, Some(now + self.config.accept_within));
        }
        self.end(now, key, Interruption::TimedOut);
    }

    /// A response is not an answer, and its body does not matter.
    pub(crate) fn refuse(&mut self, now: Instant, key: ErrandKey, refusal: Refusal) {
        let Some(fetch) = self.errands.abort(key) else { return };
        let Some(errand) = self.errands.get(key) else { return };
        match fetch.aim {
            Aim::Probe(first) => self.fail_refused(now, key, &first),
            Aim::Get => self.handle_not_resumed(now, key, refusal.status),
            Aim::Send if errand.has_stream() => self.fail_refused(now, key, &refusal),
            Aim::Send => {
                let why = refusal.unusable.unwrap_or_else(|| words::status(refusal.status));
                self.one_way_done(now, key, false, Some(why));
                self.errands.forget(key);
            }
        }
    }

    fn handle_post_head(&mut self, now: Instant, key: FetchKey, head: &Parts) {
        let most = self.config.max_message;
        let Some(fetch) = self.errands.fetch_mut(key) else { return };
        fetch.reader = fetch.reader_of_answer(head, most);
        let (session, origin) = (fetch.session, fetch.target.origin());
        let (is_refusal, is_whole) =
            (matches!(fetch.reader, Reader::Refusal(_)), matches!(fetch.reader, Reader::Whole(_)));
        if is_refusal {
            return self.errands.arm_fetch(key, Some(now + self.config.accept_within));
        }
        self.session.note_id(key.errand, &head.headers, origin);
        self.session.note_work(session);
        self.knows_transport = true;
        self.errands.begin(key.errand);
        let length = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if is_whole && length.is_some_and(|length: u64| length > most as u64) {
            self.end(now, key, Interruption::TooLarge(most));
        }
    }

    /// What asks for a stream, or whether the server has one of another kind, is answered.
    fn handle_get_head(&mut self, now: Instant, key: FetchKey, head: &Parts) {
        let most = self.config.max_message;
        let Some(fetch) = self.errands.fetch_mut(key) else { return };
        let is_probe = matches!(fetch.aim, Aim::Probe(_));
        if !head.status.is_success() || ContentType::of(&head.headers) != ContentType::Events {
            let refusal = fetch.refusal(head);
            return self.refuse(now, key.errand, refusal);
        }
        fetch.reader = Reader::Events(Box::new(EventReader::new(most)));
        let Some(errand) = self.errands.get_mut(key.errand).filter(|_| !is_probe) else { return };
        errand.stream.has_begun = true;
        if core::mem::take(&mut errand.stream.is_refused) {
            self.notice(HttpClientNotice::HeardAgain);
        }
    }

    /// The server does not let us have a stream.
    fn handle_not_resumed(&mut self, now: Instant, key: ErrandKey, status: StatusCode) {
        let may_pass = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            // The next message may bring a new token.
            || status == StatusCode::UNAUTHORIZED && self.credentials.is_some();
        if may_pass {
            return self.interrupt(now, key, Interruption::Refused(status));
        }
        if let Some(errand) = self.errands.get_mut(key).filter(|errand| errand.role == Role::Listen) {
            if !errand.stream.has_begun {
                // It has none, and that is all right.
                return self.errands.forget(key);
            }
            if matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE) {
                // Perhaps it knows the event no more, and gives a new stream.
                errand.stream.last_id = None;
            }
            if !core::mem::replace(&mut errand.stream.is_refused, true) {
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
        self.fail(now, key, &Failure::unknown(Fault::Server, text).with_status(status));
    }

    /// A whole body was read.
    fn handle_whole(&mut self, now: Instant, key: ErrandKey, refusal: Refusal) {
        let message = message::whole(&refusal.body);
        let is_empty = message.is_empty();
        if !is_empty
            && !matches!(frame::parse(message), Ok(Frame::Response(said)) if !message::is_answer(message, &said))
        {
            self.receive(now, key, message.to_vec());
        }
        let Some(errand) = self.errands.get(key) else { return };
        if is_empty || !errand.is_waited_for() || errand.is_subscription() || message::is_batch(message) {
            return self.interrupt(now, key, Interruption::Ended);
        }
        // The server has said something, and it is no answer: so at least it is quoted.
        self.fail_refused(now, key, &refusal);
    }

    fn handle_events(&mut self, now: Instant, key: FetchKey, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((event, is_probe)) = self.errands.next_event(key, &mut rest, self.config.seed) {
            match event.content {
                Content::Other(kind) if is_probe && kind == b"endpoint" => {
                    return self.end(now, key, Interruption::OldTransport);
                }
                _ if is_probe => return self.end(now, key, Interruption::Ended),
                Content::Message(message) => self.receive(now, key.errand, message),
                Content::Overlong(overlong) => self.receive_overlong(now, key.errand, &overlong),
                Content::Empty | Content::Other(_) => {}
            }
        }
    }
}
