//! The shell around [`HttpClient`](crate::client::HttpClient): hyper's pooled client on one side, a stream of messages on
//! the other. It makes no protocol decisions.

mod authorizer;
mod connect;
mod discovery;
mod fetch;
mod requests;
mod shared;
mod transport;

pub use authorizer::{Authorizer, Authorizing, RefusedRequest, Renewal};
pub use connect::{ConnectConfig, ConnectError, Proxy};
pub use discovery::Discovery;
pub use requests::{RequestError, Requests};
pub use transport::HttpTransport;
