//! The two kinds of tasks that MCP has.

use rescind_proto::dialect::Dialect;

/// The name of the extension in the capabilities of both sides.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The metadata with the client's capabilities in a request of 2026-07-28.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The specification that a task follows, for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskDialect {
    /// MCP 2025-11-25: TASK-01 to TASK-12.
    November2025,
    /// The extension `io.modelcontextprotocol/tasks` of 2026: TASK-20 to TASK-27.
    Extension,
}

impl TaskDialect {
    /// Returns the dialect of tasks in a revision, if it has any.
    pub(crate) fn spoken_in(dialect: &Dialect) -> Option<Self> {
        dialect.tasks.map(|form| if form.asked { Self::November2025 } else { Self::Extension })
    }

    /// Returns the newest revision with tasks of this dialect.
    #[cfg(any(feature = "client", feature = "server"))]
    pub(crate) fn newest(self) -> &'static Dialect {
        let mut found = Dialect::ALL.into_iter().rev().filter(|dialect| Self::spoken_in(dialect) == Some(self));
        found.next().expect("a revision has such tasks")
    }
}
