//! Who may use the service: the flags about it.

use std::{
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use rescind_http::{
    server::{Access, Bearers, Issuer},
    shell::{
        Pool,
        client::{ConnectConfig, IssuerKeys, IssuerKeysError},
    },
};

use super::watched_file::WatchedFile;
use crate::{failure::Failure, screen::clean, stderr::say};

/// Who may use the service.
#[derive(Clone, Debug, Args)]
pub(crate) struct AccessArguments {
    /// Serve only requests that have the token in the first line of FILE (`Authorization: Bearer TOKEN`). Beyond loopback,
    /// a service with neither this nor --owners is open to everyone who can reach it. FILE is read again when it has changed
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Serve only requests that have a token in FILE, and tell the owners of tokens apart: none of them sees, resumes,
    /// cancels or ends what another has begun. Each line of FILE is an owner and a token of theirs, or `sha256:` and the
    /// SHA-256 of the token in hexadecimal digits in its place; lines that begin with # are left out. Requests outside a
    /// session have a server process for each owner, unless --shared or --pool is given. FILE is read again when it has
    /// changed: of an owner who is not in it any more, what is in flight is cancelled, and sessions end
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    owners: Option<PathBuf>,

    /// Serve only requests that have a token (JWT) of the issuer at URL for --audience, signed with RS256, ES256 or EdDSA,
    /// and tell its subjects apart as --owners does. Its keys are fetched from where its page says (RFC 8414, OpenID Connect
    /// Discovery). Clients without a token are told of the issuer (RFC 9728)
    #[arg(long, value_name = "URL", requires = "audience", conflicts_with_all = ["token_file", "owners"])]
    issuer: Option<String>,

    /// The URL by which clients know the service, such as https://example.com/mcp: tokens must be for it
    #[arg(long, value_name = "URL", requires = "issuer")]
    audience: Option<String>,

    /// A scope that tokens must have, beside being valid. May be repeated
    #[arg(long, value_name = "SCOPE", requires = "issuer")]
    scope: Vec<String>,
}

/// Who may use the service, as its files say.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) access: Access,
    /// What fetches the keys by which tokens are judged, if they are signed.
    pub(crate) keys: Option<IssuerKeys>,
    /// What the operator should know of these files.
    pub(crate) warning: Option<String>,
}

impl AccessArguments {
    /// Whether anyone who reaches the service may use it; otherwise the header `Authorization` is for the service.
    pub(crate) const fn is_open(&self) -> bool {
        self.token_file.is_none() && self.owners.is_none() && self.issuer.is_none()
    }

    /// The file of tokens, if there is one. It is about to be read.
    pub(crate) fn watched(&self) -> Option<WatchedFile> {
        self.token_file.as_deref().or(self.owners.as_deref()).map(WatchedFile::new)
    }

    /// Reads the files, and what the flags say.
    pub(crate) fn grant(&self) -> Result<Granted, Failure> {
        if let (Some(issuer), Some(audience)) = (&self.issuer, &self.audience) {
            return grant_issuer(issuer, audience, &self.scope);
        }
        match (&self.token_file, &self.owners) {
            (Some(file), _) => Ok(Granted::plain(Access::token(&read_token(file)?))),
            (None, Some(file)) => read_owners(file),
            (None, None) => Ok(Granted::plain(Access::Open)),
        }
    }
}

impl Granted {
    const fn plain(access: Access) -> Self {
        Self { access, keys: None, warning: None }
    }
}

/// Reads the file of tokens again whenever it has changed. If it cannot be read, the tokens that are known stay good.
pub(crate) async fn follow(arguments: AccessArguments, mut file: WatchedFile, pool: Pool) -> Infallible {
    loop {
        file.changed().await;
        match arguments.grant() {
            Ok(Granted { access, keys: _, warning }) => {
                pool.supply_access(&access);
                say(&format!("{}: read again", file.path().display()));
                warning.iter().for_each(|warning| say(warning));
            }
            Err(Failure { input, cause, hint }) => {
                say(&format!("warning: {input}: {cause}; the tokens that it had before are still good\nhint: {hint}"))
            }
        }
    }
}

/// Has whatever keeps them from being fetched reported, once until it is something else.
pub(crate) async fn fetch_keys(keys: IssuerKeys, pool: Pool) -> Infallible {
    let mut last = String::new();
    let report = |error: &IssuerKeysError| {
        let words = clean(&error.to_string());
        if words != last {
            say(&format!(
                "warning: --issuer: its keys cannot be fetched: {words}\nhint: until they are, requests get 503; it is tried \
                 again when one comes"
            ));
            last = words;
        }
    };
    keys.serve(pool, report).await
}

/// Tokens of an issuer.
fn grant_issuer(issuer: &str, audience: &str, scopes: &[String]) -> Result<Granted, Failure> {
    let connect = ConnectConfig::default();
    let keys = IssuerKeys::new(issuer, connect).map_err(|error| {
        let hint = "name it as its tokens do (iss), such as https://login.example.com";
        Failure::new(format_args!("--issuer {}", clean(issuer)), error, hint)
    })?;
    let known = Issuer::new(issuer, audience, scopes).map_err(|error| {
        let hint = "write --issuer https://login.example.com --audience https://example.com/mcp --scope mcp";
        Failure::new("--issuer, --audience, --scope", error, hint)
    })?;
    Ok(Granted { keys: Some(keys), ..Granted::plain(Access::Issuer(known)) })
}

/// The token in the first line of a file.
fn read_token(file: &Path) -> Result<Box<str>, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::new(file.display(), error, "name a file whose first line is the token"))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let hint = "write a token of visible ASCII into its first line, such as the output of: openssl rand -hex 32";
        return Err(Failure::new(file.display(), "has no token in its first line", hint));
    }
    Ok(token.into())
}

/// The owners in a file.
fn read_owners(file: &Path) -> Result<Granted, Failure> {
    let hint = "write an owner and a token on each line, such as: ann 5f2c…; or: ann sha256:9b1d…";
    let text = fs::read_to_string(file).map_err(|error| Failure::new(file.display(), error, hint))?;
    let bearers = Bearers::read(&text).map_err(|error| Failure::new(file.display(), error, hint))?;
    let is_exposed = bearers.has_plain_tokens() && others_may_read(file);
    let warning = is_exposed.then(|| {
        format!(
            "warning: {}: others on this machine can read the tokens in it\nhint: chmod 600, or write sha256: and the \
             digest in place of a token",
            file.display()
        )
    });
    Ok(Granted { warning, ..Granted::plain(Access::Owners(bearers)) })
}

#[cfg(unix)]
fn others_may_read(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o044 != 0)
}

/// Who may is not said in a mode there.
#[cfg(not(unix))]
fn others_may_read(_file: &Path) -> bool {
    false
}
