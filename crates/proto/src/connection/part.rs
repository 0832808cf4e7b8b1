//! What a request means to the machine beyond its dialect's answers.

use crate::{dialect::Dialect, side::Side};

/// The part that a request plays, found once by its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// None of those below.
    Plain,
    /// The handshake, whose result says what the server speaks (D2).
    Handshake,
    /// The turn of a session (D37).
    Prompt,
    /// A prompt that was answered when it was inserted: it is the foreground work of its session until that is reported as
    /// over (ACP-50).
    Foreground,
    /// Background work that was begun by a turn, and outlives it (ACP-56). Nobody has asked for it by a request.
    Background,
    /// The request that closes a session whose work is reported by itself (ACP-57).
    Close,
    /// A card of a session: its agent asks a person, for permission (ACP-08) or with an elicitation (ACP-39).
    Card,
    /// A request that the server may end with a cancel of its own (MCP-M02).
    Subscription,
}

impl Part {
    /// Finds the part of a request that `from` makes; one of a turn names its session.
    #[inline]
    pub(super) fn of(dialect: &Dialect, from: Side, method: &str, is_handshake: bool, names_session: bool) -> Self {
        let turn = dialect.turn.filter(|_| names_session);
        match from {
            Side::Client if turn.is_some_and(|turn| turn.prompt == method) => Self::Prompt,
            Side::Client if turn.is_some_and(|turn| turn.work.is_some() && turn.close == method) => Self::Close,
            Side::Server if turn.is_some() && dialect.clocks.is_question(method) => Self::Card,
            Side::Client if is_handshake => Self::Handshake,
            Side::Client if dialect.subscription.is_some_and(|form| form.method == method) => Self::Subscription,
            Side::Client | Side::Server => Self::Plain,
        }
    }

    /// Whether it is known by its session: a turn, what is asked within one, and other work of the session.
    pub(super) const fn has_session(self) -> bool {
        match self {
            Self::Prompt | Self::Foreground | Self::Background | Self::Close | Self::Card => true,
            Self::Plain | Self::Handshake | Self::Subscription => false,
        }
    }

    /// Whether it is work of a session that goes on without a request (D55).
    pub(super) const fn is_session_work(self) -> bool {
        matches!(self, Self::Foreground | Self::Background)
    }
}
