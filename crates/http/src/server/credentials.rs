//! Credentials of messages, where clients sign in at the server behind: which link they share, when those of a link change,
//! and whether the server has accepted them.
//!
//! Without sessions a link has one value of `Authorization` for its life, since everything else that it has would otherwise
//! be kept apart request by request. In a session a token is refreshed, so it changes within the link's ordered input:
//! `LinkInput::Credentials`, then the messages under it. The relay between has a queue of its own: its drive reads nothing
//! more of the client until the server's stream has taken all that was before, and only then hands the change over.

use http::StatusCode;
use rescind_proto::time::Instant;

use super::{HttpServer, LinkKey, StreamKey, passed_status::Unauthorized, timers::Timer};

impl HttpServer {
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
        let Some(link) = self.programs.links.get_mut(&link) else { return };
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
