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
        self.lanes().into_iter().filter_map(|lane| lane.next).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes().into_iter().map(|lane| lane.len).sum()
    }

    /// Bytes of memory that they hold.
    pub(crate) fn held(&self) -> usize {
        self.lanes().into_iter().map(|lane| lane.held).sum()
    }

    fn lanes(&self) -> [Summary; 9] {
        let Self { undecided, unproved, keep_alive, upkeep, joint_upkeep, link_upkeep, ask, fates, body_patience } =
            self;
        let [undecided, unproved] = [undecided, unproved].map(Summary::of);
        let [keep_alive, fates, body_patience] = [keep_alive, fates, body_patience].map(Summary::of);
        let [joint_upkeep, link_upkeep, ask] = [joint_upkeep, link_upkeep, ask].map(Summary::of);
        let upkeep = Summary::of(upkeep);
        [undecided, unproved, keep_alive, upkeep, joint_upkeep, link_upkeep, ask, fates, body_patience]
    }
}

/// A lane, whatever its keys are.
struct Summary {
    next: Option<Instant>,
    len: usize,
    held: usize,
}

impl Summary {
    fn of<K: Copy>(lane: &Lane<K>) -> Self {
        Self { next: lane.next(), len: lane.len(), held: lane.held() }
    }
}
