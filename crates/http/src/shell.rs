//! The shell around [`HttpServer`](crate::server::HttpServer): connections of hyper on one side, streams of messages on
//! the other. It makes no protocol decisions.

mod body;
#[cfg(feature = "client")]
pub mod client;
mod endpoint;
mod listener;
#[cfg(unix)]
mod local;
mod pool;
mod room;
mod seed;
mod service;
mod turns;

pub use body::ResponseBody;
pub use endpoint::{Endpoint, HttpLink, OpenedLink, WantedPage};
pub use listener::{Listener, ListenerConfig, ListeningSocket};
pub use pool::Pool;
pub use service::Respond;
