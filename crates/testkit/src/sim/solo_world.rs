//! One endpoint whose peer is nobody's engine: it does whatever the wire lets it do, right or wrong.

use core::{hash::Hash, time::Duration};
use std::{collections::BTreeMap, sync::Arc};

use rescind_proto::{
    side::{Side, Sides},
    time::Instant,
};

use super::{
    digest::Digest,
    endpoint::{Do, Endpoint},
    handshake,
    hop::{Cut, PIECES},
    scene::Scene,
    text,
    world::{Broken, Transcript, World, to_rest},
};

/// One thing that can happen to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Its application acts.
    App(Do),
    /// Some of what waits is written.
    Write(Cut),
    /// A filter keeps back the first message that waits.
    KeepBack,
    /// A filter keeps back the next message that arrives.
    Veto,
    /// The peer asks under the id of this place in the scene.
    Ask(u8),
    /// The peer asks and cancels in the same read.
    AskAndCancel(u8),
    /// The peer cancels that id.
    Cancel(u8),
    /// The peer answers a request of ours with a result.
    Answer(u8),
    /// The peer answers a request of ours with a result that is not UTF-8.
    AnswerMangled(u8),
    /// The peer answers a request of ours as cancelled.
    AnswerCancelled(u8),
    /// The peer reports progress of a request of ours.
    Progress(u8),
    /// The peer says something of no known method.
    Plain,
    /// The peer says something that is no message.
    Garbage,
    /// Some of what the peer has said arrives.
    Deliver(Cut),
    /// So many milliseconds pass.
    Wait(u16),
    /// The next timer is due.
    Timeout,
    /// The peer sends nothing more.
    End,
    /// The link breaks.
    Break,
}

/// An endpoint before a scripted peer.
#[derive(Clone, Debug)]
pub struct SoloWorld {
    scene: Arc<Scene>,
    role: Side,
    end: Endpoint,
    /// Said by the peer and not yet arrived.
    flight: Vec<u8>,
    now: Instant,
    /// Requests of the peer so far.
    asked: usize,
    /// The highest place of an id that the peer has used, plus one.
    fresh: usize,
    /// Cancels of the peer so far, by id.
    cancels: [u8; 8],
    /// Answers of the peer so far, by our request.
    answers: BTreeMap<usize, u8>,
    /// Progress of the peer so far, by our request.
    progress: BTreeMap<usize, u8>,
    plains: usize,
    transcript: Transcript,
}

impl SoloWorld {
    /// The scene as this side plays it, before anything has happened, its handshake done.
    pub fn new(scene: Scene, role: Side) -> Self {
        let scene = Arc::new(scene);
        let (Sides { client, server }, now) = handshake::endpoints(&scene);
        Self {
            end: if role == Side::Client { client } else { server },
            scene,
            role,
            flight: Vec::new(),
            now,
            asked: 0,
            fresh: 0,
            cancels: [0; 8],
            answers: BTreeMap::new(),
            progress: BTreeMap::new(),
            plains: 0,
            transcript: Transcript::default(),
        }
    }

    fn say(&mut self, frames: &[String]) -> Result<(), Broken> {
        for frame in frames {
            self.transcript.note(|| format!("peer -> {frame}"));
            self.flight.extend_from_slice(&text::bytes(frame));
        }
        if self.scene.adversarial { Ok(()) } else { self.deliver(Cut::All) }
    }

    /// Some of what the peer has said arrives, in one read.
    fn deliver(&mut self, cut: Cut) -> Result<(), Broken> {
        let len = cut.len(&self.flight);
        let bytes: Vec<u8> = self.flight.drain(..len).collect();
        self.end.input(self.now, &bytes)
    }

    fn pass(&mut self, due: Instant) -> Result<(), Broken> {
        self.now = due.max(self.now);
        let now = self.now;
        self.transcript.note(|| format!("time: {now:?}"));
        self.end.pass(now)
    }

