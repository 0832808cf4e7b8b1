//! A client and Codex's app server with a relay between them: a turn, the turn of an agent that it opens, and a command that
//! may outlive it (D58).
//!
//! The server reports of them what it likes, in the order in which each of them can happen. A small model knows what of
//! that is at work, and judges what the relay shows, what it claims of a cancel, and every request that it makes itself.

use core::{hash::Hash, time::Duration};

use rescind_proto::{link::RequestKey, receipt::Outcome, relay::RequestView, side::Side, time::Instant};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    follower_world::{Asked, FollowerWorld, Kind},
    stage::Stage,
    world::{Broken, never},
};

/// A relay before Codex's app server with a turn, an agent and a command.
pub type ThreadWorld = FollowerWorld<Threads>;

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
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum State {
    #[default]
    Not,
    Works,
    /// The server has reported that it was cancelled, or that it ended by itself.
    Over(bool),
}

/// What was said of the threads, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Threads {
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
}

impl Threads {
    fn of(&self, work: Work) -> State {
        self.works[work as usize]
    }

    /// Whether it must be shown as at work: a command once its turn is over.
    fn is_due(&self, stage: &Stage, work: Work) -> bool {
        let is_hidden = work == Work::Command && !matches!(self.of(Work::Turn), State::Over(_));
        self.of(work) == State::Works && !is_hidden && !stage.is_server_lost
    }

    fn begins(&mut self, stage: &mut Stage, work: Work) {
        self.works[work as usize] = State::Works;
        match work {
            Work::Turn => server_says(stage, "turn/started", &json!({"threadId": "t", "turn": {"id": "u"}})),
            Work::Agent => server_says(stage, "turn/started", &json!({"threadId": "c", "turn": {"id": "a"}})),
            Work::Command => {
                let item = json!({"type": "commandExecution", "id": "x", "processId": "7"});
                server_says(stage, "item/started", &json!({"threadId": "t", "turnId": "u", "item": item}));
            }
        }
    }

    fn ends(&mut self, stage: &mut Stage, work: Work, is_cancelled: bool) {
        self.works[work as usize] = State::Over(is_cancelled);
        let status = if is_cancelled { "interrupted" } else { "completed" };
        let turn = |id: &str| json!({"threadId": work.thread(), "turn": {"id": id, "status": status}});
        match work {
            Work::Turn => server_says(stage, "turn/completed", &turn("u")),
            Work::Agent => server_says(stage, "turn/completed", &turn("a")),
            Work::Command => {
                let item = json!({"type": "commandExecution", "id": "x", "status": "failed"});
                server_says(stage, "item/completed", &json!({"threadId": "t", "turnId": "u", "item": item}));
            }
        }
    }

    /// Which work the relay shows with this.
    fn work_of(&self, view: &RequestView<'_>) -> Option<Work> {
        let is = |work: &Work| format!("{:?}", view.id) == work.shown_as();
        Work::ALL.into_iter().filter(|_| self.start_key != Some(view.key)).find(is)
    }

    fn shown<'a>(&self, stage: &'a Stage, work: Work) -> Option<RequestView<'a>> {
        stage.relay.requests(Side::Client).find(|view| self.work_of(view) == Some(work))
    }

    fn stop(&mut self, stage: &mut Stage, work: Work, is_alone: bool) {
        stage.transcript.note(|| format!("operator stops {work:?}{}", if is_alone { " alone" } else { "" }));
        let Some(key) = self.shown(stage, work).map(|view| view.key) else { return };
        match work {
            // What is a part of it, too.
            Work::Turn if !is_alone => self.may_end = [true; 3],
            Work::Turn | Work::Agent | Work::Command => self.may_end[work as usize] = true,
        }
        match is_alone {
            true => stage.relay.stop_alone(stage.now, key, None),
            false => stage.relay.stop(stage.now, key, None),
        };
    }
}

