//! A client and a server with a relay between them, and a clock that nobody waits for.
//!
//! The parties do whatever their wire lets them do, right or wrong: they cancel
//! what they never asked, answer twice, use an id again. Each direction keeps its
//! order; how the four directions interleave, and where a pipe cuts a frame, is
//! chosen. In some scenes the relay learns later that what was written to the server has left (D51).

use core::{hash::Hash, time::Duration};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use rescind_proto::{
    id::RequestId,
    link::{Departure, RequestKey},
    receipt::{Outcome, Receipt},
    relay::{End, Relay, RelayEvent},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    digest::Digest,
    handshake,
    hop::{Cut, PIECES},
    post,
    relay_model::RelayModel,
    scene::Scene,
    stage::Stage,
    text::{self, Heard},
    watcher::Watcher,
    witness::{Circumstances, Witness},
    world::{Broken, Transcript, World, broken, check_residue, never, to_rest},
};

/// One thing that can happen around a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A side asks, under the id and with the method of these places in the scene.
    Ask(Side, u8, u8),
    /// A side cancels an id.
    Cancel(Side, u8),
    /// Some of what waits for a side is written and read.
    Write(Side, Cut),
    /// The relay learns that the first message that it knows to be written has left.
    Depart,
    /// The other side answers a request with a result.
    Answer(u8),
    /// The other side answers a request with a result that is not UTF-8.
    AnswerMangled(u8),
    /// The other side answers a request as cancelled.
    AnswerCancelled(u8),
    /// The other side reports progress.
    Progress(u8),
    /// A side says something of no known method.
    Plain(Side),
    /// The client cancels the turn.
    TurnCancel,
    /// The server updates the turn.
    Update,
    /// A side says something that is no message.
    Garbage(Side),
    /// Some of what a side has said arrives.
    Deliver(Side, Cut),
    /// So many milliseconds pass.
    Wait(u16),
    /// The next timer is due.
    Timeout,
    /// An operator stops a request.
    Stop(u8),
    /// A side has gone away, as a driver that stands for it says.
    Gone(Side),
    /// A side sends nothing more.
    End(Side),
    /// Nothing more can be written to a side.
    Deaf(Side),
}

/// What a message is to the model once it has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Said {
    Request(usize),
    Cancel(&'static str),
    Answer(usize),
    Progress(usize),
    Plain(usize),
    TurnCancel(usize),
    Update(usize),
    /// Of a cancel of a task.
    Acknowledged,
    Garbage,
}

/// A relay between two simulated parties.
#[derive(Clone, Debug)]
pub struct RelayWorld {
    scene: Arc<Scene>,
    stage: Stage,
    /// Said by a side and not yet arrived: what it is, and the bytes that are still to come.
    flight: Sides<VecDeque<(Said, Vec<u8>)>>,
    model: RelayModel,
    /// Cancels said so far, by side and id: one more than useful is enough.
    cancels: Sides<[u8; 8]>,
    /// Follows from what has passed, and so is no part of the state.
    witness: Option<Box<Witness>>,
    /// What has left, and the relay does not know of.
    departures: VecDeque<Departure>,
    /// The ids of requests at the server, and those whose cancel has left as far as the relay knows.
    upstream: BTreeMap<RequestKey, RequestId>,
    cancels_left: Vec<RequestId>,
    watcher: Option<Watcher>,
}

impl RelayWorld {
    /// The scene before anything has happened, its handshake done.
    pub fn new(scene: Scene) -> Self {
        let mut relay = Relay::new(scene.relay_config());
        let mut now = Instant::ORIGIN;
        let mut witness = scene.witnessed.then(|| Box::new(Witness::new(&scene)));
        if scene.dialects.client.gate.is_some() || scene.dialects.server.gate.is_some() {
            let (later, told) = handshake::through_relay(&mut relay, scene.declared);
            now = later;
            witness.iter_mut().for_each(|witness| told.iter().for_each(|event| witness.see(Instant::ORIGIN, event)));
        }
        let watcher = scene.watched.then(|| Watcher::new(&mut relay));
        let scene = Arc::new(scene);
        Self {
            model: RelayModel::new(Arc::clone(&scene)),
            scene,
            stage: Stage::new(relay, now),
            flight: Sides::from_fn(|_| VecDeque::new()),
            cancels: Sides::from_fn(|_| [0; 8]),
            witness,
            departures: VecDeque::new(),
            upstream: BTreeMap::new(),
            cancels_left: Vec::new(),
            watcher,
        }
    }

