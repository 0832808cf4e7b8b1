//! Which era the program for requests outside a session speaks, and what waits until that is known.

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rescind_proto::{dialect::Dialect, id::RequestId};

use crate::server::{
    config::{HttpServerConfig, Stateless},
    door::Asker,
    keyed::Keyed,
    keys::{LinkKey, ReplyKey},
};

/// What stateless requests share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// A link for each asker; one for all where askers are not distinguished.
    pub(crate) links: Keyed<HashMap<Asker, LinkKey, FixedState>>,
    pub(crate) era: Era,
}

/// What is known of the program behind the shared link.
#[derive(Clone, Debug)]
pub(crate) enum Era {
    Unknown,
    /// It was asked.
    Asked(Question),
    /// It speaks a revision without sessions.
    Modern,
    Legacy,
}

/// The question which era the program speaks.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Where it was asked.
    pub(crate) link: LinkKey,
    pub(crate) id: RequestId,
    /// What waits for its answer.
    pub(crate) held: Vec<Held>,
}

impl Shared {
    pub(crate) fn new(config: &HttpServerConfig) -> Self {
        Self {
            links: Keyed(HashMap::with_hasher(FixedState::with_seed(config.seed))),
            era: match config.stateless {
                Stateless::Served | Stateless::Joined => Era::Modern,
                Stateless::Refused => Era::Legacy,
                Stateless::Ask => Era::Unknown,
            },
        }
    }

    /// What was asked and not answered.
    pub(crate) const fn question(&self) -> Option<&Question> {
        match &self.era {
            Era::Asked(question) => Some(question),
            Era::Unknown | Era::Modern | Era::Legacy => None,
        }
    }

    /// Forgets a link: it serves no further requests outside a session.
    pub(crate) fn forget(&mut self, key: LinkKey) {
        self.links.retain(|_, link| *link != key);
    }

    /// Whether the program was asked on this link.
    pub(crate) fn is_asked(&self, link: LinkKey) -> bool {
        self.question().is_some_and(|question| question.link == link)
    }

    /// Returns the links of these askers, in order.
    pub(crate) fn links_of(&self, is_one: impl Fn(&Asker) -> bool) -> Vec<LinkKey> {
        let mut links: Vec<_> = self.links.iter().filter(|(asker, _)| is_one(asker)).map(|(_, link)| *link).collect();
        links.sort_unstable();
        links
    }

    /// Takes out what waits of these askers, and returns their responses.
    pub(crate) fn take_held(&mut self, is_one: impl Fn(&Asker) -> bool) -> Vec<ReplyKey> {
        let Era::Asked(question) = &mut self.era else { return Vec::new() };
        question.held.extract_if(.., |held| is_one(&held.asker)).map(|held| held.reply).collect()
    }

    /// Requests that wait until it is known which era the server speaks.
    pub(crate) fn held(&self) -> &[Held] {
        self.question().map_or(&[], |question| &question.held)
    }
}

/// A stateless request that waits until it is known which era the server speaks.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) reply: ReplyKey,
    pub(crate) asker: Asker,
    pub(crate) body: Bytes,
    pub(crate) dialect: &'static Dialect,
}

impl Held {
    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        size_of::<Self>() + self.bytes()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.asker.heap_bytes()
    }
}
