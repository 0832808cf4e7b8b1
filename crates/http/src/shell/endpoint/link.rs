//! A link of an endpoint, as a stream of messages.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderValue;
use rescind::peer::{
    Transport,
    transport::{Arrival, CancelFate, Census, Credentials, MessageStream},
};
use rescind_proto::id::RequestId;

use super::Endpoint;
use crate::server::{LinkInput, LinkKey, Owner};

/// The messages of a link: those of a session's client, or of several clients that share it.
///
/// Dropping it ends its sessions; what is in flight is answered with an error then.
#[derive(Debug)]
pub struct HttpLink {
    endpoint: Endpoint,
    key: LinkKey,
    owner: Option<Owner>,
    /// What it was last polled with. While its endpoint has it, too, there is no input.
    waker: Option<Arc<Waker>>,
}

impl HttpLink {
    pub(super) const fn new(endpoint: Endpoint, key: LinkKey, owner: Option<Owner>) -> Self {
        Self { endpoint, key, owner, waker: None }
    }

    /// Takes the next input. Where there can be none, the machine is not asked.
    fn poll_input(&mut self, cx: &Context<'_>) -> Poll<LinkInput> {
        let known = self.waker.take().filter(|known| known.will_wake(cx.waker()));
        let waker = self.waker.insert(known.unwrap_or_else(|| Arc::new(cx.waker().clone())));
        if Arc::strong_count(waker) > 1 {
            return Poll::Pending;
        }
        self.endpoint.shared.step(|state, _| {
            let input = state.server.poll_input(self.key);
            if input.is_none() {
                state.links.insert(self.key, Arc::clone(waker));
            }
            input.map_or(Poll::Pending, Poll::Ready)
        })
    }
}

/// The value of `Authorization`, in the words of all transports.
pub(super) fn credentials(value: Option<HeaderValue>) -> Credentials {
    value.map_or_else(Credentials::default, |value| Credentials::new(Bytes::copy_from_slice(value.as_bytes())))
}

impl MessageStream for HttpLink {
    fn protocol_name(&self) -> Option<&'static str> {
        Some("http")
    }

    /// The endpoint's own limit was applied before.
    fn limit(&mut self, _max_message: usize) {}

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>> {
        self.poll_input(cx).map(|input| {
            Ok(match input {
                LinkInput::Message(line) => Some(Arrival::Message(line.into())),
                LinkInput::Request(line, caller) => {
                    Some(Arrival::Attached { message: line.into(), attachment: caller.into_attachment() })
                }
                LinkInput::StreamClosed(id) => Some(Arrival::StreamClosed(id)),
                LinkInput::Credentials(value) => Some(Arrival::Credentials(credentials(value))),
                LinkInput::End => None,
            })
        })
    }

    fn poll_send(&mut self, _cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.endpoint.with(|server, now| server.handle_message(now, self.key, message));
        Poll::Ready(Ok(()))
    }

    fn census(&self) -> Option<Census> {
        let (endpoint, key) = (self.endpoint.clone(), self.key);
        Some(Arc::new(move || endpoint.with(|server, _| server.census(key))))
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(Owner::name)
    }

    fn handle_silenced(&mut self, id: &RequestId) {
        self.endpoint.with(|server, now| server.handle_settled(now, self.key, id));
    }

    fn handle_cancel_fate(&mut self, id: &RequestId, fate: CancelFate) {
        self.endpoint.with(|server, _| server.handle_cancel_fate(self.key, id, fate));
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl From<HttpLink> for Transport {
    fn from(link: HttpLink) -> Self {
        Self::messages(link)
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        self.endpoint.shared.step(|state, now| {
            state.links.remove(&self.key);
            state.server.handle_link_closed(now, self.key);
        });
    }
}
