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
    relay::{End, Relay, RelayConfig, RequestState, RequestView},
    side::Side,
    time::Instant,
};

use super::{
    digest::Digest,
    hop::Cut,
    stage::Stage,
    watcher::Watcher,
    world::{Broken, Transcript, World, never, to_rest},
};

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
    /// Some of what waits for a side is written.
    Writes(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// The client says no more.
    Closes,
    /// The agent ends.
    Ends,
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

/// The relay, what was said, and what follows from it.
#[derive(Clone, Debug)]
pub struct TurnWorld {
    stage: Stage,
    prompts: Vec<Prompt>,
    /// How often the client and the operator have cancelled, and the agent has updated.
    said: [u8; 3],
    has_closed: bool,
    has_ended: bool,
    watcher: Option<Watcher>,
}

impl Default for TurnWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl TurnWorld {
    /// A session with its handshake done.
    #[must_use]
    pub fn new() -> Self {
        let mut stage = Stage::new(Relay::new(RelayConfig::default()), Instant::ORIGIN);
        let params = r#"{"protocolVersion":1}"#;
        stage.say(Side::Client, &format!(r#"{{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{params}}}"#));
        stage.write(Side::Server, Cut::All);
        stage.say(Side::Server, r#"{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":1}}"#);
        stage.write(Side::Client, Cut::All);
        let watcher = Some(Watcher::new(&mut stage.relay));
        Self { stage, prompts: Vec::new(), said: [0; 3], has_closed: false, has_ended: false, watcher }
    }

    fn view(&self, at: usize) -> Option<RequestView<'_>> {
        self.stage.relay.view(self.prompts.get(at)?.key)
    }

    fn is_cancelled(&self, at: usize) -> bool {
        self.view(at).is_some_and(|view| view.cancel.is_some())
    }

    /// Whether the last prompt that went on was cancelled, and the agent has not answered it.
    fn is_turn_ending(&self) -> bool {
        let last = self.prompts.iter().rposition(|prompt| !prompt.waits && !prompt.is_unsent);
        last.is_some_and(|at| self.is_cancelled(at) && !self.prompts[at].is_answered)
    }

    /// After what has happened: which prompts still wait.
    fn settle_waiting(&mut self) {
        for at in 0..self.prompts.len() {
            let outcome = self.view(at).and_then(|view| Some(view.cancel?.outcome));
            self.prompts[at].is_unsent |= outcome == Some(Outcome::NeverSent);
            self.prompts[at].waits &= outcome.is_none();
        }
        let now = self.stage.now;
        let is_due = self.prompts.iter().any(|prompt| prompt.waits && now.since(prompt.said) >= LONGEST);
        if is_due || self.has_closed || self.has_ended || !self.is_turn_ending() {
            self.prompts.iter_mut().for_each(|prompt| prompt.waits = false);
        }
    }

    fn prompt(&mut self) {
        let at = self.prompts.len();
        let waits = self.prompts.iter().any(|prompt| prompt.waits) || self.is_turn_ending();
        let params = format!(r#"{{"sessionId":"s","prompt":[],"n":{at}}}"#);
        let said = format!(r#"{{"jsonrpc":"2.0","id":"p{at}","method":"session/prompt","params":{params}}}"#);
        self.stage.say(Side::Client, &said);
        let id = RequestId::string(&format!("p{at}"));
        let key = self.stage.relay.summaries(Side::Client).find(|one| *one.id == id).map(|one| one.key);
        let key = key.expect("it is in flight");
        let said = self.stage.now;
        self.prompts.push(Prompt { key, said, waits, is_unsent: false, read: 0, is_answered: false, heard: 0 });
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        for frame in self.stage.write(to, cut) {
            self.stage.note_read(to, &frame);
            match to {
                Side::Server => self.judge_at_agent(&frame)?,
                Side::Client => self.judge_at_client(&frame)?,
            }
        }
        Ok(())
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

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Prompts => self.prompt(),
            Action::Stops => {
                self.said[0] += 1;
                let said = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
                self.stage.say(Side::Client, said);
            }
            Action::Cancels(at) => {
                self.said[0] += 1;
                let params = format!(r#"{{"requestId":"p{at}"}}"#);
                let said = format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{params}}}"#);
                self.stage.say(Side::Client, &said);
            }
            Action::Orders(at) => self.order(at)?,
            Action::Updates(at) => {
                self.said[2] += 1;
                // The silence of a turn is forgotten with it (D8).
                let last = self.prompts.iter().rposition(|prompt| prompt.read > 0);
                let is_last = last == Some(at) && self.view(at).is_some();
                let of = format!("turn {at}, {}", if is_last { "the last" } else { "an earlier one" });
                let update = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":"{of}"}}"#);
                let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
                let said = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
                self.stage.say(Side::Server, &said);
            }
            Action::Answers(at) => {
                self.prompts[at].is_answered = true;
                let result = r#"{"stopReason":"cancelled"}"#;
                self.stage.say(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":"p{at}","result":{result}}}"#));
            }
            Action::Writes(to, cut) => self.write(to, cut)?,
            Action::Timeout => self.stage.pass(),
            Action::Closes => {
                self.has_closed = true;
                self.stage.relay.handle_eof(self.stage.now, Side::Client, &End::Closed);
            }
            Action::Ends => {
                self.has_ended = true;
                self.stage.lose_server();
            }
        }
        Ok(())
    }

    /// The operator's first order asks the agent, and a later one ends the waiting of the client.
    fn order(&mut self, at: usize) -> Result<(), Broken> {
        self.said[1] += 1;
        self.stage.transcript.note(|| format!("operator orders the cancel of prompt {at}"));
        let key = self.prompts[at].key;
        let is_stopped = self.stage.relay.stop(self.stage.now, key, None);
        let is_released = !is_stopped && self.stage.relay.release(self.stage.now, key);
        let still = self.view(at).is_some_and(|view| view.state == RequestState::Cancelling);
        never(is_released && still, || format!("prompt {at} is released, and its client waits (D61)"))
    }

    /// Compares what the relay shows with what must be.
    fn check(&mut self) -> Result<(), Broken> {
        self.stage.receipts();
        self.settle_waiting();
        for (at, prompt) in self.prompts.iter().enumerate() {
            let is_held = self.view(at).is_some_and(|view| view.waits_for_turn);
            never(is_held != prompt.waits, || {
                let has = if is_held { "waits, and need not" } else { "has to wait, and does not" };
                format!("prompt {at} {has} (D60)")
            })?;
        }
        match &mut self.watcher {
            Some(watcher) => watcher.follow(&mut self.stage.relay),
            None => Ok(()),
        }
    }
}

impl World for TurnWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let pieces: &[Cut] = if side == Side::Server && !self.stage.is_cut(side) { &[Cut::Half] } else { &[] };
            out.extend(Cut::of(pending, pieces).into_iter().map(|cut| Action::Writes(side, cut)));
        }
        let [cancels, orders, updates] = self.said;
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
        if !self.has_ended {
            for (at, _) in self.prompts.iter().enumerate().filter(|(_, one)| one.read > 0 && !one.is_answered) {
                out.push(Action::Answers(at));
                if updates < MOST {
                    out.push(Action::Updates(at));
                }
            }
            out.push(Action::Ends);
        }
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Ends | Action::Closes)
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        self.act(action)?;
        self.check()
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        to_rest(|| {
            for side in Side::BOTH {
                while !world.stage.relay.pending(side).is_empty() {
                    world.write(side, Cut::All)?;
                }
            }
            let waits = world.prompts.iter().any(|prompt| prompt.waits);
            if waits {
                world.step(Action::Timeout)?;
            }
            Ok(waits)
        })?;
        for (at, prompt) in world.prompts.iter().enumerate().filter(|_| !world.has_ended) {
            let is_lost = prompt.read == 0 && !prompt.is_unsent;
            never(is_lost, || format!("prompt {at} is neither sent nor taken back (D60)"))?;
        }
        if !world.has_ended {
            world.step(Action::Ends)?;
        }
        world.write(Side::Client, Cut::All)?;
        for (at, prompt) in world.prompts.iter().enumerate() {
            never(prompt.heard != 1, || format!("prompt {at} is answered {} times", prompt.heard))?;
        }
        world.stage.check_empty()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        for prompt in &self.prompts {
            let Prompt { key: _, said, waits, is_unsent, read, is_answered, heard } = *prompt;
            let waited = waits.then(|| self.stage.now.since(said));
            (waited, is_unsent, read, is_answered, heard).hash(&mut digest);
        }
        (self.said, self.has_closed, self.has_ended).hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
