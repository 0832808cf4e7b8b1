//! The shell around [`HttpClient`](crate::client::HttpClient): hyper's pooled client on one side, a stream of messages on
//! the other. It makes no protocol decisions.

mod authorizer;
mod connect;
mod discovery;
mod issuer_keys;
mod request_body;
mod requests;
mod resolver;
mod shared;
#[cfg(feature = "sign-in")]
mod tokens;
mod transport;

pub use authorizer::{Authorizer, Authorizing, RefusedRequest, Renewal};
#[cfg(unix)]
pub use connect::Dialer;
pub use connect::{ConnectConfig, ConnectError, Connections, Proxy};
pub use discovery::Discovery;
pub use issuer_keys::{IssuerKeys, IssuerKeysError};
pub use requests::{RequestError, Requests};
#[cfg(feature = "sign-in")]
pub use tokens::{Tokens, sign_in};
pub use transport::HttpTransport;