    fn ask(&mut self, id: u8) -> String {
        let peer = self.role.other();
        let frame = text::request(
            self.scene.dialects[peer],
            self.scene.ids[usize::from(id)],
            self.scene.methods[peer][0],
            self.asked,
        );
        self.asked += 1;
        self.fresh = self.fresh.max(usize::from(id) + 1);
        frame
    }

    fn cancel(&mut self, id: u8) -> String {
        let cancels = &mut self.cancels[usize::from(id)];
        *cancels = cancels.saturating_add(1);
        text::cancel(self.scene.dialects[self.role.other()].cancel, self.scene.ids[usize::from(id)])
    }

    fn answer(&mut self, call: usize, write: fn(&str, usize) -> String) -> Result<(), Broken> {
        let Some(id) = self.end.model.calls[call].id.clone() else { return Ok(()) };
        count(&mut self.answers, call);
        self.say(&[write(&id, call)])
    }

    fn write(&mut self, cut: Cut) -> Result<(), Broken> {
        let (_, frames) = self.end.write(self.now, cut)?;
        for frame in frames {
            self.transcript.note(|| format!("        {frame} -> peer"));
        }
        Ok(())
    }

    /// Everything is written and every timer fires, until nothing moves any more; then all that had to happen has.
    fn run(&mut self, everyone_ends: bool) -> Result<(), Broken> {
        to_rest(|| {
            if !self.end.conn.pending().is_empty() {
                self.write(Cut::All)?;
            } else if !self.end.end_handlers(self.now, everyone_ends)? {
                let Some(due) = self.end.conn.poll_timeout() else { return Ok(false) };
                self.pass(due)?;
            }
            Ok(true)
        })?;
        self.end.model.check_settled()
    }
}

