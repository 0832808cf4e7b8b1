//! A client and Codex's app server with a relay between them: a turn, the turn of an agent that it opens, and a command that
//! may outlive it (D58).
//!
//! The server reports of them what it likes, in the order in which each of them can happen. A small model knows what of
//! that is at work, and judges what the relay shows, what it claims of a cancel, and every request that it makes itself.

use core::{hash::Hash, time::Duration};

use rescind_proto::{
    link::RequestKey,
    receipt::Outcome,
    relay::{Relay, RelayConfig, RequestView},
    side::Side,
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    hop::Cut,
    stage::Stage,
    watcher::Watcher,
    world::{Broken, Transcript, World, broken, never},
};

/// What works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// The turn that the client starts.
    Turn,
    /// The turn of an agent that it opens.
    Agent,
    /// A command of the turn, which may outlive it.
    Command,
}

impl Work {
    const ALL: [Self; 3] = [Self::Turn, Self::Agent, Self::Command];

    /// The id under which the relay shows it: that of the request that started it, or its own.
    const fn shown_as(self) -> &'static str {
        match self {
            Self::Turn => "1",
            Self::Agent => "\"a\"",
            Self::Command => "\"x\"",
        }
    }

    const fn thread(self) -> &'static str {
        match self {
            Self::Turn | Self::Command => "t",
            Self::Agent => "c",
        }
    }

    /// The request that ends it, and what names it there.
    const fn end(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Turn => ("turn/interrupt", "turnId", "u"),
            Self::Agent => ("turn/interrupt", "turnId", "a"),
            Self::Command => ("thread/backgroundTerminals/terminate", "processId", "7"),
        }
    }
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client starts the turn.
    Starts,
    /// The server answers that: the turn is at work.
    Answers,
    /// The server reports that this has begun.
    Begins(Work),
    /// The server reports that the turn has opened the agent's thread.
    Announces,
    /// The server reports the end of this: as cancelled, or by itself.
    Ends(Work, bool),
    /// The client interrupts the turn.
    ClientStops,
    /// The server answers that.
    AnswersClient,
    /// The operator stops this, and what works for it.
    Stops(Work),
    /// The operator stops the turn alone.
    StopsAlone,
    /// The server answers the oldest request of the relay's own that it has read: with a result, or with a refusal.
    AnswersOwn(bool),
    /// Some of what waits for a side is written.
    Writes(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// The server dies.
    Dies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Not,
    Works,
    /// The server has reported that it was cancelled, or that it ended by itself.
    Over(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Not,
    Waiting,
    Read,
    Answered,
}

/// The relay, what was said, and what follows from it.
#[derive(Clone, Debug)]
pub struct ThreadWorld {
    stage: Stage,
    works: [State; 3],
    start: Asked,
    /// The request that starts the turn, which is shown under the same id.
    start_key: Option<RequestKey>,
    interrupt: Asked,
    is_announced: bool,
    /// What the operator has stopped, or what was a part of that.
    may_end: [bool; 3],
    /// Requests of the relay's own that the server has read and not answered: their id, and what they end.
    own: Vec<(String, Work)>,
    is_dead: bool,
    watcher: Watcher,
}

impl Default for ThreadWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadWorld {
    /// A link with its handshake done.
    #[must_use]
    pub fn new() -> Self {
        let mut stage = Stage::new(Relay::new(RelayConfig::default()), Instant::ORIGIN);
        let params = r#"{"clientInfo":{},"capabilities":{"experimentalApi":true}}"#;
        stage.say(Side::Client, &format!(r#"{{"id":0,"method":"initialize","params":{params}}}"#));
        stage.write(Side::Server, Cut::All);
        stage.say(Side::Server, r#"{"id":0,"result":{"userAgent":"x","codexHome":"/"}}"#);
        stage.write(Side::Client, Cut::All);
        let watcher = Watcher::new(&mut stage.relay);
        Self {
            stage,
            works: [State::Not; 3],
            start: Asked::Not,
            start_key: None,
            interrupt: Asked::Not,
            is_announced: false,
            may_end: [false; 3],
            own: Vec::new(),
            is_dead: false,
            watcher,
        }
    }

    fn of(&self, work: Work) -> State {
        self.works[work as usize]
    }

    /// Whether it must be shown as at work: a command once its turn is over.
    fn is_due(&self, work: Work) -> bool {
        let is_hidden = work == Work::Command && !matches!(self.of(Work::Turn), State::Over(_));
        self.of(work) == State::Works && !is_hidden && !self.is_dead
    }

    fn server_says(&mut self, method: &str, params: &Value) {
        self.stage.say(Side::Server, &json!({"method": method, "params": params}).to_string());
    }

    fn begins(&mut self, work: Work) {
        self.works[work as usize] = State::Works;
        match work {
            Work::Turn => self.server_says("turn/started", &json!({"threadId": "t", "turn": {"id": "u"}})),
            Work::Agent => self.server_says("turn/started", &json!({"threadId": "c", "turn": {"id": "a"}})),
            Work::Command => {
                let item = json!({"type": "commandExecution", "id": "x", "processId": "7"});
                self.server_says("item/started", &json!({"threadId": "t", "turnId": "u", "item": item}));
            }
        }
    }

    fn ends(&mut self, work: Work, is_cancelled: bool) {
        self.works[work as usize] = State::Over(is_cancelled);
        let status = if is_cancelled { "interrupted" } else { "completed" };
        let turn = |id: &str| json!({"threadId": work.thread(), "turn": {"id": id, "status": status}});
        match work {
            Work::Turn => self.server_says("turn/completed", &turn("u")),
            Work::Agent => self.server_says("turn/completed", &turn("a")),
            Work::Command => {
                let item = json!({"type": "commandExecution", "id": "x", "status": "failed"});
                self.server_says("item/completed", &json!({"threadId": "t", "turnId": "u", "item": item}));
            }
        }
    }

    /// Which work the relay shows with this.
    fn work_of(&self, view: &RequestView<'_>) -> Option<Work> {
        let is = |work: &Work| format!("{:?}", view.id) == work.shown_as();
        Work::ALL.into_iter().filter(|_| self.start_key != Some(view.key)).find(is)
    }

    fn shown(&self, work: Work) -> Option<RequestView<'_>> {
        self.stage.relay.requests(Side::Client).find(|view| self.work_of(view) == Some(work))
    }

    fn stop(&mut self, work: Work, is_alone: bool) {
        self.stage.transcript.note(|| format!("operator stops {work:?}{}", if is_alone { " alone" } else { "" }));
        let Some(key) = self.shown(work).map(|view| view.key) else { return };
        match work {
            // What is a part of it, too.
            Work::Turn if !is_alone => self.may_end = [true; 3],
            Work::Turn | Work::Agent | Work::Command => self.may_end[work as usize] = true,
        }
        match is_alone {
            true => self.stage.relay.stop_alone(self.stage.now, key, None),
            false => self.stage.relay.stop(self.stage.now, key, None),
        };
    }

    /// Judges what reached the server, or has begun to. Nothing is asked of it for what is over.
    fn judge(&self, frame: &str) -> Result<(), Broken> {
        let Some((_, work)) = own_request(frame) else { return Ok(()) };
        never(!self.may_end[work as usize], || format!("{work:?} was not stopped by the operator: {frame}"))?;
        never(matches!(self.of(work), State::Over(_)), || format!("{work:?} is over, and was to be ended: {frame}"))
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let had_begun = self.stage.begun(to).is_some();
        for (place, frame) in self.stage.write(to, cut).into_iter().enumerate() {
            self.stage.note_read(to, &frame);
            if to == Side::Client {
                let answers = |id: u32| frame.starts_with(&format!(r#"{{"id":{id},"#));
                never(frame.contains(r#""id":"#) && !frame.contains("method") && !answers(1) && !answers(2), || {
                    format!("an answer that its client did not ask for: {frame}")
                })?;
                continue;
            }
            // One of which a part had left was judged then.
            if place > 0 || !had_begun {
                self.judge(&frame)?;
            }
            for (asked, id) in [(&mut self.start, 1), (&mut self.interrupt, 2)] {
                if *asked == Asked::Waiting && frame.contains(&format!(r#""id":{id},"#)) {
                    *asked = Asked::Read;
                }
            }
            self.own.extend(own_request(&frame));
        }
        match self.stage.begun(to) {
            Some(frame) if to == Side::Server => self.judge(&frame),
            Some(_) | None => Ok(()),
        }
    }

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Starts => {
                self.start = Asked::Waiting;
                self.stage.say(Side::Client, r#"{"id":1,"method":"turn/start","params":{"threadId":"t"}}"#);
                let started = self.stage.relay.requests(Side::Client).find(|view| view.method == "turn/start");
                self.start_key = started.map(|view| view.key);
            }
            Action::Answers => {
                self.start = Asked::Answered;
                if self.of(Work::Turn) == State::Not {
                    self.works[Work::Turn as usize] = State::Works;
                }
                self.stage.say(Side::Server, r#"{"id":1,"result":{"turn":{"id":"u","status":"inProgress"}}}"#);
            }
            Action::Begins(work) => self.begins(work),
            Action::Announces => {
                self.is_announced = true;
                let item = json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": ["c"]});
                self.server_says("item/completed", &json!({"threadId": "t", "turnId": "u", "item": item}));
            }
            Action::Ends(work, is_cancelled) => self.ends(work, is_cancelled),
            Action::ClientStops => {
                self.interrupt = Asked::Waiting;
                let params = r#"{"threadId":"t","turnId":"u"}"#;
                self.stage.say(Side::Client, &format!(r#"{{"id":2,"method":"turn/interrupt","params":{params}}}"#));
            }
            Action::AnswersClient => {
                self.interrupt = Asked::Answered;
                self.stage.say(Side::Server, r#"{"id":2,"result":{}}"#);
            }
            Action::Stops(work) => self.stop(work, false),
            Action::StopsAlone => self.stop(Work::Turn, true),
            Action::AnswersOwn(is_done) => {
                let (id, work) = self.own.remove(0);
                let answer = match (is_done, work) {
                    (false, _) => r#""error":{"code":-32001,"message":"Server overloaded; retry later."}"#,
                    (true, Work::Command) => {
                        if self.of(work) == State::Works {
                            self.works[work as usize] = State::Over(true);
                        }
                        r#""result":{"terminated":true}"#
                    }
                    (true, Work::Turn | Work::Agent) => r#""result":{}"#,
                };
                self.stage.say(Side::Server, &format!(r#"{{"id":{id},{answer}}}"#));
            }
            Action::Writes(to, cut) => self.write(to, cut)?,
            Action::Timeout => self.stage.pass(),
            Action::Dies => {
                self.is_dead = true;
                (self.start, self.interrupt) = (Asked::Answered, Asked::Answered);
                self.own.clear();
                self.stage.lose_server();
            }
        }
        Ok(())
    }

    /// Compares what the relay shows with what is at work.
    fn check(&mut self) -> Result<(), Broken> {
        self.stage.receipts();
        never(self.stage.relay.unkept_work() > 0, || "there is room for all of it".to_owned())?;
        for work in Work::ALL {
            let (shown, is_due) = (self.shown(work), self.is_due(work));
            never(shown.is_some() != is_due, || {
                format!("{work:?} is shown as {:?}, and is {:?}", shown.map(|view| view.state), self.of(work))
            })?;
        }
        let turn = self.shown(Work::Turn).map(|view| view.key);
        let agents = self.shown(Work::Agent).and_then(|view| view.parent);
        never(agents.is_some() && !self.is_announced, || "the agent has a parent that nothing shows".to_owned())?;
        never(self.is_announced && agents.is_none() && self.has_both(turn), || "the agent has no parent".to_owned())?;
        for summary in self.stage.relay.summaries(Side::Client) {
            let Some(view) = self.stage.relay.view(summary.key) else { continue };
            let Some(work) = self.work_of(&view) else { continue };
            let outcome = view.cancel.map(|receipt| receipt.outcome);
            let is_true = match outcome {
                Some(Outcome::Confirmed { .. }) => self.of(work) == State::Over(true),
                Some(Outcome::AnsweredAfter { .. } | Outcome::CompletedFirst) => {
                    matches!(self.of(work), State::Over(_))
                }
                Some(_) | None => true,
            };
            never(!is_true, || format!("the cancel of {work:?} is {outcome:?}, and it is {:?}", self.of(work)))?;
        }
        self.watcher.follow(&mut self.stage.relay)
    }

    fn has_both(&self, turn: Option<RequestKey>) -> bool {
        turn.is_some() && self.shown(Work::Agent).is_some()
    }
}

/// A request of the relay's own to the server: its id, and what it ends.
fn own_request(frame: &str) -> Option<(String, Work)> {
    let message: Value = serde_json::from_str(frame).ok()?;
    let id = message.get("id").filter(|id| **id != json!(1) && **id != json!(2))?;
    let is = |work: &Work| {
        let (method, member, named) = work.end();
        message["method"] == method && message["params"] == json!({"threadId": work.thread(), member: named})
    };
    Some((id.to_string(), Work::ALL.into_iter().find(is)?))
}

impl World for ThreadWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let pieces: &[Cut] = if side == Side::Server && !self.stage.is_cut(side) { &[Cut::Half] } else { &[] };
            out.extend(Cut::of(pending, pieces).into_iter().map(|cut| Action::Writes(side, cut)));
        }
        out.extend(Work::ALL.map(Action::Stops));
        out.push(Action::StopsAlone);
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
        if self.is_dead {
            return;
        }
        if self.start == Asked::Not {
            out.push(Action::Starts);
        }
        if self.start == Asked::Read {
            out.push(Action::Answers);
        }
        if self.interrupt == Asked::Not {
            out.push(Action::ClientStops);
        }
        if self.interrupt == Asked::Read {
            out.push(Action::AnswersClient);
        }
        let has_begun = self.of(Work::Turn) != State::Not;
        for work in Work::ALL {
            let may_begin = match work {
                Work::Turn => matches!(self.start, Asked::Read | Asked::Answered),
                Work::Agent => has_begun,
                Work::Command => self.of(Work::Turn) == State::Works,
            };
            match self.of(work) {
                State::Not if may_begin => out.push(Action::Begins(work)),
                State::Works => out.extend([true, false].map(|is_cancelled| Action::Ends(work, is_cancelled))),
                State::Not | State::Over(_) => {}
            }
        }
        if has_begun && !self.is_announced {
            out.push(Action::Announces);
        }
        // What the relay may have forgotten it has asked nobody answers here.
        let is_early = self.stage.now.since_origin() < Duration::from_secs(300);
        if is_early && !self.own.is_empty() {
            out.extend([true, false].map(Action::AnswersOwn));
        }
        out.push(Action::Dies);
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Dies)
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        self.act(action)?;
        self.check()
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        for side in [Side::Server, Side::Client] {
            world.write(side, Cut::All)?;
        }
        if !world.is_dead {
            world.step(Action::Dies)?;
        }
        world.write(Side::Client, Cut::All)?;
        if !world.stage.relay.pending(Side::Client).is_empty() {
            return broken("something for the client was not written");
        }
        world.stage.check_empty()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        (self.works, self.start, self.interrupt, self.is_announced, self.may_end, &self.own, self.is_dead)
            .hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
