//! A client of one era of MCP, a server that knows only one, and a relay with a bridge between them.
//!
//! The client does what its era lets it do; the server answers whatever it has, in any order, cancelled or not, asks for
//! what it has, and may die, or end of our question and be started again. Each frame that either sees is judged: is it of the reader's own era, may it come now, is it
//! anybody's, and is a question shown with the call that it is for. In the end nothing goes on that was stopped.
//!
//! Each receipt is judged by what the server was handed: what it was not handed whole is neither "sent" nor written, and
//! what was never sent does not reach it. In some meetings a post stands before the server: it takes what is written, and
//! hands it on later, or gives it back.

use core::{hash::Hash, time::Duration};

use rescind_proto::{
    link::RequestKey,
    receipt::{Outcome, Receipt},
    side::{Side, Sides},
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    eras::{self, CAPABILITIES, Judged, META, must},
    hop::Cut,
    meeting::Meeting,
    post::Post,
    stage::{Stage, claims_sent},
    world::{Broken, Transcript, World, broken, never, none, to_rest},
};

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client asks, under the id of this place, as the era of this place does.
    Ask(u8, Era),
    /// The client cancels its newest request with this id.
    Cancel(u8),
    /// Some of what waits for a side is written, and read.
    Write(Side, Cut),
    /// The first that was taken for the server is handed on.
    Depart,
    /// The server answers what lies at this place before it.
    Answer(u8),
    /// The server refuses that.
    Refuse(u8),
    /// The server wants to know something for that.
    Want(u8),
    /// The client gives what was wanted for its request at this place: calls again, or answers a question.
    Give(u8),
    /// It says no.
    Deny(u8),
    /// What this side says from here on is put in an array.
    Gather(Side),
    /// That array is said.
    Send(Side),
    /// The next timer is due.
    Timeout,
    /// The server dies.
    Die,
    /// The server ends of our question, in the middle of a message, and another process of it takes its place.
    Restart,
}

/// An era, as a request shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Era {
    /// It is of a session.
    #[default]
    Legacy,
    /// It says in `_meta` what it is of.
    Modern,
}

/// A request of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Ask {
    id: u8,
    era: Era,
    is_cancelled: bool,
    answers: u8,
    /// Something of it was at the server when it was cancelled, or may have been.
    reached: bool,
    /// It came in an array, and goes on in one: there it cannot be taken back.
    is_member: bool,
    /// The first request of the same call: this one, unless it is a retry.
    root: usize,
    /// What the client is asked for it, and has not given.
    wanted: Option<Wanted>,
    /// Its last receipt.
    told: Option<Told>,
}

/// A receipt, as far as it is judged later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Asked,
    NeverSent,
    More,
}

/// What a client is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    /// By the result of its request: the state, and the names of the questions.
    Result(String, Vec<String>),
    /// By a question with this id.
    Question(i64),
}

impl Kind {
    /// The first request of the call that it is.
    const fn call(self) -> Option<usize> {
        match self {
            Self::Initialize | Self::Discover => None,
            Self::Call(root) => Some(root),
        }
    }
}

/// A request that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    id: i64,
    kind: Kind,
    is_cancelled: bool,
    /// When it was.
    heard_at: Option<Instant>,
    /// Questions for it that wait for their answers.
    questions: Vec<i64>,
}

/// What the server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Initialize,
    Discover,
    /// The request of this place.
    Call(usize),
}

/// A client, a server, and what is between.
#[derive(Clone, Debug, Default)]
pub struct BridgeWorld {
    meeting: Meeting,
    stage: Stage,
    asks: Vec<Ask>,
    /// The client's handshake was answered, and the session is open.
    greeted: bool,
    has_session: bool,
    work: Vec<Work>,
    /// Ids that the server has seen.
    seen: Vec<i64>,
    /// Calls that it was handed, by their id and first request, and those whose cancel it was handed.
    handed: Vec<(i64, usize)>,
    cancels_handed: Vec<usize>,
    /// Requests of the client that have a receipt, by place.
    cancelled_asks: Vec<(RequestKey, usize)>,
    /// What was taken for the server and has not left.
    post: Post,
    /// How often the server has wanted to know something.
    wants: u8,
    /// Calls that the client has stopped, by their first request.
    stopped: Vec<usize>,
    /// Calls that it did not take up again for a while.
    left: Vec<usize>,
    shook_hands: bool,
    is_dead: bool,
    /// It is the second, whose predecessor ended of our question.
    is_successor: bool,
    /// The array that a side is making, and whether it has made one.
    gathered: Sides<Gathered>,
}

