//! The words of a link, which the connection, the relay and the monitor share: each is defined here, once.

mod attachment;
pub(crate) mod cancel;
mod child_key;
mod clock;
mod connected;
mod departure;
mod fate;
mod implementation;
mod late;
mod notice;
mod rejected;
mod request_key;
mod unanswered;

pub use attachment::Attachment;
pub use child_key::ChildKey;
pub use clock::Clock;
pub use connected::Connected;
pub use departure::Departure;
pub use fate::CancelFate;
pub use implementation::Implementation;
pub use late::{LateCounts, LateKind};
pub use notice::{CancelNotice, Verdict};
pub use rejected::Rejected;
pub use request_key::{InvalidKey, RequestKey};
pub use unanswered::{Fault, TransportError, Unanswered};
