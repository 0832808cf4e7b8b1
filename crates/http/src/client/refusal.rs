//! What becomes of a stream whose connection ended too early, or whose requests the server refused.

use core::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::FixedState;
use http::StatusCode;
use rescind_proto::{
    error_code,
    frame::{self, Frame, Mend, ResponseId},
    link::Fault,
    time::Instant,
};

use super::{
    HttpClient, StreamKey,
    failure::Failure,
    fetch::{Phase, Probe, Refusal, Role},
    message,
    response::Interruption,
    session::SessionState,
    stream::{CallKind, CallState, Purpose, Stage},
    words,
};
use crate::status_note;

impl HttpClient {
    /// The connection of a stream is over. Either the stream is asked for again, or its requests are given up.
    pub(crate) fn interrupt(&mut self, now: Instant, key: StreamKey, how: Interruption) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let goes_on = match stream.purpose {
            Purpose::Listen => true,
            Purpose::Calls | Purpose::Reopen | Purpose::Survey { .. } => {
                if !stream.is_waited_for() {
                    self.forget_stream(key);
                    return;
                }
                match stream.is_stateless() {
                    true => stream.is_subscription() && stream.has_begun,
                    false => stream.cursor.last_id.is_some(),
                }
            }
        };
        let most = match how {
            Interruption::Unreached(_) => self.config.max_unreached.min(self.config.max_attempts),
            Interruption::Ended | Interruption::Broken(_) | Interruption::Refused(_) => self.config.max_attempts,
        };
        let stream_may_wait = stream.purpose == Purpose::Listen || stream.attempts < most;
        if goes_on && stream_may_wait {
            let attempts = stream.attempts;
            stream.attempts += 1;
            stream.stage = Stage::Away;
            let retry = stream.cursor.retry;
            let delay = self.delay(attempts, retry, key.0);
            return self.arm_stream(key, Some(now + delay));
        }
        let origin = &self.origin;
        let (fault, status, what) = match how {
            Interruption::Ended => (Fault::Server, None, format!("{origin} ended its response without an answer")),
            Interruption::Broken(why) | Interruption::Unreached(why) => {
                (Fault::Transport, None, format!("the connection to {origin} broke before the answer came ({why})"))
            }
            Interruption::Refused(status) => {
                let is_for_token = status == StatusCode::UNAUTHORIZED;
                let fault = if is_for_token { Fault::Authorization } else { Fault::Server };
                let named = words::status(status);
                let what = format!("the connection to {origin} ended before the answer came, and then it said {named}");
                (fault, Some(status), what)
            }
        };
        let tried = if goes_on { ", and could not be resumed" } else { "" };
        let text = format!("{what}{tried}; the request may have been carried out");
        let failure = Failure::unknown(fault, text);
        let failure = status.into_iter().fold(failure, Failure::with_status);
        self.fail_stream(now, key, &failure);
    }

    /// How long to wait before the next attempt: as long as the server says, and longer the more attempts were in vain.
    pub(crate) fn delay(&self, attempts: u32, retry: Option<Duration>, salt: u64) -> Duration {
        let doubled = self.config.retry_first.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX));
        let doubled = doubled.min(self.config.retry_most);
        let Some(retry) = retry.filter(|_| attempts == 0) else {
            // Clients that lost the same server should not come back at once.
            let spread = FixedState::with_seed(self.config.seed).hash_one((salt, attempts)) % 256;
            let delay = doubled.max(retry.unwrap_or_default());
            return delay + delay / 1024 * u32::try_from(spread).unwrap_or_default();
        };
        retry
    }

    pub(crate) fn handle_stream_due(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        match stream.stage {
            Stage::Away if stream.is_stateless() => self.start_post(key),
            Stage::Away => self.start_get(key),
            _ if stream.is_waited_for() => {
                let text = "the session ended on the server before it answered; the request may have been carried out";
                self.fail_stream(now, key, &Failure::unknown(Fault::Server, text));
            }
            Stage::Held(_)
            | Stage::Posting(_)
            | Stage::Reading(_)
            | Stage::Asking(_)
            | Stage::Probing(_)
            | Stage::Surveying(..) => drop(self.forget_stream(key)),
        }
    }

    /// The requests of a stream could not be sent, or not be answered.
    pub(crate) fn handle_post_failed(&mut self, now: Instant, key: StreamKey, failure: &Failure, why: &str) {
        let Some(stream) = self.streams.get(&key) else { return };
        if stream.is_stateless() && stream.is_subscription() && stream.has_begun {
            return self.interrupt(now, key, Interruption::Broken(why.to_owned()));
        }
        self.fail_stream(now, key, failure);
    }

    /// Answers what waits for a stream with an error, and lets the stream go.
    pub(crate) fn fail_stream(&mut self, now: Instant, key: StreamKey, failure: &Failure) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        match stream.purpose {
            Purpose::Calls => {}
            Purpose::Listen => return drop(self.forget_stream(key)),
            Purpose::Reopen => return self.reopen_failed(now, key, failure.text(), Some(failure)),
            Purpose::Survey { call, .. } => return self.end_survey(now, key, call, false),
        }
        let mut was_handshake = false;
        let tag = stream.is_stateless().then_some(key);
        for waiting in stream.waiting.iter_mut().filter(|waiting| waiting.state == CallState::InFlight) {
            was_handshake |= waiting.kind == CallKind::Handshake;
            waiting.state = CallState::Answered { until: now };
            self.inbox.push_failure(failure, &waiting.id, tag, Some((waiting.id.clone(), key)));
        }
        self.forget_stream(key);
        if was_handshake && self.session.state == SessionState::Opening(key) {
            self.session.state = SessionState::None;
            (self.session.id, self.session.origin) = (None, None);
            self.release_held(now);
        }
    }

    /// The server has refused the requests of a stream. It may be that they can be sent again; or that what it said is the
    /// answer; or that more is to be found out.
    pub(crate) fn decide(&mut self, now: Instant, key: StreamKey, refusal: Refusal) {
        let Some(stream) = self.streams.get(&key) else { return };
        if !stream.is_waited_for() {
            self.forget_stream(key);
            return;
        }
        let body = match frame::mend(message::whole(&refusal.body), self.config.max_refusal) {
            Mend::Mended(mended) => mended,
            Mend::No | Mend::TooLong(_) => message::whole(&refusal.body).to_vec(),
        };
        let said = frame::parse(&body).ok();
        let answered = said.as_ref().and_then(|frame| match frame {
            Frame::Response(response) => Some(response).filter(|response| message::is_answer(&body, response)),
            Frame::Request(_) | Frame::Notification(_) | Frame::Batch(_) => None,
        });
        // It knows the session, and not the method (MCP-H09).
        let is_no_method = answered
            .is_some_and(|response| response.body.error_code() == Some(i64::from(error_code::METHOD_NOT_FOUND)));
        let names_request = answered.is_some_and(
            |response| matches!(&response.id, Some(ResponseId::Exact(id)) if stream.position(id).is_some()),
        );
        if refusal.status == StatusCode::NOT_FOUND
            && !names_request
            && !is_no_method
            && !stream.was_resent
            && let Some(session) = refusal.session
            && self.send_again(now, key, session)
        {
            return;
        }
        let Some(stream) = self.streams.get(&key) else { return };
        let is_stateless = stream.is_stateless();
        let wants_name = refusal.wants_authorization();
        if let Some(response) = answered
            && refusal.unusable.is_none()
            && !wants_name
        {
            let is_mismatch = response.body.error_code() == Some(i64::from(error_code::HEADER_MISMATCH));
            let is_tool = matches!(&*stream.waiting, [waiting] if waiting.kind == CallKind::CallTool);
            if is_mismatch && is_tool && is_stateless && !stream.was_resent {
                return self.begin_survey(now, key, body.clone());
            }
            let mut noted = body.clone();
            if self.config.notes_status {
                status_note::add(&mut noted, refusal.status, refusal.retry_after.as_deref());
            }
            self.receive(now, key, noted);
        }
        let is_first = is_stateless || self.is_handshake(key);
        let may_be_old =
            matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        if may_be_old && is_first && answered.is_none() && !self.knows_transport {
            self.knows_transport = true;
            let role = Role::Probe(Box::new(Probe { stream: key, refusal }));
            let probe = self.start(self.fetch(role, Phase::Queued));
            return self.set_stage(key, Stage::Probing(probe));
        }
        self.decide_for_good(now, key, &refusal);
    }

    /// Sends the requests of a stream again, since the server did not know their session; `false` if there is none to send
    /// them in.
    fn send_again(&mut self, now: Instant, key: StreamKey, session: u64) -> bool {
        self.arm_stream(key, None);
        self.hold(key);
        let may_be_sent = self.handle_unknown_session(now, session);
        let Some(stream) = self.streams.get_mut(&key) else { return true };
        if !may_be_sent {
            if let Stage::Held(place) = stream.stage {
                self.held.remove(&place);
                stream.stage = Stage::Away;
            }
            return false;
        }
        stream.was_resent = true;
        stream.come_back(&mut self.events);
        let cancelled = stream.waiting.iter().filter(|waiting| matches!(waiting.state, CallState::Cancelled { .. }));
        for id in cancelled.map(|waiting| waiting.id.clone()).collect::<Vec<_>>() {
            self.leave_out(key, &id);
        }
        self.release_held(now);
        true
    }

    /// Answers requests that were refused, in words.
    pub(crate) fn decide_for_good(&mut self, now: Instant, key: StreamKey, refusal: &Refusal) {
        let Refusal { status, challenge, retry_after, unusable, body, session: _ } = refusal;
        let said = frame::parse(message::whole(body)).ok();
        let said = said.as_ref().and_then(words::message_of).unwrap_or_else(|| words::excerpt(body));
        let named = words::status(*status);
        let challenge = challenge.as_ref().filter(|_| refusal.wants_authorization());
        let mut text = match (unusable, challenge) {
            (Some(unusable), _) => format!("{} {unusable}", self.origin),
            (None, Some(challenge)) => {
                format!("{} wants authorization ({named}; {})", self.origin, challenge.schemes)
            }
            (None, None) if refusal.wants_authorization() => format!("{} wants authorization ({named})", self.origin),
            (None, None) => format!("{} answered {named}", self.origin),
        };
        if !said.is_empty() {
            text.push_str(": ");
            text.push_str(&said);
        }
        let may_have_run = status.is_success() || status.is_server_error();
        let fault = if refusal.wants_authorization() { Fault::Authorization } else { Fault::Server };
        let failure = if may_have_run { Failure::unknown(fault, text) } else { Failure::not_run(fault, text) };
        self.fail_stream(
            now,
            key,
            &failure.with_status(*status).with_challenge(challenge).with_retry_after(retry_after.as_deref()),
        );
    }
}
