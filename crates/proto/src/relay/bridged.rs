//! A relay whose server is of another era than its client: what goes to the server and comes from it passes a
//! [`Bridge`](crate::bridge::Bridge).
//!
//! Everything here is of the client's era, recordings included; what the server itself is sent and says is the bridge's.
//! A frame that the bridge has taken has not left by that, and a cancel of it goes to the bridge, which takes it back or
//! passes the cancel on, and reports which (D51).

use super::{Hop, Relay, RelayEvent};
use crate::{
    bridge::Carried,
    error_code,
    frame::{self, Mend, Named, Piece},
    framing::{self, Decoder, Framing, Overlong},
    kind::MessageKind,
    link::Rejected,
    side::Side,
    time::Instant,
};

impl Relay {
    /// Whether the server, should it end now, may be started again, and its client notices nothing: it ended because it was
    /// asked which era it knows ([`Bridge::ends_of_probe`](crate::bridge::Bridge::ends_of_probe)), and has nothing that its
    /// client sent. Ask when all that it has said was handed over.
    #[must_use]
    pub fn may_replace_server(&self) -> bool {
        let bridge = self.bridge.as_deref().filter(|bridge| bridge.ends_of_probe());
        let link = &self.core.links[Side::Server];
        let is_open = !link.ended && !link.write_closed;
        // What the server has asked would be answered to another.
        let owes_nothing = self.in_flight(Side::Server) == 0;
        bridge.is_some_and(|bridge| is_open && owes_nothing && self.in_flight(Side::Client) <= bridge.waiting())
    }

    /// Records that the server has ended, and another process of it was started in its place: bytes now go there and come
    /// from there, and half a message of the former one is dropped. Only where
    /// [`may_replace_server`](Self::may_replace_server) says so.
    pub fn handle_server_replaced(&mut self, now: Instant) {
        debug_assert!(self.may_replace_server(), "the server was not asked, or has more than that");
        let decoder = Decoder::new(Some(Framing::Line), self.core.config.max_message);
        self.core.links[Side::Server].decoder = Some(Box::new(decoder));
        self.bridge.iter_mut().for_each(|bridge| bridge.handle_replaced());
        self.finish(now);
    }

    /// Ends a call into the machine.
    #[inline]
    pub(super) fn finish(&mut self, now: Instant) {
        self.cross(now);
        self.check();
    }

    /// Hands the bridge what is for the server, and takes in what it says, until neither has anything for the other.
    #[inline]
    pub(super) fn cross(&mut self, now: Instant) {
        if self.bridge.is_some() {
            self.cross_bridge(now);
        }
    }

    #[cold]
    fn cross_bridge(&mut self, now: Instant) {
        let Some(mut bridge) = self.bridge.take() else { return };
        if self.core.framing != Framing::Line {
            // No protocol with such a frame has two eras.
            return self.set_departs();
        }
        loop {
            let mut moved = false;
            while (bridge.wants_input()
                || bridge.wants_cancels() && self.core.links[Side::Server].outbox.is_urgent_next())
                && let pending = self.core.links[Side::Server].pending()
                && let Some(end) = pending.iter().position(|byte| *byte == b'\n')
            {
                // What the relay passes on can be read.
                _ = bridge.handle_message(now, Side::Client, &pending[..end]);
                self.frames_written(now, Side::Server, end + 1);
                moved = true;
            }
            while let Some(said) = bridge.poll_said() {
                match said {
                    Carried::Message(body) => self.take_in(now, &body),
                    Carried::OfTask(body, status) => {
                        self.core.task_at_server = Some(status);
                        self.take_in(now, &body);
                        self.core.task_at_server = None;
                    }
                    Carried::Departed(departure) => self.departed(now, Side::Server, &departure),
                    Carried::Unasked(body) => self.core.reject(Side::Server, Rejected::UnknownResponse, &body),
                }
                moved = true;
            }
            if !moved {
                break;
            }
        }
        if bridge.is_done() {
            return self.set_departs();
        }
        self.bridge = Some(bridge);
    }

    /// Gives the bridge a message of the server.
    pub(super) fn hand_over(&mut self, now: Instant, body: &[u8]) {
        let Some(bridge) = &mut self.bridge else { return };
        if bridge.handle_message(now, Side::Server, body) {
            return;
        }
        if let Some(pieces) = frame::apart(body) {
            return pieces.into_iter().for_each(|piece| match piece {
                Piece::Noise(noise) => self.core.reject(Side::Server, Rejected::NotJson, noise),
                // One piece holds no others, so this goes one level down at most.
                Piece::Message(message) => self.hand_over(now, message),
            });
        }
        match frame::mend(body, self.core.config.max_message) {
            Mend::Mended(mended) => _ = bridge.handle_message(now, Side::Server, &mended),
            Mend::TooLong(len) => self.lose_overlong(now, &Overlong { len, ..framing::learn(body) }),
            Mend::No => {
                self.core.reject(Side::Server, Rejected::NotJson, body);
                let Named { kind, id, is_printed } = frame::name(body);
                let id = id.filter(|_| kind != MessageKind::Request || !is_printed);
                let id = id.and_then(|id| bridge.handle_unreadable(now, &id));
                let words = "the answer could not be read";
                self.answer_unreadable(now, Side::Server, id.as_ref(), error_code::INTERNAL_ERROR, words);
            }
        }
    }

    /// A message of the server is over the limit: the request that it answers is known to its client by another id.
    pub(super) fn lose_overlong(&mut self, now: Instant, message: &Overlong) {
        let &Overlong { len, kind, .. } = message;
        let bridge = self.bridge.as_mut();
        let id = bridge.zip(message.id.as_ref()).and_then(|(bridge, id)| bridge.handle_unreadable(now, id));
        self.handle_overlong(now, Side::Server, &Overlong { len, kind, id, ..message.clone() });
    }

    /// Takes in a message of the server, as the bridge has it.
    fn take_in(&mut self, now: Instant, body: &[u8]) {
        if self.core.config.emit.frames {
            let mut line = body.to_vec();
            line.push(b'\n');
            self.core.reports.emit(RelayEvent::Frame { hop: Hop::From(Side::Server), bytes: line.into() });
        }
        self.take_alone(now, Side::Server, body);
        if self.core.welcome.is_some() {
            self.pursue_welcome(now);
        }
    }
}
