//! Extractors: the parameters that a handler can take.

use std::sync::Arc;

use rescind_proto::connection::Payload;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{Context, Peer, error::ErrorObject, json_text, running_request::RunningRequest, shared::PeerShared};

/// A parameter of a handler, made from the message that the handler is called for.
///
/// `Scope` is [`OnRequest`] or [`OnNotification`]; a parameter that makes sense in both implements it for any scope.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` as a parameter",
    note = "a value of your own is `Params<T>`, where `T` is `serde::Deserialize`"
)]
pub trait Extract<Scope>: Sized {
    /// Makes the parameter.
    ///
    /// # Errors
    ///
    /// The handler is not called: a request is answered with the error, a notification is dropped.
    fn extract(scope: &Scope) -> Result<Self, ErrorObject>;
}

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

/// The params, read as `T`; absent params are read as `null`.
///
/// A request whose params are not a `T` is answered with -32602.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params<T>(
    /// The value.
    pub T,
);

impl<S: Scope, T: DeserializeOwned> Extract<S> for Params<T> {
    fn extract(scope: &S) -> Result<Self, ErrorObject> {
        let params = scope.params().unwrap_or(b"null");
        json_text::read(params).map(Self).map_err(|error| ErrorObject::invalid_params(error.to_string()))
    }
}

/// The params as received; `null` if there are none.
#[derive(Clone, Debug)]
pub struct RawParams(
    /// The JSON text.
    pub Box<RawValue>,
);

impl<S: Scope> Extract<S> for RawParams {
    fn extract(scope: &S) -> Result<Self, ErrorObject> {
        let params = scope.params().unwrap_or(b"null");
        json_text::read(params).map(Self).map_err(|error| ErrorObject::invalid_params(error.to_string()))
    }
}

/// The method, for handlers of several methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method(
    /// Its name.
    pub String,
);

impl<S: Scope> Extract<S> for Method {
    fn extract(scope: &S) -> Result<Self, ErrorObject> {
        Ok(Self(scope.method().to_owned()))
    }
}

impl<S: Scope> Extract<S> for Peer {
    fn extract(scope: &S) -> Result<Self, ErrorObject> {
        Ok(scope.peer())
    }
}

impl Extract<OnRequest> for Context {
    fn extract(scope: &OnRequest) -> Result<Self, ErrorObject> {
        Ok(scope.context())
    }
}

/// The token of the request. It fires when the request must stop, for any cause, and may have fired already (D21).
impl Extract<OnRequest> for CancellationToken {
    fn extract(scope: &OnRequest) -> Result<Self, ErrorObject> {
        Ok(scope.work.token())
    }
}
