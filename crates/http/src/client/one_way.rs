//! Messages that have no answer: notifications, cancels among them, and answers to the server's questions.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, response::Parts};
use rescind_proto::time::Instant;

use super::{
    ErrandKey, FetchKey, HttpClient, HttpClientNotice,
    errand::{Errand, OneWay, OneWayKind, Role},
    fetch::{Aim, Fetch},
    refusal::Interruption,
    words,
};

impl HttpClient {
    /// A message that belongs to the local client's credentials of now: in the session, unless its headers name the revision
    /// of one without.
    pub(crate) fn one_way(
        &self,
        kind: OneWayKind,
        body: Bytes,
        method: &str,
        stateless: Option<HeaderValue>,
    ) -> Errand {
        let is_stateless = stateless.is_some();
        let errand = self.errand(Role::OneWay(Box::new(OneWay { kind, method: method.into(), stateless })), body);
        Errand { session: errand.session.filter(|_| !is_stateless), ..errand }
    }

    /// Sends a message without an answer, if there is room for it.
    pub(crate) fn send_one_way(&mut self, now: Instant, errand: Errand) {
        if !self.errands.backlog.takes(errand.unsent, self.config.max_unsent) {
            let method = errand.one_way().map(|one_way| one_way.method.clone());
            return self.dropped(&method.unwrap_or_default(), "the server takes in nothing now");
        }
        let key = self.errands.insert(errand);
        self.send(now, key);
    }

    /// Gives up a message without an answer before it was sent.
    pub(crate) fn drop_one_way(&mut self, key: ErrandKey, why: &'static str) {
        let method = self.errands.get(key).and_then(Errand::one_way).map(|one_way| one_way.method.clone());
        self.errands.forget(key);
        self.dropped(&method.unwrap_or_default(), why);
    }

    pub(crate) fn handle_one_way_head(&mut self, now: Instant, key: FetchKey, head: &Parts) {
        let Some((errand, fetch)) = self.errands.fetch(key) else { return };
        let (errand, session) = (errand.clone(), fetch.session);
        let Some(one_way) = errand.one_way() else { return };
        let may_pass = head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS;
        if may_pass && one_way.is_harmless() {
            let Some(fetch) = self.errands.abort(key.errand) else { return };
            return self.retry_one_way(now, key.errand, &fetch, &Interruption::Refused(head.status));
        }
        self.errands.ignore(now, key, &self.config);
        if head.status.is_success() {
            self.session.note_work(session);
            return self.one_way_done(now, key.errand, true, None);
        }
        if let Some(session) = session.filter(|_| head.status == StatusCode::NOT_FOUND)
            && self.handle_unknown_session(now, session)
        {
            if one_way.kind == OneWayKind::Other && errand.attempts == 0 {
                let again = Errand::new(errand.role, errand.dialect, errand.session, errand.body);
                return self.send_one_way(now, Errand { attempts: 1, credentials: errand.credentials, ..again });
            }
            return self.one_way_done(now, key.errand, false, None);
        }
        self.one_way_done(now, key.errand, false, Some(words::status(head.status)));
    }

    /// The server has accepted what has no answer of its own, or it will not; then for this reason, if that is to be reported.
    pub(crate) fn one_way_done(&mut self, now: Instant, key: ErrandKey, is_accepted: bool, why: Option<String>) {
        let Some(OneWay { kind, method, .. }) = self.errands.get(key).and_then(Errand::one_way).cloned() else {
            return;
        };
        if let Some(why) = why.filter(|_| !matches!(kind, OneWayKind::End { .. })) {
            self.notice(HttpClientNotice::NotAccepted { method, why: why.into() });
        }
        match kind {
            OneWayKind::Cancel { of, id, .. } => self.errands.cancel_settled(of, &id, now + self.config.end_within),
            OneWayKind::Initialized => self.handle_greeted(now, key, is_accepted),
            OneWayKind::Answer | OneWayKind::Other | OneWayKind::End { .. } => {}
        }
    }

    /// Sends again what did not arrive with this HTTP request, which is over, if that does no harm.
    ///
    /// A cancel and the end of a session go again at once, the first time that their connection broke: most often it was
    /// one that had been kept, and that the server closed just then. A new one will do, also when the client is leaving.
    pub(crate) fn retry_one_way(&mut self, now: Instant, key: ErrandKey, fetch: &Fetch, how: &Interruption) {
        let Some(errand) = self.errands.get_mut(key) else { return };
        let Some(one_way) = errand.one_way() else { return };
        let (is_end, may_repeat) = (one_way.is_end(), !fetch.is_written() || one_way.is_harmless());
        let may_hurry = is_end || matches!(one_way.kind, OneWayKind::Cancel { .. });
        let is_broken = matches!(how, Interruption::Broken(_) | Interruption::Unreached(_));
        let has_tries = errand.attempts < self.config.cancel_retries;
        let is_of_this_session = fetch.session.is_none_or(|session| session == self.session.generation);
        let may_go_on = may_repeat && has_tries && is_of_this_session;
        if may_hurry && is_broken && errand.attempts == 0 && (is_end || may_go_on) {
            errand.attempts += 1;
            self.errands.carry(key, Aim::Send);
        } else if may_go_on && !is_end && !self.is_closing {
            self.errands.try_later(now, key, &self.config);
        } else {
            self.one_way_done(now, key, false, is_of_this_session.then(|| how.why()));
            self.errands.forget(key);
        }
    }
}
