//! What a running shim tells of itself: the types of its admin socket (`docs/admin.md`).
//!
//! Types and words, no I/O. A shim fills them in, `rescind ps`, `rescind cancel` and the console read them; a
//! recording is shown in the same types. Times are microseconds on the session's own clock, which began with the
//! session; names, reasons and ids are what programs chose: untrusted text wherever they are shown.

#![warn(missing_docs)]

mod cancel;
mod counters;
mod directory;
mod event;
mod order;
mod request;
mod session;

pub use cancel::{Answer, Cancel, Outcome, duration};
pub use counters::{Counters, Histogram};
pub use directory::{DIRECTORY_VARIABLE, SOCKET_SUFFIX, directories};
pub use event::{Changes, Ended, Event, Snapshot};
pub use order::{CancelOrder, CancelReply, Problem, Stopped};
pub use request::{Details, FrameView, Late, Listing, Progress, Request, Settled, SettledHow, State};
pub use session::{End, Implementation, Session, Side, VERSION};