/// A side's array. One is enough to show what becomes of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Gathered {
    #[default]
    Never,
    /// So far.
    Open(Vec<String>),
    Sent,
}

const MOST_ASKS: usize = 3;
const MOST_WANTS: u8 = 2;
/// A server that has heard a cancel asks nothing for it after that.
const HEARD_WITHIN: Duration = Duration::from_secs(60);
const IDS: [u8; 2] = [1, 2];
/// What a server has said of a message when it ends.
const HALF: &[u8] = br#"{"jsonrpc":"2.0","id":21"#;

impl BridgeWorld {
    /// The meeting before anything was said.
    pub fn new(meeting: Meeting) -> Self {
        let stage = Stage::with_bridge(meeting.is_mixed, meeting.departs);
        let mut world = Self { meeting, stage, ..Self::default() };
        if meeting.client_has_session {
            world.say(Side::Client, &eras::initialize("hello", meeting.revision()));
        }
        if meeting.is_open {
            world.meet();
        }
        world
    }

    /// Everybody greets everybody, and the client calls.
    fn meet(&mut self) {
        let era = if self.meeting.client_has_session { Era::Legacy } else { Era::Modern };
        let mut has_asked = false;
        while self.work.iter().all(|work| work.kind.call().is_none()) {
            for side in Side::BOTH {
                self.write(side, Cut::All).expect("a handshake");
            }
            while !self.post.is_empty() {
                self.hand_on().expect("a handshake");
            }
            if let Some(at) = self.work.iter().position(|work| work.kind.call().is_none()) {
                self.answer(at, false);
            }
            if (self.has_session || era == Era::Modern) && !std::mem::replace(&mut has_asked, true) {
                self.ask(IDS[0], era, 0, &json!({}));
            }
        }
        self.watch().expect("a handshake");
    }

    fn say(&mut self, from: Side, frame: &Value) {
        let line = frame.to_string();
        match &mut self.gathered[from] {
            Gathered::Open(array) => array.push(line),
            Gathered::Never | Gathered::Sent => self.stage.say(from, &line),
        }
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        for frame in self.stage.write(to, cut) {
            if to == Side::Client || !self.meeting.departs {
                self.read(to, &frame)?;
            } else if let Some(departure) = self.post.take(frame) {
                // It is given back, since this cancels it before it has left.
                self.stage.relay.handle_departure(self.stage.now, Side::Server, &departure);
            }
        }
        Ok(())
    }

    fn read(&mut self, to: Side, frame: &str) -> Result<(), Broken> {
        self.stage.note_read(to, frame);
        let frame = eras::parse(frame)?;
        let array = frame.as_array().filter(|_| self.meeting.has_batches(to)).cloned();
        for frame in array.unwrap_or_else(|| vec![frame]) {
            let judged = match to {
                Side::Client => self.client_reads(&frame),
                Side::Server => self.server_reads(&frame),
            };
            judged.map_err(|words| Broken(format!("{words}: {frame}")))?;
        }
        Ok(())
    }