    fn send(&mut self, from: Side, said: Said, frame: &str) {
        self.stage.transcript.note(|| format!("{} -> {frame}", from.as_str()));
        self.flight[from].push_back((said, text::bytes(frame)));
        if !self.scene.adversarial {
            self.deliver(from, Cut::All);
        }
    }

    /// Some of what `from` has said arrives, in one read.
    fn deliver(&mut self, from: Side, cut: Cut) {
        let mut bytes: Vec<u8> = self.flight[from].iter().flat_map(|(_, message)| message).copied().collect();
        bytes.truncate(cut.len(&bytes));
        if from == Side::Server {
            // Nothing is answered that has not left.
            self.depart_all();
        }
        let mut left = bytes.len();
        while let Some((said, message)) = self.flight[from].front_mut() {
            if message.len() > left {
                message.drain(..left);
                break;
            }
            left -= message.len();
            let said = *said;
            self.flight[from].pop_front();
            self.arrived(from, said);
        }
        self.stage.relay.handle_input(self.stage.now, from, &bytes);
    }

    fn arrived(&mut self, from: Side, said: Said) {
        let Self { stage, model, .. } = self;
        let begun = |side: Side| stage.begun(side);
        match said {
            Said::Request(generation) => model.said_request(stage.now, generation),
            Said::Cancel(id) => model.said_cancel(stage.now, from, id, &begun),
            Said::Answer(at) => model.said_answer(stage.now, from, at, &begun),
            Said::Progress(at) => model.said_progress(stage.now, at),
            Said::Plain(number) => model.said_plain(from, number),
            Said::TurnCancel(number) => model.said_turn_cancel(stage.now, number),
            Said::Update(number) => model.said_update(stage.now, number),
            Said::Acknowledged => {}
            Said::Garbage => model.said_garbage(from),
        }
    }

    /// Everything said arrives: before time passes, and before a side ends.
    fn deliver_all(&mut self) {
        for side in Side::BOTH {
            if !self.flight[side].is_empty() {
                self.deliver(side, Cut::All);
            }
        }
    }

