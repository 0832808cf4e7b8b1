//! What programs are to take: in which order, and what is taken back.

use super::{HttpServer, HttpServerEvent, LinkInput, LinkKey, link::InputNumber, stream::Waiting};

impl HttpServer {
    /// The next input of a link.
    pub fn poll_input(&mut self, key: LinkKey) -> Option<LinkInput> {
        let link = self.links.get_mut(&key)?;
        link.is_reported = false;
        link.pop()
    }

    /// Has this wait for the program to take it; the number by which it can be withdrawn.
    pub(crate) fn push_input(&mut self, key: LinkKey, input: LinkInput) -> Option<InputNumber> {
        let number = self.links.get_mut(&key)?.push(input);
        self.report_input(key);
        number
    }

    /// The same for what goes before everything else.
    pub(crate) fn push_urgent(&mut self, key: LinkKey, input: LinkInput) {
        if let Some(link) = self.links.get_mut(&key) {
            link.push_urgent(input);
        }
        self.report_input(key);
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

    /// Takes back what waits; `false` if the program has it.
    pub(crate) fn withdraw(&mut self, link: LinkKey, number: InputNumber) -> bool {
        self.links.get_mut(&link).is_some_and(|link| link.withdraw(number))
    }

    /// Cancels a request that its client waits for no more. One that the program has not taken never gets there.
    pub(crate) fn retract(&mut self, link: LinkKey, request: Waiting) {
        if !request.input.is_some_and(|number| self.withdraw(link, number)) {
            self.push_cancel(link, LinkInput::StreamClosed(request.link_id));
        }
    }

    fn report_input(&mut self, key: LinkKey) {
        if let Some(link) = self.links.get_mut(&key)
            && !core::mem::replace(&mut link.is_reported, true)
        {
            self.report(HttpServerEvent::InputReady(key));
        }
    }
}