    fn client_reads(&mut self, frame: &Value) -> Judged {
        match frame["method"].as_str() {
            Some("elicitation/create") => return self.client_is_asked(frame),
            Some("notifications/cancelled") => {
                let named = frame["params"]["requestId"].as_i64();
                let is_it = |ask: &&mut Ask| matches!(ask.wanted, Some(Wanted::Question(id)) if Some(id) == named);
                // It may have been answered meanwhile.
                self.asks.iter_mut().filter(is_it).for_each(|ask| ask.wanted = None);
                return must(self.meeting.client_has_session, "a client without a session is told");
            }
            Some(_) => return Err("the client is told what nobody said"),
            None => {}
        }
        if frame["id"] == "hello" {
            must(!std::mem::replace(&mut self.greeted, true), "the handshake is answered twice")?;
            if frame.get("result").is_some() {
                let is_known = frame["result"]["protocolVersion"] == self.meeting.revision();
                must(is_known, "the handshake has no revision")?;
                self.has_session = true;
                self.say(Side::Client, &eras::initialized());
            }
            return Ok(());
        }
        let id = frame["id"].as_u64().and_then(|id| u8::try_from(id).ok());
        let waits = |ask: &&mut Ask| Some(ask.id) == id && ask.answers == 0 && !ask.is_cancelled;
        let ask = self.asks.iter_mut().find(waits).ok_or("the client is answered what it does not wait for")?;
        ask.answers += 1;
        if frame["result"]["resultType"] == "input_required" && ask.era == Era::Modern {
            let requests = frame["result"]["inputRequests"].as_object().into_iter().flatten();
            let for_call = |wanted: &Value| wanted["params"]["message"].as_u64() == u64::try_from(ask.root).ok();
            must(requests.clone().all(|(_, wanted)| for_call(wanted)), "a question of another call")?;
            let state = frame["result"]["requestState"].as_str().unwrap_or_default().to_owned();
            ask.wanted = Some(Wanted::Result(state, requests.map(|(key, _)| key.clone()).collect()));
            return Ok(());
        }
        let is_modern = frame["result"].get("resultType").is_some();
        must(frame.get("result").is_none() || is_modern == (ask.era == Era::Modern), "a result of another era")
    }

    fn client_is_asked(&mut self, frame: &Value) -> Judged {
        let (id, root) = (frame["id"].as_i64(), frame["params"]["message"].as_u64());
        let is_for = |ask: &&mut Ask| u64::try_from(ask.root).ok() == root && ask.answers == 0;
        let ask = self.asks.iter_mut().find(is_for).filter(|ask| ask.era == Era::Legacy);
        let ask = ask.ok_or("the client is asked for nothing")?;
        must(ask.wanted.is_none() && id.is_some(), "the client is asked twice")?;
        ask.wanted = id.map(Wanted::Question);
        Ok(())
    }

    /// The server hears what it wanted to know, or that it does not.
    fn server_is_told(&mut self, frame: &Value) -> Judged {
        let id = frame["id"].as_i64();
        let asker = self.work.iter_mut().find(|work| work.questions.iter().any(|question| Some(*question) == id));
        let Some(work) = asker else {
            // The call may have been answered meanwhile.
            let was_asked = self.seen.iter().any(|seen| Some(*seen) == id.map(|id| -id));
            return must(was_asked, "the server is answered what it never asked");
        };
        work.questions.retain(|question| Some(*question) != id);
        let for_call = |root: u64| matches!(work.kind, Kind::Call(ask) if u64::try_from(ask).ok() == Some(root));
        match frame["result"]["content"]["for"].as_u64() {
            Some(root) => must(for_call(root), "an answer for another call"),
            None => must(frame.get("error").is_some(), "an answer that nobody gave"),
        }
    }

    fn server_reads(&mut self, frame: &Value) -> Judged {
        let params = &frame["params"];
        match frame["method"].as_str() {
            Some("notifications/initialized") => {
                self.shook_hands = true;
                return must(self.meeting.server_has_sessions, "a server without sessions is told");
            }
            Some("notifications/cancelled") => return self.server_is_to_cancel(params["requestId"].as_i64()),
            Some(_) => {}
            None => return self.server_is_told(frame),
        }
        let id = frame["id"].as_i64().or_else(|| (frame["id"] == "hello").then_some(-1)).ok_or("no id")?;
        must(!self.seen.contains(&id), "an id is used again (MCP-I02)")?;
        self.seen.push(id);
        let is_modern = params["_meta"].get(META).is_some();
        let kind = match frame["method"].as_str() {
            Some("initialize") => Kind::Initialize,
            Some("server/discover") => {
                must(!self.is_successor, "it is asked what its predecessor ended of")?;
                Kind::Discover
            }
            _ => {
                must(is_modern == self.meeting.server_is_modern, "a request of another era")?;
                let may_ask = self.shook_hands || !self.meeting.server_has_sessions;
                must(may_ask, "a request before the handshake is over")?;
                let ask = params["ask"].as_u64().and_then(|ask| usize::try_from(ask).ok());
                let ask = ask.ok_or("a request of nobody")?;
                must(self.work.iter().all(|work| work.kind != Kind::Call(ask)), "a request for the second time")?;
                let mut answers = params["inputResponses"].as_object().into_iter().flatten();
                let is_its =
                    |(key, given): (&String, &Value)| *key == ask.to_string() && given["content"]["for"] == ask;
                must(answers.all(is_its), "an answer for another call")?;
                let was_withdrawn = self.asks[ask].is_cancelled && !self.asks[ask].reached;
                must(!was_withdrawn && self.asks[ask].told != Some(Told::NeverSent), "a request that was withdrawn")?;
                self.handed.push((id, ask));
                Kind::Call(ask)
            }
        };
        self.work.push(Work { id, kind, is_cancelled: false, heard_at: None, questions: Vec::new() });
        Ok(())
    }

