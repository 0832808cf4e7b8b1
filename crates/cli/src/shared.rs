//! `rescind run --shared NAME`: one server process for all sessions of this user that mean the same server.
//!
//! The first of them starts `rescind serve --shared` on a Unix socket, detached, and each is `rescind run --url` over that
//! socket. So there is neither a relay nor a protocol of its own.
//!
//! What the server gets is what it is told apart by, so that no session ever uses another's token: see [`identity`].

#[cfg(unix)]
mod dial;
#[cfg(unix)]
pub(crate) mod holder;
#[cfg(unix)]
mod identity;
#[cfg(unix)]
mod place;

use std::{ffi::OsString, time::Duration};

use clap::Args;

use crate::{
    failure::Failure,
    link::{HeaderArguments, LinkArguments, Remote},
};

/// Whether a server is shared, and what makes it the same one.
#[derive(Debug, Args)]
pub(crate) struct SharedArguments {
    /// Have one server process for all sessions of yours that share the server NAME: the first one starts it, the others
    /// join, and it ends ten seconds after the last one has left. Only sessions with the same COMMAND, the same variables and,
    /// if COMMAND names something in it, the same folder share one. Each stops its own requests only. The server can ask no
    /// client anything (sampling, elicitation, roots), and what it says to nobody in particular reaches all. For MCP servers
    /// that bear several clients at once (docs/shared.md)
    #[arg(long, value_name = "NAME", conflicts_with = "url", allow_hyphen_values = true, overrides_with = "shared")]
    shared: Option<String>,

    /// Give a shared server this variable of the environment, and have only sessions share it that have the same value. It
    /// gets no others but those that every program needs, such as HOME and PATH. May be repeated
    #[arg(long, value_name = "VARIABLE", requires = "shared")]
    shared_env: Vec<OsString>,

    /// Start a shared server in the folder of this command, and have only sessions share it that are in the same. By default
    /// that is so if COMMAND names something in this folder; else the server is started in your home
    #[arg(long, requires = "shared")]
    shared_folder: bool,
}

impl SharedArguments {
    /// The name under which the server is shared, if it is.
    pub(crate) fn name(&self) -> Option<&str> {
        self.shared.as_deref()
    }

    /// Refuses what a shared server cannot have.
    pub(crate) fn check(&self, link: &LinkArguments, restarts: bool, is_not_mcp: bool) -> Result<(), Failure> {
        let Some(name) = self.name() else { return Ok(()) };
        let refused = |flag: &str, cause: &str, hint: &str| Err(Failure::new(flag, cause, hint));
        if name.trim().is_empty() {
            return refused("--shared \"\"", "is no name", "name the server, as in --shared github");
        }
        if cfg!(windows) {
            return refused(
                "--shared",
                "is not on Windows yet",
                "leave out --shared: each session starts its own server",
            );
        }
        if is_not_mcp {
            let hint = "leave out --shared: an agent or a language server is of one client";
            return refused("--shared", "is for MCP servers", hint);
        }
        if restarts {
            return refused("--restart", "is what a shared server has anyway", "leave out --restart");
        }
        if link.on_stop.is_some() {
            let hint = "leave out --on-stop: `rescind ps --processes` lists them, and `rescind reap` ends them";
            return refused("--on-stop", "cannot tell whose a process of a shared server is", hint);
        }
        if link.kills_when_stuck() {
            let hint = "use --on-stuck report, and `rescind end` for all of them";
            return refused("--on-stuck kill", "would end the work of all who share the server", hint);
        }
        Ok(())
    }

    /// Joins the shared server, or starts it: a server over HTTP as any other.
    #[cfg(unix)]
    pub(crate) fn join(
        &self,
        name: &str,
        command: &[OsString],
        headers: &HeaderArguments,
        keep_alive: Duration,
        connections: rescind_http::shell::client::Connections,
    ) -> Result<Remote, Failure> {
        let server = identity::SharedServer::new(name, command, &self.shared_env, self.shared_folder)?;
        let dialer = dial::join(server)?;
        let remote = headers.server("--shared", "http://localhost/mcp", keep_alive, connections)?;
        Ok(remote.reached_by(dialer, command))
    }

    /// It was refused before.
    #[cfg(windows)]
    pub(crate) fn join(
        &self,
        _name: &str,
        _command: &[OsString],
        headers: &HeaderArguments,
        keep_alive: Duration,
        connections: rescind_http::shell::client::Connections,
    ) -> Result<Remote, Failure> {
        let _ = (&self.shared_env, self.shared_folder);
        headers.server("--shared", "http://localhost/mcp", keep_alive, connections)
    }
}
