//! An ACP v2 client and its agent with a relay between them, and a session whose work begins and ends with what the agent
//! reports (D55): its foreground work, and one terminal of the background.
//!
//! The agent reports anything, in any order. A small model knows what of that is at work, and judges what the relay
//! shows, what it claims of a cancel, and every cancel that reaches the agent.

use core::hash::Hash;

use rescind_proto::{link::RequestKey, receipt::Outcome, relay::RequestView, side::Side, time::Instant};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    follower_world::{FollowerWorld, Kind},
    stage::Stage,
    world::{Broken, never},
};

/// A relay before an agent with a session that reports its work.
pub type SessionWorld = FollowerWorld<ReportedWork>;

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

    fn at_work(self) -> Option<RequestKey> {
        self.key.filter(|_| self.goes_on)
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
}

/// What was reported of the session, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct ReportedWork {
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
}

impl ReportedWork {
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
}

impl Kind for ReportedWork {
    type Action = Action;

    fn greeting(&self) -> Vec<(Side, Value)> {
        let version = json!({"protocolVersion": 2});
        vec![
            (Side::Client, json!({"jsonrpc": "2.0", "id": "hi", "method": "initialize", "params": version})),
            (Side::Server, json!({"jsonrpc": "2.0", "id": "hi", "result": version})),
        ]
    }

    fn with_server(&self, _stage: &Stage, out: &mut Vec<Action>) {
        out.extend(News::ALL.map(Action::Says));
        out.push(Action::ClientStops);
        if !self.unanswered.is_empty() {
            out.extend([Action::Accepts, Action::Refuses]);
        }
    }

    fn always(&self, _stage: &Stage, out: &mut Vec<Action>) {
        out.extend([Action::Stops, Action::StopsTerminal]);
    }

    fn act(&mut self, stage: &mut Stage, action: Action) -> Result<(), Broken> {
        match action {
            Action::Says(news) => {
                self.hear(news);
                let params = format!(r#"{{"sessionId":"s","update":{{"sessionUpdate":{}}}}}"#, news.update());
                let said = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
                stage.say(Side::Server, &said);
            }
            Action::ClientStops => {
                self.has_client_stopped = true;
                let said = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
                stage.say(Side::Client, said);
            }
            Action::Stops => stage.stop(&"the foreground work", self.foreground.at_work()),
            Action::StopsTerminal => stage.stop(&"the terminal", self.terminal.at_work()),
            Action::Accepts | Action::Refuses => {
                let id = self.unanswered.remove(0);
                let refused = r#""error":{"code":-32602,"message":"no"}"#;
                let answer = if action == Action::Accepts { r#""result":{}"# } else { refused };
                stage.say(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":"{id}",{answer}}}"#));
            }
        }
        Ok(())
    }

    fn judge(&self, frame: &str) -> Result<(), Broken> {
        let is_session = frame.contains(r#""session/cancel""#) && !self.has_client_stopped;
        never(is_session && !self.foreground.goes_on, || "nothing of the session works that it cancels".to_owned())?;
        let may_be = self.terminal.goes_on && self.is_granted;
        never(frame.contains(r#""terminal/cancel""#) && !may_be, || "the terminal may not be cancelled".to_owned())
    }

    fn reads(&mut self, _: Instant, to: Side, frame: &str) -> Result<(), Broken> {
        if to == Side::Client {
            return never(frame.contains("rescind-"), || format!("the client hears of a request of ours: {frame}"));
        }
        if frame.contains(r#""terminal/cancel""#) {
            let id = frame.split(r#""id":""#).nth(1).and_then(|rest| rest.split('"').next());
            self.unanswered.extend(id.map(str::to_owned));
        }
        Ok(())
    }

    fn lose_server(&mut self) {
        self.unanswered.clear();
        self.foreground.end(End::Lost);
        self.terminal.end(End::Lost);
    }

    fn check(&mut self, stage: &Stage) -> Result<(), Broken> {
        let relay = &stage.relay;
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
                // An item that was not asked to end, and did.
                Some(Outcome::AnsweredAfter { .. }) if method == "terminal" => work.end == Some(End::Stopped),
                Some(Outcome::AnsweredAfter { .. }) => work.end == Some(End::Finished),
                Some(Outcome::CompletedFirst) => work.end.is_some_and(|end| end != End::Lost),
                Some(_) | None => true,
            };
            never(!may_be, || format!("the cancel of {method} is {outcome:?}, and it is {work:?}"))?;
        }
        let told = relay.may_hide_work();
        never(told != self.hides_work, || format!("that work may be hidden is told as {told}"))
    }

    fn hash(&self, _stage: &Stage, digest: &mut Digest) {
        for work in [self.foreground, self.terminal] {
            (work.goes_on, work.end).hash(digest);
        }
        (self.is_listed, self.has_exited, self.is_granted, self.hides_work).hash(digest);
        (self.has_client_stopped, &self.unanswered).hash(digest);
    }
}