    fn server_is_to_cancel(&mut self, named: Option<i64>) -> Judged {
        let handed = self.handed.iter().filter(|(id, _)| Some(*id) == named);
        self.cancels_handed.extend(handed.map(|(_, root)| *root));
        let Some(work) = self.work.iter_mut().find(|work| Some(work.id) == named) else {
            // It may have been answered meanwhile.
            return must(named.is_some_and(|id| self.seen.contains(&id)), "a cancel of nothing");
        };
        let Kind::Call(ask) = work.kind else { return Err("a cancel of a handshake") };
        must(!std::mem::replace(&mut work.is_cancelled, true), "a second cancel")?;
        work.heard_at = Some(self.stage.now);
        // Its client has stopped it, or does not call again.
        must(self.stopped.contains(&ask) || self.left.contains(&ask), "a cancel of another's request")
    }

    /// The server wants to know something for what lies at this place.
    fn want(&mut self, at: usize) {
        self.wants += 1;
        let Kind::Call(root) = self.work[at].kind else { return };
        if self.meeting.server_is_modern {
            let Work { id, .. } = self.work.remove(at);
            let question = json!({"method": "elicitation/create", "params": {"message": root}});
            let wanted = eras::input_required(json!({root.to_string(): question}));
            return self.say(Side::Server, &eras::result(id, wanted));
        }
        let id = i64::from(self.wants);
        self.work[at].questions.push(id);
        // Beside the ids that it has seen, which are not negative.
        self.seen.push(-id);
        self.say(Side::Server, &eras::question(id, json!({"message": root})));
    }

    /// The client gives what was wanted for its request at this place, or says that it does not.
    fn give(&mut self, at: usize, gives: bool) {
        let Some(wanted) = self.asks[at].wanted.take() else { return };
        let root = self.asks[at].root;
        let given = eras::given(root);
        match wanted {
            Wanted::Question(id) if gives => self.say(Side::Client, &eras::result(id, given)),
            Wanted::Question(id) => self.say(Side::Client, &eras::error(id, -1, "no")),
            Wanted::Result(state, keys) => {
                let id = IDS.into_iter().find(|id| !self.in_flight(*id)).unwrap_or_default();
                let given: serde_json::Map<_, _> = keys.into_iter().map(|key| (key, given.clone())).collect();
                self.ask(id, Era::Modern, root, &json!({"inputResponses": given, "requestState": state}));
            }
        }
    }

    fn ask(&mut self, id: u8, era: Era, root: usize, more: &Value) {
        self.asks.push(Ask { id, era, root, ..Ask::default() });
        let mut params = match era {
            Era::Legacy => json!({"ask": root}),
            Era::Modern => json!({"ask": root, "_meta": {
                META: "2026-07-28",
                CAPABILITIES: {"elicitation": {}},
            }}),
        };
        eras::extend(&mut params, more);
        self.say(Side::Client, &eras::request(id, "tools/call", params));
    }

    fn answer(&mut self, at: usize, refuses: bool) {
        let Work { id, kind, .. } = self.work.remove(at);
        let id = if id == -1 { json!("hello") } else { json!(id) };
        let Meeting { server_has_sessions, server_is_modern, .. } = self.meeting;
        let answer = match kind {
            Kind::Initialize if !server_has_sessions => eras::error(id, -32601, "no"),
            Kind::Discover if !server_is_modern => eras::error(id, -32601, "no"),
            _ if refuses => eras::error(id, -32000, "no"),
            Kind::Initialize => eras::result(id, eras::opened(self.meeting.revision(), json!({"tools": {}}))),
            Kind::Discover => eras::result(id, eras::discovered(json!({"tools": {}}))),
            Kind::Call(_) => eras::result(id, eras::called(server_is_modern)),
        };
        self.say(Side::Server, &answer);
    }

