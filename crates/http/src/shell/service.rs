//! An endpoint as a service: an HTTP request in, a response out.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{Request, Response, header, request::Parts};
use http_body::Body;
use tower_service::Service;

use super::{
    body::{Reply, ResponseBody},
    endpoint::Endpoint,
};
use crate::server::{PoolMember, ReplyBody, place};

/// The future of a response. Dropping it is the client's hang-up.
#[derive(Debug)]
pub struct Respond<B> {
    /// Judges the head, and has the body if that is waited for.
    reader: Endpoint,
    /// One of these answers, if the reader is one of several.
    members: Option<Arc<[Endpoint]>>,
    state: State<B>,
}

#[derive(Debug)]
enum State<B> {
    /// It was not looked at.
    Arrived(Box<Parts>, Pin<Box<B>>),
    /// Its head was judged.
    Reading(Box<Parts>, Pin<Box<B>>, Reply),
    /// It is being handled.
    Waiting(Reply),
    /// Its response was given.
    Done,
}

impl Endpoint {
    /// Answers an HTTP request. Its head is judged before its body is waited for, and before a client is asked to
    /// `100 Continue`.
    pub fn respond<B: Body>(&self, request: Request<B>) -> Respond<B> {
        Respond::new(self, None, request)
    }
}

impl<B: Body> Respond<B> {
    fn new(reader: &Endpoint, members: Option<Arc<[Endpoint]>>, request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self { reader: reader.clone(), members, state: State::Arrived(Box::new(head), Box::pin(body)) }
    }

    /// Has one of several endpoints read the body, if it must be waited for: so one bound is for all bodies. Of these
    /// members, the one that the request is for answers.
    pub(super) fn of_several(reader: &Endpoint, members: &Arc<[Endpoint]>, request: Request<B>) -> Self {
        Self::new(reader, Some(Arc::clone(members)), request)
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
    /// An endpoint never fails: what is wrong with a request stands in its response.
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { reader: endpoint, members, state } = self.get_mut();
        loop {
            match state {
                State::Arrived(head, body) => {
                    let first = first_part(cx, head, body.as_mut(), endpoint.max_message());
                    *state = match first {
                        First::Whole(bytes) => {
                            let placed = members.as_ref().map_or(&*endpoint, |members| placed(members, head, &bytes));
                            let (key, response) = placed.receive(cx, head, &bytes);
                            *state = State::Waiting(Reply::new(placed, key));
                            return respond(response, state);
                        }
                        First::Part(part) => {
                            let key = endpoint.with_supplies(|server, now| server.handle_head(now, head));
                            endpoint.with(|server, _| match part {
                                Ok(bytes) => server.handle_body(key, &bytes),
                                Err(Broken) => server.handle_body_broken(key),
                            });
                            match std::mem::replace(state, State::Done) {
                                State::Arrived(head, body) => State::Reading(head, body, Reply::new(endpoint, key)),
                                other @ (State::Reading(..) | State::Waiting(_) | State::Done) => other,
                            }
                        }
                    };
                }
                State::Reading(head, body, reply) => {
                    let key = reply.key;
                    // What is refused is answered at once: the rest of its body is not read.
                    let response = poll_head(cx, reply);
                    if response.is_ready() {
                        return respond(response, state);
                    }
                    if !endpoint.with(|server, _| server.wants_body(key)) {
                        return Poll::Pending;
                    }
                    match ready!(body.as_mut().poll_frame(cx)) {
                        Some(Ok(frame)) => {
                            let Ok(mut data) = frame.into_data() else { continue };
                            let bytes = data.copy_to_bytes(data.remaining());
                            endpoint.with(|server, _| server.handle_body(key, &bytes));
                        }
                        Some(Err(_)) => endpoint.with(|server, _| server.handle_body_broken(key)),
                        None => {
                            if let Some(members) = members {
                                if let Some(body) = endpoint.with(|server, now| server.take_whole_body(now, key)) {
                                    let placed = placed(members, head, &body);
                                    let (key, response) = placed.receive(cx, head, &body);
                                    *state = State::Waiting(Reply::new(placed, key));
                                    return respond(response, state);
                                }
                            } else {
                                endpoint.with_supplies(|server, now| server.handle_body_end(now, key, head));
                            }
                            *state = match std::mem::replace(state, State::Done) {
                                State::Reading(_, _, reply) => State::Waiting(reply),
                                other @ (State::Arrived(..) | State::Waiting(_) | State::Done) => other,
                            };
                        }
                    }
                }
                State::Waiting(reply) => {
                    let response = poll_head(cx, reply);
                    return respond(response, state);
                }
                State::Done => return Poll::Pending,
            }
        }
    }
}

/// The endpoint that a request is for.
fn placed<'a>(members: &'a [Endpoint], head: &Parts, body: &[u8]) -> &'a Endpoint {
    let asked_by = PoolMember::that_asked(head, body);
    let candidate = |member: &Endpoint| member.with(|server, _| server.candidate(head, asked_by));
    let candidates: Vec<_> = members.iter().map(candidate).collect();
    &members[place(head, &candidates)]
}

/// What has come of a body with its head.
enum First {
    /// All of it.
    Whole(Bytes),
    /// Some of it, perhaps nothing.
    Part(Result<Bytes, Broken>),
}

/// A body that broke off.
struct Broken;

/// Takes what has come of a body already. Nothing is taken of one that its client sends only when it is asked to.
fn first_part<B: Body>(cx: &mut Context<'_>, head: &Parts, mut body: Pin<&mut B>, longest: usize) -> First {
    if head.headers.contains_key(header::EXPECT) {
        return First::Part(Ok(Bytes::new()));
    }
    match body.as_mut().poll_frame(cx) {
        Poll::Pending => First::Part(Ok(Bytes::new())),
        Poll::Ready(None) => First::Whole(Bytes::new()),
        Poll::Ready(Some(Err(_))) => First::Part(Err(Broken)),
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(mut data) => {
                let bytes = data.copy_to_bytes(data.remaining());
                let is_whole = body.is_end_stream() && bytes.len() <= longest;
                if is_whole { First::Whole(bytes) } else { First::Part(Ok(bytes)) }
            }
            Err(_) => First::Part(Ok(Bytes::new())),
        },
    }
}

fn poll_head(cx: &Context<'_>, reply: &Reply) -> Poll<Response<ReplyBody>> {
    let key = reply.key;
    reply.endpoint.poll_reply(cx, key, |server, now| server.poll_head(now, key))
}

/// The response of a request that has come so far, once it is there.
fn respond<B>(
    response: Poll<Response<ReplyBody>>,
    state: &mut State<B>,
) -> Poll<Result<Response<ResponseBody>, Infallible>> {
    let response = ready!(response);
    let reply = match std::mem::replace(state, State::Done) {
        State::Reading(_, _, reply) | State::Waiting(reply) => Some(reply),
        State::Arrived(..) | State::Done => None,
    };
    Poll::Ready(Ok(response.map(|body| match (body, reply) {
        (ReplyBody::Whole(bytes), reply) => {
            reply.into_iter().for_each(|mut reply| reply.has_ended = true);
            ResponseBody::whole(bytes)
        }
        (ReplyBody::Events, Some(reply)) => ResponseBody::events(reply),
        (ReplyBody::Long(length), Some(reply)) => ResponseBody::long(reply, length),
        (ReplyBody::Events | ReplyBody::Long(_), None) => ResponseBody::whole(Bytes::new()),
    })))
}
