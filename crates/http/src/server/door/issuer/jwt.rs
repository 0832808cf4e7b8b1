//! A signed token (JWT): read strictly, verified before anything that it claims is looked at.

use core::fmt;
use std::time::Duration;

use rescind_proto::json;

use super::key_set::{Algorithm, KeySet};
use crate::server::door::{
    owner::Owner,
    strict::{decode, only, text, texts},
};

/// The longest token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// What a token may call itself.
const KINDS: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// How far the clocks of the issuer and of this machine may be apart.
const LEEWAY: Duration = Duration::from_secs(60);

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenFault {
    /// It is not a JWT, or one with a member that stands there twice.
    Malformed,
    /// It is of a kind, or signed in a way, that is not taken here.
    Kind,
    /// No key of the issuer has signed it.
    Signature,
    Issuer,
    Audience,
    Expired,
    /// It has no time until which it is valid.
    Endless,
    NotYet,
    /// It does not name its subject.
    Subject,
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "is malformed",
            Self::Kind => "is of a kind that is not taken here (RS256, ES256, EdDSA are)",
            Self::Signature => "is not signed by a key of the issuer",
            Self::Issuer => "is from another issuer",
            Self::Audience => "is for another audience",
            Self::Expired => "has expired",
            Self::Endless => "does not say when it expires",
            Self::NotYet => "is not valid yet",
            Self::Subject => "does not name its subject",
        })
    }
}

/// A token whose form is right. Nothing else is known of it.
pub(crate) struct Jwt<'a> {
    algorithm: Algorithm,
    kid: Option<String>,
    /// The header and the claims as they were signed.
    signed: &'a [u8],
    signature: Vec<u8>,
    claims: Vec<u8>,
}

impl<'a> Jwt<'a> {
    pub(crate) fn read(token: &'a [u8]) -> Result<Self, TokenFault> {
        let malformed = TokenFault::Malformed;
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else { return Err(malformed) };
        if token.len() > MAX_TOKEN {
            return Err(malformed);
        }
        let [header, claims, signature] =
            [&token[..first], &token[first + 1..second], &token[second + 1..]].map(decode);
        let (Some(header), Some(claims), Some(signature)) = (header, claims, signature) else { return Err(malformed) };
        let header = Claims::of(&header)?;
        let [algorithm, kind, kid] = ["alg", "typ", "kid"].map(|name| header.text(name));
        let algorithm = algorithm?.as_deref().and_then(Algorithm::by_name).ok_or(TokenFault::Kind)?;
        let is_known = |kind: String| KINDS.iter().any(|known| known.eq_ignore_ascii_case(&kind));
        // What it names as critical is not known here, whatever it is (RFC 7515, 4.1.11).
        if header.only("crit")?.is_some() || !kind?.is_none_or(is_known) {
            return Err(TokenFault::Kind);
        }
        Ok(Self { algorithm, kid: kid?, signed: &token[..second], signature, claims })
    }

    /// Whether it may be signed by a key that is newer than these.
    pub(crate) fn may_have_newer_key(&self, keys: &KeySet) -> bool {
        let names = self.kid.as_deref();
        names.is_some_and(|kid| !keys.knows(kid)) && keys.key(self.algorithm, names).is_none()
    }

    /// What it claims, if one of these keys has signed it.
    pub(crate) fn verified(&self, keys: &KeySet) -> Result<Claims<'_>, TokenFault> {
        let key = keys.key(self.algorithm, self.kid.as_deref()).ok_or(TokenFault::Signature)?;
        if !key.has_signed(self.signed, &self.signature) {
            return Err(TokenFault::Signature);
        }
        Claims::of(&self.claims)
    }
}

/// The members of an object of a token. One that stands there twice is refused: others may read the other.
pub(crate) struct Claims<'a>(&'a [u8]);

/// What the claims of a token must be.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) audience: &'a str,
}

impl<'a> Claims<'a> {
    fn of(text: &'a [u8]) -> Result<Self, TokenFault> {
        let text = text.trim_ascii();
        let is_object = text.first() == Some(&b'{') && json::value_end(text, 0) == Some(text.len());
        if is_object { Ok(Self(text)) } else { Err(TokenFault::Malformed) }
    }

    fn only(&self, name: &str) -> Result<Option<&'a [u8]>, TokenFault> {
        only(self.0, name).map_err(|_| TokenFault::Malformed)
    }

    fn text(&self, name: &str) -> Result<Option<String>, TokenFault> {
        self.only(name)?.map(|raw| text(raw).ok_or(TokenFault::Malformed)).transpose()
    }

    fn time(&self, name: &str) -> Result<Option<f64>, TokenFault> {
        self.only(name)?.map(|raw| number(raw).ok_or(TokenFault::Malformed)).transpose()
    }

    /// Whose the token is, if it is what it must be at this time of day (since 1970).
    pub(crate) fn owner(&self, expected: &Expected<'_>, now: Duration) -> Result<Owner, TokenFault> {
        if self.only("iss")?.and_then(text).as_deref() != Some(expected.issuer) {
            return Err(TokenFault::Issuer);
        }
        let audiences = self.only("aud")?.map_or_else(Vec::new, texts);
        if !audiences.iter().any(|audience| audience == expected.audience) {
            return Err(TokenFault::Audience);
        }
        let (now, leeway) = (now.as_secs_f64(), LEEWAY.as_secs_f64());
        if self.time("exp")?.ok_or(TokenFault::Endless)? + leeway <= now {
            return Err(TokenFault::Expired);
        }
        if self.time("nbf")?.is_some_and(|from| from - leeway > now) {
            return Err(TokenFault::NotYet);
        }
        let subject = self.only("sub")?.and_then(text).ok_or(TokenFault::Subject)?;
        Owner::new(&subject).ok_or(TokenFault::Subject)
    }

    /// Whether all of these scopes are granted: in `scope` (RFC 9068) or `scp`, as words or as a list.
    pub(crate) fn has_scopes(&self, wanted: &[Box<str>]) -> Result<bool, TokenFault> {
        let mut granted = Vec::new();
        for raw in [self.only("scope")?, self.only("scp")?].into_iter().flatten() {
            granted.extend(texts(raw));
        }
        let is_granted = |scope: &str| granted.iter().any(|words| words.split(' ').any(|word| word == scope));
        Ok(wanted.iter().all(|scope| is_granted(scope)))
    }
}

/// Seconds since 1970, which may have a fraction.
fn number(raw: &[u8]) -> Option<f64> {
    let is_number = raw.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    let number: f64 = str::from_utf8(raw).ok().filter(|_| is_number)?.parse().ok()?;
    number.is_finite().then_some(number)
}