fn server_says(stage: &mut Stage, method: &str, params: &Value) {
    stage.say(Side::Server, &json!({"method": method, "params": params}).to_string());
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

impl Kind for Threads {
    type Action = Action;

    fn greeting(&self) -> Vec<(Side, Value)> {
        let params = json!({"clientInfo": {}, "capabilities": {"experimentalApi": true}});
        vec![
            (Side::Client, json!({"id": 0, "method": "initialize", "params": params})),
            (Side::Server, json!({"id": 0, "result": {"userAgent": "x", "codexHome": "/"}})),
        ]
    }

    fn with_server(&self, stage: &Stage, out: &mut Vec<Action>) {
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
        let is_early = stage.now.since_origin() < Duration::from_secs(300);
        if is_early && !self.own.is_empty() {
            out.extend([true, false].map(Action::AnswersOwn));
        }
    }

    fn always(&self, _stage: &Stage, out: &mut Vec<Action>) {
        out.extend(Work::ALL.map(Action::Stops));
        out.push(Action::StopsAlone);
    }

    fn act(&mut self, stage: &mut Stage, action: Action) -> Result<(), Broken> {
        match action {
            Action::Starts => {
                self.start = Asked::Waiting;
                stage.say(Side::Client, r#"{"id":1,"method":"turn/start","params":{"threadId":"t"}}"#);
                let started = stage.relay.requests(Side::Client).find(|view| view.method == "turn/start");
                self.start_key = started.map(|view| view.key);
            }
            Action::Answers => {
                self.start = Asked::Answered;
                if self.of(Work::Turn) == State::Not {
                    self.works[Work::Turn as usize] = State::Works;
                }
                stage.say(Side::Server, r#"{"id":1,"result":{"turn":{"id":"u","status":"inProgress"}}}"#);
            }
            Action::Begins(work) => self.begins(stage, work),
            Action::Announces => {
                self.is_announced = true;
                let item = json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": ["c"]});
                server_says(stage, "item/completed", &json!({"threadId": "t", "turnId": "u", "item": item}));
            }
            Action::Ends(work, is_cancelled) => self.ends(stage, work, is_cancelled),
            Action::ClientStops => {
                self.interrupt = Asked::Waiting;
                let params = r#"{"threadId":"t","turnId":"u"}"#;
                stage.say(Side::Client, &format!(r#"{{"id":2,"method":"turn/interrupt","params":{params}}}"#));
            }
            Action::AnswersClient => {
                self.interrupt = Asked::Answered;
                stage.say(Side::Server, r#"{"id":2,"result":{}}"#);
            }
            Action::Stops(work) => self.stop(stage, work, false),
            Action::StopsAlone => self.stop(stage, Work::Turn, true),
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
                stage.say(Side::Server, &format!(r#"{{"id":{id},{answer}}}"#));
            }
        }
        Ok(())
    }

    /// Nothing is asked of the server for what is over.
    fn judge(&self, frame: &str) -> Result<(), Broken> {
        let Some((_, work)) = own_request(frame) else { return Ok(()) };
        never(!self.may_end[work as usize], || format!("{work:?} was not stopped by the operator: {frame}"))?;
        never(matches!(self.of(work), State::Over(_)), || format!("{work:?} is over, and was to be ended: {frame}"))
    }

    fn reads(&mut self, _: Instant, to: Side, frame: &str) -> Result<(), Broken> {
        if to == Side::Client {
            let answers = |id: u32| frame.starts_with(&format!(r#"{{"id":{id},"#));
            let is_answer = frame.contains(r#""id":"#) && !frame.contains("method");
            let is_stray = is_answer && !answers(1) && !answers(2);
            return never(is_stray, || format!("an answer that its client did not ask for: {frame}"));
        }
        for (asked, id) in [(&mut self.start, 1), (&mut self.interrupt, 2)] {
            if frame.contains(&format!(r#""id":{id},"#)) {
                asked.read();
            }
        }
        self.own.extend(own_request(frame));
        Ok(())
    }

    fn lose_server(&mut self) {
        (self.start, self.interrupt) = (Asked::Answered, Asked::Answered);
        self.own.clear();
    }

    fn check(&mut self, stage: &Stage) -> Result<(), Broken> {
        never(stage.relay.unkept_work() > 0, || "there is room for all of it".to_owned())?;
        for work in Work::ALL {
            let (shown, is_due) = (self.shown(stage, work), self.is_due(stage, work));
            never(shown.is_some() != is_due, || {
                format!("{work:?} is shown as {:?}, and is {:?}", shown.map(|view| view.state), self.of(work))
            })?;
        }
        if let Some(agent) = self.shown(stage, Work::Agent) {
            let (has_parent, has_turn) = (agent.parent.is_some(), self.shown(stage, Work::Turn).is_some());
            never(has_parent && !self.is_announced, || "the agent has a parent that nothing shows".to_owned())?;
            never(self.is_announced && has_turn && !has_parent, || "the agent has no parent".to_owned())?;
        }
        for view in stage.views() {
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
        Ok(())
    }

    fn hash(&self, _stage: &Stage, digest: &mut Digest) {
        (self.works, self.start, self.interrupt, self.is_announced, self.may_end, &self.own).hash(digest);
    }
}
