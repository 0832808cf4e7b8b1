//! A server of MCP that has died and is started again (D64), so that its client can go on.
//!
//! What was in flight at the dead server is answered with its end, as ever. What was not sent yet waits: a gate in the
//! server's link keeps it, from where a cancel takes it back as before. A new server gets the client's own `initialize`
//! first, in a request of ours, then what the client has subscribed to and the log level that it has set. All of that passes
//! the gate, since it passes other frames, too. With the answer to `initialize` the gate opens, and the client is told that
//! the lists may have changed.
//!
//! In a revision without sessions there is nothing to greet, and a subscription is a request: its client sends it again,
//! since it was answered with the end (MCP-S04).

use core::{
    hash::{Hash, Hasher},
    mem::take,
    time::Duration,
};
use std::collections::BTreeSet;

use super::{
    Core, End, Relay, Step, Timer,
    answer::is_loosely,
    exchange::{Exchange, Up},
    link::{PackedTag, Part, Tag},
    task_work::TaskPart,
};
use crate::{
    dialect::Dialect,
    early_cancels::EarlyCancels,
    excerpt::excerpt,
    frame::{Params, Response, ResponseBody},
    framing::{Decoder, Framing},
    hash::Seed,
    id::RequestId,
    json,
    link::{Implementation, RequestKey},
    message,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::TimerKey,
    welcome::is_version,
};

/// The time that a server that was started again has to answer our `initialize`, where no clock is set for that: what
/// clients give a request (MCP-T01).
const GREETING_LIMIT: Duration = Duration::from_secs(60);

const INITIALIZE: &str = "initialize";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const SET_LEVEL: &str = "logging/setLevel";
const INITIALIZED: &str = "notifications/initialized";

/// What a new server has to be told is kept up to so many entries, and so many bytes. With more, none is started.
const MAX_ENTRIES: usize = 4096;
const MAX_KEPT: usize = 1 << 20;

const OVER: &str = "its client has set more than is kept for a new one";

/// The most that all of it holds.
pub(super) const MOST_HELD: usize = 2 * MAX_KEPT + MAX_ENTRIES * 256;

/// What a new server has to be told, and how far that is.
#[derive(Clone, Debug, Default)]
pub(super) struct Restart {
    stage: Stage,
    /// When the time for our greeting is over.
    greeting_due: TimerKey,
    /// Requests of the client in flight that change what is kept.
    asked: Vec<(Key, Noted)>,
    greeting: Option<Greeting>,
    /// The client has ended its handshake.
    has_initialized: bool,
    /// The server has answered a request of a revision without sessions.
    is_stateless: bool,
    /// Resources that the client has subscribed to: their addresses, as JSON.
    subscribed: BTreeSet<Box<[u8]>>,
    /// The log level that it has set, as JSON.
    level: Option<Box<[u8]>>,
    /// There was more to keep than there is room for.
    is_over: bool,
    /// Requests of ours to the new server whose answers go no further.
    own: Vec<RequestId>,
}

/// How far the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    /// It works.
    #[default]
    Standing,
    /// There is none.
    Down,
    /// It was sent our `initialize`, under this id, and has so much time to answer.
    Greeting { id: RequestId, limit: Duration, is_overdue: bool },
    /// It cannot take the former one's place.
    Unfit(Option<String>),
}

/// The client's handshake, once it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Greeting {
    params: Box<[u8]>,
    /// The revision that was agreed on, as JSON.
    version: Box<[u8]>,
    /// The notifications that the lists which the server has declared have changed.
    changes: Vec<&'static str>,
}

/// What a request of the client changes once it is answered. All of it is JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Noted {
    Initialize(Box<[u8]>),
    Subscribe(Box<[u8]>),
    Unsubscribe(Box<[u8]>),
    Level(Box<[u8]>),
}

impl Noted {
    fn of(is_handshake: bool, method: &str, params: &[u8]) -> Option<Self> {
        let member = |name: &str| json::member(params, name).map(Into::into);
        match method {
            _ if is_handshake => Some(Self::Initialize(params.into())),
            SUBSCRIBE => member("uri").map(Self::Subscribe),
            UNSUBSCRIBE => member("uri").map(Self::Unsubscribe),
            SET_LEVEL => member("level").map(Self::Level),
            _ => None,
        }
    }

