//! An ACP v2 client and its agent with a relay between them, and a session whose work begins and ends with what the agent
//! reports (D55): its foreground work, and one terminal of the background.
//!
//! The agent reports anything, in any order. A small model knows what of that is at work, and judges what the relay
//! shows, what it claims of a cancel, and every cancel that reaches the agent.

use core::hash::Hash;

use rescind_proto::{
    link::RequestKey,
    receipt::Outcome,
    relay::{Relay, RelayConfig, RequestView},
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

/// What the agent reports of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Foreground work goes on; the terminal does, too.
    RunningWithTerminal,
    /// Foreground work goes on, and nothing in the background.
    RunningAlone,
    /// A state that is not known here, without a list of the background.
    Unknown,
    /// The foreground work was cancelled; the terminal goes on.
    CancelledWithTerminal,
    /// The foreground work was cancelled, and nothing goes on.
    Cancelled,
    /// The foreground work ended by itself; without a list of the background.
    Finished,
    /// The terminal may be cancelled.
    Granted,
    /// The terminal may not be cancelled.
    Ungranted,
    /// The terminal has exited.
    Exited,
}

impl News {
    const ALL: [Self; 9] = [
        Self::RunningWithTerminal,
        Self::RunningAlone,
        Self::Unknown,
        Self::CancelledWithTerminal,
        Self::Cancelled,
        Self::Finished,
        Self::Granted,
        Self::Ungranted,
        Self::Exited,
    ];

    const fn update(self) -> &'static str {
        match self {
            Self::RunningWithTerminal => {
                r#""state_update","state":"running","background":[{"type":"terminal","terminalId":"t"}]"#
            }
            Self::RunningAlone => r#""state_update","state":"running","background":[]"#,
            Self::Unknown => r#""state_update","state":"_other""#,
            Self::CancelledWithTerminal => {
                r#""state_update","state":"idle","stopReason":"cancelled","background":[{"type":"terminal","terminalId":"t"}]"#
            }
            Self::Cancelled => r#""state_update","state":"idle","stopReason":"cancelled","background":[]"#,
            Self::Finished => r#""state_update","state":"idle","stopReason":"end_turn""#,
            Self::Granted => r#""terminal_update","terminalId":"t","capabilities":{"cancel":{}}"#,
            Self::Ungranted => r#""terminal_update","terminalId":"t","capabilities":null"#,
            Self::Exited => r#""terminal_update","terminalId":"t","exitStatus":{"exitCode":0}"#,
        }
    }

    /// Whether foreground work goes on; how it ended, if it does not.
    const fn foreground(self) -> Option<Option<End>> {
        match self {
            Self::RunningWithTerminal | Self::RunningAlone | Self::Unknown => Some(None),
            Self::CancelledWithTerminal | Self::Cancelled => Some(Some(End::Stopped)),
            Self::Finished => Some(Some(End::Finished)),
            Self::Granted | Self::Ungranted | Self::Exited => None,
        }
    }

    /// Whether the terminal is listed, if there is a list.
    const fn list(self) -> Option<bool> {
        match self {
            Self::RunningWithTerminal | Self::CancelledWithTerminal => Some(true),
            Self::RunningAlone | Self::Cancelled => Some(false),
            Self::Unknown | Self::Finished | Self::Granted | Self::Ungranted | Self::Exited => None,
        }
    }
}

/// How work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Stopped,
    Finished,
    Lost,
}

/// One kind of work, as it must be shown.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    goes_on: bool,
    /// How the last of it ended.
    end: Option<End>,
    /// The entry of the last of it.
    key: Option<RequestKey>,
}

impl Work {
    fn begin(&mut self) {
        if !self.goes_on {
            *self = Self { goes_on: true, end: None, key: None };
        }
    }

