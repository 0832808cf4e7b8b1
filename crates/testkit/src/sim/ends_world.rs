//! Two endpoints, what lies between them, and a clock that nobody waits for.
//!
//! Each direction keeps its order and has a latency of its own: what one end has written the other reads when it is chosen
//! to, as a whole or cut anywhere. Each endpoint is judged by its own model, as if the other were all that it talks to.

use core::time::Duration;
use std::sync::Arc;

use rescind_proto::{
    side::{Side, Sides},
    time::Instant,
};

use super::{
    digest::Digest,
    endpoint::{Do, Endpoint},
    hop::{Cut, PIECES},
    scene::Scene,
    world::{Broken, Transcript, World, to_rest},
};

/// What lies between two endpoints.
pub trait Between: Clone {
    /// It is nothing but bytes on their way: they are lost together, and arrive whole or anywhere cut.
    const IS_WIRE: bool;

    /// What can arrive at a side.
    fn pending(&self, to: Side) -> &[u8];

    /// So much of that arrives.
    fn take(&mut self, now: Instant, to: Side, len: usize) -> Vec<u8>;

    /// A side has written this.
    fn input(&mut self, now: Instant, from: Side, bytes: &[u8]);

    /// When it has to do something by itself.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// It is later now.
    fn pass(&mut self, _now: Instant) {}

    /// A side comes to the end of its input, and of more where it is no wire.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    fn end(&mut self, now: Instant, side: Side, endpoint: &mut Endpoint) -> Result<(), Broken>;

    /// All that is on its way is lost.
    fn clear(&mut self) {}

    /// Nothing is left when everything is over (invariant 6).
    ///
    /// # Errors
    ///
    /// What is left.
    fn check_empty(&self) -> Result<(), Broken> {
        Ok(())
    }

    /// Feeds what decides its future into a hash.
    fn hash_state(&self, now: Instant, digest: &mut Digest);
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The application of a side acts.
    App(Side, Do),
    /// Some of what waits at a side is written.
    Write(Side, Cut),
    /// Some of what is on the way to a side arrives.
    Deliver(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// So many milliseconds pass.
    Wait(u16),
    /// The input of a side ends, behind what is on its way; where a relay is between them, the side dies.
    End(Side),
    /// The link breaks: what is on its way is gone.
    Break,
}

/// Two endpoints joined by something.
#[derive(Clone, Debug)]
pub struct EndsWorld<B> {
    scene: Arc<Scene>,
    ends: Sides<Endpoint>,
    between: B,
    now: Instant,
    transcript: Transcript,
}

impl<B: Between> EndsWorld<B> {
    pub(super) fn of(scene: Arc<Scene>, ends: Sides<Endpoint>, between: B, now: Instant) -> Self {
        Self { scene, ends, between, now, transcript: Transcript::default() }
    }

    fn write(&mut self, from: Side, cut: Cut) -> Result<(), Broken> {
        let (bytes, frames) = self.ends[from].write(self.now, cut)?;
        if frames.is_empty() {
            self.transcript.note(|| format!("{} writes half a frame", from.as_str()));
        }
        for frame in frames {
            self.transcript.note(|| format!("{} writes {frame}", from.as_str()));
        }
        self.between.input(self.now, from, &bytes);
        Ok(())
    }

    fn deliver(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let len = cut.len(self.between.pending(to));
        let bytes = self.between.take(self.now, to, len);
        self.transcript.note(|| format!("{} reads {:?}", to.as_str(), String::from_utf8_lossy(&bytes)));
        self.ends[to].input(self.now, &bytes)
    }

    fn due(&self) -> Option<Instant> {
        let ends = Side::BOTH.into_iter().filter_map(|side| self.ends[side].conn.poll_timeout());
        ends.chain(self.between.due()).min()
    }

    fn pass(&mut self, due: Instant) -> Result<(), Broken> {
        self.now = due.max(self.now);
        let now = self.now;
        self.transcript.note(|| format!("time: {now:?}"));
        for side in Side::BOTH {
            if self.ends[side].conn.poll_timeout().is_some_and(|due| due <= now) {
                self.ends[side].pass(now)?;
            }
        }
        self.between.pass(now);
        Ok(())
    }