    fn watch(&mut self) -> Result<(), Broken> {
        for (request, id, receipt) in self.stage.receipts() {
            self.judge(request, &id.to_string(), &receipt)?;
        }
        Ok(())
    }

    /// Judges a receipt.
    fn judge(&mut self, request: RequestKey, id: &str, receipt: &Receipt) -> Result<(), Broken> {
        let known = self.cancelled_asks.iter().find(|(known, _)| *known == request).map(|(_, at)| *at);
        let is_it = |ask: &Ask| ask.id.to_string() == id && ask.told.is_none();
        let Some(at) = known.or_else(|| self.asks.iter().rposition(is_it)) else {
            return broken(format!("a receipt for nothing: {id} {receipt:?}"));
        };
        if known.is_none() {
            self.cancelled_asks.push((request, at));
        }
        let ask = &mut self.asks[at];
        never(claims_sent(receipt) && !self.cancels_handed.contains(&ask.root), || {
            format!("the server was handed no such cancel: {id} {receipt:?}")
        })?;
        let is_never_sent = receipt.outcome == Outcome::NeverSent;
        never(is_never_sent && at == ask.root && self.handed.iter().any(|(_, root)| *root == ask.root), || {
            format!("the server has it: {id} {receipt:?}")
        })?;
        ask.told = Some(if receipt.outcome == Outcome::Asked {
            Told::Asked
        } else if is_never_sent {
            Told::NeverSent
        } else {
            Told::More
        });
        Ok(())
    }

    /// The first of what was taken is handed on.
    fn hand_on(&mut self) -> Result<(), Broken> {
        let Some((frame, departures)) = self.post.hand_on() else { return Ok(()) };
        self.read(Side::Server, &frame)?;
        for departure in departures {
            self.stage.relay.handle_departure(self.stage.now, Side::Server, &departure);
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Ask(id, era) => self.ask(id, era, self.asks.len(), &json!({})),
            Action::Cancel(id) => {
                if !matches!(self.gathered.client, Gathered::Open(_)) {
                    self.cancelled(id);
                }
                self.say(Side::Client, &eras::cancel(id));
            }
            Action::Write(to, cut) => self.write(to, cut)?,
            Action::Depart => self.hand_on()?,
            Action::Want(at) => self.want(usize::from(at)),
            Action::Give(at) => self.give(usize::from(at), true),
            Action::Deny(at) => self.give(usize::from(at), false),
            Action::Answer(at) => self.answer(usize::from(at), false),
            Action::Refuse(at) => self.answer(usize::from(at), true),
            Action::Gather(side) => self.gathered[side] = Gathered::Open(Vec::new()),
            Action::Send(side) => {
                if let Gathered::Open(array) = std::mem::replace(&mut self.gathered[side], Gathered::Sent) {
                    IDS.into_iter()
                        .filter(|id| array.contains(&eras::cancel(*id).to_string()))
                        .for_each(|id| self.cancelled(id));
                    for ask in self.asks.iter_mut().filter(|_| side == Side::Client && self.meeting.server_has_sessions)
                    {
                        ask.is_member |= array.iter().any(|member| member.contains(&format!("\"id\":{},", ask.id)));
                    }
                    self.stage.say(side, &format!("[{}]", array.join(",")));
                }
            }
            Action::Timeout => {
                let asked = self.asks.iter().filter(|ask| matches!(ask.wanted, Some(Wanted::Result(..))));
                self.left.extend(asked.map(|ask| ask.root));
                // The client may not have read it yet.
                let asking = self.work.iter().filter(|work| !work.questions.is_empty());
                self.left.extend(asking.filter_map(|work| work.kind.call()));
                self.stage.pass();
            }
            Action::Die => {
                self.is_dead = true;
                self.work.clear();
                self.post = Post::default();
                self.gathered.server = Gathered::Sent;
                self.stage.lose_server();
            }
            Action::Restart => self.restart()?,
        }
        self.watch()?;
        let is_endless = self.is_successor && self.stage.relay.may_replace_server();
        never(is_endless, || "the server may be replaced for the second time".into())
    }

