//! A list of owners and their bearer tokens, as an operator writes it.

use core::fmt;
use std::collections::BTreeMap;

use super::{owner::Owner, token::TokenDigest};

/// Owners by their tokens. It holds no token, and shows none.
#[derive(Clone)]
pub struct Bearers {
    /// Looking a digest up may take longer the more of it is right: but a digest does not show its token.
    bearers: BTreeMap<TokenDigest, Bearer>,
    has_plain: bool,
}

#[derive(Clone)]
struct Bearer {
    owner: Owner,
    /// Where the token stands.
    line: usize,
}

impl Bearers {
    /// Reads a list: on each line an owner, white space, and a token of it, or in its place `sha256:` and the SHA-256 of
    /// the token in hexadecimal digits. An owner may have several lines. Lines without text are left out, and so are those
    /// that begin with `#`.
    ///
    /// # Errors
    ///
    /// A line is something else, two lines have one token, or no owner stands there. The error repeats no token.
    pub fn read(text: &str) -> Result<Self, BearersError> {
        let (mut bearers, mut has_plain) = (BTreeMap::new(), false);
        for (text, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().zip(1..) {
            let refused = |fault| BearersError::Line { line, fault };
            let mut words = text.split_whitespace();
            let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { continue };
            let (Some(token), None) = (words.next(), words.next()) else { return Err(refused(LineFault::Words)) };
            let is_plain_name = !name.chars().any(char::is_control);
            let owner = Owner::new(name).filter(|_| is_plain_name).ok_or_else(|| refused(LineFault::Owner))?;
            let digest = match token.strip_prefix("sha256:") {
                Some(hex) => TokenDigest::from_hex(hex).ok_or_else(|| refused(LineFault::Digest))?,
                None if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                    has_plain = true;
                    TokenDigest::of(token.as_bytes())
                }
                None => return Err(refused(LineFault::Token)),
            };
            if let Some(earlier) = bearers.insert(digest, Bearer { owner, line }) {
                return Err(refused(LineFault::Repeated(earlier.line)));
            }
        }
        if bearers.is_empty() { Err(BearersError::Empty) } else { Ok(Self { bearers, has_plain }) }
    }

    /// Whether a token itself stood in the list, which only its operator may read then.
    #[must_use]
    pub const fn has_plain_tokens(&self) -> bool {
        self.has_plain
    }

    /// Who has a token.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.bearers.values().map(|bearer| &bearer.owner)
    }

    /// Whose token this is.
    pub(crate) fn owner(&self, token: &[u8]) -> Option<Owner> {
        self.bearers.get(&TokenDigest::of(token)).map(|bearer| bearer.owner.clone())
    }
}

impl fmt::Debug for Bearers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearers").field("tokens", &self.bearers.len()).finish_non_exhaustive()
    }
}

/// Why a list of owners is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BearersError {
    /// A line is wrong.
    #[error("line {line} {fault}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        fault: LineFault,
    },
    /// It names no owner.
    #[error("names no owner")]
    Empty,
}

/// What is wrong with a line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// It has one word, or more than two.
    #[error("is not an owner and a token")]
    Words,
    /// The name of the owner is too long, or has control characters.
    #[error("names an owner with more than 512 bytes or with control characters")]
    Owner,
    /// The token has other characters than visible ASCII.
    #[error("has a token that is not visible ASCII")]
    Token,
    /// After `sha256:` there are not 64 hexadecimal digits.
    #[error("has no 64 hexadecimal digits after sha256:")]
    Digest,
    /// The token stands on this line, too.
    #[error("has the token of line {0}")]
    Repeated(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-256 of `open-sesame`.
    const DIGEST: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

    #[test]
    fn an_owner_may_have_several_tokens_and_tokens_may_be_digests() {
        let text = format!("# who may\n\n ann  one\r\nbob\ttwo\nann three\nzoë sha256:{DIGEST}\n");
        let bearers = Bearers::read(&text).unwrap();
        for (token, owner) in [
            ("one", Some("ann")),
            ("two", Some("bob")),
            ("three", Some("ann")),
            ("open-sesame", Some("zoë")),
            (DIGEST, None),
            ("", None),
            ("on", None),
            ("one ", None),
        ] {
            assert_eq!(bearers.owner(token.as_bytes()).as_ref().map(Owner::name), owner, "{token}");
        }
        assert!(bearers.has_plain_tokens());
        assert!(!Bearers::read(&format!("zoë sha256:{}", DIGEST.to_uppercase())).unwrap().has_plain_tokens());
    }

    #[test]
    fn what_is_no_list_is_refused_by_line_and_without_its_tokens() {
        let long = "x".repeat(513);
        for (text, error) in [
            ("", "names no owner".to_owned()),
            ("# ann secret\n", "names no owner".to_owned()),
            ("ann\n", "line 1 is not an owner and a token".to_owned()),
            ("ann a\nbob secret b\n", "line 2 is not an owner and a token".to_owned()),
            ("ann sécret", "line 1 has a token that is not visible ASCII".to_owned()),
            ("ann sha256:secret", "line 1 has no 64 hexadecimal digits after sha256:".to_owned()),
            (&format!("ann sha256:{DIGEST}0"), "line 1 has no 64 hexadecimal digits after sha256:".to_owned()),
            ("ann secret\n\nbob secret", "line 3 has the token of line 1".to_owned()),
            (&format!("ann open-sesame\nann sha256:{DIGEST}"), "line 2 has the token of line 1".to_owned()),
            (
                &format!("{long} secret"),
                "line 1 names an owner with more than 512 bytes or with control characters".to_owned(),
            ),
            (
                "a\u{1b}[2J secret",
                "line 1 names an owner with more than 512 bytes or with control characters".to_owned(),
            ),
        ] {
            assert_eq!(Bearers::read(text).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn a_list_shows_no_token() {
        let shown = format!("{:?}", Bearers::read("ann secret").unwrap());
        assert_eq!(shown, "Bearers { tokens: 1, .. }");
    }
}