    /// Whether an answer of this request is on its way.
    fn is_answering(&self, at: usize) -> bool {
        let by = self.model.asks[at].from.other();
        self.flight[by].iter().any(|(said, _)| *said == Said::Answer(at))
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let frames = self.stage.write(to, cut);
        if let Some(witness) = &mut self.witness {
            witness.written(to, self.stage.is_cut(to));
        }
        if self.stage.is_cut(to) {
            self.stage.transcript.note(|| format!("          … half a frame -> {}", to.as_str()));
        }
        for frame in frames {
            self.stage.note_read(to, &frame);
            self.model.heard(self.stage.now, to, &frame)?;
            if to == Side::Server && self.scene.config.server_departs {
                self.departures.extend(post::departures(&frame));
            }
            let said = match text::read(&frame) {
                Some(Heard::TaskCancel { id, .. }) => text::acknowledged(id),
                Some(Heard::TaskGet { id, generation }) => text::cancelled_task(id, generation),
                Some(_) | None => continue,
            };
            if self.may_say(to) {
                self.send(to, Said::Acknowledged, &said);
            }
        }
        let Self { stage, model, .. } = self;
        model.heard_all(&|side| stage.begun(side));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Broken> {
        for side in Side::BOTH {
            while !self.stage.relay.pending(side).is_empty() {
                self.write(side, Cut::All)?;
            }
        }
        self.depart_all();
        Ok(())
    }

    fn depart(&mut self) {
        let Some(departure) = self.departures.pop_front() else { return };
        if let Departure::Cancel(id) = &departure {
            self.cancels_left.push(id.clone());
        }
        self.stage.relay.handle_departure(self.stage.now, Side::Server, &departure);
    }

    fn depart_all(&mut self) {
        while !self.departures.is_empty() {
            self.depart();
        }
    }

    /// Judges a receipt by what the relay knows to have left.
    fn judge(&self, request: RequestKey, receipt: &Receipt) -> Result<(), Broken> {
        if request.from == Side::Server || !self.scene.config.server_departs {
            return Ok(());
        }
        let has_left = self.upstream.get(&request).is_some_and(|id| self.cancels_left.contains(id));
        let says_so = receipt.written.is_some() || receipt.outcome == Outcome::Sent;
        never(says_so && !has_left, || format!("the cancel of {request:?} has not left: {receipt:?}"))
    }

    /// The next timer fires; `false` if there is none.
    fn pass(&mut self) -> Result<bool, Broken> {
        self.deliver_all();
        let Some(due) = self.stage.relay.poll_timeout() else { return Ok(false) };
        self.advance(due.max(self.stage.now))?;
        let at = self.stage.now;
        self.stage.transcript.note(|| format!("time: {at:?}"));
        self.stage.relay.handle_timeout(self.stage.now);
        let Self { stage, model, .. } = self;
        model.passed(stage.now, &|side| stage.begun(side));
        Ok(true)
    }

    /// Events are of the time at which they are drained.
    fn advance(&mut self, to: Instant) -> Result<(), Broken> {
        self.hear()?;
        self.stage.now = to;
        Ok(())
    }

    /// Everything is written and every timer fires; then all that had to happen has.
    fn run_timers(&mut self) -> Result<(), Broken> {
        self.flush()?;
        to_rest(|| {
            let passed = self.pass()?;
            if passed {
                self.watch()?;
                self.flush()?;
            }
            Ok(passed)
        })?;
        self.model.check_settled()
    }

    /// Drains what the machine tells, and checks its invariants.
    fn watch(&mut self) -> Result<(), Broken> {
        self.hear()?;
        if !self.scene.wire_only {
            self.stage.relay.check_invariants();
        }
        self.check_released()?;
        if let Some(watcher) = &mut self.watcher {
            watcher.follow(&mut self.stage.relay)?;
        }
        let Some(witness) = &self.witness else { return Ok(()) };
        let cut = Sides::from_fn(|side| self.stage.is_cut(side));
        witness.check(
            &self.stage.relay,
            Circumstances { write_closed: self.model.write_closed, away: self.model.away, cut },
        )
    }

    /// What was cancelled and is not known to have ended is shown, and nothing else (D52).
    fn check_released(&self) -> Result<(), Broken> {
        for (at, ask) in self.model.asks.iter().enumerate() {
            let Some(key) = ask.key.filter(|key| key.from == Side::Client) else { continue };
            let Some(expected) = self.model.is_released(self.stage.now, at) else { continue };
            let view = self.stage.relay.view(key);
            let shown = view.is_some_and(|view| view.is_released || (view.is_stuck && view.ended.is_some()));
            never(shown != expected, || match expected {
                true => format!("request {at} is cancelled and not known to have ended, and is shown no more (D52)"),
                false => format!("request {at} is shown as cancelled and not known to have ended (D52)"),
            })?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), Broken> {
        while let Some(event) = self.stage.relay.poll_event() {
            if let Some(witness) = &mut self.witness {
                witness.see(self.stage.now, &event);
            }
            if let RelayEvent::Receipt { request, receipt, .. } = &event {
                self.judge(*request, receipt)?;
            }
            if let RelayEvent::Opened { request, id, upstream, .. } = &event {
                self.upstream.insert(*request, upstream.clone());
                let id = id.to_string();
                let mut asks = self.model.asks.iter_mut();
                let ask =
                    asks.find(|ask| ask.from == request.from && ask.id == id && !ask.refused && ask.key.is_none());
                match ask {
                    Some(ask) => ask.key = Some(*request),
                    None => return broken(format!("a request that nobody made is opened: {event:?}")),
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        let now = self.stage.now;
        let scene = Arc::clone(&self.scene);
        match action {
            Action::Ask(from, id, method) => {
                let (id, method) = (scene.ids[usize::from(id)], scene.methods[from][usize::from(method)]);
                let generation = self.model.plan(from, id, method);
                let frame = text::request(scene.dialects[from], id, method, generation);
                self.send(from, Said::Request(generation), &frame);
            }
            Action::Cancel(from, id) => {
                let cancels = &mut self.cancels[from][usize::from(id)];
                *cancels = cancels.saturating_add(1);
                let id = scene.ids[usize::from(id)];
                self.send(from, Said::Cancel(id), &text::cancel(scene.dialects[from].cancel, id));
            }
            Action::Answer(ask) => self.answer(ask, result_of(&scene)),
            Action::AnswerMangled(ask) => self.answer(ask, text::mangled),
            Action::AnswerCancelled(ask) => self.answer(ask, text::cancelled),
            Action::Progress(ask) => {
                let by = self.model.asks[usize::from(ask)].from.other();
                let Some(frame) = text::progress(scene.dialects[by], usize::from(ask)) else { return Ok(()) };
                self.send(by, Said::Progress(usize::from(ask)), &frame);
            }
            Action::Plain(by) => {
                let number = next(&mut self.model.plains);
                self.send(by, Said::Plain(number), &text::plain(number));
            }
            Action::TurnCancel => {
                let number = next(&mut self.model.turn_cancels_said);
                self.send(Side::Client, Said::TurnCancel(number), &text::turn_cancel(Some(number)));
            }
            Action::Update => {
                let number = next(&mut self.model.updates);
                self.send(Side::Server, Said::Update(number), &text::update(number));
            }
            Action::Garbage(by) => self.send(by, Said::Garbage, text::GARBAGE),
            Action::Deliver(from, cut) => self.deliver(from, cut),
            Action::Wait(millis) => {
                self.deliver_all();
                let until = self.stage.now + Duration::from_millis(u64::from(millis));
                while self.stage.relay.poll_timeout().is_some_and(|due| due <= until) {
                    self.pass()?;
                }
                self.advance(until)?;
            }
            Action::Write(to, cut) => self.write(to, cut)?,
            Action::Depart => self.depart(),
            Action::Timeout => {
                self.pass()?;
            }
            Action::Stop(ask) => {
                let Some(key) = self.model.asks[usize::from(ask)].key else { return Ok(()) };
                let made = self.stage.relay.view(key).filter(|view| view.task.is_some() && view.cancel.is_none());
                if made.is_some() {
                    // That is a stop of its task, which another world has.
                    return Ok(());
                }
                let Self { stage, model, .. } = self;
                let expected = model.stopped(usize::from(ask), &|side| stage.begun(side));
                self.stage.transcript.note(|| format!("operator stops request {ask}"));
                let stopped = self.stage.relay.stop(now, key, None);
                never(expected.is_some_and(|expected| expected != stopped), || {
                    format!("stopping request {ask} says {stopped}")
                })?;
            }
            Action::Gone(side) => {
                self.deliver_all();
                self.stage.transcript.note(|| format!("{} has gone away", side.as_str()));
                let Self { stage, model, .. } = self;
                model.went_away(now, side, &|side| stage.begun(side));
                self.stage.relay.handle_disconnect(now, side);
            }
            Action::End(side) => {
                self.deliver_all();
                self.stage.transcript.note(|| format!("{} ends", side.as_str()));
                let Self { stage, model, .. } = self;
                model.has_ended(now, side, &|side| stage.begun(side));
                self.stage.relay.handle_eof(now, side, &End::Closed);
                self.hear()?;
                if let Some(witness) = &mut self.witness {
                    witness.end(now, side);
                }
                if side == Side::Server {
                    self.stage.clear(side);
                }
            }
            Action::Deaf(side) => {
                self.deliver_all();
                self.stage.transcript.note(|| format!("{} can no longer be written to", side.as_str()));
                self.model.became_deaf(now, side);
                self.stage.relay.handle_write_closed(now, side);
                self.stage.clear(side);
            }
        }
        Ok(())
    }

    fn answer(&mut self, ask: u8, write: fn(&str, usize) -> String) {
        let at = usize::from(ask);
        let by = self.model.asks[at].from.other();
        let Some(id) = self.model.asks[at].seen.clone() else { return };
        let again = self.model.asks[at].answers_said > 0;
        self.send(by, Said::Answer(at), &write(&id, at));
        // A second answer that is on its way while its id is used again could not be told from a first one.
        if again && self.scene.adversarial {
            self.deliver(by, Cut::All);
        }
    }

    fn may_say(&self, side: Side) -> bool {
        !self.model.ended[side] && !self.model.write_closed[side]
    }
}

impl World for RelayWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        let scene = &self.scene;
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let cuts = Cut::of(pending, scene.pieces(!self.stage.is_cut(side)));
            out.extend(cuts.into_iter().map(|cut| Action::Write(side, cut)));
            if !self.flight[side].is_empty() {
                out.push(Action::Deliver(side, Cut::All));
                out.extend(PIECES.map(|cut| Action::Deliver(side, cut)));
            }
            if !self.may_say(side) {
                continue;
            }
            let asked = self.model.asks.iter().filter(|ask| ask.from == side);
            // Ids are alike: a new one is the first that was not used yet.
            let used = asked.clone().filter_map(|ask| scene.ids.iter().position(|id| *id == ask.id)).max();
            let fresh = used.map_or(0, |used| used + 1);
            // A session has one turn at a time.
            let in_turn = scene.turn && side == Side::Client && asked.clone().any(|ask| ask.unsaid || ask.is_live());
            if asked.count() < scene.asks[side] && !in_turn {
                for id in 0..scene.ids.len().min(fresh + 1) {
                    for method in 0..scene.methods[side].len() {
                        out.push(Action::Ask(side, id as u8, method as u8));
                    }
                }
            }
            for id in 0..scene.ids.len().min(fresh + 1) {
                if self.cancels[side][id] < 2 || scene.adversarial {
                    out.push(Action::Cancel(side, id as u8));
                }
            }
            if self.model.plains < scene.plains {
                out.push(Action::Plain(side));
            }
            if scene.adversarial {
                out.push(Action::Garbage(side));
            }
        }
        for (at, ask) in self.model.asks.iter().enumerate() {
            let by = ask.from.other();
            if ask.seen.is_some() && self.may_say(by) && !self.is_answering(at) {
                if ask.answers_said == 0
                    || (ask.answers_said < scene.answers && self.model.may_answer_again(self.stage.now, at))
                {
                    out.push(Action::Answer(at as u8));
                }
                if ask.answers_said == 0 && (scene.mangled || scene.adversarial) && !scene.tasks {
                    out.push(Action::AnswerMangled(at as u8));
                }
                if ask.answers_said == 0 && ask.cancels_seen > 0 && !scene.dialects[by].is_silent() {
                    out.push(Action::AnswerCancelled(at as u8));
                }
                let forms = Side::BOTH.map(|side| scene.dialects[side].progress);
                if forms[0].is_some() && forms[0] == forms[1] && !self.model.is_forgotten(self.stage.now, ask) {
                    out.push(Action::Progress(at as u8));
                }
            }
            if scene.operator && ask.key.is_some() && ask.from == Side::Client {
                out.push(Action::Stop(at as u8));
            }
        }
        if scene.turn && self.may_say(Side::Client) && (self.model.turn_cancels_said < 2 || scene.adversarial) {
            out.push(Action::TurnCancel);
        }
        if scene.turn && self.may_say(Side::Server) && (self.model.updates < 2 || scene.adversarial) {
            out.push(Action::Update);
        }
        if !self.departures.is_empty() {
            out.push(Action::Depart);
        }
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
        if scene.adversarial {
            out.extend([Action::Wait(100), Action::Wait(3000)]);
        }
        if scene.ends {
            out.extend(Side::BOTH.into_iter().filter(|side| !self.model.away[*side]).map(Action::Gone));
            out.extend(Side::BOTH.into_iter().filter(|side| !self.model.ended[*side]).map(Action::End));
            out.extend(Side::BOTH.into_iter().filter(|side| !self.model.write_closed[*side]).map(Action::Deaf));
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Gone(_) | Action::End(_) | Action::Deaf(_))
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        self.act(action)?;
        self.watch()
    }

    fn check_future(&self) -> Result<(), Broken> {
        // Nobody acts any more: what must come comes by itself.
        let mut world = self.clone();
        world.deliver_all();
        world.run_timers()?;
        // Everything is answered late.
        for at in 0..world.model.asks.len() {
            let ask = &world.model.asks[at];
            let by = ask.from.other();
            if ask.seen.is_some() && ask.answers_said == 0 && world.may_say(by) {
                world.answer(at as u8, result_of(&world.scene));
                world.deliver_all();
                world.watch()?;
            }
        }
        world.run_timers()?;
        let cut_off = world.model.ended.client || world.model.write_closed.client || world.model.write_closed.server;
        if !cut_off {
            check_residue(&world.stage.relay)?;
        }
        // Both sides end.
        for side in [Side::Client, Side::Server] {
            if !world.model.ended[side] {
                world.step(Action::End(side))?;
            }
        }
        world.run_timers()?;
        check_residue(&world.stage.relay)
    }

    fn digest(&self) -> u128 {
        let Self { stage, flight, model, cancels, departures, cancels_left, .. } = self;
        let mut digest = Digest::new();
        stage.hash_state(&mut digest);
        model.hash_state(stage.now, &mut digest);
        (flight, cancels, departures, cancels_left).hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}

/// How the server of a scene answers.
const fn result_of(scene: &Scene) -> fn(&str, usize) -> String {
    if scene.tasks { text::handle } else { text::result }
}

/// Counts one more. Returns its number, from 0.
const fn next(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}
