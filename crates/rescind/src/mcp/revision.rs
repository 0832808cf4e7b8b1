//! The revisions of the protocol, and which one two sides agree on.

use std::fmt;

use rescind_proto::dialect::{Dialect, mcp};

/// A revision of the protocol; later revisions compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the last with an `initialize` handshake
    V2025_11_25,
    /// 2026-07-28, in which every request names its revision
    V2026_07_28,
}

impl Revision {
    /// All of them, the newest first.
    pub const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The newest that `initialize` can agree on.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest without sessions.
    pub const LATEST_STATELESS: Self = Self::V2026_07_28;

    /// The revision of exactly this date.
    #[must_use]
    pub fn by_date(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.date() == date)
    }

    /// Its date, as `protocolVersion` has it.
    #[must_use]
    pub const fn date(self) -> &'static str {
        match self.dialect().date {
            Some(date) => date,
            None => "",
        }
    }

    /// Its dialect: what it says about cancellation.
    #[must_use]
    pub const fn dialect(self) -> &'static Dialect {
        match self {
            Self::V2024_11_05 => &mcp::REVISION_2024_11_05,
            Self::V2025_03_26 => &mcp::REVISION_2025_03_26,
            Self::V2025_06_18 => &mcp::REVISION_2025_06_18,
            Self::V2025_11_25 => &mcp::REVISION_2025_11_25,
            Self::V2026_07_28 => &mcp::REVISION_2026_07_28,
        }
    }

    /// The revision of a dialect, or of a variant with the same name; for any other dialect, the newest revision with a
    /// handshake.
    #[must_use]
    pub fn of(dialect: &Dialect) -> Self {
        let is_its = |revision: &Self| revision.dialect().name == dialect.name;
        Self::ALL.into_iter().find(is_its).unwrap_or(Self::LATEST_LEGACY)
    }

    /// Whether it has no sessions: every request names its revision, instead of a handshake.
    #[must_use]
    pub const fn is_stateless(self) -> bool {
        self.dialect().stateless
    }

    /// The revision that a server answers to an `initialize` that asks for `date`: the same if it has a handshake and is in
    /// `spoken` (the newest first), else the newest of those that have one.
    pub(super) fn agreed(date: &str, spoken: &[Self]) -> Option<Self> {
        let mut with_handshake = spoken.iter().copied().filter(|revision| !revision.is_stateless());
        let newest = with_handshake.clone().next();
        with_handshake.find(|revision| revision.date() == date).or(newest)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.date())
    }
}

#[cfg(test)]
mod tests {
    use rescind_proto::dialect::Family;

    use super::*;

    #[test]
    fn the_revisions_are_those_that_the_engine_has_a_dialect_for_each_named_by_its_date() {
        let dialects = Dialect::ALL.into_iter().filter(|dialect| dialect.family == Family::Mcp);
        let newest = [Revision::LATEST_LEGACY, Revision::LATEST_STATELESS].map(Revision::dialect);
        assert_eq!(newest, [&mcp::LATEST_LEGACY, &mcp::LATEST_STATELESS]);
        let revisions = Revision::ALL.into_iter().rev();
        assert!(dialects.eq(revisions.clone().map(Revision::dialect)));
        assert!(revisions.is_sorted());
        for revision in Revision::ALL {
            assert_eq!(revision.dialect().name, format!("mcp-{revision}"));
            assert_eq!(mcp::by_version(revision.date()), Some(revision.dialect()));
            assert_eq!(Revision::of(revision.dialect()), revision);
        }
    }

    #[test]
    fn a_handshake_agrees_on_what_was_asked_or_the_newest_that_has_a_handshake() {
        for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_stateless()) {
            assert_eq!(Revision::agreed(revision.date(), &Revision::ALL), Some(revision));
        }
        for date in ["2026-07-28", "2025-12-01", "2024-10-07", "", "tomorrow"] {
            assert_eq!(Revision::agreed(date, &Revision::ALL), Some(Revision::LATEST_LEGACY), "{date}");
            assert_eq!(Revision::agreed(date, &[Revision::V2025_06_18]), Some(Revision::V2025_06_18), "{date}");
            assert_eq!(Revision::agreed(date, &[Revision::V2026_07_28]), None, "{date}");
        }
    }
}
