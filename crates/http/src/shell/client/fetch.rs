//! One HTTP request and its response, as a task.

use std::{
    fmt, io,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};

use super::{connect, shared::Shared};
use crate::client::FetchKey;

/// The body of a request. The machine is asked before its bytes leave.
pub(super) struct RequestBody {
    bytes: Option<Bytes>,
    /// What it belongs to, and whose machine that is; `None` for one that is empty.
    fetch: Option<(FetchKey, Weak<Shared>)>,
}

impl RequestBody {
    /// No body.
    pub(super) const fn none() -> Self {
        Self { bytes: None, fetch: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let Some(bytes) = this.bytes.take() else { return Poll::Ready(None) };
        let fetch = this.fetch.as_ref();
        let may_leave =
            fetch.is_some_and(|(key, shared)| shared.upgrade().is_some_and(|shared| shared.handle_written(*key)));
        Poll::Ready(Some(if may_leave {
            Ok(Frame::data(bytes))
        } else {
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the request was withdrawn"))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").finish_non_exhaustive()
    }
}

/// Performs a request, and tells the machine what comes of it. Dropping it drops the response, too.
pub(super) async fn perform(shared: Arc<Shared>, key: FetchKey, request: Request<Bytes>, may_last: bool) {
    let request = request.map(|bytes| RequestBody {
        bytes: (!bytes.is_empty()).then_some(bytes),
        fetch: Some((key, Arc::downgrade(&shared))),
    });
    let response = match shared.sender().send(request, may_last).await {
        Ok(response) => response,
        Err(error) => return shared.end(key, |client, now| client.handle_failed(now, key, &connect::words(&error))),
    };
    let (head, body) = response.into_parts();
    shared.step(|client, now| client.handle_head(now, key, &head));
    let mut body = pin!(body);
    loop {
        shared.room().await;
        match std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    shared.step(|client, now| client.handle_body(now, key, &data));
                }
            }
            Some(Err(error)) => {
                return shared.end(key, |client, now| client.handle_failed(now, key, &connect::words(&error)));
            }
            None => return shared.end(key, |client, now| client.handle_body_end(now, key)),
        }
    }
}
