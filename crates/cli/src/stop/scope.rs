//! Which sessions are meant.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use clap::Args;
use rescind_feed::Session;
use rescind_operator::Shim;

use crate::{failure::Failure, screen::clean, session_name::Sessions};

/// Which sessions are meant; all of them without a flag.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Scope {
    /// Only this session: its number, or the name of its entry in the client's configuration, also as CLIENT:NAME; may be
    /// repeated
    #[arg(long, value_name = "SESSION")]
    session: Vec<String>,

    /// Only sessions of this client: the name that `rescind wrap` has for it, its name from the handshake, or its program;
    /// may be repeated
    #[arg(long, value_name = "NAME")]
    client: Vec<String>,

    /// Only sessions of this server: the name of its entry in a client's configuration, its name from the handshake, the last part of that (`everything` of
    /// `mcp-servers/everything`), or its program; may be repeated
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
}

impl Scope {
    /// The same, with the number of each session that is named in another way. One that has no such name is left as it is.
    pub(super) async fn numbered(mut self, shims: &[Shim]) -> Result<Self, Failure> {
        let is_number = |text: &String| shims.iter().any(|shim| shim.name() == text);
        if self.session.iter().all(is_number) {
            return Ok(self);
        }
        let sessions = Sessions::ask(shims.to_vec()).await;
        for text in self.session.iter_mut().filter(|text| !is_number(text)) {
            if sessions.has_named(text) {
                *text = sessions.named(text)?.name().to_owned();
            }
        }
        Ok(self)
    }
}

/// The sessions that are meant, and which flags have matched one.
#[derive(Debug)]
pub(super) struct Search {
    scope: Scope,
    matched: Mutex<BTreeSet<(&'static str, String)>>,
}

impl Search {
    pub(super) fn new(scope: Scope) -> Self {
        Self { scope, matched: Mutex::default() }
    }

    /// Whether sessions are told apart by their client or server, which only their shims know.
    pub(super) const fn asks_names(&self) -> bool {
        !self.scope.client.is_empty() || !self.scope.server.is_empty()
    }

    /// Whether the session of this name is meant, as far as the name alone tells.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.any("session", &self.scope.session, &[name.to_owned()])
    }

    /// Whether this session is meant.
    pub(super) fn has(&self, session: &Session) -> bool {
        let last_part = |name: &String| name.rsplit('/').next().unwrap_or(name).to_owned();
        let parent =
            session.ancestors.first().and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        let parent = parent.map(|name| name.trim().to_owned());
        let client = session.client_name.clone().into_iter().chain(session.client.name.clone());
        let clients: Vec<String> = client.chain(parent).collect();
        let server = session.server.name.clone();
        let short = server.iter().chain(session.command.first()).map(last_part).collect::<Vec<_>>();
        let servers: Vec<String> = session.entry.clone().into_iter().chain(server).chain(short).collect();
        // Both are looked at, so that each flag is known to match or not.
        let is_client = self.any("client", &self.scope.client, &clients);
        self.any("server", &self.scope.server, &servers) && is_client
    }

    /// Whether one of `wanted` is among `names`, or none is given.
    fn any(&self, flag: &'static str, wanted: &[String], names: &[String]) -> bool {
        let found: Vec<_> = wanted.iter().filter(|name| names.contains(name)).collect();
        let mut matched = self.matched.lock().unwrap_or_else(PoisonError::into_inner);
        matched.extend(found.iter().map(|name| (flag, (*name).clone())));
        wanted.is_empty() || !found.is_empty()
    }

    /// The flags that match no session.
    pub(super) fn unmatched(&self) -> Vec<Failure> {
        let Scope { session, client, server } = &self.scope;
        let flags = [("session", session), ("client", client), ("server", server)];
        let given = flags.into_iter().flat_map(|(flag, names)| names.iter().map(move |name| (flag, name.clone())));
        let matched = self.matched.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = |(flag, name): (&'static str, String)| {
            let hint = "`rescind ps --sessions` lists all sessions";
            Failure::new(format_args!("--{flag} {}", clean(&name)), "matches no session", hint)
        };
        given.filter(|one| !matched.contains(one)).map(failure).collect()
    }
}
