//! What a configuration file is written in.

mod json;
mod toml;
mod yaml;

use crate::{oddity::Oddity, tree::Node};

/// What a configuration file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Syntax {
    /// JSON; comments and commas at the end are read, too, since most clients do.
    Json,
    /// TOML 1.0 and 1.1.
    Toml,
    /// YAML 1.2, of which most files of YAML 1.1 are, too; one document or several.
    Yaml,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

impl SyntaxError {
    fn at(text: &str, offset: usize, why: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        Self { line: before.matches('\n').count() + 1, why: why.into() }
    }
}

impl Syntax {
    /// Reads a whole document; its ranges are those of `text`. A text with nothing in it is an empty document.
    pub(crate) fn read(self, text: &str) -> Result<Node, SyntaxError> {
        match self {
            Self::Json => json::read(text),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        }
    }

    /// What a text that can be read has and strict JSON has not, where it is JSON.
    pub(crate) fn oddities(self, text: &str) -> Vec<Oddity> {
        match self {
            Self::Json => json::oddities(text),
            Self::Toml | Self::Yaml => Vec::new(),
        }
    }

    /// A string as it is written in a document.
    pub(crate) fn quoted(self, text: &str) -> String {
        // What JSON escapes, the others escape alike; TOML forbids one character more, and YAML some.
        let json = serde_json::Value::from(text).to_string();
        match self {
            Self::Json => json,
            Self::Toml => json.replace('\x7f', "\\u007F"),
            Self::Yaml => yaml::escaped(&json),
        }
    }

    /// A key as it is written in a document.
    pub(crate) fn key(self, key: &str) -> String {
        match self {
            Self::Json => self.quoted(key),
            Self::Toml if is_bare(key) => key.to_owned(),
            Self::Yaml if yaml::is_plain_key(key) => key.to_owned(),
            Self::Toml | Self::Yaml => self.quoted(key),
        }
    }
}

/// Whether TOML needs no quotes around this key.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}
