//! The types of a shim's admin socket (`docs/admin.md`).
//!
//! Types and words, no I/O. A shim writes them; `rescind ps`, `rescind cancel` and the console read them. The console
//! shows recordings in the same types. A type with the name of one in `rescind-proto` is that in its serialised form.
//!
//! A word that a later shim may have for a state, an outcome or a status is read as a [`LaterWord`], and a row that has one is
//! shown with that word.
//!
//! Times are microseconds on the session's clock, which began with the session. Names, reasons and ids were chosen by
//! programs: treat them as untrusted text.

#![warn(missing_docs)]

mod cancel;
mod child;
mod counters;
mod directory;
mod event;
mod later;
mod order;
mod request;
mod session;
mod task;
mod work;

pub use cancel::{Answer, Cancel, Outcome, duration};
pub use child::{Child, ChildState};
pub use counters::{Counters, Histogram};
pub use directory::{DIRECTORY_VARIABLE, SOCKET_SUFFIX, directories};
pub use event::{Changes, Ended, Event, Snapshot};
pub use later::LaterWord;
pub use order::{CancelOrder, CancelReply, EndOrder, EndReply, OrderOutcome, Problem};
pub use request::{Arguments, Details, FrameView, Late, Listing, Progress, Request, Settled, SettledHow, State};
pub use session::{
    Connected, End, Implementation, ProcessClock, Restarts, Session, Side, TurnProcess, UNKNOWN_PROTOCOL,
    UNSEEN_PROTOCOL, VERSION,
};
pub use task::{TaskAtWork, TaskEnd, TaskStatus};
pub use work::WorkStatus;
