//! The shell around [`HttpClient`](crate::client::HttpClient): hyper's pooled client on one side, a stream of messages on
//! the other. It makes no protocol decisions.

mod connect;
mod discovery;
mod fetch;
mod shared;
mod transport;

pub use connect::{ConnectConfig, ConnectError, Proxy};
pub use discovery::Discovery;
pub use transport::HttpTransport;
