//! What a fuzz target does with its bytes; ordinary tests replay the corpus through the same functions.

mod codec;
mod connection;
mod envelope;
mod monitor;
mod phrases;
mod relay;
mod walks;

pub use codec::{headers_codec, line_codec};
pub use connection::connection;
pub use envelope::envelope;
pub use monitor::monitor;
pub use relay::relay;

/// A target's name, and what it does with bytes: it panics where something is wrong.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("envelope", envelope),
    ("line_codec", line_codec),
    ("headers_codec", headers_codec),
    ("relay", relay),
    ("connection", connection),
    ("monitor", monitor),
];
