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
            Side::Server if turn.is_some() && dialect.clocks.is_question(method) => Self::Card,
            Side::Client if is_handshake => Self::Handshake,
            Side::Client if dialect.subscription.is_some_and(|form| form.method == method) => Self::Subscription,
            Side::Client | Side::Server => Self::Plain,
        }
    }

    /// Whether it is known by its session: a turn, and what is asked within one.
    pub(super) const fn has_session(self) -> bool {
        matches!(self, Self::Prompt | Self::Card)
    }
}
