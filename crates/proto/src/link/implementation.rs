//! What a side calls itself.

use crate::{cause::cut, json};

/// A side's name and version, as its handshake gave them: untrusted text, cut at 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implementation {
    /// Its name.
    pub name: Box<str>,
    /// Its version, if it gave one.
    pub version: Option<Box<str>>,
}

/// Where the protocols keep it, in the params and in the result of `initialize`.
const MEMBERS: [&str; 4] = ["clientInfo", "serverInfo", "agentInfo", "info"];

const MAX: usize = 256;

impl Implementation {
    /// Reads the params or the result of a handshake.
    pub(crate) fn of(handshake: &[u8]) -> Option<Self> {
        let info = MEMBERS.iter().find_map(|member| json::member(handshake, member))?;
        let text = |member| Some(cut(&json::text(json::member(info, member)?)?, MAX).into());
        Some(Self { name: text("name")?, version: text("version") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_named_where_each_protocol_names_it() {
        // ACP v2 has one word for both sides.
        for member in ["clientInfo", "serverInfo", "agentInfo", "info"] {
            let hello = format!(r#"{{"protocolVersion":2,"{member}":{{"name":"a","version":"1"}}}}"#);
            let named = Implementation::of(hello.as_bytes()).map(|one| (one.name, one.version));
            assert_eq!(named, Some(("a".into(), Some("1".into()))), "{member}");
        }
    }
}
