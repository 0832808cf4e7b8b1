//! Requests that wait for a sign-in: what the driver does about a refusal, and what the machine has to know of it.

use http::response::Parts;
use rescind_proto::time::Instant;

use super::{
    FetchKey, HttpClient,
    fetch::{Phase, Refusal, Role},
    response::Interruption,
    stream::{Purpose, Stage},
    words::{self, Challenge},
};

impl HttpClient {
    /// Whether the local client waits for what this request brings, so that a person may be asked for it. Nobody is asked for
    /// what only listens or has no answer.
    #[must_use]
    pub fn is_awaited(&self, key: FetchKey) -> bool {
        let Some(Role::Post(stream)) = self.fetches.get(&key).map(|fetch| &fetch.role) else { return false };
        self.streams.get(stream).is_some_and(|stream| stream.purpose != Purpose::Listen && stream.is_waited_for())
    }

    /// Records that the server has refused a request for want of a token, and that the driver sees to one.
    ///
    /// Until it is sent again the request counts as not sent: its cancel takes it back, and sends nothing. None of our clocks
    /// runs meanwhile, since a person may be asked.
    pub fn handle_signing_in(&mut self, key: FetchKey) {
        self.arm_fetch(key, None);
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        fetch.phase = Phase::SigningIn;
        if let Role::Post(stream) = fetch.role
            && let Some(stream) = self.streams.get_mut(&stream)
        {
            stream.come_back(&mut self.events);
        }
    }

    /// Records that such a request is about to be sent again; `false` if it was withdrawn, and nothing must leave.
    #[must_use]
    pub fn handle_sent_again(&mut self, now: Instant, key: FetchKey) -> bool {
        let Some(fetch) = self.fetches.get_mut(&key) else { return false };
        fetch.phase = Phase::Handed;
        let patience = fetch.role.patience(&self.config);
        self.arm_fetch(key, patience.map(|patience| now + patience));
        true
    }

    /// Records that there is no token for such a request, of whose refusal this is the head. `why` in a few words, with what
    /// a person can do.
    pub fn handle_sign_in_failed(&mut self, now: Instant, key: FetchKey, head: &Parts, why: &str) {
        let Some(fetch) = self.fetches.get(&key) else { return };
        if let Role::Get(stream) = fetch.role {
            // The next request may bring a token.
            self.abort(key);
            self.set_stage(stream, Stage::Away);
            return self.interrupt(now, stream, Interruption::Refused(head.status));
        }
        let named = words::status(head.status);
        let schemes = Challenge::read(&head.headers).map(|challenge| format!("; {}", challenge.schemes));
        let schemes = schemes.unwrap_or_default();
        let why = words::excerpt(why.as_bytes());
        let text = format!("wants authorization ({named}{schemes}), and there is none: {why}");
        let refusal = Refusal { unusable: Some(text), ..self.refusal(key, head) };
        self.refuse(now, key, refusal);
    }
}
