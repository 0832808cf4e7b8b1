//! The values of `--protocol` and `--server-protocol`.

use std::{fs, path::Path};

use rescind::dialect_file;
use rescind_proto::dialect::{Dialect, lsp};

/// The dialect of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Detected from the messages. `mcp` and `acp` mean this too, since their handshake names the revision.
    Detected,
    /// Fixed.
    Pinned(&'static Dialect),
}

impl Protocol {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" | "mcp" | "acp" => Ok(Self::Detected),
            "lsp" => Ok(Self::Pinned(&lsp::LSP)),
            file if Path::new(file).extension().is_some_and(|extension| extension == "json") => {
                let json = fs::read_to_string(file).map_err(|error| error.to_string())?;
                dialect_file::read(&json).map(Self::Pinned).map_err(|error| error.to_string())
            }
            name => Dialect::by_name(name).map(Self::Pinned).ok_or_else(|| {
                let known: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name).collect();
                format!("unknown protocol; use auto, mcp, acp, a FILE.json, or one of {}", known.join(", "))
            }),
        }
    }

    pub(super) const fn dialect(&self) -> Option<&'static Dialect> {
        match self {
            Self::Detected => None,
            Self::Pinned(dialect) => Some(dialect),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_can_be_pinned_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(Protocol::parse(dialect.name), Ok(Protocol::Pinned(dialect)));
        }
    }

    #[test]
    fn an_unknown_protocol_lists_the_known_ones() {
        let error = Protocol::parse("smtp").unwrap_err();
        assert!(error.contains("acp-rfd-2025-11-13"), "{error}");
    }
}
