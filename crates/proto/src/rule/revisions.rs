//! Sets of protocol revisions: which texts state a rule.

use core::fmt;

/// A set of protocol revisions, by the names their dialects carry.
///
/// Two bytes and no allocation; built with [`Revisions::union`] in const context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Revisions(u16);

/// One name a bit, in the order of the constants below.
const NAMES: [&str; 10] = [
    "mcp-2024-11-05",
    "mcp-2025-03-26",
    "mcp-2025-06-18",
    "mcp-2025-11-25",
    "mcp-2026-07-28",
    "mcp-tasks-extension",
    "acp-v1",
    "acp-v2-draft",
    "acp-rfd-2025-11-13",
    "lsp",
];

impl Revisions {
    /// No revision.
    pub const NONE: Self = Self(0);
    /// MCP 2024-11-05.
    pub const MCP_2024_11_05: Self = Self(1 << 0);
    /// MCP 2025-03-26.
    pub const MCP_2025_03_26: Self = Self(1 << 1);
    /// MCP 2025-06-18.
    pub const MCP_2025_06_18: Self = Self(1 << 2);
    /// MCP 2025-11-25.
    pub const MCP_2025_11_25: Self = Self(1 << 3);
    /// MCP 2026-07-28.
    pub const MCP_2026_07_28: Self = Self(1 << 4);
    /// The MCP extension `io.modelcontextprotocol/tasks`, spoken beside 2026-07-28.
    pub const TASKS_EXTENSION: Self = Self(1 << 5);
    /// ACP v1.
    pub const ACP_V1: Self = Self(1 << 6);
    /// ACP v2, a draft.
    pub const ACP_V2: Self = Self(1 << 7);
    /// The ACP request for discussion of 2025-11-13.
    pub const ACP_RFD: Self = Self(1 << 8);
    /// LSP 3.17 and 3.18.
    pub const LSP: Self = Self(1 << 9);

    /// The MCP revisions that define the semantics of timeouts: all but the first.
    pub const MCP_FROM_2025_03_26: Self =
        Self::MCP_2025_03_26.union(Self::MCP_2025_06_18).union(Self::MCP_2025_11_25).union(Self::MCP_2026_07_28);
    /// The MCP revisions with sessions over Streamable HTTP.
    pub const MCP_SESSIONS: Self = Self::MCP_2025_03_26.union(Self::MCP_2025_06_18).union(Self::MCP_2025_11_25);
    /// The MCP revisions with an `initialize` handshake.
    pub const MCP_LEGACY: Self = Self::MCP_2024_11_05.union(Self::MCP_SESSIONS);
    /// Every MCP revision; the tasks extension is none.
    pub const MCP: Self = Self::MCP_LEGACY.union(Self::MCP_2026_07_28);
    /// Every ACP text.
    pub const ACP: Self = Self::ACP_V1.union(Self::ACP_V2).union(Self::ACP_RFD);
    /// Every revision of every protocol.
    pub const ALL: Self = Self::MCP.union(Self::TASKS_EXTENSION).union(Self::ACP).union(Self::LSP);

    /// The revisions in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every revision of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set holds nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the revisions, oldest first within a protocol.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name)
    }

    /// The revision of this name, as a set of one: `mcp-2025-11-25`, `acp-v1`, `lsp` …
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(|bit| Self(1 << bit))
    }
}

impl fmt::Debug for Revisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    #[test]
    fn every_dialect_is_a_revision_of_the_same_name() {
        for dialect in Dialect::ALL {
            assert!(Revisions::by_name(dialect.name).is_some(), "{}", dialect.name);
        }
    }

    #[test]
    fn a_name_stands_for_one_revision_and_all_names_for_all() {
        let mut all = Revisions::NONE;
        for name in NAMES {
            let one = Revisions::by_name(name).unwrap();
            assert!(!all.contains(one), "{name} shares its bit");
            assert_eq!(one.names().collect::<Vec<_>>(), [name]);
            all = all.union(one);
        }
        assert_eq!(all, Revisions::ALL);
    }

    #[test]
    fn the_constants_carry_their_own_names() {
        for (one, name) in [
            (Revisions::MCP_2024_11_05, "mcp-2024-11-05"),
            (Revisions::MCP_2025_03_26, "mcp-2025-03-26"),
            (Revisions::MCP_2025_06_18, "mcp-2025-06-18"),
            (Revisions::MCP_2025_11_25, "mcp-2025-11-25"),
            (Revisions::MCP_2026_07_28, "mcp-2026-07-28"),
            (Revisions::TASKS_EXTENSION, "mcp-tasks-extension"),
            (Revisions::ACP_V1, "acp-v1"),
            (Revisions::ACP_V2, "acp-v2-draft"),
            (Revisions::ACP_RFD, "acp-rfd-2025-11-13"),
            (Revisions::LSP, "lsp"),
        ] {
            assert_eq!(Revisions::by_name(name), Some(one));
        }
    }

    #[test]
    fn a_set_holds_its_parts_and_nothing_else() {
        assert!(Revisions::MCP.contains(Revisions::MCP_LEGACY));
        assert!(!Revisions::MCP_LEGACY.contains(Revisions::MCP));
        assert!(!Revisions::MCP.contains(Revisions::TASKS_EXTENSION));
        assert!(Revisions::NONE.is_empty());
        assert_eq!(Revisions::MCP_LEGACY.names().count(), 4);
    }
}
