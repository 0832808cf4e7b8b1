//! Forms of JSON that some clients refuse: then they start none of the servers of the file, and most of them say nothing.
//!
//! Only what a client was seen to refuse, or a thread tells of it. Of other clients nothing is claimed.

use crate::{
    config::Config,
    oddity::{Form, Oddity},
};

/// A client that refuses some forms.
#[derive(Debug, PartialEq, Eq)]
pub struct Strict {
    /// The [`Client::id`](crate::client::Client::id).
    pub client: &'static str,
    /// What it refuses.
    pub refuses: &'static [Form],
    /// Where that is written, or how it was seen.
    pub source: &'static str,
}

/// What this client is known to refuse of this file.
#[must_use]
pub fn refused(client: &str, config: &Config) -> Vec<Oddity> {
    let known = STRICT.iter().find(|one| one.client == client);
    let refuses = |oddity: &Oddity| known.is_some_and(|known| known.refuses.contains(&oddity.form));
    config.oddities().into_iter().filter(refuses).collect()
}

/// The clients that are known to refuse something, in the order of [`CLIENTS`](crate::client::CLIENTS).
pub const STRICT: &[Strict] = &[
    Strict {
        client: "claude-desktop",
        refuses: &[Form::ByteOrderMark],
        source: "https://github.com/tradesdontlie/tradingview-mcp/issues/406",
    },
    Strict {
        client: "claude-code",
        refuses: &[Form::Empty, Form::Comment, Form::TrailingComma],
        source: "`claude mcp list` of 2.1.300",
    },
    Strict {
        client: "windsurf",
        refuses: &[Form::ByteOrderMark],
        source: "https://github.com/CoplayDev/unity-mcp/pull/231",
    },
    Strict {
        client: "gemini",
        refuses: &[Form::Empty, Form::ByteOrderMark, Form::TrailingComma],
        source: "`gemini mcp list` of 0.61.0",
    },
    Strict { client: "copilot", refuses: &[Form::Empty], source: "`copilot mcp list` of 1.0.89" },
    Strict {
        client: "droid",
        refuses: &[Form::ByteOrderMark, Form::TrailingComma],
        source: "`droid mcp list` of 0.215.0",
    },
    Strict {
        client: "mcporter",
        refuses: &[Form::Empty, Form::ByteOrderMark],
        source: "`mcporter config list` of 0.12.3",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client, syntax::Syntax};

    fn oddities(text: &str) -> Vec<(Form, usize)> {
        let shape = client::client("claude-code").unwrap().files[0].shape;
        let config = Config::read(text.as_bytes(), Syntax::Json, shape.servers).unwrap();
        config.oddities().into_iter().map(|one| (one.form, one.line)).collect()
    }

    #[test]
    fn what_strict_json_has_not_is_found_with_its_line() {
        let plain = "{\n  \"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"//\", \",]\"]}}\n}\n";
        assert_eq!(oddities(plain), []);
        assert_eq!(oddities(""), [(Form::Empty, 1)]);
        assert_eq!(oddities(" \r\n\t"), [(Form::Empty, 1)]);
        assert_eq!(oddities("\u{feff}"), [(Form::Empty, 1), (Form::ByteOrderMark, 1)]);
        assert_eq!(oddities(&format!("\u{feff}{plain}")), [(Form::ByteOrderMark, 1)]);
        assert_eq!(oddities("{\n  // mine\n  \"a\": 1\n}"), [(Form::Comment, 2)]);
        assert_eq!(oddities("{\n  \"a\": 1\n}\n/* end */"), [(Form::Comment, 4)]);
        assert_eq!(oddities("{\n  \"a\": [1, 2,],\n  \"b\": 1\n}"), [(Form::TrailingComma, 2)]);
        assert_eq!(oddities("{\n  \"a\": 1, // x\n}"), [(Form::Comment, 2), (Form::TrailingComma, 2)]);
    }

    #[test]
    fn only_what_a_client_is_known_to_refuse_is_told_of_it() {
        let config = Config::read(b"{\n  // mine\n}", Syntax::Json, &[]).unwrap();
        let found = |client: &str| refused(client, &config).len();
        assert_eq!([found("claude-code"), found("copilot"), found("vscode"), found("zed")], [1, 0, 0, 0]);
        for one in STRICT {
            assert!(client::client(one.client).is_some() && !one.refuses.is_empty() && !one.source.is_empty());
        }
    }

    #[test]
    fn toml_has_its_own_rules() {
        let config = Config::read(b"# mine\n", Syntax::Toml, &[]).unwrap();
        assert_eq!(config.oddities(), []);
    }
}
