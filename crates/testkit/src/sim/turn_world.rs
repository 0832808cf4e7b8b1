//! An ACP client and its agent with a relay between them, and three prompts of one session: each may have to wait for the
//! turn before it (D60), and an operator may end the waiting of the client (D61).
//!
//! A small model knows which prompts have to wait, and what the agent was given and has answered. It judges what the relay
//! shows, what reaches the agent, and whose updates the client is shown.

use core::hash::Hash;

use rescind_proto::{
    id::RequestId,
    link::RequestKey,
    receipt::Outcome,
    relay::{End, RequestState, RequestView},
    side::Side,
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    follower_world::{FollowerWorld, Kind},
    stage::Stage,
    world::{Broken, never},
};

/// A relay before an agent with a session whose prompts may have to wait.
pub type TurnWorld = FollowerWorld<Prompts>;

/// Prompts that the client makes at most.
const PROMPTS: usize = 3;

/// Updates that the agent says at most, and orders to cancel of each kind.
const MOST: u8 = 2;

/// How long a prompt waits at most.
const LONGEST: core::time::Duration = core::time::Duration::from_secs(5);

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client makes the next prompt.
    Prompts,
    /// The client cancels the session's turn.
    Stops,
    /// The client cancels this prompt by its id.
    Cancels(usize),
    /// The operator orders the cancel of this prompt.
    Orders(usize),
    /// The agent updates this turn.
    Updates(usize),
    /// The agent ends this turn.
    Answers(usize),
    /// The client says no more.
    Closes,
}

/// What is known of one prompt.
#[derive(Clone, Copy, Debug)]
struct Prompt {
    key: RequestKey,
    said: Instant,
    /// It has to wait for the turn before it.
    waits: bool,
    /// It was cancelled before it left: the agent must never see it.
    is_unsent: bool,
    /// How often the agent has been given it.
    read: u8,
    is_answered: bool,
    /// How often the client has its answer.
    heard: u8,
}

/// What was said of the prompts, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Prompts {
    prompts: Vec<Prompt>,
    /// How often the client and the operator have cancelled, and the agent has updated.
    said: [u8; 3],
    has_closed: bool,
}

