//! One connection, both directions, whose cancellation is right by construction.
//!
//! [`Peer::builder`] describes it, [`Builder::serve`] or [`Builder::connect`] joins it to a [`Transport`], a
//! [`Driver`] runs it, a [`Peer`] is its handle.
//!
//! ```
//! use rescind::peer::{CallError, Context, ErrorObject, Params, Peer, dialect::mcp, transport};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // A server: the context brings the token, the cause and the cascade.
//! let server = Peer::builder(&mcp::LATEST).on_request("wait", |Params(seconds): Params<u64>, cx: Context| async move {
//!     tokio::select! {
//!         () = tokio::time::sleep(std::time::Duration::from_secs(seconds)) => Ok("done"),
//!         () = cx.cancelled() => Err(ErrorObject::cancelled()),
//!     }
//! });
//! let (near, far) = transport::memory();
//! let served = tokio::spawn(server.serve(far));
//!
//! // A client: a request is a future; dropping it cancels.
//! let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
//! let driven = driver.spawn();
//! let done: String = peer.request("wait", &0).await.unwrap();
//! assert_eq!(done, "done");
//!
//! let call = peer.request::<String>("wait", &3600);
//! let stop = call.handle();
//! drop(stop.cancel("user pressed Stop"));
//! assert!(matches!(call.await, Err(CallError::Cancelled(_))));
//! # drop(peer);
//! # driven.await.unwrap().unwrap();
//! # served.await.unwrap().unwrap();
//! # }
//! ```

mod background;
mod builder;
mod call;
pub mod command;
#[cfg(any(feature = "acp", feature = "lsp", feature = "mcp"))]
mod connect;
mod context;
mod current;
mod driver;
mod error;
pub mod extract;
pub mod filter;
mod filtered;
pub(crate) mod handler;
mod json_text;
mod linked;
mod on_token;
#[expect(clippy::module_inception, reason = "the handle is what the module is named for")]
mod peer;
mod progress_report;
mod receipt;
pub(crate) mod shared;
mod slots;
mod spare;
mod stop_state;
mod sync;
pub(crate) mod task;
mod trace;
pub mod transport;

pub use builder::Builder;
pub use call::Call;
#[cfg(any(feature = "acp", feature = "lsp", feature = "mcp"))]
pub use connect::ConnectError;
#[cfg(any(feature = "acp", feature = "lsp", feature = "mcp"))]
pub(crate) use connect::connect;
pub use context::{CancelledFuture, Context, Shield};
pub use driver::Driver;
pub use error::{AnyError, CallError, CallMisuse, ErrorObject, UnreadableAnswer};
pub use extract::{Method, Params, RawParams};
#[doc(hidden)]
pub use handler::{Erased, ErasedNotice};
pub use handler::{IntoRoute, NotificationHandler, RequestHandler, ResultOf, Route, route};
#[cfg(any(feature = "acp", feature = "mcp"))]
pub(crate) use json_text::to_params;
pub use peer::{InFlight, OurRequest, Peer, TheirRequest};
pub use progress_report::ProgressReport;
pub use receipt::{ReceiptFuture, StopHandle};
pub use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{ConnectionConfig, Counters, IncomingKey, IncomingState, Misuse, OutgoingState},
    dialect::{self, Dialect},
    error_code,
    framing::Framing,
    id::RequestId,
    link::{CancelNotice, Clock, Fault, TransportError, Verdict},
    receipt::{Answer, Ending, Outcome, Receipt},
    rule::{Rule, Violations},
};
pub use transport::Transport;
#[cfg(feature = "mcp")]
pub(crate) use {
    current::current,
    receipt::{Stoppable, cause as caused_by},
};
