//! What is kept of a sign-in.

use std::fmt;

use serde_json::json;

use crate::{
    Scopes, Secret,
    client::{Authentication, Client, Registered},
    document::Document,
    exchange::Tokens,
};

/// A token is renewed so many seconds before it expires, since requests take time and clocks differ.
const MARGIN: u64 = 30;

/// A sign-in at one server, with its tokens. `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq)]
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
    /// When the person signed in. Renewed tokens are of the same grant.
    pub(crate) grant: Grant,
}

/// One time that a person signed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Distinguishes it from others; 0 for one that an older version has kept.
    pub(crate) number: u64,
    /// Seconds since 1970.
    pub(crate) at: u64,
}

impl Grant {
    /// A new one.
    pub(crate) fn new(at: u64) -> Result<Self, getrandom::Error> {
        Ok(Self { number: getrandom::u64()?, at })
    }
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

    /// When the token expires, in seconds since 1970; `None` if that is not known.
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

    /// All of it, as text to be kept.
    pub(crate) fn to_text(&self) -> String {
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let client = &self.client;
        let registered = client
            .registered
            .as_ref()
            .map(|registered| json!({"redirect": registered.redirect, "scopes": registered.scopes.to_string()}));
        let kept = json!({
            "server": self.server,
            "profile": self.profile,
            "issuer": self.issuer,
            "resource": self.resource,
            "token_endpoint": self.token_endpoint,
            "revocation_endpoint": self.revocation_endpoint,
            "client": {
                "issuer": client.issuer,
                "id": client.id,
                "secret": secret(&client.secret),
                "authentication": client.authentication.as_str(),
                "registered": registered,
            },
            "access": self.access.expose(),
            "refresh": secret(&self.refresh),
            "expires_at": self.expires_at,
            "scopes": self.scopes.to_string(),
            "grant": self.grant.number,
            "granted_at": self.grant.at,
        });
        kept.to_string()
    }

    /// What was kept as this text; `None` if it was damaged.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let mut kept = Document::read(text)?;
        let owned = |document: &Document, name: &str| document.text(name).map(ToOwned::to_owned);
        let secret = |document: &Document, name: &str| owned(document, name).map(Secret::new);
        let scopes = |document: &Document| Scopes::parse(document.text("scopes").unwrap_or_default());
        let mut client = kept.take("client")?;
        let registered = client.take("registered").map(|registered| Registered {
            redirect: owned(&registered, "redirect").unwrap_or_default(),
            scopes: scopes(&registered),
        });
        Some(Self {
            server: owned(&kept, "server")?,
            profile: owned(&kept, "profile")?,
            issuer: owned(&kept, "issuer")?,
            resource: owned(&kept, "resource"),
            token_endpoint: owned(&kept, "token_endpoint")?,
            revocation_endpoint: owned(&kept, "revocation_endpoint"),
            client: Client {
                issuer: owned(&client, "issuer")?,
                id: owned(&client, "id")?,
                secret: secret(&client, "secret"),
                authentication: Authentication::named(client.text("authentication")?)?,
                registered,
            },
            access: secret(&kept, "access")?,
            refresh: secret(&kept, "refresh"),
            expires_at: kept.number("expires_at"),
            scopes: scopes(&kept),
            grant: Grant {
                number: kept.number("grant").unwrap_or_default(),
                at: kept.number("granted_at").unwrap_or_default(),
            },
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let some = |text: &str| Some(text.to_owned());
        let full = Record {
            server: "https://mcp.test".into(),
            profile: "p".into(),
            issuer: "https://as.test".into(),
            resource: some("https://mcp.test"),
            token_endpoint: "https://as.test/token".into(),
            revocation_endpoint: some("https://as.test/revoke"),
            client: Client {
                issuer: "https://as.test".into(),
                id: "c \"1\"".into(),
                secret: Some(Secret::new("s".into())),
                authentication: Authentication::ClientSecretBasic,
                registered: Some(Registered {
                    redirect: "http://127.0.0.1:1/callback".into(),
                    scopes: Scopes::parse("a b"),
                }),
            },
            access: Secret::new("a".into()),
            refresh: Some(Secret::new("r".into())),
            expires_at: Some(u64::MAX),
            scopes: Scopes::parse("a"),
            grant: Grant { number: u64::MAX, at: 7 },
        };
        let mut bare = full.clone();
        (bare.resource, bare.revocation_endpoint, bare.refresh, bare.expires_at) = (None, None, None, None);
        (bare.client.secret, bare.client.registered, bare.scopes) = (None, None, Scopes::default());
        for record in [full, bare] {
            assert!(Record::read(record.to_text().as_bytes()) == Some(record.clone()));
            // As an older version has kept it.
            let text = record.to_text().replace(r#""grant":18446744073709551615,"granted_at":7,"#, "");
            assert_eq!(Record::read(text.as_bytes()).unwrap().grant, Grant::default());
        }
    }
}
