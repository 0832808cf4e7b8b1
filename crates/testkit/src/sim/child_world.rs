//! An ACP client and its agent with a relay between them, a turn, and two children: one of the session, and one of that
//! child (D54).
//!
//! The agent says of its children whatever it likes, in any order. A small model knows what of that may be believed, and
//! judges what the relay shows of each child, what it claims of a cancel, and every cancel that reaches the agent.

use core::hash::Hash;

use rescind_proto::{
    child::{ChildEnd, ChildState},
    receipt::Outcome,
    relay::{ChildView, Relay, RequestState},
    side::Side,
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    follower_world::{Asked, FollowerWorld, Kind},
    stage::Stage,
    world::{Broken, never},
};

/// A relay before an agent with a turn and two children.
pub type ChildWorld = FollowerWorld<Children>;

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

/// What was said of the children, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Children {
    asks: [Asked; 3],
    is_turn_cancelled: bool,
    known: [Option<Known>; 2],
    /// Cancels of a child that the client has sent and the agent not read; more than one is as good as one.
    by_client: [u8; 2],
}

impl Children {
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
        if self.asked(Ask::Prompt).is_open() && !self.is_turn_cancelled {
            self.is_turn_cancelled = true;
            self.below().filter(|known| known.state.is_open()).for_each(|known| known.is_told = true);
        }
    }

    /// The relay may have answered the turn for the agent.
    fn note_turn_answered(&mut self, relay: &Relay) {
        let waits = |state| matches!(state, RequestState::Queued | RequestState::Sent | RequestState::Cancelling);
        let mut requests = relay.requests(Side::Client);
        let is_open = requests.any(|view| view.method == Ask::Prompt.method() && waits(view.state));
        if self.is_turn_cancelled && !is_open {
            self.asks[Ask::Prompt as usize] = Asked::Answered;
        }
    }

    fn hear(&mut self, name: Name, news: News) {
        let has_first = self.known[0].is_some();
        let is_of_session = name == Name::A || has_first;
        let is_history = is_of_session && self.asked(Ask::Load).is_open();
        let in_turn = self.asked(Ask::Prompt).is_open();
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
}

impl Kind for Children {
    type Action = Action;

    fn greeting(&self) -> Vec<(Side, Value)> {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {"subagents": {}}});
        let hello = json!({"jsonrpc": "2.0", "id": "hi", "method": "initialize", "params": params});
        vec![
            (Side::Client, hello),
            (Side::Server, json!({"jsonrpc": "2.0", "id": "hi", "result": {"protocolVersion": 1}})),
        ]
    }

    fn with_server(&self, _stage: &Stage, out: &mut Vec<Action>) {
        for ask in Ask::ALL {
            match self.asked(ask) {
                Asked::Not => out.push(Action::Asks(ask)),
                Asked::Read => out.push(Action::Answers(ask)),
                Asked::Waiting | Asked::Answered => {}
            }
        }
        for name in Name::BOTH {
            out.extend(News::ALL.map(|news| Action::Says(name, news)));
            if self.by_client[name as usize] == 0 {
                out.push(Action::ClientStopsChild(name));
            }
        }
        out.push(Action::ClientStops);
    }

    fn always(&self, _stage: &Stage, out: &mut Vec<Action>) {
        out.push(Action::Stops);
        out.extend(Name::BOTH.map(Action::StopsChild));
    }

    fn is_rare(action: Action) -> bool {
        action == Action::Answers(Ask::Close)
    }

    fn act(&mut self, stage: &mut Stage, action: Action) -> Result<(), Broken> {
        let cancel = |session: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{session}"}}}}"#)
        };
        match action {
            Action::Asks(ask) => {
                self.asks[ask as usize] = Asked::Waiting;
                if ask == Ask::Load {
                    self.below().for_each(Known::void);
                }
                let (id, method) = (ask as usize, ask.method());
                let params = r#"{"sessionId":"s"}"#;
                let said = format!(r#"{{"jsonrpc":"2.0","id":"ask {id}","method":"{method}","params":{params}}}"#);
                stage.say(Side::Client, &said);
            }
            Action::Answers(ask) => {
                self.asks[ask as usize] = Asked::Answered;
                if ask == Ask::Close {
                    let is_linked = self.known[1].is_some_and(|second| second.is_linked);
                    self.known = [None, self.known[1].filter(|_| !is_linked)];
                }
                let said = format!(r#"{{"jsonrpc":"2.0","id":"ask {}","result":{{}}}}"#, ask as usize);
                stage.say(Side::Server, &said);
            }
            Action::ClientStops => {
                self.cancel_turn();
                stage.say(Side::Client, &cancel("s"));
            }
            Action::ClientStopsChild(name) => {
                self.by_client[name as usize] = 1;
                stage.say(Side::Client, &cancel(name.session()));
            }
            Action::Stops => {
                self.cancel_turn();
                let turn = stage.relay.requests(Side::Client).find(|view| view.method == Ask::Prompt.method());
                let key = turn.map(|turn| turn.key);
                stage.stop(&"the turn", key);
            }
            Action::StopsChild(name) => {
                stage.transcript.note(|| format!("operator stops {name:?}"));
                if let Some(key) = view(&stage.relay, name).map(|view| view.key) {
                    stage.relay.stop_child(stage.now, key, None);
                }
            }
            Action::Says(name, news) => {
                self.hear(name, news);
                let (parent, child, members) = (name.parent(), name.session(), news.members());
                let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#);
                let params = format!(r#"{{"sessionId":"{parent}","update":{update}}}"#);
                let said = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
                stage.say(Side::Server, &said);
            }
        }
        Ok(())
    }

    fn judge(&self, frame: &str) -> Result<(), Broken> {
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

    fn reads(&mut self, _: Instant, to: Side, frame: &str) -> Result<(), Broken> {
        for ask in Ask::ALL.into_iter().filter(|ask| to == Side::Server && frame.contains(ask.method())) {
            self.asks[ask as usize].read();
        }
        Ok(())
    }

    fn lose_server(&mut self) {
        self.asks = [Asked::Answered; 3];
        for known in self.known.iter_mut().flatten().filter(|known| known.state.is_open()) {
            (known.state, known.can_cancel) = (ChildState::Unknown, false);
        }
    }

    fn check(&mut self, stage: &Stage) -> Result<(), Broken> {
        self.note_turn_answered(&stage.relay);
        for name in Name::BOTH {
            let (shown, known) = (view(&stage.relay, name), self.known[name as usize]);
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
        for view in stage.views().filter(|view| view.method == Ask::Prompt.method() && view.cancel.is_some()) {
            let counted = (view.children.open, view.children.unseen);
            never(counted != (told, unseen), || {
                format!("the receipt of the turn counts {counted:?}, and {:?} are known", (told, unseen))
            })?;
        }
        Ok(())
    }

    fn hash(&self, _stage: &Stage, digest: &mut Digest) {
        (self.asks, self.is_turn_cancelled, self.known, self.by_client).hash(digest);
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
