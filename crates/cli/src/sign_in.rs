//! What signing in needs of this command: a folder and the person.

mod person;

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use http::Uri;
use rescind_http::{
    client::HttpClientConfig,
    shell::client::{self, ConnectConfig},
};
use rescind_sign_in::{Person, Record, Settings, SignIn, Vault};

use crate::{failure::Failure, folders, screen::clean};
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
    client::sign_in(server, connect, settings, Vault::new(folder()?), person)
        .map_err(|error| Failure::new("TLS", error, "install the system's certificates (ca-certificates)"))
}

/// All sign-ins that are kept.
pub(crate) fn kept() -> Result<Vec<Record>, Failure> {
    let kept = Vault::new(folder()?).read_all();
    kept.map_err(|error| Failure::new("rescind whoami", clean(&error.to_string()), SEE_FOLDER))
}

/// What to do where sign-ins cannot be read.
pub(crate) const SEE_FOLDER: &str = "see RESCIND_SIGN_IN_DIR, the folder in which sign-ins are kept";

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
        None => Ok(folders::state()?.join("sign-in")),
    }
}