    fn json(&self) -> &[u8] {
        match self {
            Self::Initialize(json) | Self::Subscribe(json) | Self::Unsubscribe(json) | Self::Level(json) => json,
        }
    }
}

impl Restart {
    /// Whether a request of ours with this id may still be answered.
    pub(super) fn has_asked(&self, id: &RequestId) -> bool {
        matches!(&self.stage, Stage::Greeting { id: own, .. } if own == id) || self.own.contains(id)
    }

    /// Notes a notification of the client: what it is on its way to the server; `None` if it is not to go on, since a server
    /// that is being greeted gets ours.
    pub(super) fn saw_notification(&mut self, method: &str) -> Option<Tag> {
        if method != INITIALIZED {
            return Some(Tag::Plain);
        }
        self.has_initialized = true;
        (self.stage == Stage::Standing || self.greeting.is_none()).then_some(Tag::Initialized)
    }

    /// Notes what follows from the answer to a request of the client.
    fn answered(&mut self, key: Key, dialect: &Dialect, body: &ResponseBody<'_>) {
        let noted = self.asked.iter().position(|(asked, _)| *asked == key).map(|at| self.asked.swap_remove(at).1);
        let ResponseBody::Result(result) = body else { return };
        self.is_stateless |= dialect.stateless;
        match noted {
            None => return,
            Some(Noted::Initialize(params)) => {
                let version = json::member(result, "protocolVersion").filter(|version| json::is_string(version));
                self.greeting = version.map(|version| Greeting {
                    params,
                    version: version.into(),
                    changes: dialect
                        .list_changes(|capability| json::lookup(result, &["capabilities", capability]).is_some()),
                });
                (self.has_initialized, self.level) = (false, None);
                self.subscribed.clear();
            }
            Some(Noted::Subscribe(uri)) => _ = self.subscribed.insert(uri),
            Some(Noted::Unsubscribe(uri)) => _ = self.subscribed.remove(&uri),
            Some(Noted::Level(level)) => self.level = Some(level),
        }
        self.bound();
    }

    /// Gives up where there is more to keep than there is room for: no server that is started again can go on with it.
    fn bound(&mut self) {
        if self.kept() > MAX_KEPT || self.asked.len() + self.subscribed.len() > MAX_ENTRIES {
            let (mut stage, own) = (take(&mut self.stage), take(&mut self.own));
            if stage != Stage::Standing {
                stage = Stage::Unfit(Some(OVER.to_owned()));
            }
            *self = Self { stage, greeting_due: self.greeting_due, own, is_over: true, ..Self::default() };
        }
    }

    /// Bytes of what is kept.
    fn kept(&self) -> usize {
        let asked = self.asked.iter().map(|(_, noted)| noted.json().len());
        let greeting = self.greeting.iter().map(|greeting| greeting.params.len() + greeting.version.len());
        let others = self.subscribed.iter().chain(&self.level).map(|json| json.len());
        asked.chain(greeting).chain(others).sum()
    }

    /// Bytes of memory held.
    pub(super) fn held(&self) -> usize {
        let entries = self.subscribed.len() * 2 * size_of::<Box<[u8]>>()
            + self.asked.capacity() * size_of::<(Key, Noted)>()
            + self.own.capacity() * size_of::<RequestId>();
        size_of::<Self>() + self.kept() + entries
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self {
            stage,
            greeting_due,
            asked,
            greeting,
            has_initialized,
            is_stateless,
            subscribed,
            level,
            is_over,
            own,
        } = self;
        asked.iter().for_each(|(key, noted)| (key.index(), noted).hash(state));
        greeting_due.is_armed().then(|| greeting_due.at.since(now)).hash(state);
        (stage, greeting, has_initialized, is_stateless, subscribed, level, is_over, own).hash(state);
    }

