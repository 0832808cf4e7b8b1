//! Which timeout to propose for the servers of a client that gives up calls and does not tell them.
//!
//! The times are those of [`patience`]; a client without a known one has no proposal here.

use crate::{
    client,
    config::Config,
    entry::{Entry, Kind},
    patience::{self, Tells},
};

/// A timeout to propose for the servers of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct Advice {
    /// The [`Client::id`](crate::client::Client::id).
    pub client: &'static str,
    /// How long the client waits for a call, unless that is set.
    pub after: &'static str,
    /// The value of `--timeout`, shorter than that.
    pub timeout: &'static str,
    /// Members of a server, or of its whole file, that set how long the client waits.
    set_by: &'static [&'static str],
}

/// The proposals, in the order of [`CLIENTS`](crate::client::CLIENTS).
pub const ADVICE: &[Advice] = &[
    Advice { client: "claude-desktop", after: "4 minutes", timeout: "3m", set_by: &[] },
    Advice { client: "zed", after: "60 s", timeout: "50s", set_by: &["timeout", "context_server_timeout"] },
    Advice { client: "gemini", after: "10 minutes", timeout: "9m", set_by: &["timeout"] },
    Advice { client: "antigravity", after: "180 s", timeout: "170s", set_by: &[] },
    Advice { client: "copilot", after: "60 s", timeout: "50s", set_by: &["timeout"] },
    Advice { client: "cline", after: "60 s", timeout: "50s", set_by: &["timeout"] },
];

/// The proposal for the servers of this client.
#[must_use]
pub fn of(client: &str) -> Option<&'static Advice> {
    ADVICE.iter().find(|one| one.client == client)
}

impl Advice {
    /// Whether it fits a server of this file: an MCP server whose client waits as long as it does by default.
    #[must_use]
    pub fn fits(&self, entry: &Entry, config: &Config) -> bool {
        entry.kind == Kind::Tools && !self.set_by.iter().any(|name| entry.has(name) || config.has(name))
    }

    /// What the client does, as a clause.
    #[must_use]
    pub fn why(&self) -> String {
        let Self { client, after, .. } = self;
        let name = client::client(client).map_or(*client, |client| client.name);
        match patience::of(client).map_or(Tells::Unknown, |known| known.on_timeout) {
            Tells::Nothing => format!("{name} gives up a call after {after} and tells its server nothing"),
            Tells::Unknown => format!("{name} gives up a call after {after} and is not known to tell its server"),
            Tells::Cancel => format!("{name} tells its server nothing when you stop a call"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Syntax;

    #[test]
    fn a_timeout_is_proposed_where_a_client_may_give_up_in_silence_and_is_shorter_than_its_own() {
        let seconds = |text: &str| {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            let unit = if text[digits.len()..].trim_start().starts_with('m') { 60 } else { 1 };
            digits.parse::<u32>().unwrap() * unit
        };
        for one in ADVICE {
            let known = patience::of(one.client).unwrap();
            assert!(known.waits.starts_with(one.after), "{one:?}");
            assert!(seconds(one.timeout) < seconds(one.after), "{one:?}");
            assert!(known.is_silent() || known.on_timeout == Tells::Unknown, "{one:?}");
            assert!(known.set.contains("rescind run --timeout"), "{one:?}");
        }
        for told in ["codex", "opencode", "claude-code", "cursor"] {
            assert_eq!(of(told), None, "{told}");
        }
        assert_eq!(of("zed").unwrap().why(), "Zed gives up a call after 60 s and tells its server nothing");
        assert_eq!(of("gemini").unwrap().why(), "Gemini CLI tells its server nothing when you stop a call");
    }

    #[test]
    fn a_client_whose_own_time_is_set_gets_no_proposal() {
        let zed = client::client("zed").unwrap().files[0].shape;
        let fits = |text: &str| {
            let config = Config::read(text.as_bytes(), Syntax::Json, zed.servers).unwrap();
            config.entries().iter().map(|entry| of("zed").unwrap().fits(entry, &config)).collect::<Vec<_>>()
        };
        let entries = r#""context_servers": {"a": {"command": "a"}, "b": {"command": "b", "timeout": 600}}"#;
        assert_eq!(fits(&format!("{{{entries}}}")), [true, false]);
        assert_eq!(fits(&format!("{{{entries}, \"context_server_timeout\": 300}}")), [false, false]);
        assert_eq!(fits(r#"{"agent_servers": {"a": {"command": "a"}}}"#), [false]);
    }
}
