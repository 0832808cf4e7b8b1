//! Two endpoints, the link between them, and a clock that nobody waits for.
//!
//! Each direction keeps its order and has a latency of its own: what one end
//! has written the other reads when it is chosen to, as a whole or cut anywhere.

use core::{hash::Hash, time::Duration};
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
    world::{Broken, World},
};

/// One thing that can happen to a pair.
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
    /// The input of a side ends, behind what is on its way.
    End(Side),
    /// The link breaks: what is on its way is gone.
    Break,
}

/// Two endpoints joined by a link.
#[derive(Clone, Debug)]
pub struct PairWorld {
    scene: Arc<Scene>,
    ends: Sides<Endpoint>,
    /// On the way to a side.
    flight: Sides<Vec<u8>>,
    now: Instant,
    transcript: Option<Vec<String>>,
}

impl PairWorld {
    /// The scene before anything has happened, its handshake done.
    #[must_use]
    pub fn new(scene: Scene) -> Self {
        let scene = Arc::new(scene);
        let mut ends = Sides::from_fn(|side| Endpoint::new(&scene, side));
        let mut now = Instant::ORIGIN;
        if scene.dialects.client.gate.is_some() {
            now = super::handshake::between_endpoints(&mut ends, scene.declared);
        }
        Self { scene, ends, flight: Sides::from_fn(|_| Vec::new()), now, transcript: None }
    }

    fn write(&mut self, from: Side, cut: Cut) -> Result<(), Broken> {
        let (bytes, frames) = self.ends[from].write(self.now, cut)?;
        let to = from.other();
        if !self.ends[to].model.input_ended {
            self.flight[to].extend_from_slice(&bytes);
        }
        if frames.is_empty() {
            self.note(|| format!("{} writes half a frame", from.as_str()));
        }
        for frame in frames {
            self.note(|| format!("{} writes {frame}", from.as_str()));
        }
        Ok(())
    }

    fn deliver(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let len = cut.len(&self.flight[to]);
        let bytes: Vec<u8> = self.flight[to].drain(..len).collect();
        self.note(|| format!("{} reads {len} bytes", to.as_str()));
        self.ends[to].input(self.now, &bytes)
    }

    fn due(&self) -> Option<Instant> {
        Side::BOTH.into_iter().filter_map(|side| self.ends[side].conn.poll_timeout()).min()
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
        Ok(())
    }

    /// Everything arrives and every timer fires, until nothing moves any more.
    fn run(&mut self, everyone_ends: bool) -> Result<(), Broken> {
        for _ in 0..MOST_ROUNDS {
            let mut moved = false;
            for side in Side::BOTH {
                while !self.ends[side].conn.pending().is_empty() {
                    self.write(side, Cut::All)?;
                    moved = true;
                }
                if !self.flight[side].is_empty() {
                    self.deliver(side, Cut::All)?;
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

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(transcript) = &mut self.transcript {
            transcript.push(line());
        }
    }
}

impl World for PairWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        let mut app = Vec::new();
        for side in Side::BOTH {
            app.clear();
            self.ends[side].actions(&mut app);
            out.extend(app.iter().map(|&what| Action::App(side, what)));
            let pending = self.ends[side].conn.pending();
            if !pending.is_empty() {
                out.push(Action::Write(side, Cut::All));
                if Cut::Frame.len(pending) < pending.len() {
                    out.push(Action::Write(side, Cut::Frame));
                }
                if self.scene.filtered {
                    // A driver with filters writes whole frames.
                } else if self.scene.adversarial {
                    out.extend(PIECES.map(|cut| Action::Write(side, cut)));
                } else if !self.ends[side].is_cut() {
                    out.push(Action::Write(side, Cut::Half));
                }
            }
            if !self.flight[side].is_empty() {
                out.push(Action::Deliver(side, Cut::All));
                if self.scene.adversarial {
                    out.extend(PIECES.map(|cut| Action::Deliver(side, cut)));
                }
            }
            if self.scene.ends && !self.ends[side].model.input_ended {
                out.push(Action::End(side));
            }
        }
        if self.due().is_some() {
            out.push(Action::Timeout);
        }
        if self.scene.adversarial {
            out.extend([Action::Wait(100), Action::Wait(3000)]);
        }
        if self.scene.ends && Side::BOTH.into_iter().any(|side| !self.ends[side].model.write_closed) {
            out.push(Action::Break);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::End(_) | Action::Break | Action::App(_, Do::ShutDown))
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::App(side, what) => {
                self.note(|| format!("{}: {what:?}", side.as_str()));
                self.ends[side].act(self.now, what)
            }
            Action::Write(side, cut) => self.write(side, cut),
            Action::Deliver(side, cut) => self.deliver(side, cut),
            Action::Timeout => match self.due() {
                Some(due) => self.pass(due),
                None => Ok(()),
            },
            Action::Wait(millis) => {
                let until = self.now + Duration::from_millis(u64::from(millis));
                while let Some(due) = self.due().filter(|due| *due <= until) {
                    self.pass(due)?;
                }
                self.now = until;
                Ok(())
            }
            Action::End(side) => {
                self.note(|| format!("the input of {} ends", side.as_str()));
                if !self.flight[side].is_empty() {
                    self.deliver(side, Cut::All)?;
                }
                self.ends[side].input_ends(self.now)
            }
            Action::Break => {
                self.note(|| "the link breaks".to_owned());
                self.flight = Sides::from_fn(|_| Vec::new());
                self.ends.client.link_is_lost(self.now)?;
                self.ends.server.link_is_lost(self.now)
            }
        }
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        world.run(false)?;
        for side in Side::BOTH {
            world.ends[side].model.check_settled()?;
        }
        world.run(true)?;
        for side in Side::BOTH {
            world.ends[side].model.check_settled()?;
        }
        if Side::BOTH.into_iter().all(|side| !world.ends[side].model.input_ended) {
            Side::BOTH.into_iter().try_for_each(|side| world.ends[side].check_empty())?;
        }
        for side in Side::BOTH {
            world.ends[side].input_ends(world.now)?;
        }
        world.run(true)?;
        Side::BOTH.into_iter().try_for_each(|side| {
            world.ends[side].model.check_settled()?;
            world.ends[side].check_empty()
        })
    }

    fn digest(&self) -> u128 {
        let Self { scene: _, ends, flight, now, transcript: _ } = self;
        let mut digest = Digest::new();
        Side::BOTH.into_iter().for_each(|side| ends[side].hash_state(*now, &mut digest));
        flight.hash(&mut digest);
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
const MOST_ROUNDS: usize = 400;
