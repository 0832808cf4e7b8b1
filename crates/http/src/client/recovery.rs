//! What becomes of an errand whose connection ended too early, or whose requests the server refused.

use http::StatusCode;
use rescind_proto::{
    error_code,
    frame::{self, Frame, Mend, ResponseId},
    link::Fault,
    time::Instant,
};

use super::{
    ErrandKey, HttpClient,
    errand::{CallKind, CallState, Role, Stage, Waiting},
    failure::Failure,
    fetch::Aim,
    message,
    refusal::{Interruption, Refusal},
};
use crate::status_note;

impl HttpClient {
    /// The connection of a stream is over. Either the stream is asked for again, or its requests are given up.
    pub(crate) fn interrupt(&mut self, now: Instant, key: ErrandKey, how: Interruption) {
        let Some(errand) = self.errands.get(key) else { return };
        let listens = errand.role == Role::Listen;
        if !listens && !errand.is_waited_for() {
            return self.errands.forget(key);
        }
        let can_go_on = match errand.is_stateless() {
            true => errand.is_subscription() && errand.stream.has_begun,
            false => errand.stream.last_id.is_some(),
        };
        let most = if matches!(how, Interruption::Unreached(_)) { self.config.max_unreached } else { u32::MAX };
        let most = most.min(self.config.max_attempts);
        if listens || can_go_on && errand.attempts < most {
            return self.errands.try_later(now, key, &self.config);
        }
        let failure = how.failure(&self.origin, can_go_on);
        self.fail(now, key, &failure);
    }

    pub(crate) fn handle_errand_due(&mut self, now: Instant, key: ErrandKey) {
        let Some(errand) = self.errands.get(key) else { return };
        if matches!(errand.stage, Stage::Away) {
            let is_resumed = errand.has_stream() && !errand.is_stateless();
            self.errands.carry(key, if is_resumed { Aim::Get } else { Aim::Send });
        } else if errand.is_waited_for() {
            let text = "the session ended on the server before it answered; the request may have been carried out";
            self.fail(now, key, &Failure::unknown(Fault::Server, text));
        } else {
            self.errands.forget(key);
        }
    }

    /// Answers what waits for an errand with an error, and lets the errand go.
    pub(crate) fn fail(&mut self, now: Instant, key: ErrandKey, failure: &Failure) {
        let Some(errand) = self.errands.get_mut(key) else { return };
        match errand.role {
            Role::Calls => {}
            Role::Reopen => return self.reopen_failed(now, key, failure.text(), Some(failure)),
            Role::Survey { call, .. } => return self.end_survey(now, key, call, false),
            Role::Listen | Role::OneWay(_) => return self.errands.forget(key),
        }
        let tag = errand.is_stateless().then_some(key);
        for waiting in errand.waiting.iter_mut().filter(|waiting| waiting.state == CallState::InFlight) {
            waiting.state = CallState::Answered { until: now };
            self.inbox.push_failure(failure, &waiting.id, tag, Some((waiting.id.clone(), key)));
        }
        self.errands.forget(key);
        if self.session.note_failure(key) {
            self.release_held(now);
        }
    }

    /// Answers requests that were refused, in words.
    pub(crate) fn fail_refused(&mut self, now: Instant, key: ErrandKey, refusal: &Refusal) {
        let failure = refusal.failure(&self.origin);
        self.fail(now, key, &failure);
    }

    /// The server has refused the requests of an errand. It may be that they can be sent again; or that what it said is the
    /// answer; or that more is to be found out.
    pub(crate) fn decide(&mut self, now: Instant, key: ErrandKey, refusal: Refusal) {
        let Some(errand) = self.errands.get(key) else { return };
        if !errand.is_waited_for() {
            return self.errands.forget(key);
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
        let is_code = |code: i32| answered.is_some_and(|answer| answer.body.error_code() == Some(i64::from(code)));
        let names_request = answered.is_some_and(
            |response| matches!(&response.id, Some(ResponseId::Exact(id)) if errand.position(id).is_some()),
        );
        // What knows no method knows the session (MCP-H09).
        let knows_session = names_request || is_code(error_code::METHOD_NOT_FOUND);
        if refusal.status == StatusCode::NOT_FOUND
            && !knows_session
            && !errand.was_resent
            && let Some(session) = refusal.session
            && self.send_again(now, key, session)
        {
            return;
        }
        let Some(errand) = self.errands.get(key) else { return };
        let is_stateless = errand.is_stateless();
        let is_first = is_stateless || errand.is_handshake();
        if answered.is_some() && refusal.unusable.is_none() && !refusal.wants_authorization() {
            let is_tool = matches!(&*errand.waiting, [Waiting { kind: CallKind::CallTool, .. }]);
            let may_ask = is_tool && is_stateless && !errand.was_resent;
            if is_code(error_code::HEADER_MISMATCH) && may_ask && self.begin_survey(key, &body) {
                return;
            }
            let mut noted = body.clone();
            if self.config.notes_status {
                status_note::add(&mut noted, refusal.status, refusal.retry_after.as_deref());
            }
            self.receive(now, key, noted);
        }
        let may_be_old =
            matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        if may_be_old && is_first && answered.is_none() && !self.knows_transport {
            self.knows_transport = true;
            return self.errands.carry(key, Aim::Probe(Box::new(refusal)));
        }
        self.fail_refused(now, key, &refusal);
    }

    /// Sends the requests of an errand again, since the server did not know their session; `false` if there is none to send
    /// them in.
    fn send_again(&mut self, now: Instant, key: ErrandKey, session: u64) -> bool {
        self.errands.arm(key, None);
        self.errands.hold(key);
        if !self.handle_unknown_session(now, session) {
            self.errands.take_held(key);
            return self.errands.get(key).is_none();
        }
        let Some(errand) = self.errands.get_mut(key) else { return true };
        errand.was_resent = true;
        let cancelled = errand.waiting.iter().filter(|waiting| matches!(waiting.state, CallState::Cancelled { .. }));
        let cancelled: Vec<_> = cancelled.map(|waiting| waiting.id.clone()).collect();
        self.errands.come_back(key);
        for id in cancelled {
            self.errands.leave_out(key, &id);
        }
        self.release_held(now);
        true
    }
}
