//! Text that is not shown.

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

/// A token, a code, a verifier or the like. Its `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Makes a secret of this text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for where it belongs.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A new one that cannot be guessed: 256 random bits, in letters that may stand in a URL.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// A public text that proves the secret when it is shown later: the challenge `S256` of a verifier (RFC 7636).
    pub(crate) fn s256(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, self.0.as_bytes()))
    }

    /// Whether it is this text. The time that it takes does not depend on how much of it is right.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        assert_eq!(verifier.s256(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn two_are_not_equal_and_neither_is_shown() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one, other);
        assert_eq!((one.expose().len(), format!("{one:?}")), (43, "Secret".to_owned()));
    }
}
