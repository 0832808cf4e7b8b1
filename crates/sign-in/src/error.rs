//! Why signing in did not succeed.

use http::Uri;

use crate::{HttpError, VaultError, address};

/// The most characters of a server's text that are repeated.
const MAX_EXCERPT: usize = 200;

/// Why signing in did not succeed. Text of servers in it is cut and has no control characters. A program that shows it on a
/// terminal cleans it all the same.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignInError {
    /// The authorization server, or the server itself, did not answer as it should.
    #[error("{origin}: {why}")]
    Http {
        /// Who.
        origin: String,
        /// What is wrong.
        why: String,
    },
    /// The server names no way to sign in, and the ways of 2025-03-26 lead nowhere.
    #[error("the server does not say how to sign in")]
    NoWay,
    /// Others could read the token on its way to the server.
    #[error("{origin} is not https, so that others could read a token on its way there")]
    NotEncrypted {
        /// The server.
        origin: String,
    },
    /// The server takes requests of anyone.
    #[error("the server asks nobody to sign in")]
    NotAsked,
    /// A page by which a server describes itself contradicts what was asked for, or demands what is not safe.
    #[error("the {page} is refused: {why}")]
    Page {
        /// Which page.
        page: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// No client is known to sign in as.
    #[error("{0}")]
    Client(String),
    /// The person, or the server on its behalf, refused.
    #[error("access was denied")]
    Denied,
    /// The authorization server refused, in its own words.
    #[error("the authorization server refused: {error}{}", said(description))]
    Refused {
        /// The code of RFC 6749, such as `invalid_grant`.
        error: String,
        /// Its description of the error; may be empty.
        description: String,
    },
    /// The redirect came from another server than the one that was asked (RFC 9207).
    #[error("the redirect is not from {issuer}, which was asked, and was refused")]
    MixedUp {
        /// Who was asked.
        issuer: String,
    },
    /// The token that was given cannot be used.
    #[error("the token cannot be used: {0}")]
    Token(String),
    /// The person did not come back.
    #[error("nobody signed in within {0} minutes")]
    TooLate(u64),
    /// A person has to sign in, and none can be asked here.
    #[error("nobody is signed in")]
    Nobody,
    /// The server refuses a token that was just given for it. The person is not asked again within the hour, except by
    /// an explicit sign-in.
    #[error("the server refuses the token that was just given; no browser is opened for it again within the hour")]
    StillRefused,
    /// Another process has asked the person meanwhile, for all that waited, and in vain.
    #[error("{0} (in another program, which asked for this one, too)")]
    Elsewhere(String),
    /// This machine: no port to listen on, no random numbers.
    #[error("{0}")]
    Here(String),
    /// What is kept cannot be read or written.
    #[error("{0}")]
    Vault(#[from] VaultError),
}

impl SignInError {
    pub(crate) fn http(url: &Uri, error: &HttpError) -> Self {
        Self::Http { origin: address::origin(url), why: excerpt(&error.to_string()) }
    }

    pub(crate) fn page(page: &'static str, why: impl Into<String>) -> Self {
        Self::Page { page, why: why.into() }
    }

    /// Whether the authorization server answered with this code.
    pub(crate) fn is_refusal(&self, code: &str) -> bool {
        matches!(self, Self::Refused { error, .. } if error == code)
    }
}

impl From<getrandom::Error> for SignInError {
    fn from(error: getrandom::Error) -> Self {
        Self::Here(format!("no random numbers: {error}"))
    }
}

fn said(description: &str) -> String {
    if description.is_empty() { String::new() } else { format!(" ({description})") }
}

/// A server's text, cut, and without control characters.
pub(crate) fn excerpt(text: &str) -> String {
    let mut kept: String = text.chars().filter(|letter| !letter.is_control()).take(MAX_EXCERPT).collect();
    if text.chars().count() > MAX_EXCERPT {
        kept.push('…');
    }
    kept
}
