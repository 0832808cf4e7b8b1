//! The tools of the sample server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tool, named after what it does with a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tool {
    Quick,
    Obeys,
    Ignores,
    Crosses,
    Sleepy,
    Dies,
}

impl Tool {
    pub(crate) const ALL: [Self; 6] =
        [Self::Quick, Self::Obeys, Self::Ignores, Self::Crosses, Self::Sleepy, Self::Dies];

    /// The exit code of the server when `dies` ends it.
    pub(crate) const EXIT_CODE: i32 = 3;

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Obeys => "obeys",
            Self::Ignores => "ignores",
            Self::Crosses => "crosses",
            Self::Sleepy => "sleepy",
            Self::Dies => "dies",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Whether its work stops when the call is cancelled.
    pub(super) const fn obeys(self) -> bool {
        match self {
            Self::Quick | Self::Obeys | Self::Sleepy => true,
            Self::Ignores | Self::Crosses | Self::Dies => false,
        }
    }

    /// Returns how many steps its work has. `None` has no last step.
    pub(super) const fn steps(self) -> Option<u32> {
        match self {
            Self::Quick => Some(2),
            Self::Obeys => Some(300),
            Self::Ignores => Some(15),
            Self::Crosses => Some(8),
            Self::Sleepy => None,
            Self::Dies => Some(4),
        }
    }

    /// Returns its entry in `tools/list`.
    pub(super) fn described(self) -> Value {
        let description = match self {
            Self::Quick => "Works for 0.2 s and answers.",
            Self::Obeys => "Works for 30 s; stops when cancelled.",
            Self::Ignores => "Works for 1.5 s and answers, cancelled or not.",
            Self::Crosses => {
                "Works for 0.8 s and writes half its answer; the rest when a cancel has come, or after 2 s."
            }
            Self::Sleepy => "Never answers; stops when cancelled.",
            Self::Dies => "Works for 0.4 s; then the server exits with code 3.",
        };
        json!({"name": self.name(), "description": description, "inputSchema": {"type": "object"}})
    }
}
