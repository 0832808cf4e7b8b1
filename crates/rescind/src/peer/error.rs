//! Errors, and whose fault they are (D19).

use std::{any::Any, fmt, io, time::Duration};

use rescind_proto::{
    cause::Cause,
    connection::{Misuse, Settlement},
    error_code,
    link::{Clock, Fault, Rejected, TransportError},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A JSON-RPC error object: the answer of a handler that fails, or a peer's answer to a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorObject {
    /// The code; [`error_code`] lists those of the protocols and ours.
    pub code: i32,
    /// A description for people. From a peer it is untrusted.
    #[serde(default)]
    pub message: String,
    /// Further data, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The handler ended because it was cancelled, or cancelled itself: its dialect decides the answer (D23, D24).
    #[serde(skip)]
    pub(crate) is_cancelled: bool,
    /// It was made from an error of another library, or from a text: a tool passes those to the model.
    #[serde(skip)]
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only tools look"))]
    pub(crate) is_foreign: bool,
}

impl ErrorObject {
    /// An error with this code and message.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, is_cancelled: false, is_foreign: false }
    }

    /// An internal error (-32603).
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(error_code::INTERNAL_ERROR, message)
    }

    /// An error of the params (-32602).
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(error_code::INVALID_PARAMS, message)
    }

    /// The error for an unknown method (-32601).
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(error_code::METHOD_NOT_FOUND, format!("no such method: {method}"))
    }

    /// The error of a handler that ends because it was cancelled, or that cancels itself.
    ///
    /// The dialect decides the answer: none, the method's own cancellation result, or an error (D23). A handler that was
    /// not asked to stop is always answered with an error (D24).
    #[must_use]
    pub fn cancelled() -> Self {
        Self { is_cancelled: true, ..Self::new(error_code::REQUEST_CANCELLED, "cancelled") }
    }

    /// An internal error with the text of this one.
    pub(crate) fn foreign(error: &(impl fmt::Display + ?Sized)) -> Self {
        Self { is_foreign: true, ..Self::internal(error.to_string()) }
    }

    /// Adds data; a value that cannot be written as JSON is left out.
    #[must_use]
    pub fn with_data(mut self, data: &(impl Serialize + ?Sized)) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }

    /// Reads the data as `T`.
    ///
    /// # Errors
    ///
    /// There is no data, or it is not a `T`.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.data.as_deref().map_or("null", RawValue::get))
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

impl PartialEq for ErrorObject {
    fn eq(&self, other: &Self) -> bool {
        let raw = |error: &Self| error.data.as_deref().map(|data| data.get().to_owned());
        self.code == other.code && self.message == other.message && raw(self) == raw(other)
    }
}

impl From<CallError> for ErrorObject {
    /// Makes a handler fail as its own call failed: a cancel stays a cancel, and an error of the peer is passed on. A
    /// timeout (-31001), the end of the connection (-31002) and too many requests in flight (-31004) keep their codes.
    /// Anything else is an internal error. Only the kind of the failure is passed on, not its text.
    fn from(error: CallError) -> Self {
        match error {
            CallError::Cancelled(_) => Self::cancelled(),
            CallError::Peer(error) if error.code == error_code::REQUEST_CANCELLED => Self::cancelled(),
            CallError::Peer(error) => error,
            CallError::TimedOut { .. } => Self::new(error_code::TIMED_OUT, "a request that it made timed out"),
            CallError::Overloaded => Self::new(error_code::OVERLOADED, "too many requests are in flight"),
            CallError::Transport(error) if error.fault == Fault::Caller => {
                Self::new(error_code::OVERLOADED, "a request could not be sent")
            }
            CallError::Transport(_) => Self::new(error_code::UPSTREAM_GONE, "a server gave no answer"),
            CallError::Ended { .. } | CallError::Closed => Self::new(error_code::UPSTREAM_GONE, "a connection ended"),
            CallError::Input(_) => Self::internal("a server asked for input that could not be given"),
            CallError::Unreadable(_) => Self::internal("an answer could not be read"),
            CallError::Misuse(CallMisuse::NoServerRequests) => {
                Self::internal("the server tried to send a request, which this revision does not have")
            }
            CallError::Misuse(_) => Self::internal("a request could not be made"),
        }
    }
}

