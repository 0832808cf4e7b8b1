//! Messages of a side that has no descriptors: its stream takes and gives whole ones, and knows whose they are.

use std::task::{Context, Poll};

use memchr::memchr;
use rescind_proto::{side::Side, time::Instant};

use super::{Closing, Drive};
use crate::{message_stream::Arrival, process::ended_by::EndReason};

impl Drive {
    /// Takes what has come from a side that has no descriptors, as far as it is wanted.
    pub(super) fn poll_messages(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        let mut moved = false;
        while self.relay.wants_input(side)
            && (side == Side::Server || self.pass_barrier())
            && let Some(messages) = &mut self.ports[side].messages
            && let Poll::Ready(arrival) = messages.poll_next(cx)
        {
            moved = true;
            match (arrival, side) {
                (
                    Ok(Some(
                        Arrival::Message(bytes)
                        | Arrival::Garbage(bytes)
                        | Arrival::Attached { message: bytes, .. }
                        | Arrival::Unanswered { answer: bytes, .. },
                    )),
                    _,
                ) => {
                    let mut line = Vec::from(bytes);
                    if line.last() != Some(&b'\n') {
                        line.push(b'\n');
                    }
                    self.admin.handle_input(now, &self.relay, side, &line);
                    self.relay.handle_input(now, side, &line);
                }
                (Ok(Some(Arrival::StreamClosed(id))), _) => self.relay.handle_stream_closed(now, side, &id),
                (Ok(Some(Arrival::Credentials(credentials))), Side::Client) => self.barrier = Some(credentials),
                // None of its messages is passed on under its name.
                (Ok(Some(Arrival::Credentials(_))), Side::Server) => {}
                (Ok(None) | Err(_), Side::Client) => {
                    self.relay.handle_disconnect(now, Side::Client);
                    self.handle_client_gone(now, EndReason::ReaderGone);
                }
                (Ok(None) | Err(_), Side::Server) => {
                    self.ports.server.messages = None;
                    self.handle_input_end(now, Side::Server);
                }
            }
        }
        let closes = match self.closing {
            Closing::No => false,
            Closing::WhenIdle => self.relay.awaited(Side::Client) == 0,
            Closing::Now => true,
        };
        if side == Side::Server && closes && self.relay.pending(Side::Server).is_empty() {
            moved |= self.poll_close(cx, now);
        }
        moved
    }

    /// Lets the server's stream know to whom what follows belongs, once it has taken all that was before; `false` until then.
    fn pass_barrier(&mut self) -> bool {
        if self.barrier.is_none() {
            return true;
        }
        if let Some(server) = &mut self.ports.server.messages {
            if !self.relay.pending(Side::Server).is_empty() {
                return false;
            }
            self.barrier.take().into_iter().for_each(|credentials| server.handle_credentials(credentials));
        }
        self.barrier = None;
        true
    }

    /// Closes the server's stream in order.
    fn poll_close(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let is_closed = self.ports.server.messages.as_mut().is_some_and(|messages| messages.poll_close(cx).is_ready());
        if is_closed {
            self.poll_departures(cx, now);
            self.ports.server.messages = None;
            self.check_server(now);
        }
        is_closed
    }

    /// Learns what has become of messages that the server's stream has taken.
    fn poll_departures(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Some(messages) = &mut self.ports.server.messages
            && let Poll::Ready(departure) = messages.poll_departure(cx)
        {
            self.relay.handle_departure(now, Side::Server, &departure);
            moved = true;
        }
        moved
    }

    /// Hands messages to a side that has no descriptors.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        let mut moved = false;
        while let Some(messages) = &mut self.ports[side].messages {
            let pending = self.relay.pending(side);
            let Some(end) = memchr(b'\n', pending) else {
                // An error is that of the next message.
                let _ = messages.poll_flush(cx);
                break;
            };
            let Poll::Ready(sent) = messages.poll_send(cx, &pending[..end]) else { break };
            moved = true;
            match sent {
                Ok(()) => self.handle_written(now, side, end + 1),
                Err(_) => self.handle_write_closed(now, side),
            }
        }
        if side == Side::Server {
            moved |= self.poll_departures(cx, now);
        }
        moved
    }
}
