//! When something is due: a lane for each length.

use rescind_proto::time::Instant;

use super::{
    config::HttpServerConfig,
    fate::FATE_WITHIN,
    keys::{LinkKey, ReplyKey, SessionKey, StreamKey},
    lane::Lane,
};

/// A keep-alive may come sooner by one in so many parts of its interval.
const KEEP_ALIVE_SLACK: u32 = 512;

/// Timers by what they are for. One of what is over stays until it is due.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// Responses that may have to begin as a stream.
    pub(crate) undecided: Lane<StreamKey>,
    /// The same, while the server has not accepted their client's credentials.
    pub(crate) unproved: Lane<StreamKey>,
    /// Open streams, each half a keep-alive.
    pub(crate) keep_alive: Lane<ReplyKey>,
    /// Sessions, each now and then.
    pub(crate) upkeep: Lane<SessionKey>,
    /// The link that sessions share, now and then.
    pub(crate) joint_upkeep: Lane<LinkKey>,
    /// Links of people without a session, each now and then.
    pub(crate) link_upkeep: Lane<LinkKey>,
    /// The question which era the server speaks, and the handshake of the link that sessions share.
    pub(crate) ask: Lane<LinkKey>,
    /// Responses that wait for the fate of a cancel.
    pub(crate) fates: Lane<ReplyKey>,
    /// Bodies that are being read, each now and then.
    pub(crate) body_patience: Lane<ReplyKey>,
}

impl Timers {
    pub(crate) fn new(config: &HttpServerConfig) -> Self {
        let upkeep = config.idle.min(config.resume_within) / 4;
        Self {
            undecided: Lane::new(config.stream_after),
            unproved: Lane::new(config.prove_within),
            keep_alive: Lane::repeated(config.keep_alive / 2).with_slack(config.keep_alive / KEEP_ALIVE_SLACK),
            upkeep: Lane::repeated(upkeep),
            joint_upkeep: Lane::repeated(upkeep),
            link_upkeep: Lane::repeated(config.idle / 4),
            ask: Lane::new(config.ask_within),
            fates: Lane::new(FATE_WITHIN),
            body_patience: Lane::repeated(config.body_patience),
        }
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let next = [
            self.undecided.next(),
            self.unproved.next(),
            self.keep_alive.next(),
            self.upkeep.next(),
            self.joint_upkeep.next(),
            self.link_upkeep.next(),
            self.ask.next(),
            self.fates.next(),
            self.body_patience.next(),
        ];
        next.into_iter().flatten().min()
    }

    pub(crate) fn len(&self) -> usize {
        let lens = [
            self.undecided.len(),
            self.unproved.len(),
            self.keep_alive.len(),
            self.upkeep.len(),
            self.joint_upkeep.len(),
            self.link_upkeep.len(),
            self.ask.len(),
            self.fates.len(),
            self.body_patience.len(),
        ];
        lens.into_iter().sum()
    }

    /// Bytes of memory that they hold.
    pub(crate) fn held(&self) -> usize {
        let held = [
            self.undecided.held(),
            self.unproved.held(),
            self.keep_alive.held(),
            self.upkeep.held(),
            self.joint_upkeep.held(),
            self.link_upkeep.held(),
            self.ask.held(),
            self.fates.held(),
            self.body_patience.held(),
        ];
        held.into_iter().sum()
    }
}
