//! What is kept of a sign-in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Scopes, Secret, client::Client, exchange::Tokens};

/// A token is renewed so many seconds before it expires, since requests take time and clocks differ.
const MARGIN: u64 = 30;

/// A sign-in at one server, with its tokens. `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The server, without its query.
    pub(crate) server: String,
    pub(crate) profile: String,
    pub(crate) issuer: String,
    /// The name under which tokens are asked for; `None` for servers of 2025-03-26.
    pub(crate) resource: Option<String>,
    pub(crate) token_endpoint: String,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) client: Client,
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    /// Seconds since 1970.
    pub(crate) expires_at: Option<u64>,
    pub(crate) scopes: Scopes,
}

impl Record {
    /// The server, without its query.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Which of several sign-ins at the same server it is.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Who has given the token.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// As which client.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client.id
    }

    /// What it may be used for, as far as it is known.
    #[must_use]
    pub const fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// When the token expires, in seconds since 1970; `None` if nobody says so.
    #[must_use]
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// Whether it can be renewed without the person.
    #[must_use]
    pub const fn can_be_renewed(&self) -> bool {
        self.refresh.is_some()
    }

    /// Whether the token has expired, or is about to, at `now` in seconds since 1970.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now.saturating_add(MARGIN))
    }

    /// The same with newer tokens. A server that gives no new refresh token means the old one.
    pub(crate) fn renewed(&self, tokens: Tokens, now: u64) -> Self {
        Self {
            access: tokens.access,
            refresh: tokens.refresh.or_else(|| self.refresh.clone()),
            expires_at: tokens.lasts.map(|lasts| now.saturating_add(lasts)),
            scopes: tokens.scopes.unwrap_or_else(|| self.scopes.clone()),
            ..self.clone()
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("server", &self.server).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
