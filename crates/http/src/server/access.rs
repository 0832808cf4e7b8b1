//! Who may use the server: what a request's bearer token shows.

use core::fmt;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use rescind_proto::error_code;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::ConstantTimeEq;

use super::{
    bearers::Bearers,
    issuer::{Issuer, keyring::Keyring},
    owner::Owner,
    refusal::Refusal,
};

/// Who may use a server, and who is told apart there.
///
/// Owners are told apart: a session is its owner's, and for everybody else there is none of that id. Their requests outside
/// a session have a link for each of them, so that a program behind never serves two; with
/// [`Stateless::Joined`](super::Stateless::Joined) all share one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Access {
    /// Everyone who reaches it, told apart by nothing here.
    #[default]
    Open,
    /// Everyone who has this token; they are not told apart.
    Token(TokenDigest),
    /// The owners in this list, each by a token of theirs.
    Owners(Bearers),
    /// The subjects of the tokens that this issuer has signed.
    Issuer(Issuer),
}

impl Access {
    /// Access by one token.
    #[must_use]
    pub fn token(token: &str) -> Self {
        Self::Token(TokenDigest::of(token.as_bytes()))
    }

    /// Whether requests have owners.
    #[must_use]
    pub const fn has_owners(&self) -> bool {
        match self {
            Self::Open | Self::Token(_) => false,
            Self::Owners(_) | Self::Issuer(_) => true,
        }
    }

    /// Establishes whose a request is, or refuses it.
    pub(crate) fn check(&self, headers: &HeaderMap, keyring: &Keyring) -> Result<Option<Owner>, Refusal> {
        if let Self::Open = self {
            return Ok(None);
        }
        let Some(token) = bearer(headers)? else { return Err(self.wanted()) };
        let established = match self {
            Self::Open => Some(None),
            Self::Token(known) => known.is_of(token).then_some(None),
            Self::Owners(bearers) => bearers.owner(token).map(Some),
            Self::Issuer(issuer) => return issuer.judge(keyring, token).map(Some),
        };
        established.ok_or_else(Self::not_good)
    }

    /// Refuses a request with a token that is not good, or is not any more.
    pub(crate) fn not_good() -> Refusal {
        unauthorized(HeaderValue::from_static(r#"Bearer error="invalid_token""#))
    }

    /// Refuses a request without a token.
    fn wanted(&self) -> Refusal {
        match self {
            Self::Issuer(issuer) => issuer.wanted(),
            Self::Open | Self::Token(_) | Self::Owners(_) => unauthorized(HeaderValue::from_static("Bearer")),
        }
    }

    /// Whether this is the path of the page that says how to sign in here.
    pub(crate) fn is_page(&self, path: &str, endpoint: Option<&str>) -> bool {
        matches!(self, Self::Issuer(issuer) if issuer.is_page(path, endpoint))
    }
}

fn unauthorized(challenge: HeaderValue) -> Refusal {
    let refusal = Refusal::new(StatusCode::UNAUTHORIZED, error_code::INVALID_REQUEST, "a bearer token is needed");
    refusal.with_header(header::WWW_AUTHENTICATE, challenge)
}

/// The bearer token of a request; `None` if it has none. One that has two may be another's to someone who reads the other.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().map_or(&b""[..], HeaderValue::as_bytes);
    if values.next().is_some() {
        let text = "the header Authorization is given twice";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
    }
    let token = value.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
    Ok(token.map(|(_, token)| token).filter(|token| !token.is_empty()))
}

/// What is kept of a bearer token: its SHA-256. Nothing of it is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenDigest([u8; SHA256_OUTPUT_LEN]);

impl TokenDigest {
    /// That of this token.
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, token).as_ref());
        Self(bytes)
    }

    /// That which these 64 hexadecimal digits are; `None` if they are anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != SHA256_OUTPUT_LEN || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let digit = |letter: &u8| char::from(*letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = digit(high)? << 4 | digit(low)?;
        }
        Some(Self(bytes))
    }

    /// Whether it is that of this token; how long that takes says nothing of how much of it is right.
    fn is_of(&self, token: &[u8]) -> bool {
        self.0.ct_eq(&Self::of(token).0).into()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}
