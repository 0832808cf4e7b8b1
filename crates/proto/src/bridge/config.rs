//! The settings of a bridge; every bound has a default (invariant 8).

use core::time::Duration;

/// Settings of a [`Bridge`](super::Bridge).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Whether a client of 2026-07-28 is served by a server that knows only sessions. Without, the server itself refuses
    /// it, so that a client which speaks both begins a session: that takes nothing away from either. A client with a
    /// session before a server that knows none is always served, since it could do nothing else.
    pub serves_modern: bool,
    /// Whether several clients are behind the link, of either era. Then the server is greeted in our own name, and cannot
    /// ask anything (D42).
    pub is_shared: bool,
    /// Whether one client alone is behind the link, or those of one person, so that they can be asked what the server wants
    /// to know: by the result of a call, or as a question, as their era has it. Without, the server receives no
    /// capability to ask anything (D42).
    pub may_ask: bool,
    /// How long a client without a session may take to call again with what the server has asked; then the call is
    /// cancelled at the server.
    pub answer_within: Duration,
    /// When the driver's clock began, as the time since the beginning of 1970 (UTC): for tasks that the bridge makes itself.
    pub started: Duration,
    /// How long the server may take to answer `server/discover`: some with sessions never answer what they do not know.
    pub discover_within: Duration,
    /// Bytes of messages that wait until it is known what the server speaks; then nothing more is taken in. The same again
    /// for questions, answers, and calls that may be asked something: past that, a question is refused.
    pub max_held: usize,
    /// Bytes of what clients listen to; past that, one more subscription is refused.
    pub max_listening: usize,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        Self {
            serves_modern: false,
            is_shared: false,
            may_ask: false,
            answer_within: Duration::from_secs(600),
            started: Duration::ZERO,
            discover_within: Duration::from_secs(10),
            max_held: 16 << 20,
            max_listening: 1 << 20,
        }
    }
}
