//! The body of a request, which leaves only if its machine lets it.

use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::client::FetchKey;

/// Asks the machine of a fetch before its bytes leave.
pub(super) trait Gate: Send + Sync {
    /// Records that a request is about to leave; `false` if it must not.
    fn may_leave(self: Arc<Self>, key: FetchKey) -> bool;
}

/// The body of a request. The machine is asked before its bytes leave.
pub(super) struct RequestBody {
    bytes: Option<Bytes>,
    /// The fetch that it belongs to, and the gate of its machine; `None` for one that belongs to none.
    fetch: Option<(FetchKey, Weak<dyn Gate>)>,
}

impl RequestBody {
    /// No body.
    pub(super) const fn none() -> Self {
        Self { bytes: None, fetch: None }
    }

    /// The body of a request that no machine has made, and that is never withdrawn.
    pub(super) fn of_nobody(bytes: Bytes) -> Self {
        Self { bytes: (!bytes.is_empty()).then_some(bytes), fetch: None }
    }

    /// The body of a fetch, which may be withdrawn.
    pub(super) fn of_fetch(bytes: Bytes, key: FetchKey, gate: Weak<dyn Gate>) -> Self {
        Self { bytes: (!bytes.is_empty()).then_some(bytes), fetch: Some((key, gate)) }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let Some(bytes) = this.bytes.take() else { return Poll::Ready(None) };
        let fetch = this.fetch.as_ref();
        let may_leave = fetch.is_none_or(|(key, gate)| gate.upgrade().is_some_and(|gate| gate.may_leave(*key)));
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
