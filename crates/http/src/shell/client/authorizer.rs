//! Who sees to the tokens of requests.

use std::{future::Future, pin::Pin};

use http::{HeaderMap, HeaderValue, StatusCode};

/// What an [`Authorizer`] is asked. Dropping it is giving up the wait.
pub type Authorizing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sees to the tokens of the requests of one [`HttpTransport`](super::HttpTransport): those to the server's own origin that
/// have no header `Authorization` otherwise. No other server is ever shown one.
pub trait Authorizer: Send + Sync {
    /// The header `Authorization` for a request that is about to leave, if there is one.
    fn authorization(&self) -> Authorizing<'_, Option<HeaderValue>>;

    /// Sees to it that a request that was refused with 401 or 403 may be sent again. Many may be refused at once.
    ///
    /// The future is dropped if the request is cancelled meanwhile.
    fn renew(&self, refused: RefusedRequest) -> Authorizing<'_, Renewal>;

    /// Whether a person is being asked to sign in now.
    fn is_asking(&self) -> bool {
        false
    }
}

/// A request that the server has refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefusedRequest {
    /// What it had as `Authorization`.
    pub authorization: Option<HeaderValue>,
    /// The status of its response.
    pub status: StatusCode,
    /// The headers of its response.
    pub headers: HeaderMap,
    /// The local client waits for its answer, so that a person may be asked.
    pub is_awaited: bool,
    /// How often it was refused before.
    pub attempt: u32,
}

/// What came of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewal {
    /// It can be sent again, with another token.
    Renewed,
    /// No token would help: the refusal is the answer.
    NotWanted,
    /// Without a token; why, and what a person can do, in a few words.
    Failed(String),
}
