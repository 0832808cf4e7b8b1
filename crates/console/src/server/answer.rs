//! Answers, with the headers that every one of them has.

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

/// What every answer says to the browser: run nothing but our own files, talk to nobody else, keep nothing, be shown
/// in no frame, give nothing to other sites.
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
pub(super) enum Content {
    /// All of it; then nothing.
    Whole(Option<Bytes>),
    /// Pieces, until their sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for Content {
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

/// An answer of that type.
pub(super) fn of_type(kind: &'static str, body: impl Into<Bytes>) -> Response<Content> {
    with(StatusCode::OK, kind, Content::Whole(Some(body.into())))
}

/// Text for a person.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Content> {
    with(status, "text/plain; charset=utf-8", Content::Whole(Some(body.into())))
}

/// JSON for a program.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Content> {
    match serde_json::to_vec(value) {
        Ok(body) => with(status, "application/json", Content::Whole(Some(body.into()))),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// What could not be done, and what to do about it.
pub(super) fn problem(status: StatusCode, error: impl Into<String>, hint: &str) -> Response<Content> {
    json(status, &Problem { error: error.into(), hint: Some(hint.to_owned()) })
}

/// Events as they come.
pub(super) fn stream(pieces: mpsc::Receiver<Bytes>) -> Response<Content> {
    with(StatusCode::OK, "text/event-stream", Content::Stream(pieces))
}

/// Go there instead.
pub(super) fn see(path: &str) -> Response<Content> {
    let mut response = text(StatusCode::SEE_OTHER, "");
    match HeaderValue::from_str(path) {
        Ok(path) => response.headers_mut().insert("location", path),
        Err(_) => return text(StatusCode::INTERNAL_SERVER_ERROR, "no such place\n"),
    };
    response
}

fn with(status: StatusCode, kind: &'static str, body: Content) -> Response<Content> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