    fn end(&mut self, side: Side) -> Result<(), Broken> {
        self.transcript.note(|| format!("{} comes to its end", side.as_str()));
        self.between.end(self.now, side, &mut self.ends[side])
    }

    /// Everything arrives and every timer fires, until nothing moves any more; then all that had to happen has.
    fn run(&mut self, everyone_ends: bool) -> Result<(), Broken> {
        to_rest(|| {
            let mut moved = false;
            for side in Side::BOTH {
                while !self.ends[side].conn.pending().is_empty() {
                    self.write(side, Cut::All)?;
                    moved = true;
                }
                while !self.between.pending(side).is_empty() {
                    self.deliver(side, Cut::All)?;
                    moved = true;
                }
                moved |= self.ends[side].end_handlers(self.now, everyone_ends)?;
            }
            if !moved && let Some(due) = self.due() {
                self.pass(due)?;
                moved = true;
            }
            Ok(moved)
        })?;
        Side::BOTH.into_iter().try_for_each(|side| self.ends[side].model.check_settled())
    }

    fn check_empty(&self) -> Result<(), Broken> {
        Side::BOTH.into_iter().try_for_each(|side| self.ends[side].check_empty())
    }
}

impl<B: Between> World for EndsWorld<B> {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        let Self { scene, ends, between, .. } = self;
        let mut app = Vec::new();
        for side in Side::BOTH {
            app.clear();
            ends[side].actions(&mut app);
            out.extend(app.iter().map(|&what| Action::App(side, what)));
            let pieces = scene.pieces(B::IS_WIRE && !ends[side].is_cut());
            let writes = Cut::of(ends[side].conn.pending(), pieces).into_iter();
            out.extend(writes.map(|cut| Action::Write(side, cut)));
            let pieces: &[Cut] = if scene.adversarial { &PIECES } else { &[] };
            let reads = Cut::of(between.pending(side), pieces).into_iter();
            let reads = reads.filter(|cut| !B::IS_WIRE || *cut != Cut::Frame);
            out.extend(reads.map(|cut| Action::Deliver(side, cut)));
            if scene.ends && !ends[side].model.input_ended {
                out.push(Action::End(side));
            }
        }
        if self.due().is_some() {
            out.push(Action::Timeout);
        }
        if B::IS_WIRE && scene.adversarial {
            out.extend([Action::Wait(100), Action::Wait(3000)]);
        }
        if B::IS_WIRE && scene.ends && Side::BOTH.into_iter().any(|side| !ends[side].model.write_closed) {
            out.push(Action::Break);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::End(_) | Action::Break | Action::App(_, Do::ShutDown))
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::App(side, what) => {
                self.transcript.note(|| format!("{}: {what:?}", side.as_str()));
                self.ends[side].act(self.now, what)
            }
            Action::Write(side, cut) => self.write(side, cut),
            Action::Deliver(side, cut) => self.deliver(side, cut),
            Action::Timeout => self.due().map_or(Ok(()), |due| self.pass(due)),
            Action::Wait(millis) => {
                let until = self.now + Duration::from_millis(u64::from(millis));
                while let Some(due) = self.due().filter(|due| *due <= until) {
                    self.pass(due)?;
                }
                self.now = until;
                Ok(())
            }
            Action::End(side) => self.end(side),
            Action::Break => {
                self.transcript.note(|| "the link breaks".to_owned());
                self.between.clear();
                Side::BOTH.into_iter().try_for_each(|side| self.ends[side].link_is_lost(self.now))
            }
        }
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        world.run(false)?;
        world.run(true)?;
        if Side::BOTH.into_iter().all(|side| !world.ends[side].model.input_ended) {
            world.check_empty()?;
        }
        Side::BOTH.into_iter().try_for_each(|side| world.end(side))?;
        world.run(true)?;
        world.check_empty()?;
        world.between.check_empty()
    }

    fn digest(&self) -> u128 {
        let Self { scene: _, ends, between, now, transcript: _ } = self;
        let mut digest = Digest::new();
        Side::BOTH.into_iter().for_each(|side| ends[side].hash_state(*now, &mut digest));
        between.hash_state(*now, &mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }
}
