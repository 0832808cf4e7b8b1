//! Requests that wait for a sign-in: what the driver does about a refusal, and what the machine has to know of it.

use http::response::Parts;
use rescind_proto::time::Instant;

use super::{
    FetchKey, HttpClient,
    fetch::{Aim, Phase},
    refusal::{Interruption, Refusal},
    words::{self, Challenge},
};

impl HttpClient {
    /// Whether the local client waits for what this request brings, so that a person may be asked for it. Nobody is asked for
    /// what only listens or has no answer.
    #[must_use]
    pub fn is_awaited(&self, key: FetchKey) -> bool {
        let found = self.errands.fetch(key);
        found.is_some_and(|(errand, fetch)| matches!(fetch.aim, Aim::Send) && errand.is_waited_for())
    }

    /// Records that the server has refused a request for want of a token, and that the driver sees to one.
    ///
    /// Until it is sent again the request counts as not sent: its cancel takes it back, and sends nothing. None of our clocks
    /// runs meanwhile, since a person may be asked.
    pub fn handle_signing_in(&mut self, key: FetchKey) {
        self.errands.arm_fetch(key, None);
        let Some(fetch) = self.errands.fetch_mut(key) else { return };
        fetch.phase = Phase::SigningIn;
        if let Aim::Send = fetch.aim {
            self.errands.come_back(key.errand);
        }
    }

    /// Records that such a request is about to be sent again; `false` if it was withdrawn, and nothing must leave.
    #[must_use]
    pub fn handle_sent_again(&mut self, now: Instant, key: FetchKey) -> bool {
        self.errands.hand_over(now, key, Phase::Handed, &self.config);
        self.errands.fetch(key).is_some()
    }

    /// Records that there is no token for such a request, of whose refusal this is the head. `why` in a few words, with what
    /// a person can do.
    pub fn handle_sign_in_failed(&mut self, now: Instant, key: FetchKey, head: &Parts, why: &str) {
        let Some((_, fetch)) = self.errands.fetch(key) else { return };
        if let Aim::Get = fetch.aim {
            // The next request may bring a token.
            self.errands.abort(key.errand);
            return self.interrupt(now, key.errand, Interruption::Refused(head.status));
        }
        let named = words::status(head.status);
        let schemes = Challenge::read(&head.headers).map(|challenge| format!("; {}", challenge.schemes));
        let schemes = schemes.unwrap_or_default();
        let why = words::excerpt(why.as_bytes());
        let text = format!("wants authorization ({named}{schemes}), and there is none: {why}");
        let refusal = Refusal { unusable: Some(text), ..fetch.refusal(head) };
        self.refuse(now, key.errand, refusal);
    }
}
