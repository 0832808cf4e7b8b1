//! Two endpoints with a relay between them: what each sees of the other has passed two links and a translation.
//!
//! Each endpoint is judged by its own model, as if the relay were its peer; the
//! relay by its invariants, and by what its two sides come to see.

use core::hash::Hash;
use std::sync::Arc;

use rescind_proto::{
    relay::{End, Relay},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    digest::Digest,
    endpoint::{Do, Endpoint},
    hop::{Cut, PIECES},
    scene::Scene,
    world::{Broken, World},
};

/// One thing that can happen to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The application of a side acts.
    App(Side, Do),
    /// Some of what waits at a side is written, and read by the relay.
    Up(Side, Cut),
    /// Some of what the relay has for a side is written, and read by it.
    Down(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// A side dies.
    Die(Side),
}

/// Two endpoints and a relay.
#[derive(Clone, Debug)]
pub struct ChainWorld {
    scene: Arc<Scene>,
    ends: Sides<Endpoint>,
    relay: Relay,
    dead: Sides<bool>,
    now: Instant,
    transcript: Option<Vec<String>>,
}

impl ChainWorld {
    /// The scene before anything has happened; its dialects must not need a handshake.
    #[must_use]
    pub fn new(scene: Scene) -> Self {
        let ends = Sides::from_fn(|side| {
            // To an endpoint its peer speaks as it does.
            let dialect = scene.dialects[side];
            let dialects = Sides { client: dialect, server: dialect };
            Endpoint::new(&Arc::new(Scene { dialects, ..scene.clone() }), side)
        });
        Self {
            ends,
            relay: Relay::new(Scene { clock: None, ..scene.clone() }.relay_config()),
            scene: Arc::new(scene),
            dead: Sides { client: false, server: false },
            now: Instant::ORIGIN,
            transcript: None,
        }
    }

    fn up(&mut self, from: Side, cut: Cut) -> Result<(), Broken> {
        let (bytes, frames) = self.ends[from].write(self.now, cut)?;
        for frame in frames {
            self.note(|| format!("{} -> {frame}", from.as_str()));
        }
        self.relay.handle_input(self.now, from, &bytes);
        self.watch();
        Ok(())
    }

    fn down(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let len = cut.len(self.relay.pending(to));
        let bytes = self.relay.pending(to)[..len].to_vec();
        self.relay.handle_written(self.now, to, len);
        self.watch();
        self.note(|| format!("{} <- {}", to.as_str(), String::from_utf8_lossy(&bytes)));
        self.ends[to].input(self.now, &bytes)
    }

    fn watch(&mut self) {
        while self.relay.poll_event().is_some() {}
        if !self.scene.wire_only {
            self.relay.check_invariants();
        }
    }

    fn due(&self) -> Option<Instant> {
        let ends = Side::BOTH.into_iter().filter_map(|side| self.ends[side].conn.poll_timeout());
        ends.chain(self.relay.poll_timeout()).min()
    }

    fn pass(&mut self, due: Instant) -> Result<(), Broken> {
        self.now = due.max(self.now);
        let now = self.now;
        self.note(|| format!("time: {now:?}"));
        for side in Side::BOTH {
            if self.ends[side].conn.poll_timeout().is_some_and(|due| due <= now) {
                self.ends[side].pass(now)?;
            }
        }
        self.relay.handle_timeout(now);
        self.watch();
        Ok(())
    }

    fn die(&mut self, side: Side) -> Result<(), Broken> {
        self.note(|| format!("{} dies", side.as_str()));
        self.dead[side] = true;
        self.ends[side].link_is_lost(self.now)?;
        self.relay.handle_eof(self.now, side, &End::Closed);
        self.relay.handle_write_closed(self.now, side);
        self.watch();
        Ok(())
    }

    /// Everything arrives and every timer fires, until nothing moves any more.
    fn run(&mut self, everyone_ends: bool) -> Result<(), Broken> {
        for _ in 0..MOST_ROUNDS {
            let mut moved = false;
            for side in Side::BOTH {
                while !self.ends[side].conn.pending().is_empty() {
                    self.up(side, Cut::All)?;
                    moved = true;
                }
                while !self.relay.pending(side).is_empty() {
                    self.down(side, Cut::All)?;
                    moved = true;
                }
                moved |= self.ends[side].end_handlers(self.now, everyone_ends)?;
            }
            if moved {
                continue;
            }
            match self.due() {
                Some(due) => self.pass(due)?,
                None => return Ok(()),
            }
        }
        Err(Broken("nothing ever comes to rest".into()))
    }

    fn check_settled(&self) -> Result<(), Broken> {
        Side::BOTH.into_iter().try_for_each(|side| self.ends[side].model.check_settled())
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(transcript) = &mut self.transcript {
            transcript.push(line());
        }
    }
}

impl World for ChainWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        let mut app = Vec::new();
        for side in Side::BOTH {
            app.clear();
            self.ends[side].actions(&mut app);
            out.extend(app.iter().map(|&what| Action::App(side, what)));
            let (up, down) = (self.ends[side].conn.pending(), self.relay.pending(side));
            for (pending, action) in [(up, Action::Up as fn(Side, Cut) -> Action), (down, Action::Down)] {
                if !pending.is_empty() {
                    out.push(action(side, Cut::All));
                    if Cut::Frame.len(pending) < pending.len() {
                        out.push(action(side, Cut::Frame));
                    }
                    if self.scene.adversarial {
                        out.extend(PIECES.map(|cut| action(side, cut)));
                    }
                }
            }
            if self.scene.ends && !self.dead[side] {
                out.push(Action::Die(side));
            }
        }
        if self.due().is_some() {
            out.push(Action::Timeout);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Die(_) | Action::App(_, Do::ShutDown))
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::App(side, what) => {
                self.note(|| format!("{}: {what:?}", side.as_str()));
                self.ends[side].act(self.now, what)
            }
            Action::Up(side, cut) => self.up(side, cut),
            Action::Down(side, cut) => self.down(side, cut),
            Action::Timeout => self.due().map_or(Ok(()), |due| self.pass(due)),
            Action::Die(side) => self.die(side),
        }
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        world.run(false)?;
        world.check_settled()?;
        world.run(true)?;
        world.check_settled()?;
        if !world.dead.client && !world.dead.server {
            Side::BOTH.into_iter().try_for_each(|side| world.ends[side].check_empty())?;
        }
        for side in Side::BOTH {
            if !world.dead[side] {
                world.die(side)?;
            }
        }
        world.run(true)?;
        Side::BOTH.into_iter().try_for_each(|side| world.ends[side].check_empty())?;
        match world.relay.residue() {
            0 => Ok(()),
            some => Err(Broken(format!("{some} entries are left in the relay when everything is over (invariant 6)"))),
        }
    }

    fn digest(&self) -> u128 {
        let Self { scene: _, ends, relay, dead, now, transcript: _ } = self;
        let mut digest = Digest::new();
        Side::BOTH.into_iter().for_each(|side| ends[side].hash_state(*now, &mut digest));
        relay.hash_state(*now, &mut digest);
        dead.hash(&mut digest);
        digest.finish_wide()
    }

    fn keep_transcript(&mut self) {
        self.transcript = Some(Vec::new());
    }

    fn transcript(&self) -> &[String] {
        self.transcript.as_deref().unwrap_or_default()
    }
}

/// More rounds than any small world needs to come to rest.
const MOST_ROUNDS: usize = 600;