    /// The requests that tell a new server what the former one knew, and the notification before them. `own_id` gives ids.
    fn replay(&mut self, mut own_id: impl FnMut() -> RequestId, mut write: impl FnMut(&dyn Fn(&mut Vec<u8>))) {
        if self.has_initialized {
            write(&|out| message::raw_notification(INITIALIZED, b"", out));
        }
        let uris = self.subscribed.iter().map(|uri| (SUBSCRIBE, "uri", uri));
        let replayed = uris.chain(self.level.iter().map(|level| (SET_LEVEL, "level", level)));
        for (method, name, json) in replayed {
            let id = own_id();
            write(&|out| {
                message::request(&id, method, out, |out| {
                    json::write_string(out, name);
                    out.push(b':');
                    out.extend_from_slice(json);
                });
            });
            self.own.push(id);
        }
    }
}

impl Relay {
    /// Says what keeps the server, should it end now, from being started again so that its client can go on (D64); `None`
    /// if nothing does. Ask when all that it has sent was handed over.
    #[must_use]
    pub fn restart_obstacle(&self) -> Option<&'static str> {
        let link = &self.core.links[Side::Server];
        match &self.core.restart {
            _ if link.ended || link.write_closed => Some("its end has been reported"),
            None => Some("what it would have to be told was not kept"),
            Some(_) if self.core.welcome.as_ref().is_some_and(|early| early.is_unfit()) => {
                Some("its client was told otherwise than it answers")
            }
            Some(restart) if restart.is_over => Some(OVER),
            Some(restart) if restart.greeting.is_none() && !restart.is_stateless => {
                Some("it had not yet answered its client in MCP, and servers of other protocols are not started again")
            }
            Some(_) if self.core.framing != Framing::Line => Some("it does not speak in lines"),
            Some(_) => None,
        }
    }

    /// Records that the server has ended as `how` says, and that another will be started in its place, where there is no
    /// [obstacle](Self::restart_obstacle) (D64). What it had of its client is answered with an error about that, as
    /// [`handle_eof`](Self::handle_eof) does it, and what it had asked is cancelled; what it did not have yet waits.
    /// Afterwards nothing is pending for the server until [`handle_server_restarted`](Self::handle_server_restarted).
    pub fn handle_server_lost(&mut self, now: Instant, how: &End) {
        debug_assert_eq!(self.restart_obstacle(), None, "the client cannot go on");
        self.receive_leftover(now, Side::Server);
        let decoder = Decoder::new(Some(Framing::Line), self.core.config.max_message);
        self.core.links[Side::Server].decoder = Some(Box::new(decoder));
        self.core.server_end = Some(how.clone());
        self.core.links[Side::Server].gated = true;
        self.lose_what_left(now, true);
        // The ids and cancels of one server say nothing about those of the next.
        for key in self.tables.server.by_age(|exchange| !exchange.replaced) {
            self.tables.server.replace(key);
        }
        let config = &self.core.config;
        self.early_cancels.server = EarlyCancels::new(config.early_cancels.server, Seed::new(config.seed));
        if self.bridge.is_some() {
            self.bridge = config.bridge();
        }
        self.core.untold_end = None;
        self.core.welcome.iter_mut().for_each(|early| early.server_lost());
        let table = &self.tables.client;
        if let Some(restart) = &mut self.core.restart {
            (restart.stage, restart.own) = (Stage::Down, Vec::new());
            restart.asked.retain(|(key, _)| table.get(*key).is_some_and(Exchange::is_waiting));
        }
        self.finish(now);
    }

    /// Records that starting the server again came to nothing, once more: what waits for it is answered with what is known
    /// of its end ([`note_ended_server`](Self::note_ended_server)). What comes later waits for the next start.
    pub fn handle_restart_failed(&mut self, now: Instant) {
        self.lose_what_left(now, false);
        self.finish(now);
    }

    /// Records that another server has taken the place of one that [was lost](Self::handle_server_lost): bytes now go there
    /// and come from there. Where the client has shaken hands, so do we now.
    pub fn handle_server_restarted(&mut self, now: Instant) {
        let core = &mut self.core;
        (core.server_end, core.ended_by, core.ended_server) = (None, None, None);
        let clocks = core.clocks_for(now, Side::Client, INITIALIZE, None, &core.spoken(Side::Client).clocks);
        let clocks = clocks.into_iter().flat_map(|clocks| [clocks.response, clocks.total]).flatten();
        let limit = clocks.map(|clock| clock.limit).min().unwrap_or(GREETING_LIMIT);
        let Some(restart) = core.restart.as_mut().filter(|restart| !restart.is_over) else { return };
        restart.stage = match &restart.greeting {
            None => {
                core.links.server.gated = false;
                Stage::Standing
            }
            Some(greeting) => {
                let id = self.tables.client.own_id(&RequestId::integer(0));
                core.links.server.outbox.push_urgent(PackedTag::PLAIN, |out| {
                    message::frame(Framing::Line, out, |out| {
                        message::request(&id, INITIALIZE, out, |out| out.extend_from_slice(members(&greeting.params)));
                    });
                });
                restart.greeting_due = core.timers.arm(now + limit, Timer::Greeting);
                Stage::Greeting { id, limit, is_overdue: false }
            }
        };
        self.finish(now);
    }

    /// Whether there is no server, or none that has shaken hands: requests wait for it (D64).
    #[must_use]
    pub fn awaits_server(&self) -> bool {
        self.core.restart.as_ref().is_some_and(|restart| restart.stage != Stage::Standing)
    }

    /// The time that the server that was started again had to answer the client's handshake, once that is over: the clock
    /// that is set for `initialize`, or 60 s. Its driver takes it for [lost](Self::handle_server_lost), lets what waits
    /// [know](Self::handle_restart_failed), and ends it.
    #[must_use]
    pub fn overdue_greeting(&self) -> Option<Duration> {
        match self.core.restart.as_deref()?.stage {
            Stage::Greeting { limit, is_overdue: true, .. } => Some(limit),
            Stage::Greeting { .. } | Stage::Standing | Stage::Down | Stage::Unfit(_) => None,
        }
    }

    /// The server has had its time to answer our greeting.
    pub(super) fn greeting_is_due(&mut self) {
        if let Some(restart) = &mut self.core.restart {
            restart.greeting_due = TimerKey::NOT;
            if let Stage::Greeting { is_overdue, .. } = &mut restart.stage {
                *is_overdue = true;
            }
        }
    }

    /// Why no server that was started again can take the former one's place, once that is known: it refuses the client's
    /// handshake, or answers it with another revision, or its client has set more meanwhile than is kept. Its driver ends it,
    /// and the link with it.
    #[must_use]
    pub fn poll_restart_refused(&mut self) -> Option<String> {
        match self.core.restart.as_deref_mut()? {
            Restart { stage: Stage::Unfit(why), .. } => why.take(),
            _ => None,
        }
    }

    /// Answers what the server has, with its end; and what waits for it, unless that is kept for the next one.
    fn lose_what_left(&mut self, now: Instant, keeps_waiting: bool) {
        let Self { tables, core, bundles, .. } = self;
        // A task of the server that is gone is none of the next one.
        let is_of_task = |ex: &Exchange| matches!(ex.task(), Some(TaskPart::About(..)));
        let is_kept = |ex: &Exchange| keeps_waiting && ex.is_waiting() && ex.is_theirs() && !is_of_task(ex);
        let link = &mut core.links.server;
        core.timers.stop(&mut link.stalled);
        link.own_backlog = 0;
        let keeps = |tag: &PackedTag| match tag.read() {
            Tag::Plain => true,
            Tag::Of(RequestKey { from: Side::Client, key }, Part::Request) => {
                tables.client.get(key).is_some_and(is_kept)
            }
            // The next server gets ours.
            Tag::Initialized => false,
            Tag::Of(..) | Tag::Refusal | Tag::Many(_) | Tag::Child(_) => false,
        };
        link.outbox.renew(keeps, |tag| {
            if let Tag::Many(bundle) = tag.read() {
                bundles.remove(bundle);
            }
        });
        let outbox = &link.outbox;
        let waits = |ex: &Exchange| matches!(ex.up, Up::Queued(Some(ticket)) if !outbox.has_begun(ticket));
        let is_lost = |ex: &Exchange| (ex.is_open_upstream() || ex.is_waiting()) && !(is_kept(ex) && waits(ex));
        let lost = tables.client.by_age(is_lost);
        self.lose_server(now, lost);
    }

    /// Notes a request of the client that changes what a new server has to be told.
    #[cold]
    pub(super) fn note_for_restart(&mut self, key: Key, is_handshake: bool, method: &str, params: &Params<'_>) {
        let Some(noted) = Noted::of(is_handshake, method, params.raw.unwrap_or(b"{}")) else { return };
        let table = &self.tables.client;
        if let Some(restart) = self.core.restart.as_mut().filter(|restart| !restart.is_over) {
            restart.asked.retain(|(key, _)| table.get(*key).is_some_and(Exchange::is_waiting));
            restart.asked.push((key, noted));
            restart.bound();
        }
    }

    /// Whether a response answers a request of ours to a server that was started again: then it goes no further.
    #[cold]
    pub(super) fn is_answer_of_restart(&mut self, from: Side, response: &Response<'_>) -> bool {
        let Some(restart) = self.core.restart.as_deref_mut().filter(|_| from == Side::Server) else { return false };
        let names = |own: &RequestId| is_loosely(response.id.as_ref(), own);
        if matches!(&restart.stage, Stage::Greeting { id, .. } if names(id)) {
            self.core.stop_greeting();
            self.greeted(&response.body);
            return true;
        }
        let own = restart.own.iter().position(names);
        own.inspect(|at| _ = restart.own.swap_remove(*at)).is_some()
    }

    /// The new server has answered the client's handshake: it is told what the former one knew, and what waits goes on.
    fn greeted(&mut self, body: &ResponseBody<'_>) {
        let Self { tables, core, .. } = self;
        let Some(restart) = core.restart.as_deref_mut() else { return };
        let Some(greeting) = &restart.greeting else { return };
        let result = match body {
            ResponseBody::Result(result) if is_version(result, &greeting.version) => *result,
            ResponseBody::Result(_) => {
                let agreed = excerpt(&greeting.version);
                let why =
                    format!("its answer to initialize does not name the revision agreed with its client, {agreed}");
                return restart.stage = Stage::Unfit(Some(why));
            }
            ResponseBody::Error(error) => {
                let said = json::member(error, "message").and_then(json::text).unwrap_or_default();
                let why = format!("it refused its client's initialize: {}", excerpt(said.as_bytes()));
                return restart.stage = Stage::Unfit(Some(why));
            }
        };
        let changes = greeting.changes.clone();
        core.negotiation.saw_initialize_result(result);
        core.implementations.server = Implementation::of(result);
        restart.stage = Stage::Standing;
        let link = &mut core.links.server;
        let own_id = || tables.client.own_id(&RequestId::integer(0));
        restart.replay(own_id, |write| {
            link.outbox.push_urgent(PackedTag::PLAIN, |out| message::frame(Framing::Line, out, |out| write(out)));
        });
        link.gated = false;
        for changed in changes {
            core.write(Side::Client, Tag::Plain, |out| message::raw_notification(changed, b"", out));
        }
    }
}

impl Core {
    /// Stops the time for our greeting.
    pub(super) fn stop_greeting(&mut self) {
        if let Some(restart) = &mut self.restart {
            self.timers.stop(&mut restart.greeting_due);
        }
    }
}

impl Step<'_> {
    /// Notes what follows from an answer for a server that is started again.
    #[cold]
    pub(super) fn answered_for_restart(&mut self, body: &ResponseBody<'_>) {
        if let Some(restart) = self.core.restart.as_mut().filter(|_| self.request.from == Side::Client) {
            restart.answered(self.request.key, self.exchange.dialect, body);
        }
    }
}

/// The members of a JSON object.
fn members(object: &[u8]) -> &[u8] {
    let object = object.trim_ascii();
    object.get(1..object.len().saturating_sub(1)).unwrap_or_default()
}
