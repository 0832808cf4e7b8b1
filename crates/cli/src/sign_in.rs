//! What signing in needs of this command: a folder, HTTP, the person, and the place in a link where tokens are put on.

mod person;

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use clap::Args;
use http::{HeaderValue, Request, Uri};
use rescind_http::{
    client::HttpClientConfig,
    shell::client::{Authorizer, Authorizing, ConnectConfig, RefusedRequest, Renewal, RequestError, Requests},
};
use rescind_sign_in::{
    Challenge, Effort, Http, HttpError, MAX_BODY, Person, Refused, Reply, Secret, Sending, Settings, SignIn, Vault,
};

use crate::{failure::Failure, screen::clean, wrap::files};
pub(crate) use person::{Desktop, Terminal};

/// The environment variable that names the folder of sign-ins.
const FOLDER_VARIABLE: &str = "RESCIND_SIGN_IN_DIR";

/// The profile where none is named.
pub(crate) const DEFAULT_PROFILE: &str = "default";

/// Whose sign-in, and where.
#[derive(Debug, Args)]
pub(crate) struct SignInArguments {
    /// The MCP server
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// Which of several sign-ins at the same server
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROFILE, value_parser = profile)]
    pub(crate) profile: String,
}

/// Reads the name of a profile.
pub(crate) fn profile(text: &str) -> Result<String, String> {
    let is_name =
        !text.is_empty() && text.len() <= 64 && text.chars().all(|c| c.is_alphanumeric() || "-_.@".contains(c));
    if is_name { Ok(text.to_owned()) } else { Err("must be 1 to 64 letters, digits, or one of - _ . @".into()) }
}

impl SignInArguments {
    /// The server at the URL.
    pub(crate) fn server(&self) -> Result<Uri, Failure> {
        let shown = clean(&self.url);
        let config = HttpClientConfig::new(&self.url)
            .map_err(|error| Failure::new(&shown, error, "write it as https://example.com/mcp"))?;
        if config.has_authorization() {
            let hint = "leave them out: signing in is about a token";
            return Err(Failure::new("URL", "names a user and a password", hint));
        }
        Ok(config.url().clone())
    }

    /// The sign-in there. Call it on the runtime that is to carry it.
    pub(crate) fn sign_in(&self, settings: Settings, person: Option<Arc<dyn Person>>) -> Result<SignIn, Failure> {
        let server = self.server()?;
        let connect = ConnectConfig::default();
        open(&server, connect, Settings { profile: self.profile.clone(), ..settings }, person)
    }

    /// The words of `rescind login` for it.
    pub(crate) fn login(&self) -> String {
        let url = self.server().map(|server| shown(&server)).unwrap_or_default();
        login_words(&url, &self.profile)
    }
}

/// The sign-in at a server.
pub(crate) fn open(
    server: &Uri,
    connect: ConnectConfig,
    settings: Settings,
    person: Option<Arc<dyn Person>>,
) -> Result<SignIn, Failure> {
    let requests = Requests::new(server, connect)
        .map_err(|error| Failure::new("TLS", error, "install the system's certificates (ca-certificates)"))?;
    Ok(SignIn::new(server.clone(), settings, Arc::new(Web(requests)), Vault::new(folder()?), person))
}

/// A URL without its query, which may hold a secret.
pub(crate) fn shown(url: &Uri) -> String {
    let text = url.to_string();
    clean(text.split('?').next().unwrap_or_default())
}

/// How a person signs in.
pub(crate) fn login_words(url: &str, profile: &str) -> String {
    match profile {
        DEFAULT_PROFILE => format!("rescind login {url}"),
        profile => format!("rescind login {url} --profile {profile}"),
    }
}

/// Where sign-ins are kept.
fn folder() -> Result<PathBuf, Failure> {
    match std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty()) {
        Some(folder) => Ok(folder.into()),
        None => Ok(files::state_folder()?.join("sign-in")),
    }
}

/// Requests of signing in, over the connections that messages take.
struct Web(Requests);

impl Http for Web {
    fn send(&self, request: Request<Bytes>) -> Sending<'_> {
        Box::pin(async move {
            let response = self.0.send(request, MAX_BODY).await.map_err(|error| match error {
                RequestError::TooLarge => HttpError::TooLarge,
                error @ (RequestError::Failed(_) | _) => HttpError::Failed(error.to_string()),
            })?;
            let (head, body) = response.into_parts();
            Ok(Reply { status: head.status, headers: head.headers, body })
        })
    }
}

/// Puts the tokens of a sign-in on the requests of a link.
pub(crate) struct Tokens {
    pub(crate) sign_in: SignIn,
    /// What a person can do if there is no token.
    pub(crate) hint: String,
}

impl Authorizer for Tokens {
    fn authorization(&self) -> Authorizing<'_, Option<HeaderValue>> {
        Box::pin(async move { self.sign_in.token().await.as_ref().and_then(header) })
    }

    fn renew(&self, refused: RefusedRequest) -> Authorizing<'_, Renewal> {
        Box::pin(async move {
            let Some(challenge) = Challenge::read(&refused.headers) else { return Renewal::NotWanted };
            let wants_token = refused.status == http::StatusCode::UNAUTHORIZED;
            if !wants_token && !challenge.is_insufficient_scope() {
                return Renewal::NotWanted;
            }
            let effort = if refused.is_awaited { Effort::Person } else { Effort::Quiet };
            let refused = Refused {
                token: refused.authorization.as_ref().and_then(token),
                challenge,
                effort,
                attempt: refused.attempt,
            };
            match self.sign_in.renew(&refused).await {
                Ok(()) => Renewal::Renewed,
                Err(error) => Renewal::Failed(format!("{error}; {}", self.hint)),
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
