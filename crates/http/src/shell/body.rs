//! The body of a response.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::endpoint::Endpoint;
use crate::server::{BodyChunk, ReplyKey};

/// The body of a response of an [`Endpoint`]: a message, or a stream of events.
///
/// Dropping it before its end is the client's hang-up.
#[derive(Debug)]
pub struct ResponseBody(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Events(Reply),
    /// So many bytes are still to come.
    Long(Reply, usize),
}

/// A response that the machine has not finished.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) endpoint: Endpoint,
    pub(super) key: ReplyKey,
    pub(super) has_ended: bool,
}

impl Reply {
    pub(super) fn new(endpoint: &Endpoint, key: ReplyKey) -> Self {
        Self { endpoint: endpoint.clone(), key, has_ended: false }
    }
}

impl ResponseBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    pub(super) const fn events(reply: Reply) -> Self {
        Self(Kind::Events(reply))
    }

    pub(super) const fn long(reply: Reply, length: usize) -> Self {
        Self(Kind::Long(reply, length))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Events(reply) => poll_chunk(reply, cx).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes)))),
            // If it ends before all has come, its connection shows that.
            Kind::Long(reply, left) => poll_chunk(reply, cx).map(|chunk| {
                let bytes = chunk?;
                *left = left.saturating_sub(bytes.len());
                Some(Ok(Frame::data(bytes)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Events(reply) => reply.has_ended,
            Kind::Long(reply, left) => reply.has_ended || *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Events(_) => SizeHint::new(),
            Kind::Long(_, left) => SizeHint::with_exact(*left as u64),
        }
    }
}

fn poll_chunk(reply: &mut Reply, cx: &Context<'_>) -> Poll<Option<Bytes>> {
    if reply.has_ended {
        return Poll::Ready(None);
    }
    let key = reply.key;
    let polled = reply.endpoint.poll_reply(cx, key, |server, now| match server.poll_body(now, key) {
        BodyChunk::Pending => None,
        BodyChunk::Bytes(bytes) => Some(Some(bytes)),
        BodyChunk::End => Some(None),
    });
    reply.has_ended = matches!(polled, Poll::Ready(None));
    polled
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.has_ended {
            self.endpoint.release_reply(self.key);
        }
    }
}
