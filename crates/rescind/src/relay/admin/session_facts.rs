//! What a session is.

use rescind_feed as feed;
use rescind_proto::{
    relay::Relay,
    side::{Side, Sides},
};

use super::{record, tally::by_limit};
use crate::{message_stream::Connected, relay::ends::StreamFacts};

/// The constant part of a session's description, and who knows the part that changes.
pub(super) struct SessionFacts {
    pub(super) name: String,
    pub(super) ancestors: Vec<u32>,
    pub(super) server_pid: Option<u32>,
    pub(super) command: Vec<String>,
    /// When the session's clock began, in microseconds since 1970.
    pub(super) started: u64,
    pub(super) told: StreamFacts,
}

debug_fields!(SessionFacts, name);

impl SessionFacts {
    pub(super) fn session(&self, relay: &Relay) -> feed::Session {
        let implementations = implementations(relay);
        feed::Session {
            version: feed::VERSION,
            name: self.name.clone(),
            program: concat!("rescind ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            ancestors: self.ancestors.clone(),
            server_pid: self.server_pid,
            command: self.command.clone(),
            started: self.started,
            client: implementations[Side::Client].clone(),
            server: implementations[Side::Server].clone(),
            connected: self.connected(),
            owner: self.told.owner.clone(),
            signing_in: self.is_signing_in(),
            limits: by_limit(&relay.tally().limited),
            held_up_by: relay.held_up_by().map(record::side),
            unkept_children: relay.unkept_children(),
        }
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