    /// The server ends of what it was asked, and another takes its place: as a driver does it that can start one.
    fn restart(&mut self) -> Result<(), Broken> {
        none(self.work.iter().find(|work| work.kind.call().is_some()), |work| {
            format!("{work:?} is lost with the server")
        })?;
        self.work.clear();
        self.post = Post::default();
        self.shook_hands = false;
        self.stage.clear(Side::Server);
        self.stage.relay.handle_input(self.stage.now, Side::Server, HALF);
        self.stage.transcript.note(|| "          the server ends, and is started again".into());
        self.stage.relay.handle_server_replaced(self.stage.now);
        self.is_successor = true;
        Ok(())
    }

    /// The client's newest request with this id is no longer wanted, and that is about to be said.
    fn cancelled(&mut self, id: u8) {
        let waits = |ask: &Ask| ask.id == id && !ask.is_cancelled && ask.answers == 0;
        let Some(at) = self.asks.iter().rposition(waits) else { return };
        let root = self.asks[at].root;
        self.stopped.push(root);
        let named = format!("\"ask\":{root}");
        let is_work = self.work.iter().any(|work| work.kind == Kind::Call(root));
        let reached = is_work
            || self.asks[at].is_member
            || self.post.holds(&named)
            || self.stage.begun(Side::Server).is_some_and(|frame| frame.contains(&named));
        // An answer that has begun to leave still comes, and so does one in an array, which is not taken apart.
        let answer = format!("\"id\":{id},");
        let waiting = String::from_utf8_lossy(self.stage.relay.pending(Side::Client));
        let is_in_array = waiting.lines().any(|line| line.starts_with('[') && line.contains(&answer));
        if is_in_array || self.stage.begun(Side::Client).is_some_and(|frame| frame.contains(&answer)) {
            return;
        }
        self.asks[at].is_cancelled = true;
        self.asks[at].reached = reached;
    }

    /// A handshake is in no array.
    fn may_gather(&self, side: Side) -> bool {
        match side {
            Side::Client => self.has_session,
            Side::Server => self.shook_hands && !self.is_dead,
        }
    }

    fn in_flight(&self, id: u8) -> bool {
        self.asks.iter().any(|ask| ask.id == id && ask.answers == 0)
    }
}

impl World for BridgeWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        if self.asks.len() < MOST_ASKS {
            // A cancelled request is never answered, and its id not used again (MCP-I03).
            for id in IDS.into_iter().filter(|id| !self.in_flight(*id)) {
                if !self.meeting.client_has_session || self.meeting.is_mixed {
                    out.push(Action::Ask(id, Era::Modern));
                }
                // In a session no id is used again (MCP-I02).
                if self.has_session && self.asks.iter().all(|ask| ask.id != id) {
                    out.push(Action::Ask(id, Era::Legacy));
                }
            }
        }
        let is_gathered = |id: u8| matches!(&self.gathered.client, Gathered::Open(array) if array.contains(&eras::cancel(id).to_string()));
        let waits = |id: u8| {
            self.asks.iter().any(|ask| ask.id == id && !ask.is_cancelled && ask.answers == 0) && !is_gathered(id)
        };
        out.extend(IDS.into_iter().filter(|id| waits(*id)).map(Action::Cancel));
        for side in Side::BOTH {
            if !self.stage.relay.pending(side).is_empty() {
                out.extend([Cut::Frame, Cut::Half].map(|cut| Action::Write(side, cut)));
            }
        }
        if !self.post.is_empty() {
            out.push(Action::Depart);
        }
        for (at, work) in (0_u8..).zip(&self.work) {
            out.extend([Action::Answer(at), Action::Refuse(at)]);
            let has_heard = work.heard_at.is_some_and(|at| self.stage.now.since(at) >= HEARD_WITHIN);
            let may_want = matches!(work.kind, Kind::Call(_)) && !has_heard && !self.meeting.is_mixed;
            if may_want && self.wants < MOST_WANTS && self.meeting.asks() {
                out.push(Action::Want(at));
            }
        }
        for (at, ask) in (0_u8..).zip(&self.asks) {
            match ask.wanted {
                Some(Wanted::Question(_)) => out.extend([Action::Give(at), Action::Deny(at)]),
                Some(Wanted::Result(..)) if self.asks.len() < MOST_ASKS + usize::from(MOST_WANTS) => {
                    out.push(Action::Give(at));
                }
                Some(Wanted::Result(..)) | None => {}
            }
        }
        for side in Side::BOTH.into_iter().filter(|side| self.meeting.has_batches(*side)) {
            match &self.gathered[side] {
                Gathered::Never if self.may_gather(side) => out.push(Action::Gather(side)),
                Gathered::Open(array) if !array.is_empty() => out.push(Action::Send(side)),
                Gathered::Never | Gathered::Open(_) | Gathered::Sent => {}
            }
        }
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
        if !self.is_dead {
            out.push(Action::Die);
        }
        if !self.is_dead && !self.is_successor && self.stage.relay.may_replace_server() {
            out.push(Action::Restart);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Die | Action::Timeout)
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        self.act(action)
    }

    /// Everything that is not cancelled is answered once, and nothing is left.
    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        to_rest(|| world.go_on())?;
        world.check_settled()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        for Work { id, kind, is_cancelled, heard_at, questions } in &self.work {
            let heard = heard_at.map(|at| self.stage.now.since(at).min(HEARD_WITHIN));
            (id, kind, is_cancelled, heard, questions).hash(&mut digest);
        }
        (
            &self.asks,
            self.greeted,
            self.has_session,
            self.seen.len(),
            self.wants,
            (&self.stopped, &self.left),
            (&self.handed, &self.cancels_handed, &self.post),
            self.shook_hands,
            (self.is_dead, self.is_successor),
            &self.gathered,
        )
            .hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}

