//! Who may use the server: what a request's bearer token shows.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use rescind_proto::{error_code, time::Instant};

use super::{
    bearers::Bearers,
    issuer::{Issuer, keyring::Keyring},
    owner::Owner,
    refusal::Refusal,
    token::{TokenDigest, bearer},
};

/// Who may use a server, and as whom.
///
/// Owners are kept apart: a session is its owner's, and for all others there is none of that id. Their requests outside
/// a session have a link for each of them, so that a program behind never serves two; with
/// [`Stateless::Joined`](crate::server::Stateless::Joined) all share one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Access {
    /// Every client that reaches it.
    #[default]
    Open,
    /// Every client that has this token, all as one.
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

    /// Whether the token of a request is signed by a key that may still come. Asks for keys where that is of use.
    pub(super) fn awaits_key(&self, now: Instant, headers: &HeaderMap, keyring: &mut Keyring) -> bool {
        matches!(self, Self::Issuer(_)) && keyring.awaits_key(now, headers)
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

    /// Whether this is the path of the page that describes how to sign in here.
    pub(crate) fn is_page(&self, path: &str, endpoint: Option<&str>) -> bool {
        matches!(self, Self::Issuer(issuer) if issuer.is_page(path, endpoint))
    }
}

fn unauthorized(challenge: HeaderValue) -> Refusal {
    let refusal = Refusal::new(StatusCode::UNAUTHORIZED, error_code::INVALID_REQUEST, "a bearer token is needed");
    refusal.with_header(header::WWW_AUTHENTICATE, challenge)
}
