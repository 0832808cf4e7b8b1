//! Which servers several clients have: those that they share, and those that each starts for itself.

use std::collections::BTreeMap;

use rescind_ledger::{family::Family, snapshot::Snapshot};
use rescind_operator::Directories;
use rescind_wrap::{
    entry::{Entry, Launch},
    name,
    sharing::{self, Started},
    words,
};
use serde::Serialize;

use crate::run::own_words;

/// A server that several clients have, or that is shared.
#[derive(Debug, Serialize)]
pub(super) struct SharingReport {
    /// The name of its entries.
    pub(super) name: String,
    /// The clients that share one.
    pub(super) shared_by: Vec<String>,
    /// The clients of which each starts its own.
    pub(super) started_by: Vec<String>,
    /// How much memory sharing would save now, in bytes, as measured of those that run; `None` if fewer than two do.
    pub(super) saves: Option<u64>,
}

/// The same entries of clients, as they are read.
#[derive(Debug, Default)]
pub(super) struct Sharing(BTreeMap<(String, Started), Clients>);

#[derive(Debug, Default)]
struct Clients {
    name: String,
    shared_by: Vec<String>,
    started_by: Vec<String>,
}

impl Sharing {
    /// Counts an entry of this client.
    pub(super) fn add(&mut self, entry: &Entry, client: &str) {
        let Some(started) = Started::of(entry, own_words).filter(|_| !entry.is_disabled) else { return };
        let key = (name::plain_text(entry.name()), started);
        let clients = self.0.entry(key).or_default();
        entry.name().clone_into(&mut clients.name);
        let of = if shared(entry).is_some() { &mut clients.shared_by } else { &mut clients.started_by };
        if !of.iter().any(|known| known == client) {
            of.push(client.to_owned());
        }
    }

    /// What is to be told of them.
    pub(super) fn report(self) -> Vec<SharingReport> {
        let told =
            self.0.into_iter().filter(|(_, clients)| !clients.shared_by.is_empty() || clients.started_by.len() > 1);
        let told: Vec<_> = told.collect();
        // Only then are processes looked at.
        let families =
            if told.is_empty() { Vec::new() } else { Directories::of_this_user().families(&Snapshot::take()) };
        let report = |((_, started), Clients { name, shared_by, started_by }): ((String, Started), Clients)| {
            let saves = (!started_by.is_empty()).then(|| saved(&families, &started.words)).flatten();
            SharingReport { name, shared_by, started_by, saves }
        };
        told.into_iter().map(report).collect()
    }
}

/// The flags of the shim of an entry that is shared.
fn shared(entry: &Entry) -> Option<&[String]> {
    let Launch::Command(command) = &entry.launch else { return None };
    let flags = &command.words[words::flags(&command.words, own_words)?];
    sharing::name(flags).map(|_| flags)
}

/// What is wrong with the flags by which an entry is shared, the remedy first.
pub(super) fn wants_attention(entry: &Entry, call: &str) -> Option<String> {
    let flags = shared(entry)?;
    match sharing::flags(entry, sharing::name(flags)?) {
        Ok(wanted) if sharing::merged(flags, &wanted) == flags => None,
        Ok(_) => {
            Some(format!("`{call} wrap` repairs it: it is shared, and sets variables that its server does not get"))
        }
        Err(why) => {
            Some(format!("`{call} unwrap` and `{call} wrap` give each client its own: it is shared, and {why}"))
        }
    }
}

/// How much memory all processes with this command but the largest hold, each with what it has started.
fn saved(families: &[Family], words: &[String]) -> Option<u64> {
    let is_it = |family: &&Family| family.record.as_ref().is_some_and(|record| record.command == words);
    let held = |family: &Family| family.members.iter().map(|member| member.process.memory).sum::<u64>();
    let held: Vec<u64> = families.iter().filter(is_it).map(held).filter(|held| *held > 0).collect();
    (held.len() > 1).then(|| held.iter().sum::<u64>() - held.iter().max().copied().unwrap_or_default())
}
