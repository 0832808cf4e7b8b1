//! Which sessions the tools reach.

use rescind_feed::Session;
use rescind_ledger::snapshot::Snapshot;
use rescind_operator::{ListingQuery, Shim, ShimError, ask_all};

use super::lineage::Lineage;
use crate::{
    cancel::choice::{Chosen, chosen},
    failure::Failure,
    fleet,
    screen::clean,
};

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The sessions that the agent has started.
    Own,
    /// All of the user.
    All,
    /// These.
    Named(Vec<String>),
}

/// Which sessions the tools reach.
#[derive(Debug)]
pub(super) struct Reach {
    scope: Scope,
    lineage: Lineage,
}

/// The sessions within reach.
#[derive(Debug, Default)]
pub(super) struct Reachable {
    pub(super) shims: Vec<Shim>,
    /// The names of those that did not answer.
    pub(super) silent: Vec<String>,
}

/// A request within reach, and its session.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) session: Session,
    pub(super) chosen: Chosen,
}

impl Found {
    /// Its name, as `rescind ps` prints it.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.chosen.shim.name(), clean(&self.chosen.request.label()))
    }
}

impl Reach {
    pub(super) const fn new(scope: Scope, lineage: Lineage) -> Self {
        Self { scope, lineage }
    }

    /// What is within reach, in words.
    pub(super) const fn words(&self) -> &'static str {
        match (&self.scope, self.lineage.is_known()) {
            (Scope::Own, true) => "those of sessions that the agent has started, itself or through its programs",
            (Scope::Own, false) => "none, since it is not known which process started this server",
            (Scope::All, _) => "those of all sessions of this user, except those that the agent itself works in",
            (Scope::Named(_), _) => "those of the sessions that the configuration names",
        }
    }

    /// The sessions within reach now.
    pub(super) async fn sessions(&self) -> Result<Reachable, Failure> {
        let shims = fleet::shims()?;
        let answers = ask_all(shims, |shim| async move { (shim.process().await, shim.session().await) }).await;
        let snapshot = Snapshot::take();
        let mut found = Reachable::default();
        for (shim, (process, answer)) in answers {
            // As the kernel knows it, since the number that a shim has in a container means another process here.
            let pid = process.ok().flatten();
            let (recorded, is_silent) = match &answer {
                Ok(session) if Some(session.pid) == pid => (&session.ancestors[..], false),
                Ok(_) => (&[][..], false),
                Err(ShimError::Gone(_)) => continue,
                Err(_) => (&[][..], true),
            };
            let is_called = |name: &str| shim.name() == name || answer.as_ref().is_ok_and(|one| one.is_called(name));
            if !self.has(is_called, pid, recorded, &snapshot) {
                continue;
            }
            match is_silent {
                true => found.silent.push(shim.name().to_owned()),
                false => found.shims.push(shim),
            }
        }
        Ok(found)
    }

    /// Whether a session is within reach. Its shim has this number here, if it has any.
    fn has(&self, is_called: impl Fn(&str) -> bool, pid: Option<u32>, recorded: &[u32], snapshot: &Snapshot) -> bool {
        let is_above = pid.is_some_and(|pid| self.lineage.is_above(pid));
        match &self.scope {
            Scope::Own => !is_above && pid.is_some_and(|pid| self.lineage.has_started(pid, recorded, snapshot)),
            Scope::All => !is_above,
            Scope::Named(names) => {
                !pid.is_some_and(|pid| self.lineage.is_own_shim(pid)) && names.iter().any(|name| is_called(name))
            }
        }
    }

    /// The request of this name. One that is out of reach is as unknown as one that does not exist.
    pub(super) async fn find(&self, name: &str) -> Result<Found, String> {
        let unknown = || format!("{}: no such request within reach; list_in_flight lists those in flight", clean(name));
        let Some((session, label)) = name.split_once('/') else { return Err(unknown()) };
        let sessions = self.sessions().await.map_err(|failure| failure.to_string())?;
        if sessions.silent.iter().any(|one| one == session) {
            return Err(format!("{session}: not answering; try again"));
        }
        let shim = sessions.shims.into_iter().find(|shim| shim.name() == session).ok_or_else(unknown)?;
        let words = |error: ShimError| format!("{session}: {}", clean(&error.to_string()));
        let facts = shim.session().await.map_err(words)?;
        let query = ListingQuery { state: Some("all"), ..ListingQuery::default() };
        let listing = fleet::ask(&shim, query, fleet::Pages::All).await.map_err(words)?;
        let named = |one: &Chosen| clean(&one.request.label()) == label;
        // An id may be used again; the request in flight is meant, or else the latest.
        let named = chosen(&shim, listing.now, listing.requests, named);
        let latest = named.max_by_key(|one| (one.request.is_open(), one.request.since));
        latest.map(|chosen| Found { session: facts, chosen }).ok_or_else(unknown)
    }
}