impl Prompts {
    fn view<'a>(&self, stage: &'a Stage, at: usize) -> Option<RequestView<'a>> {
        stage.relay.view(self.prompts.get(at)?.key)
    }

    fn is_cancelled(&self, stage: &Stage, at: usize) -> bool {
        self.view(stage, at).is_some_and(|view| view.cancel.is_some())
    }

    /// Whether the last prompt that went on was cancelled, and the agent has not answered it.
    fn is_turn_ending(&self, stage: &Stage) -> bool {
        let last = self.prompts.iter().rposition(|prompt| !prompt.waits && !prompt.is_unsent);
        last.is_some_and(|at| self.is_cancelled(stage, at) && !self.prompts[at].is_answered)
    }

    /// After what has happened: which prompts still wait.
    fn settle_waiting(&mut self, stage: &Stage) {
        for at in 0..self.prompts.len() {
            let outcome = self.view(stage, at).and_then(|view| Some(view.cancel?.outcome));
            self.prompts[at].is_unsent |= outcome == Some(Outcome::NeverSent);
            self.prompts[at].waits &= outcome.is_none();
        }
        let now = stage.now;
        let is_due = self.prompts.iter().any(|prompt| prompt.waits && now.since(prompt.said) >= LONGEST);
        if is_due || self.has_closed || stage.is_server_lost || !self.is_turn_ending(stage) {
            self.prompts.iter_mut().for_each(|prompt| prompt.waits = false);
        }
    }

    fn prompt(&mut self, stage: &mut Stage) {
        let at = self.prompts.len();
        let waits = self.prompts.iter().any(|prompt| prompt.waits) || self.is_turn_ending(stage);
        let params = format!(r#"{{"sessionId":"s","prompt":[],"n":{at}}}"#);
        let said = format!(r#"{{"jsonrpc":"2.0","id":"p{at}","method":"session/prompt","params":{params}}}"#);
        stage.say(Side::Client, &said);
        let id = RequestId::string(&format!("p{at}"));
        let key = stage.relay.summaries(Side::Client).find(|one| *one.id == id).map(|one| one.key);
        let key = key.expect("it is in flight");
        let said = stage.now;
        self.prompts.push(Prompt { key, said, waits, is_unsent: false, read: 0, is_answered: false, heard: 0 });
    }

    fn judge_at_agent(&mut self, frame: &str) -> Result<(), Broken> {
        for (at, prompt) in
            self.prompts.iter_mut().enumerate().filter(|(at, _)| frame.contains(&format!(r#""n":{at}"#)))
        {
            prompt.read += 1;
            never(prompt.read > 1, || format!("prompt {at} leaves twice (D60)"))?;
            never(prompt.is_unsent, || format!("prompt {at} was taken back, and leaves (D60)"))?;
            never(prompt.waits, || format!("prompt {at} leaves while it has to wait (D60)"))?;
        }
        Ok(())
    }

    fn judge_at_client(&mut self, frame: &str) -> Result<(), Broken> {
        for (at, prompt) in self.prompts.iter_mut().enumerate() {
            if frame.contains(&format!(r#""id":"p{at}""#)) {
                prompt.heard += 1;
                never(prompt.heard > 1, || format!("prompt {at} is answered twice"))?;
            }
            let is_of = frame.contains(&format!(r#""turn {at}, the last""#));
            never(is_of && prompt.heard > 0, || {
                format!(
                    "an update of turn {at} comes after its answer, and could be taken for one of the next (D34, D60)"
                )
            })?;
        }
        Ok(())
    }

    /// The operator's first order asks the agent, and a later one ends the waiting of the client.
    fn order(&mut self, stage: &mut Stage, at: usize) -> Result<(), Broken> {
        self.said[1] += 1;
        stage.transcript.note(|| format!("operator orders the cancel of prompt {at}"));
        let key = self.prompts[at].key;
        let is_stopped = stage.relay.stop(stage.now, key, None);
        let is_released = !is_stopped && stage.relay.release(stage.now, key);
        let still = self.view(stage, at).is_some_and(|view| view.state == RequestState::Cancelling);
        never(is_released && still, || format!("prompt {at} is released, and its client waits (D61)"))
    }
}

impl Kind for Prompts {
    type Action = Action;

    fn greeting(&self) -> Vec<(Side, Value)> {
        let version = json!({"protocolVersion": 1});
        vec![
            (Side::Client, json!({"jsonrpc": "2.0", "id": "hi", "method": "initialize", "params": version})),
            (Side::Server, json!({"jsonrpc": "2.0", "id": "hi", "result": version})),
        ]
    }

    fn with_server(&self, _stage: &Stage, out: &mut Vec<Action>) {
        for (at, _) in self.prompts.iter().enumerate().filter(|(_, one)| one.read > 0 && !one.is_answered) {
            out.push(Action::Answers(at));
            if self.said[2] < MOST {
                out.push(Action::Updates(at));
            }
        }
    }

    fn always(&self, _stage: &Stage, out: &mut Vec<Action>) {
        let [cancels, orders, _] = self.said;
        if !self.has_closed {
            // An agent that leaves two prompts unread is another matter: its turns have not begun.
            let is_known = |prompt: &Prompt| prompt.read > 0 || prompt.waits || prompt.is_unsent;
            if self.prompts.len() < PROMPTS && self.prompts.iter().all(is_known) {
                out.push(Action::Prompts);
            }
            if cancels < MOST {
                out.push(Action::Stops);
                out.extend((0..self.prompts.len()).map(Action::Cancels));
            }
            out.push(Action::Closes);
        }
        if orders < MOST {
            out.extend((0..self.prompts.len()).map(Action::Orders));
        }
    }

    fn is_rare(action: Action) -> bool {
        action == Action::Closes
    }

    fn act(&mut self, stage: &mut Stage, action: Action) -> Result<(), Broken> {
        match action {
            Action::Prompts => self.prompt(stage),
            Action::Stops => {
                self.said[0] += 1;
                let said = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
                stage.say(Side::Client, said);
            }
            Action::Cancels(at) => {
                self.said[0] += 1;
                let params = format!(r#"{{"requestId":"p{at}"}}"#);
                let said = format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{params}}}"#);
                stage.say(Side::Client, &said);
            }
            Action::Orders(at) => return self.order(stage, at),
            Action::Updates(at) => {
                self.said[2] += 1;
                // The silence of a turn is forgotten with it (D8).
                let last = self.prompts.iter().rposition(|prompt| prompt.read > 0);
                let is_last = last == Some(at) && self.view(stage, at).is_some();
                let of = format!("turn {at}, {}", if is_last { "the last" } else { "an earlier one" });
                let update = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":"{of}"}}"#);
                let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
                let said = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
                stage.say(Side::Server, &said);
            }
            Action::Answers(at) => {
                self.prompts[at].is_answered = true;
                let result = r#"{"stopReason":"cancelled"}"#;
                stage.say(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":"p{at}","result":{result}}}"#));
            }
            Action::Closes => {
                self.has_closed = true;
                stage.relay.handle_eof(stage.now, Side::Client, &End::Closed);
            }
        }
        Ok(())
    }

    fn reads(&mut self, _: Instant, to: Side, frame: &str) -> Result<(), Broken> {
        match to {
            Side::Server => self.judge_at_agent(frame),
            Side::Client => self.judge_at_client(frame),
        }
    }

    fn lose_server(&mut self) {}

    fn check(&mut self, stage: &Stage) -> Result<(), Broken> {
        self.settle_waiting(stage);
        for (at, prompt) in self.prompts.iter().enumerate() {
            let is_held = self.view(stage, at).is_some_and(|view| view.waits_for_turn);
            never(is_held != prompt.waits, || {
                let has = if is_held { "waits, and need not" } else { "has to wait, and does not" };
                format!("prompt {at} {has} (D60)")
            })?;
        }
        Ok(())
    }

    fn awaits_time(&self) -> bool {
        self.prompts.iter().any(|prompt| prompt.waits)
    }

    fn check_read(&self) -> Result<(), Broken> {
        for (at, prompt) in self.prompts.iter().enumerate() {
            let is_lost = prompt.read == 0 && !prompt.is_unsent;
            never(is_lost, || format!("prompt {at} is neither sent nor taken back (D60)"))?;
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), Broken> {
        for (at, prompt) in self.prompts.iter().enumerate() {
            never(prompt.heard != 1, || format!("prompt {at} is answered {} times", prompt.heard))?;
        }
        Ok(())
    }

    fn hash(&self, stage: &Stage, digest: &mut Digest) {
        for prompt in &self.prompts {
            let Prompt { key: _, said, waits, is_unsent, read, is_answered, heard } = *prompt;
            let waited = waits.then(|| stage.now.since(said));
            (waited, is_unsent, read, is_answered, heard).hash(digest);
        }
        (self.said, self.has_closed).hash(digest);
    }
}
