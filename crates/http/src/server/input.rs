//! What programs are to take: in which order, and what is taken back.

use rescind_proto::time::Instant;

use super::{
    HttpServer, LinkInput, LinkKey,
    calls::{CallKey, Way},
};

impl HttpServer {
    /// The next input of a link.
    pub fn poll_input(&mut self, key: LinkKey) -> Option<LinkInput> {
        let link = self.links.get_mut(&key)?;
        link.is_reported = false;
        link.pop()
    }

    /// Has this wait for the program to take it.
    pub(crate) fn push_input(&mut self, key: LinkKey, input: LinkInput) {
        if let Some(link) = self.links.get_mut(&key) {
            link.push(input);
            link.report(key, &mut self.streams.events);
        }
    }

    /// The same for what goes before everything else.
    pub(crate) fn push_urgent(&mut self, key: LinkKey, input: LinkInput) {
        if let Some(link) = self.links.get_mut(&key) {
            link.push_urgent(input);
            link.report(key, &mut self.streams.events);
        }
    }

    /// The same for the cancel of a request that the program has taken: it goes before what waits, so that no flood delays
    /// it. But where messages belong to the credentials that were said before them, it keeps its place.
    pub(crate) fn push_cancel(&mut self, key: LinkKey, input: LinkInput) {
        if self.config.passes_credentials() {
            self.push_input(key, input);
        } else {
            self.push_urgent(key, input);
        }
    }

    /// Cancels the requests that no client waits for any more.
    pub(crate) fn retract_abandoned(&mut self, now: Instant) {
        for (link, call) in core::mem::take(&mut self.streams.abandoned) {
            self.retract(now, link, call);
        }
    }

    /// Cancels a request that its client waits for no more. If the program has not taken it, it never gets there.
    pub(crate) fn retract(&mut self, now: Instant, link_key: LinkKey, key: CallKey) {
        let Some(link) = self.links.get_mut(&link_key) else { return };
        let Some(call) = link.calls.take(key) else { return };
        link.idle_since = now;
        let is_unseen = match call.way {
            Way::Joining(_) => true,
            Way::Queued(number) => link.withdraw(number),
            Way::Here | Way::Passed => false,
        };
        if !is_unseen {
            self.push_cancel(link_key, LinkInput::StreamClosed(call.link_id));
        }
    }
}
