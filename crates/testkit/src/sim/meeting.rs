//! A client and a server that meet at a bridge: what either speaks.

use rescind_proto::{
    dialect::{Dialect, mcp},
    side::Side,
};

/// Who meets whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Its name.
    pub name: &'static str,
    /// The client begins with `initialize`.
    pub client_has_session: bool,
    /// The client's requests without a session follow it (several clients share the link).
    pub is_mixed: bool,
    /// The server knows `initialize`.
    pub server_has_sessions: bool,
    /// The server knows 2026-07-28.
    pub server_is_modern: bool,
    /// The revision of whoever has a session.
    pub session: &'static Dialect,
    /// It begins when the server has the client's first call.
    pub(super) is_open: bool,
    /// Somebody takes what is written to the server, and hands it on later.
    pub departs: bool,
}

/// Every pair of policies that can meet; 2025-06-18 has those of 2024-11-05.
pub const MEETINGS: [Meeting; 19] = [
    Meeting { name: "modern, legacy", ..MODERN_BEFORE_LEGACY },
    LEGACY_BEFORE_MODERN,
    Meeting { name: "modern, modern", server_has_sessions: false, server_is_modern: true, ..MODERN_BEFORE_LEGACY },
    LEGACY_BEFORE_LEGACY,
    Meeting { name: "both, legacy", is_mixed: true, ..LEGACY_BEFORE_LEGACY },
    Meeting { name: "both, modern", is_mixed: true, ..LEGACY_BEFORE_MODERN },
    Meeting { name: "modern, 2024-11-05", session: OLDEST, ..MODERN_BEFORE_LEGACY },
    Meeting { name: "2024-11-05, modern", session: OLDEST, ..LEGACY_BEFORE_MODERN },
    Meeting { name: "2024-11-05, 2024-11-05", session: OLDEST, ..LEGACY_BEFORE_LEGACY },
    Meeting { name: "modern, 2025-03-26", session: BATCHES, ..MODERN_BEFORE_LEGACY },
    Meeting { name: "2025-03-26, modern", session: BATCHES, ..LEGACY_BEFORE_MODERN },
    Meeting { name: "2025-03-26, 2025-03-26", session: BATCHES, ..LEGACY_BEFORE_LEGACY },
    Meeting { name: "modern, legacy, met", is_open: true, ..MODERN_BEFORE_LEGACY },
    Meeting { name: "legacy, modern, met", is_open: true, ..LEGACY_BEFORE_MODERN },
    Meeting { name: "modern, legacy, met, departing", is_open: true, departs: true, ..MODERN_BEFORE_LEGACY },
    Meeting { name: "legacy, modern, met, departing", is_open: true, departs: true, ..LEGACY_BEFORE_MODERN },
    Meeting { name: "modern, legacy, departing", departs: true, ..MODERN_BEFORE_LEGACY },
    Meeting { name: "legacy, legacy, met, departing", is_open: true, departs: true, ..LEGACY_BEFORE_LEGACY },
    Meeting {
        name: "2025-03-26, 2025-03-26, met, departing",
        is_open: true,
        departs: true,
        session: BATCHES,
        ..LEGACY_BEFORE_LEGACY
    },
];

const OLDEST: &Dialect = &mcp::REVISION_2024_11_05;

/// The one in which messages come in arrays, too.
const BATCHES: &Dialect = &mcp::REVISION_2025_03_26;

const LEGACY_BEFORE_MODERN: Meeting = Meeting {
    name: "legacy, modern",
    client_has_session: true,
    server_has_sessions: false,
    server_is_modern: true,
    ..MODERN_BEFORE_LEGACY
};

const LEGACY_BEFORE_LEGACY: Meeting =
    Meeting { name: "legacy, legacy", client_has_session: true, ..MODERN_BEFORE_LEGACY };

const MODERN_BEFORE_LEGACY: Meeting = Meeting {
    name: "",
    client_has_session: false,
    is_mixed: false,
    server_has_sessions: true,
    server_is_modern: false,
    session: &mcp::LATEST_LEGACY,
    is_open: false,
    departs: false,
};

impl Default for Meeting {
    fn default() -> Self {
        MODERN_BEFORE_LEGACY
    }
}

impl Meeting {
    /// The client has a session, and begins with the handshake.
    pub const fn greets(&self) -> bool {
        self.client_has_session && !self.is_mixed && !self.is_open
    }

    /// The two sides are of different eras, one client alone is there, and nothing comes in arrays.
    pub(super) const fn asks(&self) -> bool {
        !self.is_mixed && self.client_has_session == self.server_is_modern && !self.session.batches
    }

    pub(super) fn revision(&self) -> &'static str {
        self.session.name.trim_start_matches("mcp-")
    }

    /// Whether this side may say several things in one array (MCP-B01).
    pub(super) fn has_batches(&self, side: Side) -> bool {
        self.session.batches
            && match side {
                Side::Client => self.client_has_session,
                Side::Server => self.server_has_sessions,
            }
    }
}
