//! What a token may be used for.

use std::fmt;

/// Scopes, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// That of a token which can be renewed, with issuers of OpenID Connect.
    pub(crate) const OFFLINE: &str = "offline_access";

    /// Reads scopes that are separated by spaces. What cannot be part of a scope (RFC 6749, 3.3) is left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split(' ').map(ToOwned::to_owned).collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).cloned().collect()
    }

    /// Whether all of the others are among these.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|scope| self.0.contains(scope))
    }

    /// Whether this one is among them.
    pub(crate) fn contains(&self, scope: &str) -> bool {
        self.iter().any(|one| one == scope)
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }
}

impl FromIterator<String> for Scopes {
    fn from_iter<T: IntoIterator<Item = String>>(scopes: T) -> Self {
        let may_be_one = |scope: &String| {
            let is_allowed = |byte| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
            !scope.is_empty() && scope.bytes().all(is_allowed)
        };
        let mut kept: Vec<String> = Vec::new();
        for scope in scopes.into_iter().filter(may_be_one) {
            let at = kept.iter().position(|other| *other >= scope).unwrap_or(kept.len());
            if kept.get(at) != Some(&scope) {
                kept.insert(at, scope);
            }
        }
        Self(kept)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for scope in &self.0 {
            write!(f, "{space}{scope}")?;
            space = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_once_and_nothing_else_does() {
        let scopes = Scopes::parse("b a  b \u{1b}[31m \"x\" files:read");
        assert_eq!(scopes.to_string(), "a b files:read");
        assert!(scopes.covers(&Scopes::parse("a")) && !scopes.covers(&Scopes::parse("c")));
        assert_eq!(scopes.union(&Scopes::parse("c")).to_string(), "a b c files:read");
        assert!(Scopes::parse("").is_empty());
    }
}
