//! As whom a person's program signs in.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::{
    Http, Scopes, Secret, SignInError,
    authorization_server::AuthorizationServer,
    document::Document,
    error::excerpt,
    form::{Form, encoded},
    web,
};

/// The grant of a sign-in on another device (RFC 8628).
pub(crate) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Which client to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientChoice {
    /// One that is registered when it is needed (RFC 7591).
    #[default]
    Registered,
    /// One that the authorization server knows.
    Known {
        /// Its id; the URL of a document about it, where it begins with `https://`.
        id: String,
        /// Its secret, if it has one.
        secret: Option<Secret>,
    },
}

impl ClientChoice {
    /// A client that the authorization server knows.
    #[must_use]
    pub const fn known(id: String, secret: Option<Secret>) -> Self {
        Self::Known { id, secret }
    }
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// It has no secret.
    None,
    /// Its secret stands in the form.
    ClientSecretPost,
    /// Its secret stands in the header `Authorization`.
    ClientSecretBasic,
}

/// A client of one authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// The server whose client it is. No other server receives it.
    pub(crate) issuer: String,
    pub(crate) id: String,
    pub(crate) secret: Option<Secret>,
    pub(crate) authentication: Authentication,
    /// What it was registered for; `None` if somebody else has registered it, and so knows what for.
    pub(crate) registered: Option<Registered>,
}

/// What a client was registered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    /// The only URL to which a person may be sent back.
    pub(crate) redirect: String,
    pub(crate) scopes: Scopes,
}

impl Authentication {
    const ALL: [Self; 3] = [Self::None, Self::ClientSecretPost, Self::ClientSecretBasic];

    /// Its name in OAuth.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretPost => "client_secret_post",
            Self::ClientSecretBasic => "client_secret_basic",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl Client {
    /// A client that the authorization server knows already.
    pub(crate) fn known(server: &AuthorizationServer, id: &str, secret: Option<&Secret>) -> Result<Self, SignInError> {
        let is_document = id.starts_with("https://");
        if is_document && !server.takes_documents {
            let why = format!("{} does not take the URL of a document as --client-id", server.issuer);
            return Err(SignInError::Client(why));
        }
        let authentication = match secret {
            None => Authentication::None,
            Some(_) => with_secret(server, None),
        };
        Ok(Self {
            issuer: server.issuer.clone(),
            id: id.to_owned(),
            secret: secret.cloned(),
            authentication,
            registered: None,
        })
    }

    /// Registers a client.
    pub(crate) async fn register(
        http: &dyn Http,
        server: &AuthorizationServer,
        redirect: &str,
        scopes: &Scopes,
    ) -> Result<Self, SignInError> {
        let Some(endpoint) = &server.registration else {
            let why = format!("{} registers no clients: give one that it knows, with --client-id", server.issuer);
            return Err(SignInError::Client(why));
        };
        let allows =
            |method: &str| server.authentication.as_ref().is_none_or(|all| all.iter().any(|one| one == method));
        let method = Authentication::ALL.into_iter().find(|method| allows(method.as_str()));
        let mut grants = vec!["authorization_code", "refresh_token"];
        grants.extend(server.device.as_ref().map(|_| DEVICE_GRANT));
        let mut wanted = json!({
            "client_name": "Rescind",
            "application_type": "native",
            "redirect_uris": [redirect],
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": method.unwrap_or(Authentication::None).as_str(),
        });
        if !scopes.is_empty() {
            wanted["scope"] = scopes.to_string().into();
        }
        let reply = web::post(http, endpoint, "application/json", None, wanted.to_string()).await?;
        if !matches!(reply.status, StatusCode::OK | StatusCode::CREATED) {
            let said = Document::read(&reply.body);
            let said = said.and_then(|said| said.text("error_description").or_else(|| said.text("error")).map(excerpt));
            if said.is_none() && reply.status == StatusCode::NOT_FOUND {
                return Err(SignInError::NoWay);
            }
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            let why = format!("{} registers no client ({}{said})", server.issuer, reply.status);
            return Err(SignInError::Client(why));
        }
        let answer = Document::read(&reply.body);
        let Some((id, answer)) = answer.and_then(|answer| Some((answer.text("client_id")?.to_owned(), answer))) else {
            let why = format!("the registration at {} cannot be read", server.issuer);
            return Err(SignInError::Client(why));
        };
        let secret = answer.text("client_secret").map(|secret| Secret::new(secret.to_owned()));
        let authentication = match &secret {
            None => Authentication::None,
            Some(_) => with_secret(server, answer.text("token_endpoint_auth_method")),
        };
        Ok(Self {
            issuer: server.issuer.clone(),
            id,
            secret,
            authentication,
            registered: Some(Registered { redirect: redirect.to_owned(), scopes: scopes.clone() }),
        })
    }

    /// Adds the client's identity to a form, and returns the header for it where it belongs there.
    pub(crate) fn authenticate(&self, form: Form) -> (Form, Option<HeaderValue>) {
        let secret = self.secret.as_ref().map_or("", Secret::expose);
        match self.authentication {
            Authentication::None => (form.with("client_id", &self.id), None),
            Authentication::ClientSecretPost => (form.with("client_id", &self.id).with("client_secret", secret), None),
            Authentication::ClientSecretBasic => {
                let pair = format!("{}:{}", encoded(&self.id), encoded(secret));
                let header = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)));
                let header = header.ok().map(|mut header| {
                    header.set_sensitive(true);
                    header
                });
                (form, header)
            }
        }
    }
}

/// How a client with a secret proves who it is: as registered, else as the server offers, else by the default of RFC 7591.
fn with_secret(server: &AuthorizationServer, told: Option<&str>) -> Authentication {
    let offers = |method: &str| server.authentication.as_ref().is_some_and(|all| all.iter().any(|one| one == method));
    let offered = match offers("client_secret_post") && !offers("client_secret_basic") {
        true => Authentication::ClientSecretPost,
        false => Authentication::ClientSecretBasic,
    };
    told.and_then(Authentication::named).unwrap_or(offered)
}
