//! Credentials of messages, where clients sign in at the server behind: which link they share, when those of a link change,
//! and whether the server has accepted them.
//!
//! Without sessions a link has one value of `Authorization` for its life, since everything else that it has would otherwise
//! be kept apart request by request. In a session a token is refreshed, so it changes within the link's ordered input:
//! `LinkInput::Credentials`, then the messages under it. The relay between has a queue of its own: its drive reads nothing
//! more of the client until the server's stream has taken all that was before, and only then hands the change over.

use core::num::NonZero;

use http::StatusCode;
use rescind_proto::time::Instant;

use super::{
    HttpServer, LinkInput, LinkKey, Sessions, Stateless, StreamKey,
    door::{Asker, Credentials, Holder, Refusal},
    link::LinkUse,
    passed_status::Unauthorized,
    timers::Timer,
};

impl HttpServer {
    /// Returns the link of an asker's requests outside a session; opens it if there is none.
    pub(crate) fn stateless_link(&mut self, now: Instant, asker: &Asker, holder: &Holder) -> Result<LinkKey, Refusal> {
        let joint = self.joins_eras().then(|| self.joint_link(now));
        if let Some(key) = joint.or_else(|| self.shared.links.get(asker).copied()) {
            if let Some(link) = self.links.get_mut(&key) {
                link.idle_since = now;
            }
            return Ok(key);
        }
        let parts_people = self.config.parts_people();
        if parts_people {
            let place = self.find_place(now, asker, holder)?;
            self.take_place(now, place);
        }
        let at = if parts_people { now } else { self.starts.back_off.start(now) };
        let key = self.open_link(now, at, LinkUse::Stateless, None, asker);
        self.shared.links.insert(asker.clone(), key);
        if parts_people {
            self.timers.arm(now, Timer::Link(key));
        }
        Ok(key)
    }

    /// Returns the link of such requests, if it is open.
    pub(crate) fn known_stateless_link(&self, asker: &Asker) -> Option<LinkKey> {
        if self.joins_eras() { self.joint.link() } else { self.shared.links.get(asker).copied() }
    }

    /// Whether requests outside a session go to the program that sessions share.
    pub(crate) fn joins_eras(&self) -> bool {
        self.config.stateless == Stateless::Joined && self.config.sessions == Sessions::SharedLink
    }

    /// Ends a link for requests outside a session if it was idle for too long; `true` if it goes on.
    pub(crate) fn keep_up_link(&mut self, now: Instant, key: LinkKey) -> bool {
        let Some(link) = self.links.get(&key).filter(|link| !link.is_closed) else { return false };
        let is_over = link.is_idle() && now.since(link.idle_since) >= self.config.idle && !self.shared.is_asked(key);
        if is_over {
            self.end_link(now, key);
        }
        !is_over
    }

    /// Sets the credentials of what comes next on a link: of streams whose key is not below `since`.
    pub(crate) fn set_credentials(&mut self, key: LinkKey, since: NonZero<u64>, credentials: &Credentials) {
        let changed = self.links.get_mut(&key).filter(|link| link.credentials != *credentials);
        let Some(link) = changed else { return };
        link.credentials.clone_from(credentials);
        (link.since, link.is_proved) = (since, false);
        self.push_input(key, LinkInput::Credentials(credentials.clone()));
    }

    /// Notes that the server has sent something for a stream of a link. If the link has the same credentials still, they are
    /// good, or not any more.
    pub(crate) fn note_proof(
        &mut self,
        now: Instant,
        link: LinkKey,
        key: StreamKey,
        unauthorized: Option<&Unauthorized>,
    ) {
        if !self.config.passes_credentials() {
            return;
        }
        let Some(link) = self.links.get_mut(&link) else { return };
        if key.0 < link.since {
            return;
        }
        match unauthorized.map(|unauthorized| unauthorized.status) {
            Some(StatusCode::UNAUTHORIZED) => link.is_proved = false,
            _ if link.is_proved => {}
            _ => {
                link.is_proved = true;
                let timers = link.calls.iter().map(|(_, call)| Timer::Begin(call.stream));
                let waiting = timers.filter(|timer| self.streams.needs(*timer));
                waiting.for_each(|timer| self.timers.arm(now, timer));
            }
        }
    }
}
