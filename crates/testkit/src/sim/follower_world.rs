//! One world for all work that a relay follows: a client and a server with the relay between them, an operator, and a clock.
//!
//! What differs is a [`Kind`] of work: how the two greet each other, what they and the operator can do, and a small model of
//! what is at work. The model judges what the relay shows, what it claims of a cancel, and each frame that leaves. The rest
//! is the same for all: what is written, when time passes, that the server ends, and that nothing is left then.

use core::{fmt::Debug, hash::Hash};

use rescind_proto::{
    relay::{Relay, RelayConfig},
    side::Side,
    time::Instant,
};
use serde_json::Value;

use super::{
    digest::Digest,
    hop::Cut,
    stage::Stage,
    watcher::Watcher,
    world::{Broken, Transcript, World, to_rest},
};

/// A kind of work that is followed, and a model of what of it is at work.
pub trait Kind: Clone {
    /// One thing that a side or the operator can do.
    type Action: Copy + Debug + Eq;

    /// The relay's settings.
    fn config(&self) -> RelayConfig {
        RelayConfig::default()
    }

    /// What each side says first, in turn.
    fn greeting(&self) -> Vec<(Side, Value)>;

    /// What can happen now, as long as the server lives.
    fn with_server(&self, stage: &Stage, out: &mut Vec<Self::Action>);

    /// What can happen now, whether the server lives or not: above all, what the operator can do.
    fn always(&self, stage: &Stage, out: &mut Vec<Self::Action>);

    /// Whether it ends so much that a long walk should seldom do it.
    fn is_rare(_action: Self::Action) -> bool {
        false
    }

    /// Lets it happen.
    ///
    /// # Errors
    ///
    /// What came of it against a rule.
    fn act(&mut self, stage: &mut Stage, action: Self::Action) -> Result<(), Broken>;

    /// Judges a frame for the server as soon as a byte of it has left.
    ///
    /// # Errors
    ///
    /// Why it must not leave now.
    fn judge(&self, _frame: &str) -> Result<(), Broken> {
        Ok(())
    }

    /// A side has read a frame.
    ///
    /// # Errors
    ///
    /// Why it must not have received that.
    fn reads(&mut self, now: Instant, to: Side, frame: &str) -> Result<(), Broken>;

    /// The server has ended.
    fn lose_server(&mut self);

    /// Compares what the relay shows and claims with what is so.
    ///
    /// # Errors
    ///
    /// What is shown or claimed and is not so.
    fn check(&mut self, stage: &Stage) -> Result<(), Broken>;

    /// Whether there is something that must happen as time goes by, without the sides.
    fn awaits_time(&self) -> bool {
        false
    }

    /// Checks what must have happened once a server that lives has read all there was.
    ///
    /// # Errors
    ///
    /// What has not.
    fn check_read(&self) -> Result<(), Broken> {
        Ok(())
    }

    /// Checks what must have happened once the server has ended.
    ///
    /// # Errors
    ///
    /// What has not.
    fn check_end(&self) -> Result<(), Broken> {
        Ok(())
    }

    /// Feeds what decides its future into a digest.
    fn hash(&self, stage: &Stage, digest: &mut Digest);
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<A> {
    /// A side or the operator does this.
    Does(A),
    /// Some of what waits for a side is written.
    Writes(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// The server ends.
    Ends,
}

/// How far a request is that the client makes once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Asked {
    /// It was not made.
    #[default]
    Not,
    /// The server has not read it.
    Waiting,
    /// The server has read it.
    Read,
    /// It was answered, or never will be.
    Answered,
}

impl Asked {
    /// The server reads it.
    pub fn read(&mut self) {
        if *self == Self::Waiting {
            *self = Self::Read;
        }
    }

    /// Whether it is in flight.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Read)
    }
}

/// The relay, its two sides, and the model of the work.
#[derive(Clone, Debug)]
pub struct FollowerWorld<K> {
    stage: Stage,
    kind: K,
    watcher: Watcher,
}

impl<K: Kind + Default> Default for FollowerWorld<K> {
    fn default() -> Self {
        Self::of(K::default())
    }
}

impl<K: Kind + Default> FollowerWorld<K> {
    /// A link after its greeting.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<K: Kind> FollowerWorld<K> {
    /// A link with such work after its greeting.
    #[must_use]
    pub fn of(kind: K) -> Self {
        let mut stage = Stage::new(Relay::new(kind.config()), Instant::ORIGIN);
        for (from, message) in kind.greeting() {
            stage.say(from, &message.to_string());
            stage.write(from.other(), Cut::All);
        }
        let watcher = Watcher::new(&mut stage.relay);
        Self { stage, kind, watcher }
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let had_begun = self.stage.begun(to).is_some();
        for (place, frame) in self.stage.write(to, cut).into_iter().enumerate() {
            self.stage.note_read(to, &frame);
            // One of which a part had left was judged then.
            if to == Side::Server && (place > 0 || !had_begun) {
                self.kind.judge(&frame)?;
            }
            self.kind.reads(self.stage.now, to, &frame)?;
        }
        match self.stage.begun(to) {
            Some(frame) if to == Side::Server => self.kind.judge(&frame),
            Some(_) | None => Ok(()),
        }
    }

    /// Everything that waits is written.
    fn flush(&mut self) -> Result<(), Broken> {
        to_rest(|| {
            let waits = Side::BOTH.map(|side| !self.stage.relay.pending(side).is_empty());
            for (side, _) in Side::BOTH.into_iter().zip(waits).filter(|(_, waits)| *waits) {
                self.write(side, Cut::All)?;
            }
            Ok(waits.contains(&true))
        })
    }
}

impl<K: Kind> World for FollowerWorld<K> {
    type Action = Action<K::Action>;

    fn actions(&self, out: &mut Vec<Self::Action>) {
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let pieces: &[Cut] = if side == Side::Server && !self.stage.is_cut(side) { &[Cut::Half] } else { &[] };
            out.extend(Cut::of(pending, pieces).into_iter().map(|cut| Action::Writes(side, cut)));
        }
        let mut does = Vec::new();
        if !self.stage.is_server_lost {
            self.kind.with_server(&self.stage, &mut does);
            out.push(Action::Ends);
        }
        self.kind.always(&self.stage, &mut does);
        out.extend(does.into_iter().map(Action::Does));
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
    }

    fn is_rare(action: Self::Action) -> bool {
        match action {
            Action::Does(action) => K::is_rare(action),
            Action::Ends => true,
            Action::Writes(..) | Action::Timeout => false,
        }
    }

    fn step(&mut self, action: Self::Action) -> Result<(), Broken> {
        match action {
            Action::Does(action) => self.kind.act(&mut self.stage, action)?,
            Action::Writes(to, cut) => self.write(to, cut)?,
            Action::Timeout => self.stage.pass(),
            Action::Ends => {
                self.kind.lose_server();
                self.stage.lose_server();
            }
        }
        self.stage.receipts();
        self.kind.check(&self.stage)?;
        self.watcher.follow(&mut self.stage.relay)
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        to_rest(|| {
            world.flush()?;
            let awaits_time = world.kind.awaits_time();
            if awaits_time {
                world.step(Action::Timeout)?;
            }
            Ok(awaits_time)
        })?;
        if !world.stage.is_server_lost {
            world.kind.check_read()?;
            world.step(Action::Ends)?;
        }
        world.flush()?;
        world.kind.check_end()?;
        world.stage.check_empty()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        self.kind.hash(&self.stage, &mut digest);
        self.stage.is_server_lost.hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
