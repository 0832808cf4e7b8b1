//! A bearer token: how a request shows it, and what is kept of one.

use core::fmt;

use http::{HeaderMap, HeaderValue};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::ConstantTimeEq;

use super::{credentials::authorization, refusal::Refusal};

/// The bearer token of a request; `None` if it has none.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let value = authorization(headers)?.map_or(&b""[..], HeaderValue::as_bytes);
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

    /// Whether it is that of this token; how long that takes does not show how much of it is right.
    pub(super) fn is_of(&self, token: &[u8]) -> bool {
        self.0.ct_eq(&Self::of(token).0).into()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}
