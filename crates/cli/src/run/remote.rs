//! `rescind run --url`: a server that is reached over HTTP.

use std::{io::Write, process::ExitCode};

use clap::Args;
use rescind::relay::{self, Link, LinkEnd, LinkServer};
use rescind_http::{
    client::{HttpClientConfig, HttpConfigError},
    shell::client::{ConnectConfig, HttpTransport},
};

use crate::{failure::Failure, screen::clean};

/// Where the server is, and what it is to be told with every request.
#[derive(Debug, Args)]
pub(super) struct RemoteArguments {
    /// Reach an MCP server over HTTP at URL, in place of a COMMAND. Proxies of the environment (HTTPS_PROXY, NO_PROXY) are
    /// used
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,

    /// Send a header with every request to the server. Other users of this machine can see it in the list of processes:
    /// for a secret, use --header-env. May be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,

    /// Send the header NAME with the value of an environment variable, such as Authorization=MY_TOKEN, where MY_TOKEN is
    /// `Bearer …`. May be repeated
    #[arg(long, value_name = "NAME=VARIABLE", requires = "url")]
    header_env: Vec<String>,
}

/// A server that is reached over HTTP.
#[derive(Debug)]
pub(super) struct Remote {
    config: HttpClientConfig,
}

impl RemoteArguments {
    /// Whether the server is reached over HTTP.
    pub(super) const fn is_given(&self) -> bool {
        self.url.is_some()
    }

    /// Reads the flags; `None` without a URL.
    pub(super) fn open(&self) -> Result<Option<Remote>, Failure> {
        let Some(url) = &self.url else { return Ok(None) };
        let config = HttpClientConfig::new(url).map_err(|error| {
            Failure::new(format_args!("--url {}", clean(url)), error, "write it as https://example.com/mcp")
        })?;
        let config = self.header.iter().try_fold(config, |config, header| {
            let name = header.split(':').next().unwrap_or_default();
            add(config, header, format_args!("--header {}", clean(name)))
        })?;
        let config = self.header_env.iter().try_fold(config, |config, flag| {
            let shown = format!("--header-env {}", clean(flag));
            let Some((name, variable)) = flag.split_once('=') else {
                return Err(Failure::new(shown, "has no `=`", "write NAME=VARIABLE, as in Authorization=MY_TOKEN"));
            };
            let value = std::env::var(variable).map_err(|error| {
                Failure::new(&shown, error, format_args!("set the environment variable {}", clean(variable)))
            })?;
            add(config, &format!("{name}: {value}"), format_args!("{shown}"))
        })?;
        Ok(Some(Remote { config }))
    }
}

fn add(config: HttpClientConfig, header: &str, shown: std::fmt::Arguments<'_>) -> Result<HttpClientConfig, Failure> {
    config.header(header).map_err(|error: HttpConfigError| {
        Failure::new(shown, error, "write it as `Name: value`; what MCP itself needs is sent anyway")
    })
}

impl Remote {
    /// Relays between the client and the server until the client has ended.
    pub(super) fn relay(
        self,
        link: impl FnOnce(LinkServer) -> Result<Link, Failure>,
    ) -> Result<LinkEnd, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new("rescind run", error, "check the limit on open files (ulimit -n)")
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        runtime.block_on(async {
            let url = self.config.url().to_string();
            let notice = |notice| drop(writeln!(std::io::stderr(), "warning: {}", clean(&format!("{notice}"))));
            let stream = HttpTransport::with_notices(self.config, ConnectConfig::default(), notice)
                .map_err(|error| Failure::new("--url", error, "install the system's certificates (ca-certificates)"))?;
            // A query may hold a secret, and the list of sessions is for people to read.
            let name = url.split('?').next().unwrap_or_default().into();
            let link = link(LinkServer::Messages { stream: Box::new(stream), name: vec![name] })?;
            relay::drive(link).await.map_err(|error| failed(&error))
        })
    }
}

/// The exit code of a session with a server that is not a process.
pub(super) fn exit_code(end: &LinkEnd) -> ExitCode {
    ExitCode::from(if end.is_output_lost { super::OWN_FAILURE } else { 0 })
}
