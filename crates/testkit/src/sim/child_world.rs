//! An ACP client and its agent with a relay between them, a turn, and two children: one of the session, and one of that
//! child (D54).
//!
//! The agent says of its children whatever it likes, in any order. A small model knows what of that may be believed, and
//! judges what the relay shows of each child, what it claims of a cancel, and every cancel that reaches the agent.

use core::hash::Hash;

use rescind_proto::{
    child::{ChildEnd, ChildState},
    receipt::Outcome,
    relay::{ChildView, Relay, RelayConfig, RequestState},
    side::Side,
    time::Instant,
};

use super::{
    digest::Digest,
    hop::Cut,
    stage::Stage,
    watcher::Watcher,
    world::{Broken, Transcript, World, never},
};

/// One of the two children: that of the session, and that of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A child of the session "s".
    A,
    /// A child of the child "a".
    B,
}

impl Name {
    const BOTH: [Self; 2] = [Self::A, Self::B];

    const fn session(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    const fn parent(self) -> &'static str {
        match self {
            Self::A => "s",
            Self::B => "a",
        }
    }
}

/// What the agent says of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It may be cancelled, and works.
    GrantedAndRunning,
    /// It works.
    Running,
    /// It may not be cancelled.
    Ungranted,
    /// It was cancelled.
    Cancelled,
    /// It has done its work.
    Finished,
    /// Its agent cannot see it.
    Unknown,
}

impl News {
    const ALL: [Self; 6] =
        [Self::GrantedAndRunning, Self::Running, Self::Ungranted, Self::Cancelled, Self::Finished, Self::Unknown];

    const fn members(self) -> &'static str {
        match self {
            Self::GrantedAndRunning => r#","capabilities":{"cancel":{}},"state":{"state":"running"}"#,
            Self::Running => r#","state":{"state":"running"}"#,
            Self::Ungranted => r#","capabilities":{"cancel":null}"#,
            Self::Cancelled => r#","state":{"state":"idle","stopReason":"cancelled"}"#,
            Self::Finished => r#","state":{"state":"idle","stopReason":"end_turn"}"#,
            Self::Unknown => r#","state":{"state":"unknown"}"#,
        }
    }

    const fn state(self) -> Option<ChildState> {
        match self {
            Self::GrantedAndRunning | Self::Running => Some(ChildState::Running),
            Self::Ungranted => None,
            Self::Cancelled => Some(ChildState::Idle(ChildEnd::Cancelled)),
            Self::Finished => Some(ChildState::Idle(ChildEnd::Finished)),
            Self::Unknown => Some(ChildState::Unknown),
        }
    }

    const fn grant(self) -> Option<bool> {
        match self {
            Self::GrantedAndRunning => Some(true),
            Self::Ungranted => Some(false),
            Self::Running | Self::Cancelled | Self::Finished | Self::Unknown => None,
        }
    }
}

/// A request of the client, each of which it makes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// The turn.
    Prompt,
    /// Loads the session once more.
    Load,
    /// Closes it.
    Close,
}

impl Ask {
    const ALL: [Self; 3] = [Self::Prompt, Self::Load, Self::Close];

    const fn method(self) -> &'static str {
        match self {
            Self::Prompt => "session/prompt",
            Self::Load => "session/load",
            Self::Close => "session/close",
        }
    }
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client makes this request.
    Asks(Ask),
    /// The agent answers it with a result.
    Answers(Ask),
    /// The client cancels the turn.
    ClientStops,
    /// The client cancels a child.
    ClientStopsChild(Name),
    /// The operator stops the turn.
    Stops,
    /// The operator stops a child.
    StopsChild(Name),
    /// The agent says this of a child.
    Says(Name, News),
    /// Some of what waits for a side is written.
    Writes(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// The agent ends.
    Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Not,
    /// Its id has not been read by the agent.
    Waiting,
    Read,
    Answered,
}

