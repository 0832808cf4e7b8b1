//! A sign-in as the authorizer of a transport.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri};
use rescind_sign_in::{
    Challenge, Effort, Http, HttpError, MAX_BODY, Person, Refused, Reply, Secret, Sending, Settings, SignIn, Vault,
};

use super::{
    HttpTransport,
    authorizer::{Authorizer, Authorizing, RefusedRequest, Renewal},
    connect::{ConnectConfig, ConnectError},
    requests::{RequestError, Requests},
};
use crate::client::HttpClientConfig;

/// Puts the tokens of a sign-in on the requests of a [transport](HttpTransport::authorized).
///
/// A person is asked only for a request whose answer the program waits for, and once for all of them. A request that waits
/// for a sign-in counts as not sent: its cancel takes it back.
#[derive(Clone)]
pub struct Tokens {
    sign_in: SignIn,
    hint: Option<Arc<str>>,
}

impl Tokens {
    /// The tokens of this sign-in.
    #[must_use]
    pub const fn new(sign_in: SignIn) -> Self {
        Self { sign_in, hint: None }
    }

    /// Adds what a person can do if there is no token, in a few words, to the error of a request that needs one.
    #[must_use]
    pub fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The sign-in at the server at this URL, as a client of it: `vault` keeps it, or may keep it. It connects as `connect`
/// says. Without a person nobody is ever asked.
///
/// # Errors
///
/// TLS cannot be set up.
pub fn sign_in(
    server: &Uri,
    connect: ConnectConfig,
    settings: Settings,
    vault: Vault,
    person: Option<Arc<dyn Person>>,
) -> Result<SignIn, ConnectError> {
    let requests = Requests::new(server, connect)?;
    Ok(SignIn::new(server.clone(), settings, Arc::new(Web(requests)), vault, person))
}

impl HttpTransport {
    /// A transport to the server that `config` names, which signs in there when the server wants it: with the sign-in that
    /// `vault` keeps, or else by asking `person`. Connections and the sign-in are as by default; for other settings see
    /// [`sign_in`] and [`Tokens`].
    ///
    /// ```no_run
    /// use rescind::mcp::Client;
    /// use rescind_http::{client::HttpClientConfig, shell::client::HttpTransport};
    /// use rescind_sign_in::{Invitation, Vault};
    ///
    /// # fn open_browser(_: &str) {}
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = HttpClientConfig::new("https://example.com/mcp")?;
    /// let person = |asked: &Invitation| if let Invitation::Page { link, .. } = asked { open_browser(link) };
    /// let transport = HttpTransport::signing_in(server, Vault::new("/home/ann/.my-client/sign-ins".into()), person)?;
    /// let client = Client::connect(transport, "my-client", "1.0.0").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn signing_in(
        config: HttpClientConfig,
        vault: Vault,
        person: impl Person + 'static,
    ) -> Result<Self, ConnectError> {
        let connect = ConnectConfig::default();
        let person: Option<Arc<dyn Person>> = Some(Arc::new(person));
        let sign_in = sign_in(config.url(), connect.clone(), Settings::default(), vault, person)?;
        Self::authorized(config, connect, Arc::new(Tokens::new(sign_in)), |_| {})
    }
}

/// Requests of signing in, over the connections that messages take.
struct Web(Requests);

impl Http for Web {
    fn send(&self, request: Request<Bytes>) -> Sending<'_> {
        Box::pin(async move {
            let response = self.0.send(request, MAX_BODY).await.map_err(|error| match error {
                RequestError::TooLarge => HttpError::TooLarge,
                error @ RequestError::Failed(_) => HttpError::Failed(error.to_string()),
            })?;
            let (head, body) = response.into_parts();
            Ok(Reply { status: head.status, headers: head.headers, body })
        })
    }
}

impl Authorizer for Tokens {
    fn authorization(&self) -> Authorizing<'_, Option<HeaderValue>> {
        Box::pin(async move { self.sign_in.token().await.as_ref().and_then(header) })
    }

    fn renew(&self, refused: RefusedRequest) -> Authorizing<'_, Renewal> {
        Box::pin(async move {
            let Some(challenge) = Challenge::read(&refused.headers) else { return Renewal::NotWanted };
            let wants_token = refused.status == StatusCode::UNAUTHORIZED;
            if !wants_token && !challenge.is_insufficient_scope() {
                return Renewal::NotWanted;
            }
            let effort = if refused.is_awaited { Effort::Person } else { Effort::Quiet };
            let token = refused.authorization.as_ref().and_then(token);
            let refused = Refused { token, challenge, effort, attempt: refused.attempt };
            match (self.sign_in.renew(&refused).await, &self.hint) {
                (Ok(()), _) => Renewal::Renewed,
                (Err(error), Some(hint)) => Renewal::Failed(format!("{error}; {hint}")),
                (Err(error), None) => Renewal::Failed(error.to_string()),
            }
        })
    }

    fn is_asking(&self) -> bool {
        self.sign_in.is_asking()
    }
}

fn header(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn token(value: &HeaderValue) -> Option<Secret> {
    value.to_str().ok()?.strip_prefix("Bearer ").map(|token| Secret::new(token.to_owned()))
}
