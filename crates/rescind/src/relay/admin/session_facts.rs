//! What a session is.

use std::collections::VecDeque;

use rescind_feed as feed;
use rescind_ledger::turn::process_clock;
use rescind_proto::{
    relay::Relay,
    side::{Side, Sides},
};

use super::{record, tally::by_limit};
use crate::{
    message_stream::Connected,
    relay::ends::{EntryName, StreamFacts},
};

/// The most processes of cancelled requests that are remembered.
const MAX_TURN_PROCESSES: usize = 64;

/// The constant part of a session's description, and who knows the part that changes.
pub(super) struct SessionFacts {
    pub(super) name: String,
    pub(super) ancestors: Vec<u32>,
    pub(super) server_pid: Option<u32>,
    pub(super) command: Vec<String>,
    pub(super) entry: EntryName,
    /// The directory in which the shim was started.
    pub(super) folder: Option<String>,
    /// When the session's clock began, in microseconds since 1970.
    pub(super) started: u64,
    /// When that was.
    pub(super) origin: std::time::Instant,
    /// What became of processes that began during cancelled requests, the last of them at the end.
    pub(super) turn_processes: VecDeque<feed::TurnProcess>,
    /// The keys of those requests of which more is to come; `None` if no processes are ended.
    pub(super) ending_turns: Option<Vec<String>>,
    /// How often the server was started again (D64).
    pub(super) restarts: Option<feed::Restarts>,
    pub(super) told: StreamFacts,
}

debug_fields!(SessionFacts, name);

impl SessionFacts {
    /// What an operator is told of the session.
    pub(super) fn session(&self, relay: &Relay) -> feed::Session {
        let process_clock = Some(process_clock(self.origin, self.started));
        feed::Session { process_clock, ..self.session_on_disk(relay) }
    }

    /// The same without the clock of processes, which only says something of those that run.
    pub(super) fn session_on_disk(&self, relay: &Relay) -> feed::Session {
        let implementations = implementations(relay);
        feed::Session {
            version: feed::VERSION,
            name: self.name.clone(),
            program: concat!("rescind ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            ancestors: self.ancestors.clone(),
            server_pid: self.server_pid,
            command: self.command.clone(),
            entry: self.entry.name.clone(),
            client_name: self.entry.client.clone(),
            shared: self.entry.shared.clone(),
            folder: self.folder.clone(),
            started: self.started,
            client: implementations[Side::Client].clone(),
            server: implementations[Side::Server].clone(),
            connected: self.connected(),
            owner: self.told.owner.clone(),
            signing_in: self.is_signing_in(),
            limits: by_limit(&relay.tally().limited),
            held_up_by: relay.held_up_by().map(record::side),
            unkept_children: relay.unkept_work(),
            process_clock: None,
            turn_processes: self.turn_processes.iter().cloned().collect(),
            ending_turns: self.ending_turns.clone(),
            restarts: self.restarts,
            restarting: relay.awaits_server(),
            starting: relay.awaits_start().map(record::micros),
            hides_work: relay.may_hide_work(),
            unkept_tasks: relay.unkept_tasks(),
            unkept_released: relay.unkept_released(),
        }
    }

    /// Notes what became of processes of cancelled requests, and of which requests more is to come. The oldest are
    /// forgotten.
    pub(super) fn note_turn_processes(&mut self, ending: Vec<String>, news: &[feed::TurnProcess]) {
        self.ending_turns = Some(ending);
        for one in news {
            self.turn_processes.retain(|known| known.pid != one.pid || known.request != one.request);
            self.turn_processes.push_back(one.clone());
        }
        self.turn_processes.drain(..self.turn_processes.len().saturating_sub(MAX_TURN_PROCESSES));
    }

    pub(super) fn connected(&self) -> Option<feed::Connected> {
        let Connected { sessions, responses, kept, kept_bytes, restarts } = self.told.census.as_ref()?();
        let [sessions, responses, kept, kept_bytes, restarts] =
            [sessions, responses, kept, kept_bytes, restarts].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
        Some(feed::Connected { sessions, responses, kept, kept_bytes, restarts })
    }

    pub(super) fn is_signing_in(&self) -> bool {
        self.told.signing_in.as_ref().is_some_and(|is_signing_in| is_signing_in())
    }

    /// Whether anything changes without a message.
    pub(super) const fn changes_by_itself(&self) -> bool {
        self.told.census.is_some() || self.told.signing_in.is_some()
    }
}

/// What the two sides are, as far as they have introduced themselves.
pub(super) fn implementations(relay: &Relay) -> Sides<feed::Implementation> {
    Sides::from_fn(|side| {
        let implementation = relay.implementation(side);
        feed::Implementation {
            protocol: relay.dialect(side).name.to_owned(),
            name: implementation.map(|implementation| record::text(&implementation.name)),
            version: implementation.and_then(|implementation| implementation.version.as_deref()).map(record::text),
        }
    })
}