/// A child as it must be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    state: ChildState,
    can_cancel: bool,
    /// The first child was known when it was announced, and so it is that one's child.
    is_linked: bool,
    /// The receipt of the cancelled turn names it.
    is_told: bool,
    /// How its last work ended, as it was reported first.
    end: Option<ChildEnd>,
}

/// The relay, what was said, and what follows from it.
#[derive(Clone, Debug)]
pub struct ChildWorld {
    stage: Stage,
    asks: [Asked; 3],
    is_turn_cancelled: bool,
    known: [Option<Known>; 2],
    /// Cancels of a child that the client has sent and the agent not read; more than one is as good as one.
    by_client: [u8; 2],
    has_ended: bool,
    watcher: Option<Watcher>,
}

impl Default for ChildWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl ChildWorld {
    /// A session with its handshake done.
    #[must_use]
    pub fn new() -> Self {
        let mut stage = Stage::new(Relay::new(RelayConfig::default()), Instant::ORIGIN);
        let params = r#"{"protocolVersion":1,"clientCapabilities":{"subagents":{}}}"#;
        stage.say(Side::Client, &format!(r#"{{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{params}}}"#));
        stage.write(Side::Server, Cut::All);
        stage.say(Side::Server, r#"{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":1}}"#);
        stage.write(Side::Client, Cut::All);
        let watcher = Some(Watcher::new(&mut stage.relay));
        Self {
            stage,
            asks: [Asked::Not; 3],
            is_turn_cancelled: false,
            known: [None; 2],
            by_client: [0; 2],
            has_ended: false,
            watcher,
        }
    }

    fn asked(&self, ask: Ask) -> Asked {
        self.asks[ask as usize]
    }

    /// Children below the session.
    fn below(&mut self) -> impl Iterator<Item = &mut Known> {
        let is_below = |(at, known): (usize, &Option<Known>)| known.is_some_and(|known| at == 0 || known.is_linked);
        let is_in: Vec<bool> = self.known.iter().enumerate().map(is_below).collect();
        self.known.iter_mut().zip(is_in).filter(|(_, is_in)| *is_in).filter_map(|(known, _)| known.as_mut())
    }

    fn cancel_turn(&mut self) {
        if matches!(self.asked(Ask::Prompt), Asked::Waiting | Asked::Read) && !self.is_turn_cancelled {
            self.is_turn_cancelled = true;
            self.below().filter(|known| known.state.is_open()).for_each(|known| known.is_told = true);
        }
    }

    /// The relay may have answered the turn for the agent.
    fn note_turn_answered(&mut self) {
        let waits = |state| matches!(state, RequestState::Queued | RequestState::Sent | RequestState::Cancelling);
        let mut requests = self.stage.relay.requests(Side::Client);
        let is_open = requests.any(|view| view.method == Ask::Prompt.method() && waits(view.state));
        if self.is_turn_cancelled && !is_open {
            self.asks[Ask::Prompt as usize] = Asked::Answered;
        }
    }

    fn hear(&mut self, name: Name, news: News) {
        let has_first = self.known[0].is_some();
        let is_of_session = name == Name::A || has_first;
        let is_history = is_of_session && matches!(self.asked(Ask::Load), Asked::Waiting | Asked::Read);
        let in_turn = matches!(self.asked(Ask::Prompt), Asked::Waiting | Asked::Read);
        let is_told = match name {
            Name::A => self.is_turn_cancelled && in_turn,
            Name::B => self.known[0].is_some_and(|first| first.is_told),
        };
        let state = if is_history { ChildState::History } else { ChildState::Unconfirmed };
        let new = Known { state, can_cancel: false, is_linked: name == Name::B && has_first, is_told, end: None };
        let known = self.known[name as usize].get_or_insert(new);
        if is_history {
            known.void();
            return;
        }
        known.can_cancel = news.grant().unwrap_or(known.can_cancel);
        if let Some(state) = news.state() {
            let is_old = *known != new;
            known.is_told &= known.state.is_open() || !state.is_open() || !is_old;
            known.end = match state {
                ChildState::Idle(end) if known.state.is_open() => Some(end),
                ChildState::Idle(_) => known.end,
                ChildState::Running | ChildState::Unknown | ChildState::Unconfirmed | ChildState::History => None,
            };
            known.state = state;
        }
    }

    /// Judges what reached the agent, or has begun to.
    fn judge(&mut self, frame: &str) -> Result<(), Broken> {
        for name in Name::BOTH {
            let at = name as usize;
            if !frame.contains("session/cancel") || !frame.contains(&format!(r#":"{}""#, name.session())) {
                continue;
            }
            let may_be = self.known[at].is_some_and(|known| known.can_cancel && known.state.is_open());
            never(!may_be && self.by_client[at] == 0, || {
                format!("{name:?} may not be cancelled, and its client did not: {:?}", self.known[at])
            })?;
        }
        Ok(())
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let had_begun = self.stage.begun(to).is_some();
        for (place, frame) in self.stage.write(to, cut).into_iter().enumerate() {
            self.stage.note_read(to, &frame);
            if to == Side::Client {
                continue;
            }
            for (at, ask) in Ask::ALL.into_iter().enumerate() {
                if frame.contains(ask.method()) && self.asks[at] == Asked::Waiting {
                    self.asks[at] = Asked::Read;
                }
            }
            // One of which a part had left was judged then.
            if place > 0 || !had_begun {
                self.judge(&frame)?;
            }
        }
        match self.stage.begun(to) {
            Some(frame) if to == Side::Server => self.judge(&frame),
            Some(_) | None => Ok(()),
        }
    }

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        let cancel = |session: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{session}"}}}}"#)
        };
        let key = |world: &Self, name: Name| view(&world.stage.relay, name).map(|view| view.key);
        match action {
            Action::Asks(ask) => {
                self.asks[ask as usize] = Asked::Waiting;
                if ask == Ask::Load {
                    self.below().for_each(Known::void);
                }
                let (id, method) = (ask as usize, ask.method());
                let params = r#"{"sessionId":"s"}"#;
                let said = format!(r#"{{"jsonrpc":"2.0","id":"ask {id}","method":"{method}","params":{params}}}"#);
                self.stage.say(Side::Client, &said);
            }
            Action::Answers(ask) => {
                self.asks[ask as usize] = Asked::Answered;
                if ask == Ask::Close {
                    let is_linked = self.known[1].is_some_and(|second| second.is_linked);
                    self.known = [None, self.known[1].filter(|_| !is_linked)];
                }
                self.stage
                    .say(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":"ask {}","result":{{}}}}"#, ask as usize));
            }
            Action::ClientStops => {
                self.cancel_turn();
                self.stage.say(Side::Client, &cancel("s"));
            }
            Action::ClientStopsChild(name) => {
                self.by_client[name as usize] = 1;
                self.stage.say(Side::Client, &cancel(name.session()));
            }
            Action::Stops => {
                let keys: Vec<_> = self.stage.relay.requests(Side::Client).map(|view| view.key).collect();
                self.cancel_turn();
                self.stage.transcript.note(|| "operator stops the turn".to_owned());
                for key in keys {
                    if self.stage.relay.view(key).is_some_and(|view| view.method == Ask::Prompt.method()) {
                        self.stage.relay.stop(self.stage.now, key, None);
                    }
                }
                self.note_turn_answered();
            }
            Action::StopsChild(name) => {
                self.stage.transcript.note(|| format!("operator stops {name:?}"));
                if let Some(key) = key(self, name) {
                    self.stage.relay.stop_child(self.stage.now, key, None);
                }
            }
            Action::Says(name, news) => {
                self.hear(name, news);
                let (parent, child, members) = (name.parent(), name.session(), news.members());
                let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#);
                let params = format!(r#"{{"sessionId":"{parent}","update":{update}}}"#);
                let said = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
                self.stage.say(Side::Server, &said);
            }
            Action::Writes(to, cut) => self.write(to, cut)?,
            Action::Timeout => {
                self.stage.pass();
                self.note_turn_answered();
            }
            Action::Ends => {
                self.has_ended = true;
                self.asks = [Asked::Answered; 3];
                for known in self.known.iter_mut().flatten().filter(|known| known.state.is_open()) {
                    (known.state, known.can_cancel) = (ChildState::Unknown, false);
                }
                self.stage.lose_server();
            }
        }
        Ok(())
    }

    /// Compares what the relay shows with what must be shown.
    fn check(&mut self) -> Result<(), Broken> {
        self.stage.receipts();
        for name in Name::BOTH {
            let (shown, known) = (view(&self.stage.relay, name), self.known[name as usize]);
            let Some((shown, known)) = shown.as_ref().zip(known) else {
                never(shown.is_some() != known.is_some(), || format!("{name:?} is {shown:?}, and must be {known:?}"))?;
                continue;
            };
            never((shown.state, shown.can_cancel) != (known.state, known.can_cancel), || {
                format!("{name:?} is shown as {shown:?}, and is {known:?}")
            })?;
            let outcome = shown.cancel.map(|receipt| receipt.outcome);
            let may_be_over = match outcome {
                Some(Outcome::Confirmed { .. }) => !known.state.is_open() && known.end == Some(ChildEnd::Cancelled),
                Some(Outcome::AnsweredAfter { .. } | Outcome::CompletedFirst) => {
                    !known.state.is_open() && known.end == Some(ChildEnd::Finished)
                }
                Some(_) | None => true,
            };
            never(!may_be_over, || format!("the cancel of {name:?} is {outcome:?}, and it is {known:?}"))?;
        }
        let told = self.known.iter().flatten().filter(|known| known.is_told && known.state.is_open());
        let (told, mut unseen) = (told.clone().count(), told.filter(|known| known.state.is_unseen()));
        let unseen = unseen.by_ref().count();
        let relay = &self.stage.relay;
        let turn = relay.summaries(Side::Client).filter_map(|summary| relay.view(summary.key));
        for view in turn.filter(|view| view.method == Ask::Prompt.method() && view.cancel.is_some()) {
            let counted = (view.children.open, view.children.unseen);
            never(counted != (told, unseen), || {
                format!("the receipt of the turn counts {counted:?}, and {:?} are known", (told, unseen))
            })?;
        }
        match &mut self.watcher {
            Some(watcher) => watcher.follow(&mut self.stage.relay),
            None => Ok(()),
        }
    }
}

impl Known {
    const fn void(&mut self) {
        self.can_cancel = false;
        self.state = if self.state.is_open() { ChildState::Unconfirmed } else { ChildState::History };
    }
}

fn view(relay: &Relay, name: Name) -> Option<ChildView<'_>> {
    let session = format!("\"{}\"", name.session());
    relay.children().find(|view| view.session == session.as_bytes())
}

impl World for ChildWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let pieces: &[Cut] = if side == Side::Server && !self.stage.is_cut(side) { &[Cut::Half] } else { &[] };
            out.extend(Cut::of(pending, pieces).into_iter().map(|cut| Action::Writes(side, cut)));
        }
        for ask in Ask::ALL {
            match self.asked(ask) {
                Asked::Not => out.push(Action::Asks(ask)),
                Asked::Read => out.push(Action::Answers(ask)),
                Asked::Waiting | Asked::Answered => {}
            }
        }
        if !self.has_ended {
            for name in Name::BOTH {
                out.extend(News::ALL.map(|news| Action::Says(name, news)));
                if self.by_client[name as usize] == 0 {
                    out.push(Action::ClientStopsChild(name));
                }
            }
            out.extend([Action::ClientStops, Action::Ends]);
        }
        out.push(Action::Stops);
        out.extend(Name::BOTH.map(Action::StopsChild));
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Ends | Action::Answers(Ask::Close))
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
        if !world.has_ended {
            world.step(Action::Ends)?;
        }
        world.write(Side::Client, Cut::All)?;
        world.stage.check_empty()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        (self.asks, self.is_turn_cancelled, self.known, self.by_client, self.has_ended).hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