impl From<serde_json::Error> for ErrorObject {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<String> for ErrorObject {
    fn from(message: String) -> Self {
        Self::foreign(&message)
    }
}

impl From<&str> for ErrorObject {
    fn from(message: &str) -> Self {
        Self::foreign(message)
    }
}

impl From<io::Error> for ErrorObject {
    fn from(error: io::Error) -> Self {
        Self::foreign(&error)
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for ErrorObject {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::foreign(&error)
    }
}

/// Any error that displays, as the error of a handler: `?` makes it from an [`io::Error`], a `String`, an
/// `anyhow::Error`, or a type of your own.
///
/// The errors of [`peer`](super) keep their meaning: a cancelled call ends its handler as cancelled, an [`ErrorObject`]
/// stays as it is. Anything else is answered as an internal error (-32603) with its text; by an MCP tool, as a failed
/// result whose text the model reads. An error type whose `From<…> for ErrorObject` says more is converted with that:
/// `.map_err(ErrorObject::from)?`.
///
/// ```
/// # use rescind::peer::{AnyError, Params};
/// async fn count(Params(path): Params<String>) -> Result<u64, AnyError> {
///     let text = std::fs::read_to_string(path)?;
///     Ok(text.trim().parse::<u64>()?)
/// }
/// # fn is_handler<A>(_: impl rescind::peer::RequestHandler<A>) {}
/// # is_handler(count);
/// ```
// It must not implement `Display`: the blanket `From` below would then overlap with `From<T> for T`.
#[derive(Clone, Debug)]
pub struct AnyError(ErrorObject);

impl<E: fmt::Display + 'static> From<E> for AnyError {
    fn from(error: E) -> Self {
        let mut error = Some(error);
        let known = of::<ErrorObject>(&mut error).or_else(|| of::<CallError>(&mut error));
        #[cfg(any(feature = "acp", feature = "lsp", feature = "mcp"))]
        let known = known.or_else(|| of::<super::ConnectError>(&mut error));
        let foreign = || error.as_ref().map(ErrorObject::foreign);
        Self(known.or_else(foreign).unwrap_or_else(|| ErrorObject::internal("")))
    }
}

/// The error object of what is in `error`, if that is an `E`.
fn of<E: Into<ErrorObject> + 'static>(error: &mut dyn Any) -> Option<ErrorObject> {
    error.downcast_mut::<Option<E>>()?.take().map(Into::into)
}

impl From<AnyError> for ErrorObject {
    fn from(AnyError(error): AnyError) -> Self {
        error
    }
}

