//! The public keys of an issuer (JWKS, RFC 7517).

use core::fmt;
use std::sync::Arc;

use rescind_proto::json;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

use crate::server::door::strict::{decode, elements, text, texts};

/// The most keys that are kept, the first ones. Issuers have two or three.
const MAX_KEYS: usize = 64;

/// The shortest and the longest RSA key that is taken, in bytes.
const RSA_BYTES: core::ops::RangeInclusive<usize> = 256..=1024;

/// The public keys of an issuer. Those that verify nothing that is taken here are left out.
#[derive(Clone)]
pub struct KeySet(Arc<[PublicKey]>);

/// How tokens may be signed. There is none without a key, and none with a shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

/// One key. Its kind settles the algorithm, so that no token chooses another for it.
#[derive(Clone)]
pub(crate) struct PublicKey {
    kid: Option<Box<str>>,
    material: Material,
}

#[derive(Clone)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point, uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Why a document holds no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It is not a JSON object with a list of keys.
    #[error("it is not a list of keys")]
    Malformed,
    /// None of its keys verifies RS256, ES256 or EdDSA.
    #[error("it has no key for RS256 (of at least 2048 bits), ES256 or EdDSA")]
    Empty,
}

impl Algorithm {
    /// That which a token names.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

impl KeySet {
    /// Reads a set of keys as an issuer publishes it.
    ///
    /// # Errors
    ///
    /// It is none, or none of its keys can be used.
    pub fn read(document: &[u8]) -> Result<Self, KeySetError> {
        let listed =
            json::member(document, "keys").filter(|keys| keys.starts_with(b"[")).ok_or(KeySetError::Malformed)?;
        let keys: Vec<PublicKey> = elements(listed).into_iter().filter_map(PublicKey::read).take(MAX_KEYS).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self(keys.into())) }
    }

    /// Whether a key has this name, whatever it is for.
    pub(crate) fn knows(&self, kid: &str) -> bool {
        self.0.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// The key for a token that names this one. Where a token or a key has no name, it is the only one of its kind.
    pub(crate) fn key(&self, algorithm: Algorithm, kid: Option<&str>) -> Option<&PublicKey> {
        let of_kind = || self.0.iter().filter(|key| key.algorithm() == algorithm);
        if let Some(named) = kid.and_then(|kid| of_kind().find(|key| key.kid.as_deref() == Some(kid))) {
            return Some(named);
        }
        let mut others = of_kind();
        let only = others.next().filter(|_| others.next().is_none())?;
        (kid.is_none() || only.kid.is_none()).then_some(only)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().map(|key| size_of::<PublicKey>() + key.heap_bytes()).sum()
    }
}

impl PublicKey {
    /// Reads one; `None` if it is for something else.
    fn read(raw: &[u8]) -> Option<Self> {
        let said = |name| json::member(raw, name).and_then(text);
        let bytes = |name| decode(said(name)?.as_bytes());
        let (material, algorithm) = match &*said("kty")? {
            "RSA" => {
                let plain = |name| -> Option<Vec<u8>> {
                    let digits: Vec<u8> = bytes(name)?;
                    Some(digits.into_iter().skip_while(|byte| *byte == 0).collect())
                };
                let (modulus, exponent) = (plain("n")?, plain("e")?);
                if !RSA_BYTES.contains(&modulus.len()) {
                    return None;
                }
                (Material::Rsa { modulus, exponent }, "RS256")
            }
            "EC" if said("crv")? == "P-256" => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                let point = (x.len() == 32 && y.len() == 32).then(|| [&[4][..], &x, &y].concat())?;
                (Material::P256(point), "ES256")
            }
            "OKP" if said("crv")? == "Ed25519" => {
                (Material::Ed25519(bytes("x").filter(|point| point.len() == 32)?), "EdDSA")
            }
            _ => return None,
        };
        let is_for_this = said("alg").is_none_or(|named| named == algorithm)
            && said("use").is_none_or(|purpose| purpose == "sig")
            && json::member(raw, "key_ops").is_none_or(|uses| texts(uses).iter().any(|purpose| purpose == "verify"));
        is_for_this.then(|| Self { kid: said("kid").map(Into::into), material })
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether this is the signature of a message.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Material::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
        };
        verified.is_ok()
    }

    fn heap_bytes(&self) -> usize {
        let material = match &self.material {
            Material::Rsa { modulus, exponent } => modulus.len() + exponent.len(),
            Material::P256(point) | Material::Ed25519(point) => point.len(),
        };
        material + self.kid.as_ref().map_or(0, |kid| kid.len())
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| (key.algorithm(), &key.kid))).finish()
    }
}
