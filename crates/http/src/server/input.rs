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
            link.report(key, &mut self.events);
        }
    }

    /// The same for what goes before everything else.
    pub(crate) fn push_urgent(&mut self, key: LinkKey, input: LinkInput) {
        if let Some(link) = self.links.get_mut(&key) {
            link.push_urgent(input);
            link.report(key, &mut self.events);
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

    /// Cancels requests that their client waits for no more. One that the program has not taken never gets there.
    pub(crate) fn retract(&mut self, now: Instant, link: LinkKey, calls: Vec<CallKey>) {
        for key in calls {
            let Some(call) = self.take_call(now, link, key) else { continue };
            let is_unseen = match call.way {
                Way::Joining(_) => true,
                Way::Queued(number) => self.links.get_mut(&link).is_some_and(|link| link.withdraw(number)),
                Way::Here | Way::Passed => false,
            };
            if !is_unseen {
                self.push_cancel(link, LinkInput::StreamClosed(call.link_id));
            }
        }
    }
}
