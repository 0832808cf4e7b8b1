//! A message that arrives, as the extractors of its handler see it.

use std::sync::Arc;

use rescind_proto::connection::Payload;
use serde_json::value::RawValue;

use super::{PeerShared, running_request::RunningRequest};
use crate::peer::{Context, Peer};

/// A request, as extractors see it.
#[derive(Clone, Debug)]
pub struct OnRequest {
    work: Arc<RunningRequest>,
    payload: Payload,
    /// Params in place of those that came.
    replaced: Option<Box<RawValue>>,
}

/// A notification, as extractors see it.
#[derive(Debug)]
pub struct OnNotification {
    shared: Arc<PeerShared>,
    payload: Payload,
}

/// The parts that requests and notifications have in common.
pub trait Scope {
    /// The method.
    fn method(&self) -> &str;
    /// The params as JSON, if there are any.
    fn params(&self) -> Option<&[u8]>;
    /// The connection on which the message came.
    fn peer(&self) -> Peer;
}

impl OnRequest {
    pub(crate) const fn new(work: Arc<RunningRequest>, payload: Payload) -> Self {
        Self { work, payload, replaced: None }
    }

    /// The request with other params than it came with.
    #[cfg(feature = "mcp")]
    pub(crate) fn with_params(self, params: Box<RawValue>) -> Self {
        Self { replaced: Some(params), ..self }
    }

    /// The request's context.
    #[must_use]
    pub fn context(&self) -> Context {
        Context::new(Arc::clone(&self.work))
    }
}

impl OnNotification {
    pub(crate) fn of(shared: &Arc<PeerShared>, payload: Payload) -> Self {
        Self { shared: Arc::clone(shared), payload }
    }
}

impl Scope for OnRequest {
    fn method(&self) -> &str {
        self.payload.method()
    }

    fn params(&self) -> Option<&[u8]> {
        self.replaced.as_ref().map(|params| params.get().as_bytes()).or_else(|| self.payload.params())
    }

    fn peer(&self) -> Peer {
        Peer::of(&self.work.shared)
    }
}

impl Scope for OnNotification {
    fn method(&self) -> &str {
        self.payload.method()
    }

    fn params(&self) -> Option<&[u8]> {
        self.payload.params()
    }

    fn peer(&self) -> Peer {
        Peer::of(&self.shared)
    }
}
