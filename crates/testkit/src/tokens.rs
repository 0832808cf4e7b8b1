//! Signed tokens (JWT) and the keys that sign them, as an issuer makes them.

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Value, json};

/// A key of an issuer, with a name.
#[derive(Debug)]
pub struct SigningKey {
    kid: &'static str,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A key that is no secret: `ring` makes none of this kind.
const RSA: &str = include_str!("tokens/rsa-2048.txt");

impl SigningKey {
    /// A key for RS256, always the same.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn rsa(kid: &'static str) -> Self {
        let text: String = RSA.split_whitespace().collect();
        let der = BASE64_STANDARD.decode(text).expect("base64");
        Self { kid, pair: Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(&der).expect("a key"))) }
    }

    /// A new key for ES256.
    ///
    /// # Panics
    ///
    /// Without random numbers.
    pub fn p256(kid: &'static str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("a key");
        Self { kid, pair: Pair::P256(pair) }
    }

    /// A new key for `EdDSA`.
    ///
    /// # Panics
    ///
    /// Without random numbers.
    pub fn ed25519(kid: &'static str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self { kid, pair: Pair::Ed25519(Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("a key")) }
    }

    /// The algorithm that it is for.
    pub const fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// Its public half, as an issuer publishes it.
    pub fn public(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let mut key = match &self.pair {
            Pair::Rsa(pair) => {
                let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": text(&public.n), "e": text(&public.e)})
            }
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])})
            }
            Pair::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())})
            }
        };
        key["kid"] = self.kid.into();
        key["use"] = "sig".into();
        key["alg"] = self.algorithm().into();
        key
    }

    /// The header of its tokens.
    pub fn header(&self) -> Value {
        json!({"alg": self.algorithm(), "kid": self.kid, "typ": "at+jwt"})
    }

    /// A token that claims this.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// A token with this header and these claims, which may be any text.
    ///
    /// # Panics
    ///
    /// Without random numbers.
    pub fn sign(&self, header: &str, claims: &str) -> String {
        let signed = signed_part(header, claims);
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
                    .expect("a signature");
                signature
            }
            Pair::P256(pair) => {
                pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature").as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The keys as an issuer publishes them.
pub fn key_set(keys: &[&SigningKey]) -> Value {
    json!({"keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>()})
}

/// A token that was signed with a secret of both sides (HS256).
pub fn sign_with_secret(secret: &[u8], header: &str, claims: &str) -> String {
    let signed = signed_part(header, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

/// What of a token is signed.
pub fn signed_part(header: &str, claims: &str) -> String {
    [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".")
}
