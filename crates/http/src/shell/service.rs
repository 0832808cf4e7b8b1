//! An endpoint as a service: an HTTP request in, a response out.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use http::{Request, Response, request::Parts};
use http_body::Body;
use tower_service::Service;

use super::{
    body::{Reply, ResponseBody},
    endpoint::Endpoint,
};
use crate::server::ReplyBody;

/// The future of a response. Dropping it is the client's hang-up.
#[derive(Debug)]
pub struct Respond<B> {
    endpoint: Endpoint,
    state: State<B>,
}

#[derive(Debug)]
enum State<B> {
    Reading { head: Box<Parts>, body: Pin<Box<B>>, read: BytesMut },
    Waiting(Option<Reply>),
}

impl Endpoint {
    /// Answers an HTTP request.
    pub fn respond<B: Body>(&self, request: Request<B>) -> Respond<B> {
        let (head, body) = request.into_parts();
        let state = State::Reading { head: Box::new(head), body: Box::pin(body), read: BytesMut::new() };
        Respond { endpoint: self.clone(), state }
    }
}

/// Mounts into an application of others, such as one on axum: `Router::new().route_service("/mcp", endpoint)`. The path is
/// then the router's to check ([`HttpServerConfig::path`](crate::server::HttpServerConfig::path)).
impl<B: Body> Service<Request<B>> for Endpoint {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Respond<B>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Respond<B> {
        self.respond(request)
    }
}

impl<B: Body> Future for Respond<B> {
    /// An endpoint never fails: what is wrong with a request is said in its response.
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Reading { head, body, read } => {
                    let longest = this.endpoint.max_message();
                    let key = match ready!(poll_read(cx, body.as_mut(), read, longest)) {
                        Ok(()) => this.endpoint.receive(head, read),
                        Err(Unreadable::TooLarge) => this.endpoint.with(|server, _| server.handle_too_large()),
                        Err(Unreadable::Broken) => this.endpoint.with(|server, _| server.handle_broken()),
                    };
                    let reply = Reply { endpoint: this.endpoint.clone(), key, has_ended: false };
                    this.state = State::Waiting(Some(reply));
                }
                State::Waiting(reply) => {
                    let Some(waiting) = reply else { return Poll::Pending };
                    let key = waiting.key;
                    let head = ready!(waiting.endpoint.poll_reply(cx, key, |server, now| server.poll_head(now, key)));
                    let (parts, body) = head.into_parts();
                    let body = match (body, reply.take()) {
                        (ReplyBody::Whole(bytes), reply) => {
                            reply.into_iter().for_each(|mut reply| reply.has_ended = true);
                            ResponseBody::whole(bytes)
                        }
                        (ReplyBody::Events, Some(reply)) => ResponseBody::events(reply),
                        (ReplyBody::Events, None) => ResponseBody::whole(bytes::Bytes::new()),
                    };
                    return Poll::Ready(Ok(Response::from_parts(parts, body)));
                }
            }
        }
    }
}

/// Reads a body to its end; `false` if it is longer than a message may be, or breaks off.
fn poll_read<B: Body>(
    cx: &mut Context<'_>,
    mut body: Pin<&mut B>,
    read: &mut BytesMut,
    longest: usize,
) -> Poll<Result<(), Unreadable>> {
    loop {
        match ready!(body.as_mut().poll_frame(cx)) {
            None => return Poll::Ready(Ok(())),
            Some(Err(_)) => return Poll::Ready(Err(Unreadable::Broken)),
            Some(Ok(frame)) => {
                let Ok(mut data) = frame.into_data() else { continue };
                if read.len() + data.remaining() > longest {
                    return Poll::Ready(Err(Unreadable::TooLarge));
                }
                while data.has_remaining() {
                    let chunk = data.chunk();
                    let length = chunk.len();
                    read.extend_from_slice(chunk);
                    data.advance(length);
                }
            }
        }
    }
}

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    TooLarge,
    /// Its client is gone.
    Broken,
}
