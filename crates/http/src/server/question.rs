//! What a program is asked by the machine itself, and what waits for the answer.

use core::hash::{Hash, Hasher};

use bytes::Bytes;
use rescind_proto::{dialect::Dialect, id::RequestId};

use super::{door::Asker, keys::ReplyKey};

/// A question of ours that was not answered.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) id: RequestId,
    pub(crate) about: About,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum About {
    /// Which era it speaks. These requests wait for the answer.
    Era(Vec<Held>),
    /// The handshake for all sessions, whose own [wait](super::calls::Way::Joining) among the calls of the link; with the result
    /// of the program before it, if sessions know that.
    Handshake(Option<Bytes>),
}

/// A stateless request that waits until it is known which era the server speaks.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) reply: ReplyKey,
    pub(crate) asker: Asker,
    pub(crate) body: Bytes,
    pub(crate) dialect: &'static Dialect,
}

impl Question {
    /// The requests that wait for its answer.
    pub(crate) fn waiting(&self) -> &[Held] {
        match &self.about {
            About::Era(held) => held,
            About::Handshake(_) => &[],
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        match &self.about {
            About::Era(held) => held.iter().map(|held| size_of::<Held>() + held.bytes()).sum(),
            About::Handshake(former) => former.as_ref().map_or(0, Bytes::len),
        }
    }

    /// Feeds what decides its future into a hasher; `rank` orders responses that are still there.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher, rank: impl Fn(ReplyKey) -> Option<usize>) {
        (&self.id, core::mem::discriminant(&self.about)).hash(state);
        match &self.about {
            About::Handshake(former) => former.hash(state),
            About::Era(held) => {
                held.iter().for_each(|held| (rank(held.reply), &held.asker, &held.body[..]).hash(state));
            }
        }
    }
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.asker.heap_bytes()
    }
}
