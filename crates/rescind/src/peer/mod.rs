//! One connection, both directions, whose cancellation is right by construction.
//!
//! [`Peer::builder`] describes it, [`Builder::serve`] or [`Builder::connect`] joins it to a [`Transport`], a
//! [`Driver`] runs it, a [`Peer`] is its handle.

mod builder;
mod call;
#[cfg(unix)]
pub mod command;
mod context;
mod current;
mod driver;
mod error;
pub mod extract;
pub mod filter;
pub(crate) mod handler;
mod linked;
#[expect(clippy::module_inception, reason = "the handle is what the module is named for")]
mod peer;
mod receipt;
mod shared;
mod slots;
mod sync;
mod task;
pub mod transport;
mod work;

pub use builder::Builder;
pub use call::{Call, Progress};
pub use context::{Context, Shield};
pub use driver::Driver;
pub use error::{CallError, CallMisuse, ErrorObject, Unreadable};
pub use extract::{Method, Params, RawParams};
#[doc(hidden)]
pub use handler::{Erased, ErasedNotice};
pub use handler::{IntoRoute, NotificationHandler, RequestHandler, Route, route};
pub use peer::{InFlight, OurRequest, Peer, TheirRequest};
pub use receipt::{ReceiptFuture, StopHandle};
pub use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CancelNotice, Clock, Config, Counters, Verdict},
    dialect::{self, Dialect},
    error_code,
    id::RequestId,
    receipt::{Answer, Ending, Outcome, Receipt},
    wire::Framing,
};
pub use transport::Transport;
