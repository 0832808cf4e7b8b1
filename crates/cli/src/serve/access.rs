//! Who may use the service: the flags about it.

use std::{fs, path::Path, path::PathBuf};

use clap::Args;
use rescind_http::server::{Access, Bearers};

use crate::failure::Failure;

/// Who may use the service.
#[derive(Debug, Args)]
pub(crate) struct AccessArguments {
    /// Serve only requests that have the token in the first line of FILE (`Authorization: Bearer TOKEN`). Beyond loopback,
    /// a service with neither this nor --owners is open to everyone who can reach it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Serve only requests that have a token in FILE, and tell the owners of tokens apart: none of them sees, resumes,
    /// cancels or ends what another has begun. Each line of FILE is an owner and a token of theirs, or `sha256:` and the
    /// SHA-256 of the token in hexadecimal digits in its place; lines that begin with # are left out. Requests outside a
    /// session have a server process for each owner. FILE is read once, when the service starts. Not with --shared or --pool
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token_file", "shared", "pool"])]
    owners: Option<PathBuf>,
}

/// Who may use the service, as its files say.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) access: Access,
    /// What the operator should know of these files.
    pub(crate) warning: Option<String>,
}

impl AccessArguments {
    /// Whether anyone who reaches the service may use it; otherwise the header `Authorization` is for the service.
    pub(crate) const fn is_open(&self) -> bool {
        self.token_file.is_none() && self.owners.is_none()
    }

    /// Reads the files.
    pub(crate) fn grant(&self) -> Result<Granted, Failure> {
        let granted = |access| Granted { access, warning: None };
        match (&self.token_file, &self.owners) {
            (Some(file), _) => Ok(granted(Access::token(&read_token(file)?))),
            (None, Some(file)) => read_owners(file),
            (None, None) => Ok(granted(Access::Open)),
        }
    }
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
    Ok(Granted { access: Access::Owners(bearers), warning })
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
