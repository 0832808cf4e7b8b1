//! What programs are to take: in which order, and what is taken back.

use rescind_proto::time::Instant;

use super::{
    HttpServer, LinkInput, LinkKey,
    calls::{CallKey, Way},
};

impl HttpServer {
    /// The next input of a link.
    pub fn poll_input(&mut self, key: LinkKey) -> Option<LinkInput> {
        let link = self.programs.links.get_mut(&key)?;
        link.is_reported = false;
        link.pop()
    }

    /// Cancels the requests that no client waits for any more.
    pub(crate) fn retract_abandoned(&mut self, now: Instant) {
        for (link, call) in core::mem::take(&mut self.streams.abandoned) {
            self.retract(now, link, call);
        }
    }

    /// Cancels a request that its client waits for no more. If the program has not taken it, it never gets there.
    pub(crate) fn retract(&mut self, now: Instant, link_key: LinkKey, key: CallKey) {
        let Some(link) = self.programs.links.get_mut(&link_key) else { return };
        let Some(call) = link.calls.take(key) else { return };
        link.idle_since = now;
        let is_unseen = match call.way {
            Way::Joining(_) => true,
            Way::Queued(number) => link.withdraw(number),
            Way::Here | Way::Passed => false,
        };
        if !is_unseen {
            self.programs.push(link_key, self.programs.of_cancels(), LinkInput::StreamClosed(call.link_id));
        }
    }
}
