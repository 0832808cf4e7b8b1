//! One request as the reference model sees it: what each party has sent and seen on the wire.

use core::hash::{Hash, Hasher};

use rescind_proto::{link::RequestKey, side::Side, time::Instant};

use super::scene::Method;

/// One request of a party, from being said until nobody can mention it any more.
#[derive(Clone, Debug, Hash)]
pub struct Ask {
    /// Who asks.
    pub from: Side,
    /// The id, as JSON.
    pub id: &'static str,
    /// What is asked.
    pub method: Method,
    /// The machine's name for it.
    pub key: Option<RequestKey>,
    /// It is on its way to the machine.
    pub unsaid: bool,
    /// Its id was in flight: it must be refused and go no further (D7).
    pub refused: bool,
    /// Its requester cancelled it, and was allowed to, while it was unanswered.
    pub cancelled: bool,
    /// The machine must end it itself: a clock ran out, or an operator stopped it.
    pub ended_here: bool,
    /// It exceeded a limit: it must never be seen, and is answered at once (D65).
    pub limited: bool,
    /// The other side ended without having answered.
    pub gone: bool,
    /// No byte of it was out when it was given up: it must never be seen (D13).
    pub withdrawn: bool,
    /// The other side must hear a cancel, unless it answers first.
    pub cancel_due: bool,
    /// The other side's answer was there before the cancel: the cancel must never be seen (D15).
    pub disarmed: bool,
    /// The id under which the other side saw it.
    pub seen: Option<String>,
    /// How many cancels for it the other side has seen.
    pub cancels_seen: u8,
    /// How often the other side has answered it.
    pub answers_said: u8,
    /// The requester has its answer.
    pub heard: bool,
    /// The requester has the other side's own answer.
    pub heard_theirs: bool,
    /// The other side's first answer came while it was remembered.
    pub answered_in_time: bool,
    /// How many cancels of its task the other side has seen.
    pub task_cancels: u8,
    /// How often it was asked how that task stands.
    pub task_gets: u8,
    /// Since when the requester has all it may ever hear.
    pub over_at: Option<Instant>,
    /// When the clock of the relay runs out.
    pub deadline: Option<Instant>,
    /// A card: when the machine answers it for the client, which has stopped its turn (D37).
    pub card: Option<Instant>,
    /// A turn: the machine has written its cancel (D37).
    pub stopped_by_us: bool,
    /// A cancelled turn that we have not stopped: when the machine answers it for the agent (D34).
    pub turn_ends: Option<Instant>,
    /// A turn: the machine has answered it for the agent (D34).
    pub muted: bool,
}

impl Ask {
    /// A request just said.
    pub const fn new(from: Side, id: &'static str, method: Method) -> Self {
        Self {
            from,
            id,
            method,
            key: None,
            unsaid: true,
            refused: false,
            cancelled: false,
            ended_here: false,
            limited: false,
            gone: false,
            withdrawn: false,
            cancel_due: false,
            disarmed: false,
            seen: None,
            cancels_seen: 0,
            answers_said: 0,
            heard: false,
            heard_theirs: false,
            answered_in_time: false,
            task_cancels: 0,
            task_gets: 0,
            over_at: None,
            deadline: None,
            card: None,
            stopped_by_us: false,
            turn_ends: None,
            muted: false,
        }
    }

    /// Whether its requester may still hear something.
    pub const fn is_live(&self) -> bool {
        !self.unsaid && !self.refused && self.over_at.is_none()
    }

    /// Whether nothing has been decided about its answer.
    pub const fn waits(&self) -> bool {
        let answered_at_once = self.cancelled && self.withdrawn;
        self.is_live() && self.answers_said == 0 && !self.ended_here && !self.gone && !answered_at_once
    }

    /// Feeds everything but names into a hasher, times relative to `now`.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let [deadline, card, turn_ends] =
            [self.deadline, self.card, self.turn_ends].map(|due| due.map(|at| Instant::ORIGIN + at.since(now)));
        let over_at = self.over_at.map(|at| Instant::ORIGIN + now.since(at));
        Self { key: None, over_at, deadline, card, turn_ends, ..self.clone() }.hash(state);
    }
}