impl BridgeWorld {
    /// What comes by itself does: messages arrive, the person and the server answer, time passes. Whether anything moved.
    fn go_on(&mut self) -> Result<bool, Broken> {
        let mut moved = false;
        for side in Side::BOTH {
            if matches!(&self.gathered[side], Gathered::Open(array) if !array.is_empty()) {
                self.act(Action::Send(side))?;
                moved = true;
            }
        }
        for side in Side::BOTH {
            while !self.stage.relay.pending(side).is_empty() {
                self.act(Action::Write(side, Cut::All))?;
                moved = true;
            }
        }
        while !self.post.is_empty() {
            self.act(Action::Depart)?;
            moved = true;
        }
        // What waits for the person waits until he has answered or has stopped it; the client may never call again.
        let asked = |ask: &Ask| matches!(ask.wanted, Some(Wanted::Question(_))) && ask.answers == 0;
        if let Some(at) = self.asks.iter().position(asked) {
            self.act(Action::Give(u8::try_from(at).unwrap_or_default()))?;
            moved = true;
        }
        if moved {
            return Ok(true);
        }
        let is_free = |work: &Work| {
            let is_stopped = work.kind.call().is_some_and(|root| self.stopped.contains(&root));
            !work.is_cancelled && !is_stopped && work.questions.is_empty()
        };
        if let Some(at) = self.work.iter().position(is_free) {
            self.act(Action::Answer(u8::try_from(at).unwrap_or_default()))?;
        } else if self.stage.relay.poll_timeout().is_some() {
            self.act(Action::Timeout)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn check_settled(&mut self) -> Result<(), Broken> {
        none(self.asks.iter().find(|ask| !ask.is_cancelled && ask.answers != 1), |ask| {
            format!("{ask:?} waits for ever")
        })?;
        // A request that was forgotten has no more receipts.
        let is_open = |(key, at): &&(RequestKey, usize)| {
            self.asks[*at].told == Some(Told::Asked) && self.stage.relay.view(*key).is_some()
        };
        none(self.cancelled_asks.iter().find(is_open).map(|(_, at)| &self.asks[*at]), |ask| {
            format!("what became of it is never said: {ask:?}")
        })?;
        none(self.work.iter().find(|work| !work.is_cancelled && !self.is_dead), |work| format!("{work:?} goes on"))?;
        never(self.meeting.client_has_session && !self.greeted, || "the handshake is never answered".into())?;
        self.stage.check_empty()
    }
}
