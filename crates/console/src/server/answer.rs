//! Answers, and the headers that they share.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    body::{Body, Frame, SizeHint},
    header::{HeaderName, HeaderValue},
};
use rescind_feed::Problem;
use serde::Serialize;
use tokio::sync::mpsc;

/// Headers of every answer. They tell the browser to run only our own files, connect only to this server, cache nothing,
/// show the page in no frame, and give nothing to other sites.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri \
         'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// The body of an answer.
#[derive(Debug)]
pub(super) enum AnswerBody {
    /// The whole body, until it is sent.
    Whole(Option<Bytes>),
    /// Pieces, until their sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(pieces) => pieces.poll_recv(cx).map(|piece| Some(Ok(Frame::data(piece?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer of content type `kind`.
pub(super) fn of_type(kind: &'static str, body: impl Into<Bytes>) -> Response<AnswerBody> {
    with(StatusCode::OK, kind, AnswerBody::Whole(Some(body.into())))
}

/// Text for a person.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<AnswerBody> {
    with(status, "text/plain; charset=utf-8", AnswerBody::Whole(Some(body.into())))
}

/// JSON for a program.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<AnswerBody> {
    match serde_json::to_vec(value) {
        Ok(body) => with(status, "application/json", AnswerBody::Whole(Some(body.into()))),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// An error and its remedy, as JSON.
pub(super) fn problem(status: StatusCode, error: impl Into<String>, hint: &str) -> Response<AnswerBody> {
    json(status, &Problem { error: error.into(), hint: Some(hint.to_owned()) })
}

/// A stream of events.
pub(super) fn stream(pieces: mpsc::Receiver<Bytes>) -> Response<AnswerBody> {
    with(StatusCode::OK, "text/event-stream", AnswerBody::Stream(pieces))
}

/// A redirect.
pub(super) fn see(path: &str) -> Response<AnswerBody> {
    let mut response = text(StatusCode::SEE_OTHER, "");
    match HeaderValue::from_str(path) {
        Ok(path) => response.headers_mut().insert("location", path),
        Err(_) => return text(StatusCode::INTERNAL_SERVER_ERROR, "invalid location\n"),
    };
    response
}

fn with(status: StatusCode, kind: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
