//! The values of `--protocol` and `--server-protocol`.

use std::{fmt, fs, io, path::Path};

use rescind::dialect_file;
use rescind_proto::dialect::{Dialect, Family, lsp};

/// The dialect of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Detected from the messages. The handshake of a family names the revision.
    Detected(Option<Family>),
    /// Fixed.
    Pinned(&'static Dialect),
}

impl Protocol {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Detected(None)),
            "mcp" => Ok(Self::Detected(Some(Family::Mcp))),
            "acp" => Ok(Self::Detected(Some(Family::Acp))),
            "lsp" => Ok(Self::Pinned(&lsp::LSP)),
            file if Path::new(file).extension().is_some_and(|extension| extension == "json") => {
                let json = fs::read(file).map_err(|error| {
                    let is_missing = error.kind() == io::ErrorKind::NotFound;
                    let remedy = if is_missing { "; check the path of this dialect file" } else { "" };
                    format!("{error}{remedy}")
                })?;
                let json = String::from_utf8(json).map_err(|_| "this dialect file is not UTF-8")?;
                dialect_file::read(&json).map(Self::Pinned).map_err(|error| error.to_string())
            }
            name => Dialect::by_name(name).map(Self::Pinned).ok_or_else(|| {
                if Path::new(name).exists() {
                    return "the name of a dialect file must end in .json".into();
                }
                let known: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name).collect();
                format!(
                    "unknown protocol; use auto, mcp, acp, a FILE.json, or one of {}, codex, unknown",
                    known.join(", ")
                )
            }),
        }
    }

    /// Whether nothing is said of the dialect.
    pub(super) const fn is_auto(self) -> bool {
        matches!(self, Self::Detected(None))
    }

    pub(super) const fn dialect(self) -> Option<&'static Dialect> {
        match self {
            Self::Detected(_) => None,
            Self::Pinned(dialect) => Some(dialect),
        }
    }

    /// Whether no messages of the two can pass between their sides. LSP frames its messages in its own way, and one link
    /// has one framing.
    pub(super) fn excludes(self, other: Self) -> bool {
        let is_lsp = |protocol: Self| match protocol.family() {
            Some(Family::Lsp) => Some(true),
            Some(Family::Mcp | Family::Acp | Family::Codex) => Some(false),
            Some(Family::Custom) | None => None,
            Some(_) => None,
        };
        is_lsp(self).zip(is_lsp(other)).is_some_and(|(one, other)| one != other)
    }

    /// Whether it is a known protocol that is not MCP, or `unknown`.
    pub(super) fn is_not_mcp(self) -> bool {
        let is_opaque = self.dialect().is_some_and(|dialect| dialect.opaque);
        is_opaque || matches!(self.family(), Some(Family::Acp | Family::Lsp | Family::Codex))
    }

    const fn family(self) -> Option<Family> {
        match self {
            Self::Detected(family) => family,
            Self::Pinned(dialect) => Some(dialect.family),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detected(Some(Family::Mcp)) => "mcp",
            Self::Detected(Some(Family::Acp)) => "acp",
            Self::Detected(Some(Family::Lsp | Family::Codex | Family::Custom) | None) => "auto",
            Self::Detected(Some(_)) => "auto",
            Self::Pinned(dialect) => dialect.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use rescind_proto::dialect::{UNKNOWN, codex};

    use super::*;

    #[test]
    fn every_dialect_can_be_pinned_by_its_name() {
        for dialect in Dialect::ALL.into_iter().chain([&codex::APP_SERVER, &UNKNOWN]) {
            assert_eq!(Protocol::parse(dialect.name), Ok(Protocol::Pinned(dialect)));
        }
    }

    #[test]
    fn an_unknown_protocol_lists_the_known_ones() {
        let error = Protocol::parse("smtp").unwrap_err();
        assert!(error.contains("acp-rfd-2025-11-13"), "{error}");
    }

    #[test]
    fn only_language_servers_frame_messages_in_another_way() {
        let excludes = |one, other| Protocol::parse(one).unwrap().excludes(Protocol::parse(other).unwrap());
        assert!(excludes("lsp", "mcp") && excludes("acp-v1", "lsp") && excludes("mcp-2025-11-25", "lsp"));
        assert!(excludes("codex", "lsp"));
        assert!(!excludes("auto", "lsp") && !excludes("lsp", "lsp") && !excludes("acp-v1", "mcp"));
    }
}