    fn end(&mut self, how: End) {
        if core::mem::take(&mut self.goes_on) {
            self.end = Some(how);
        }
    }
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The agent reports this.
    Says(News),
    /// The client cancels the session.
    ClientStops,
    /// The operator stops the foreground work, and with it the terminal.
    Stops,
    /// The operator stops the terminal.
    StopsTerminal,
    /// The agent accepts a cancel of the terminal, which does not mean that it has ended.
    Accepts,
    /// The agent refuses one.
    Refuses,
    /// Some of what waits for a side is written.
    Writes(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// The agent ends.
    Ends,
}

/// The relay, what was reported, and what follows from it.
#[derive(Clone, Debug)]
pub struct SessionWorld {
    stage: Stage,
    foreground: Work,
    terminal: Work,
    /// The terminal was last listed.
    is_listed: bool,
    /// It has exited, and was not missing in a list since.
    has_exited: bool,
    is_granted: bool,
    hides_work: bool,
    /// The client has cancelled the session.
    has_client_stopped: bool,
    /// Ids of cancels of the terminal that the agent has read and not answered.
    unanswered: Vec<String>,
    has_ended: bool,
    watcher: Option<Watcher>,
}

impl Default for SessionWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl SessionWorld {
    /// A link with its handshake done.
    #[must_use]
    pub fn new() -> Self {
        let mut stage = Stage::new(Relay::new(RelayConfig::default()), Instant::ORIGIN);
        stage.say(Side::Client, r#"{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":2}}"#);
        stage.write(Side::Server, Cut::All);
        stage.say(Side::Server, r#"{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":2}}"#);
        stage.write(Side::Client, Cut::All);
        let watcher = Some(Watcher::new(&mut stage.relay));
        Self {
            stage,
            foreground: Work::default(),
            terminal: Work::default(),
            is_listed: false,
            has_exited: false,
            is_granted: false,
            hides_work: false,
            has_client_stopped: false,
            unanswered: Vec::new(),
            has_ended: false,
            watcher,
        }
    }

    fn hear(&mut self, news: News) {
        match news.foreground() {
            Some(None) => self.foreground.begin(),
            Some(Some(end)) => self.foreground.end(end),
            None => {}
        }
        if news.foreground().is_some() {
            self.hides_work = news.list().is_none();
        }
        match (news, news.list()) {
            (_, Some(true)) => {
                self.is_listed = true;
                if !self.has_exited {
                    self.terminal.begin();
                }
            }
            (_, Some(false)) => {
                self.terminal.end(End::Stopped);
                self.is_granted &= !self.has_exited;
                (self.is_listed, self.has_exited) = (false, false);
            }
            (News::Granted, None) => self.is_granted = true,
            (News::Ungranted, None) => self.is_granted = false,
            (News::Exited, None) => {
                self.terminal.end(End::Stopped);
                (self.is_granted, self.has_exited) = (false, self.is_listed);
            }
            (_, None) => {}
        }
    }

    /// Judges what reaches the agent, or has begun to.
    fn judge(&self, frame: &str) -> Result<(), Broken> {
        let is_session = frame.contains(r#""session/cancel""#) && !self.has_client_stopped;
        never(is_session && !self.foreground.goes_on, || "nothing of the session works that it cancels".to_owned())?;
        let may_be = self.terminal.goes_on && self.is_granted;
        never(frame.contains(r#""terminal/cancel""#) && !may_be, || "the terminal may not be cancelled".to_owned())
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        let had_begun = self.stage.begun(to).is_some();
        for (place, frame) in self.stage.write(to, cut).into_iter().enumerate() {
            self.stage.note_read(to, &frame);
            if to == Side::Client {
                never(frame.contains("rescind-"), || format!("the client hears of a request of ours: {frame}"))?;
                continue;
            }
            // One of which a part had left was judged then.
            if place > 0 || !had_begun {
                self.judge(&frame)?;
            }
            if frame.contains(r#""terminal/cancel""#) {
                let id = frame.split(r#""id":""#).nth(1).and_then(|rest| rest.split('"').next());
                self.unanswered.extend(id.map(str::to_owned));
            }
        }
        match self.stage.begun(to) {
            Some(frame) if to == Side::Server => self.judge(&frame),
            Some(_) | None => Ok(()),
        }
    }

    fn stop(&mut self, which: &'static str, work: Work) {
        self.stage.transcript.note(|| format!("operator stops the {which}"));
        if let Some(key) = work.key.filter(|_| work.goes_on) {
            self.stage.relay.stop(self.stage.now, key, None);
        }
    }

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Says(news) => {
                self.hear(news);
                let params = format!(r#"{{"sessionId":"s","update":{{"sessionUpdate":{}}}}}"#, news.update());
                let said = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
                self.stage.say(Side::Server, &said);
            }
            Action::ClientStops => {
                self.has_client_stopped = true;
                let said = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
                self.stage.say(Side::Client, said);
            }
            Action::Stops => self.stop("foreground work", self.foreground),
            Action::StopsTerminal => self.stop("terminal", self.terminal),
            Action::Accepts | Action::Refuses => {
                let id = self.unanswered.remove(0);
                let refused = r#""error":{"code":-32602,"message":"no"}"#;
                let answer = if action == Action::Accepts { r#""result":{}"# } else { refused };
                self.stage.say(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":"{id}",{answer}}}"#));
            }
            Action::Writes(to, cut) => self.write(to, cut)?,
            Action::Timeout => self.stage.pass(),
            Action::Ends => {
                self.has_ended = true;
                self.unanswered.clear();
                self.foreground.end(End::Lost);
                self.terminal.end(End::Lost);
                self.stage.lose_server();
            }
        }
        Ok(())
    }

    /// Compares what the relay shows with what must be shown.
    fn check(&mut self) -> Result<(), Broken> {
        self.stage.receipts();
        let relay = &self.stage.relay;
        for (work, method) in [(&mut self.foreground, "turn"), (&mut self.terminal, "terminal")] {
            let mut shown = relay.requests(Side::Client).filter(|view| view.method == method).map(|view| view.key);
            let (first, second) = (shown.next(), shown.next());
            never(first.is_some() != work.goes_on || second.is_some(), || {
                format!("{method} is shown as {first:?}, {second:?}, and must be {work:?}")
            })?;
            work.key = first.or(work.key);
            let outcome =
                work.key.and_then(|key| relay.view(key)).and_then(|view: RequestView<'_>| Some(view.cancel?.outcome));
            let may_be = match outcome {
                Some(Outcome::Confirmed { .. }) => work.end == Some(End::Stopped),
                Some(Outcome::AnsweredAfter { .. }) => work.end == Some(End::Finished),
                Some(Outcome::CompletedFirst) => work.end.is_some_and(|end| end != End::Lost),
                Some(_) | None => true,
            };
            never(!may_be, || format!("the cancel of {method} is {outcome:?}, and it is {work:?}"))?;
        }
        let told = relay.may_hide_work();
        never(told != self.hides_work, || format!("that work may be hidden is told as {told}"))?;
        match &mut self.watcher {
            Some(watcher) => watcher.follow(&mut self.stage.relay),
            None => Ok(()),
        }
    }
}

impl World for SessionWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let pieces: &[Cut] = if side == Side::Server && !self.stage.is_cut(side) { &[Cut::Half] } else { &[] };
            out.extend(Cut::of(pending, pieces).into_iter().map(|cut| Action::Writes(side, cut)));
        }
        if !self.has_ended {
            out.extend(News::ALL.map(Action::Says));
            out.extend([Action::ClientStops, Action::Ends]);
            if !self.unanswered.is_empty() {
                out.extend([Action::Accepts, Action::Refuses]);
            }
        }
        out.extend([Action::Stops, Action::StopsTerminal]);
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
    }

    fn is_rare(action: Action) -> bool {
        action == Action::Ends
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
        for work in [self.foreground, self.terminal] {
            (work.goes_on, work.end).hash(&mut digest);
        }
        (self.is_listed, self.has_exited, self.is_granted, self.hides_work).hash(&mut digest);
        (self.has_client_stopped, &self.unanswered, self.has_ended).hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