/// The reason why a call has no result (D19).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// This side cancelled it: the cause names who, and why. The receipt has what the peer made of it.
    #[error("cancelled: {}", .0.code.phrase())]
    Cancelled(Cause),
    /// A clock of this side ran out (D16), and the peer was sent a cancel. This is not an answer of the peer.
    #[error("the {} clock ran out after {after:?}", .clock.as_str())]
    TimedOut {
        /// The clock that ran out.
        clock: Clock,
        /// Its length.
        after: Duration,
    },
    /// The peer answered with an error.
    #[error("the peer answered: {0}")]
    Peer(#[source] ErrorObject),
    /// The server ended the subscription (MCP-M02).
    #[error("the server ended the subscription")]
    Ended {
        /// The reason, in the server's words: untrusted.
        reason: Option<Box<str>>,
    },
    /// There is no answer of the peer, for a reason that the transport knows; the connection goes on. Over HTTP: the server
    /// was not reached, the connection of this request broke, a token is wanted, the request was refused. The error says
    /// who is at fault, the status, and whether the call may have run.
    #[error("{0}")]
    Transport(#[source] Box<TransportError>),
    /// The connection ended before the answer, or before the call.
    #[error("the connection has ended")]
    Closed,
    /// Too many requests of this side are in flight, or the peer leaves too much unread; nothing was sent.
    #[error("too much is in flight")]
    Overloaded,
    /// The server asked for input in its answer, and this side could not give it: its handler failed with this error, or
    /// the server asked too often. The call was not made again.
    #[error("the input that the server asked for could not be given: {0}")]
    Input(#[source] ErrorObject),
    /// The peer's answer could not be read.
    #[error("the peer's answer cannot be read: {0}")]
    Unreadable(#[source] UnreadableAnswer),
    /// The caller made a mistake; nothing was sent.
    #[error("the request cannot be made: {0}")]
    Misuse(#[source] CallMisuse),
}

/// The reason why an answer cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableAnswer {
    /// It is not of the type that the caller expects.
    #[error("{0}")]
    Decode(#[source] serde_json::Error),
    /// It is longer than the limit.
    #[error("it is longer than the limit")]
    TooLarge,
    /// It is not a JSON-RPC response.
    #[error("it is not a response")]
    Invalid,
}

/// The mistake in a request that a caller tried to make.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallMisuse {
    /// The params cannot be written as JSON.
    #[error("its params cannot be written as JSON: {0}")]
    Params(#[source] serde_json::Error),
    /// The params carry the progress token of another request in flight (MCP-P00).
    #[error("its progress token belongs to another request in flight")]
    TokenInUse,
    /// The revision has no requests from the server (MCP-M03).
    #[error(
        "this revision of the protocol has no requests from the server: a tool asks with `Context::ask`, which answers \
         with a result that asks for input; `mcp::Server::revisions` refuses the revision"
    )]
    NoServerRequests,
    /// The call was awaited again after it had ended.
    #[error("the call had ended before")]
    Over,
    /// Any other mistake that the engine found.
    #[error("{0}")]
    Other(#[source] Misuse),
}

impl CallError {
    /// Makes the error of a settlement; a result comes back as `Err`.
    pub(crate) fn of(how: Settlement) -> Result<Self, Box<[u8]>> {
        Ok(match how {
            Settlement::Result(result) => return Err(result),
            Settlement::PeerError(error) => Self::Peer(read_error(&error)),
            Settlement::Cancelled(cause) => Self::Cancelled(cause),
            Settlement::TimedOut { clock, after } => Self::TimedOut { clock, after },
            Settlement::Ended { reason } => Self::Ended { reason },
            Settlement::Unreadable(Rejected::TooLarge) => Self::Unreadable(UnreadableAnswer::TooLarge),
            Settlement::Unreadable(_) => Self::Unreadable(UnreadableAnswer::Invalid),
            Settlement::Transport(error) => Self::Transport(error),
            Settlement::Closed => Self::Closed,
        })
    }

    /// Whether this side cancelled it.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }
}

impl From<Misuse> for CallError {
    fn from(misuse: Misuse) -> Self {
        match misuse {
            Misuse::Closed => Self::Closed,
            Misuse::TooMany => Self::Overloaded,
            Misuse::TokenInUse => Self::Misuse(CallMisuse::TokenInUse),
            Misuse::NoServerRequests => Self::Misuse(CallMisuse::NoServerRequests),
            other => Self::Misuse(CallMisuse::Other(other)),
        }
    }
}

/// Reads a peer's error object leniently: members that cannot be read are left out.
fn read_error(raw: &[u8]) -> ErrorObject {
    #[derive(Deserialize)]
    struct Loose<'a> {
        #[serde(default, borrow)]
        code: Option<&'a RawValue>,
        #[serde(default, borrow)]
        message: Option<&'a RawValue>,
        #[serde(default)]
        data: Option<Box<RawValue>>,
    }
    let Ok(Loose { code, message, data }) = serde_json::from_slice(raw) else {
        return ErrorObject::new(0, String::from_utf8_lossy(raw));
    };
    let code = code.and_then(|code| serde_json::from_str::<f64>(code.get()).ok()).unwrap_or_default();
    let message = message.map_or_else(String::new, |message| {
        serde_json::from_str(message.get()).unwrap_or_else(|_| message.get().to_owned())
    });
    ErrorObject { code: code as i32, message, data, is_cancelled: false, is_foreign: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_error_object_is_still_read() {
        let read = |raw: &str| read_error(raw.as_bytes());
        assert_eq!(read(r#"{"code":-32601,"message":"no"}"#), ErrorObject::new(-32601, "no"));
        assert_eq!(read(r#"{"code":1e99,"message":5}"#), ErrorObject::new(i32::MAX, "5"));
        assert_eq!(read(r#"{"message":null}"#), ErrorObject::new(0, ""));
        assert_eq!(read("[]").code, 0);
    }
}