impl World for SoloWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        let mut app = Vec::new();
        self.end.actions(&mut app);
        out.extend(app.into_iter().map(Action::App));
        let pending = self.end.conn.pending();
        let pieces = self.scene.pieces(!self.end.is_cut());
        out.extend(Cut::of(pending, pieces).into_iter().map(Action::Write));
        if self.scene.filtered && !pending.is_empty() {
            out.push(Action::KeepBack);
        }
        if !self.flight.is_empty() {
            out.push(Action::Deliver(Cut::All));
            out.extend(PIECES.map(Action::Deliver));
        }
        let (scene, model, peer) = (&self.scene, &self.end.model, self.role.other());
        if !model.input_ended {
            for id in 0..scene.ids.len().min(self.fresh + 1) {
                if self.asked < scene.asks[peer] {
                    out.push(Action::Ask(id as u8));
                    out.push(Action::AskAndCancel(id as u8));
                }
                if self.cancels[id] < 2 || scene.adversarial {
                    out.push(Action::Cancel(id as u8));
                }
            }
            for (at, call) in model.calls.iter().enumerate().filter(|(_, call)| call.id.is_some()) {
                if counted(&self.answers, at) < scene.answers {
                    out.push(Action::Answer(at as u8));
                    if scene.mangled || scene.adversarial {
                        out.push(Action::AnswerMangled(at as u8));
                    }
                    if !scene.dialects[peer].is_silent() && call.cancels > 0 {
                        out.push(Action::AnswerCancelled(at as u8));
                    }
                }
                if scene.dialects[peer].progress.is_some() && (counted(&self.progress, at) < 2 || scene.adversarial) {
                    out.push(Action::Progress(at as u8));
                }
            }
            if self.plains < scene.plains {
                out.push(Action::Plain);
            }
            if scene.adversarial {
                out.push(Action::Garbage);
            }
            if scene.filtered && !self.end.vetoes {
                out.push(Action::Veto);
            }
            if scene.ends {
                out.push(Action::End);
            }
        }
        if scene.adversarial {
            out.extend([Action::Wait(100), Action::Wait(3000)]);
        }
        if self.end.conn.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
        if scene.ends && !model.write_closed {
            out.push(Action::Break);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::End | Action::Break | Action::App(Do::ShutDown))
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::App(what) => {
                self.transcript.note(|| format!("app: {what:?}"));
                self.end.act(self.now, what)
            }
            Action::Write(cut) => self.write(cut),
            Action::KeepBack => {
                let pending = self.end.conn.pending();
                let frame = String::from_utf8_lossy(&pending[..Cut::Frame.len(pending)]).into_owned();
                self.transcript.note(|| format!("        {} is kept back", frame.trim_end()));
                self.end.keep_back(self.now)
            }
            Action::Veto => {
                self.transcript.note(|| "the next message is kept back".to_owned());
                self.end.vetoes = true;
                Ok(())
            }
            Action::Ask(id) => {
                let frame = self.ask(id);
                self.say(&[frame])
            }
            Action::AskAndCancel(id) => {
                let frames = [self.ask(id), self.cancel(id)];
                self.say(&frames)
            }
            Action::Cancel(id) => {
                let frame = self.cancel(id);
                self.say(&[frame])
            }
            Action::Answer(call) => self.answer(usize::from(call), text::result),
            Action::AnswerMangled(call) => self.answer(usize::from(call), text::mangled),
            Action::AnswerCancelled(call) => self.answer(usize::from(call), text::cancelled),
            Action::Progress(call) => {
                count(&mut self.progress, usize::from(call));
                let frame = text::progress(self.scene.dialects[self.role.other()], usize::from(call));
                frame.map_or(Ok(()), |frame| self.say(&[frame]))
            }
            Action::Plain => {
                self.plains += 1;
                self.say(&[text::plain(self.plains - 1)])
            }
            Action::Timeout => self.end.conn.poll_timeout().map_or(Ok(()), |due| self.pass(due)),
            Action::Garbage => self.say(&[text::GARBAGE.to_owned()]),
            Action::Deliver(cut) => self.deliver(cut),
            Action::Wait(millis) => {
                let until = self.now + Duration::from_millis(u64::from(millis));
                while let Some(due) = self.end.conn.poll_timeout().filter(|due| *due <= until) {
                    self.pass(due)?;
                }
                self.now = until;
                Ok(())
            }
            Action::End => {
                self.deliver(Cut::All)?;
                self.transcript.note(|| "the peer ends".to_owned());
                self.end.input_ends(self.now)
            }
            Action::Break => {
                self.flight.clear();
                self.transcript.note(|| "the link breaks".to_owned());
                self.end.link_is_lost(self.now)
            }
        }
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        if !world.end.model.input_ended {
            world.deliver(Cut::All)?;
        }
        world.run(false)?;
        world.run(true)?;
        // Everything is answered late.
        if !world.end.model.input_ended {
            for call in 0..world.end.model.calls.len() {
                if !world.end.model.calls[call].answered {
                    world.answer(call, text::result)?;
                    world.deliver(Cut::All)?;
                }
            }
            world.run(true)?;
            world.end.check_empty()?;
            world.end.input_ends(world.now)?;
        }
        world.run(true)?;
        world.end.check_empty()
    }

    fn digest(&self) -> u128 {
        let Self {
            end,
            flight,
            now,
            asked,
            fresh,
            cancels,
            answers,
            progress,
            plains,
            scene: _,
            role: _,
            transcript: _,
        } = self;
        let mut digest = Digest::new();
        end.hash_state(*now, &mut digest);
        (asked, fresh, cancels, answers, progress, plains, flight).hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }
}

fn count(counts: &mut BTreeMap<usize, u8>, at: usize) {
    let count = counts.entry(at).or_default();
    *count = count.saturating_add(1);
}

fn counted(counts: &BTreeMap<usize, u8>, at: usize) -> u8 {
    counts.get(&at).copied().unwrap_or_default()
}
