//! Extractors: the parameters that a handler can take.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub use super::shared::scope::{OnNotification, OnRequest, Scope};
use super::{Context, Peer, error::ErrorObject, json_text};

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
        Ok(scope.context().token())
    }
}
