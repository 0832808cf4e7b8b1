//! Servers that are reached over HTTP: `run --url` and `serve --upstream`.

use std::{ffi::OsString, fmt, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use rescind::relay::{Credentials, LinkServer, MessageStream};
#[cfg(unix)]
use rescind_http::shell::client::Dialer;
use rescind_http::{
    client::HttpClientConfig,
    shell::client::{ConnectConfig, ConnectError, Connections, Discovery, HttpTransport, Tokens},
};

use rescind_sign_in::{Person, Settings, SignIn};

use crate::{
    browser,
    failure::Failure,
    screen::clean,
    sign_in::{self, DEFAULT_PROFILE, Desktop},
    stderr,
};

/// What a server is to be told with every request.
#[derive(Debug, Args)]
pub(crate) struct HeaderArguments {
    /// Send a header with every request to the server. Other users of this machine can see it in the list of processes:
    /// for a secret, use --header-env. May be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// Send the header NAME with the value of an environment variable, such as Authorization=MY_TOKEN, where MY_TOKEN is
    /// `Bearer …`. May be repeated
    #[arg(long, value_name = "NAME=VARIABLE")]
    header_env: Vec<String>,
}

/// As whom a server is used that wants a sign-in.
#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// Which of several sign-ins at the same server to use (`rescind login`)
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROFILE, value_parser = sign_in::profile, requires = "url")]
    profile: String,

    /// Whether the browser is opened if the server wants a sign-in and none is kept. What `rescind login` has kept is used
    /// and renewed in any case. Where --header or --header-env gives an Authorization, nobody signs in
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", requires = "url")]
    sign_in: SignInArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SignInArg {
    /// Where there is a desktop
    Auto,
    /// Never
    Never,
}

/// A server that is reached over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    flag: &'static str,
    config: HttpClientConfig,
    connect: ConnectConfig,
    /// Whose tokens it gets, and how a person signs in.
    sign_in: Option<(SignIn, String)>,
    /// How it is listed, if not by its URL.
    name: Option<Vec<OsString>>,
}

impl HeaderArguments {
    /// Describes the server at this URL, which `flag` gave. After so long a silence it is asked whether it is still there.
    /// All connections to it have this bound.
    pub(crate) fn server(
        &self,
        flag: &'static str,
        url: &str,
        keep_alive: Duration,
        connections: Connections,
    ) -> Result<Remote, Failure> {
        let mut config = HttpClientConfig::new(url).map_err(|error| {
            Failure::new(format_args!("{flag} {}", clean(url)), error, "write it as https://example.com/mcp")
        })?;
        config.seed = super::seed();
        for header in &self.header {
            // The value is not shown: it may be a secret all the same.
            let name = header.split(':').next().unwrap_or_default();
            config = add(config, header, format_args!("--header {}", clean(name)))?;
        }
        for given in &self.header_env {
            let shown = format!("--header-env {}", clean(given));
            let Some((name, variable)) = given.split_once('=') else {
                return Err(Failure::new(shown, "has no `=`", "write NAME=VARIABLE, as in Authorization=MY_TOKEN"));
            };
            let value = std::env::var(variable).map_err(|error| {
                Failure::new(&shown, error, format_args!("set the environment variable {}", clean(variable)))
            })?;
            config = add(config, &format!("{name}: {value}"), format_args!("{shown}"))?;
        }
        let connect = ConnectConfig { probe_after: keep_alive, connections, ..ConnectConfig::default() };
        Ok(Remote { flag, config, connect, sign_in: None, name: None })
    }

    pub(crate) const fn is_given(&self) -> bool {
        !self.header.is_empty() || !self.header_env.is_empty()
    }
}

fn add(config: HttpClientConfig, header: &str, shown: fmt::Arguments<'_>) -> Result<HttpClientConfig, Failure> {
    config
        .header(header)
        .map_err(|error| Failure::new(shown, error, "write it as `Name: value`; what MCP itself needs is sent anyway"))
}

impl Remote {
    /// Has the status of an answer told to an HTTP server of ours, which passes it on.
    pub(crate) fn noting_status(mut self) -> Self {
        self.config.notes_status = true;
        self
    }

    /// Has it reached by this dialer, and listed as this command.
    #[cfg(unix)]
    pub(crate) fn reached_by(mut self, dialer: Dialer, command: &[OsString]) -> Self {
        self.connect.dialer = Some(dialer);
        self.name = Some(command.to_owned());
        self
    }

    /// Whether clients may say themselves who they are: nobody says it for all of them.
    pub(crate) fn takes_credentials(&self) -> bool {
        !self.config.has_authorization()
    }

    /// What fetches the pages by which clients find out how to sign in. They know the server under `path`.
    pub(crate) fn discovery(&self, path: &str) -> Result<Discovery, Failure> {
        Discovery::new(&self.config, self.connect.clone(), path).map_err(|error| self.failed(error))
    }

    /// Has it used with the tokens of a sign-in, unless it is told already who asks. Where sign-ins cannot be kept there are
    /// none.
    pub(crate) fn signed_in(self, arguments: &ProfileArguments) -> Self {
        if self.config.has_authorization() {
            return self;
        }
        let server = self.config.url();
        let shown = sign_in::shown(server);
        let asks = arguments.sign_in == SignInArg::Auto && browser::is_there();
        let person = asks.then(|| Arc::new(Desktop { server: shown.clone() }) as Arc<dyn Person>);
        let settings = Settings { profile: arguments.profile.clone(), ..Settings::default() };
        let hint = format!("run `{}`", sign_in::login_words(&shown, &arguments.profile));
        // A cancel may need a new token while no other connection is to be had.
        let connect = ConnectConfig { connections: Connections::new(4, 1), ..self.connect.clone() };
        let sign_in = sign_in::open(server, connect, settings, person).ok();
        Self { sign_in: sign_in.map(|sign_in| (sign_in, hint)), ..self }
    }

    fn failed(&self, error: ConnectError) -> Failure {
        Failure::new(self.flag, error, "install the system's certificates (ca-certificates)")
    }

    /// A stream to the server, for messages that belong to these at first. Call it on the runtime that is to carry it.
    pub(crate) fn open(&self, credentials: Credentials) -> Result<LinkServer, Failure> {
        let notice = |notice| stderr::say(&format!("warning: {}", clean(&format!("{notice}"))));
        let (config, connect) = (self.config.clone(), self.connect.clone());
        let stream = match self.sign_in.clone() {
            Some((sign_in, hint)) => {
                HttpTransport::authorized(config, connect, Arc::new(Tokens::new(sign_in).with_hint(&hint)), notice)
            }
            None => HttpTransport::with_notices(config, connect, notice),
        };
        let mut stream = stream.map_err(|error| self.failed(error))?;
        stream.handle_credentials(credentials);
        // A query may hold a secret, and the list of sessions is for people to read.
        let url = self.config.url().to_string();
        let by_url = || vec![url.split('?').next().unwrap_or_default().into()];
        Ok(LinkServer::Messages { stream: Box::new(stream), name: self.name.clone().unwrap_or_else(by_url) })
    }
}
