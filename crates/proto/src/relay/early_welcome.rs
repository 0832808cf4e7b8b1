//! A client that is welcomed before its server has started (D70).
//!
//! What the server answered at its last start answers the client's first request and its requests for lists. The first
//! request goes to the server all the same, as the client has sent it, and past a gate in the server's link; everything else
//! waits behind the gate, from where a cancel, a clock or an operator takes it back. With the server's own answer the gate
//! opens. Then the server is asked for those lists that the client was shown, and the client is shown which of them are others.
//!
//! What was shown is held against the server: a client goes on with one that has at least that. Requests that a capability is
//! missing for are refused, and a server of another revision is not gone on with.
//!
//! What a server answers is noted, whoever asks, for its next start.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::collections::VecDeque;

use super::{
    Core, Relay, Settled, Step, Timer,
    answer::is_loosely,
    exchange::{Exchange, Up},
    link::{PackedTag, Part, Tag},
};
use crate::{
    dialect::{Dialect, ListForm},
    error_code,
    excerpt::excerpt,
    frame::{Params, Response, ResponseBody},
    framing::Framing,
    hash::Seed,
    id::RequestId,
    json,
    link::{Implementation, RequestKey},
    message,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::TimerKey,
    welcome::{self, Arrival, MAX_DOCUMENT, Page, Pages, Welcome, Welcomes},
};

/// Requests that wait for a server at most; one more is refused, so that cancels are read.
const MAX_WAITING: usize = 4096;

/// How often a client that asked for progress of what waits is shown that it waits. Clients give up after 10 s and more.
const RHYTHM: Duration = Duration::from_secs(5);

/// Requests of the client in flight whose answers are noted at most.
const MAX_ASKED: usize = 64;

/// The most that all of it holds: what is known, shown, learnt and written, and two times four lists that are read.
pub(super) const MOST_HELD: usize = 24 * MAX_DOCUMENT;

const INITIALIZED: &str = "notifications/initialized";

/// What became of a client that was welcomed before its server had answered.
///
/// It never grows: a driver that left one out would take a server for another than it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WelcomeNews {
    /// The client's first request was answered from what the server answered at its last start.
    Welcomed,
    /// The server has answered, this long afterwards: what waited goes on.
    Confirmed {
        /// How long after the client was shown.
        after: Duration,
        /// The capabilities that the client was shown, and of which the server has less.
        lacks: Vec<Box<str>>,
    },
    /// A list that the client was shown is another.
    Changed {
        /// The request for it.
        list: &'static str,
        /// The client was notified. Otherwise it was shown no such notification, and keeps the old list.
        is_reported: bool,
    },
    /// The client cannot go on with this server, since it was shown otherwise: each of its requests is answered with an error.
    /// The driver ends the server.
    Unfit(String),
}

/// What is known, shown and learnt of the server's answers.
#[derive(Clone, Debug)]
pub(super) struct EarlyWelcome {
    known: Welcomes,
    stage: Stage,
    /// The client has begun.
    has_arrived: bool,
    /// It was shown that the server does not know what it began with.
    has_refused: bool,
    /// It has ended its handshake, or has none to end.
    has_initialized: bool,
    /// What the server has answered to it.
    learnt: Option<Welcome>,
    /// Requests of the client in flight whose answers are noted.
    asked: Vec<(Key, Noted)>,
    /// Lists that the client reads, and the cursors of their next pages.
    pages: Vec<(Pages, Box<[u8]>)>,
    /// Capabilities that the client was shown and that the server lacks.
    lacks: Vec<Box<str>>,
    news: VecDeque<WelcomeNews>,
    /// What is known has changed since the driver asked.
    is_changed: bool,
}

#[derive(Clone, Debug, Default, Hash)]
enum Stage {
    /// Everything passes.
    #[default]
    Passing,
    /// The client was answered, and the server has not answered.
    Welcomed(Box<Welcomed>),
    /// The server is asked for the lists that the client was shown.
    Checking(Box<Checking>),
    /// The client cannot go on with the server.
    Unfit(Box<str>),
}

#[derive(Clone, Debug)]
struct Welcomed {
    /// The client's first request.
    opener: Key,
    /// Its id at the server, and its method.
    id: RequestId,
    method: &'static str,
    is_handshake: bool,
    since: Instant,
    welcome: Welcome,
    /// The lists that the client was shown.
    lists: Vec<&'static ListForm>,
    /// The `_meta` that requests need in a revision without sessions.
    meta: Box<[u8]>,
    /// How often those that wait were notified.
    reports: u32,
    next_report: TimerKey,
}

/// Without times, which count from now.
impl Hash for Welcomed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { opener, id, method, is_handshake, welcome, lists, meta, reports, since: _, next_report: _ } = self;
        (opener.index(), id, method, is_handshake, welcome, lists, meta, reports).hash(state);
    }
}

/// What the client was shown, and how far the server was asked for the same.
#[derive(Clone, Debug, Hash)]
struct Checking {
    told: Welcome,
    /// Lists to ask for.
    left: Vec<&'static ListForm>,
    /// Requests of ours, and the pages that have come.
    own: Vec<(RequestId, Pages)>,
    meta: Box<[u8]>,
}

/// What the answer to a request of the client shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Noted {
    /// What the server answers to clients like this one.
    Arrival(Arrival),
    /// The first page of a list.
    List(&'static ListForm),
    /// The page of a list behind those that have come.
    NextPage(&'static ListForm),
}

/// What is to become of a request of the client.
pub(super) enum Course {
    /// It goes on, behind what waits.
    Passes,
    /// It goes on, past the gate.
    PassesFirst,
    /// It was answered.
    Ended,
}

impl EarlyWelcome {
    pub(super) fn new(known: Welcomes) -> Self {
        Self {
            known,
            stage: Stage::default(),
            has_arrived: false,
            has_refused: false,
            has_initialized: false,
            learnt: None,
            asked: Vec::new(),
            pages: Vec::new(),
            lacks: Vec::new(),
            news: VecDeque::new(),
            is_changed: false,
        }
    }

    /// Whether a request of ours with this id may still be answered.
    pub(super) fn has_asked(&self, id: &RequestId) -> bool {
        matches!(&self.stage, Stage::Checking(checking) if checking.own.iter().any(|(own, _)| own == id))
    }

    /// Whether the client was answered before its server, which has not answered yet.
    pub(super) const fn is_told(&self) -> bool {
        matches!(self.stage, Stage::Welcomed(_))
    }

    /// Whether this is the first request of a client that was answered before its server.
    pub(super) fn is_opener(&self, request: RequestKey) -> bool {
        request.from == Side::Client && matches!(&self.stage, Stage::Welcomed(told) if told.opener == request.key)
    }

    pub(super) const fn is_unfit(&self) -> bool {
        matches!(self.stage, Stage::Unfit(_))
    }

    /// Notes a notification of the client.
    pub(super) fn saw_notification(&mut self, method: &str) {
        self.has_initialized |= method == INITIALIZED;
    }

    /// The server has ended: it is asked for nothing more.
    pub(super) fn server_lost(&mut self) {
        if let Stage::Checking(_) = self.stage {
            self.stage = Stage::Passing;
        }
        (self.asked, self.pages) = (Vec::new(), Vec::new());
    }

    /// Notes what the server has answered to a request of the client.
    fn answered(&mut self, seed: Seed, key: Key, body: &ResponseBody<'_>) {
        let Some(at) = self.asked.iter().position(|(asked, _)| *asked == key) else { return };
        let noted = self.asked.swap_remove(at).1;
        let (result, noted) = match (body, noted) {
            (ResponseBody::Result(result), noted) => (*result, noted),
            (ResponseBody::Error(error), Noted::Arrival(client)) => return self.refused(seed, client, error),
            (ResponseBody::Error(_), Noted::List(_) | Noted::NextPage(_)) => return,
        };
        match noted {
            Noted::Arrival(client) if is_line(result) => {
                let welcome = Welcome::new(client, result.into());
                let told = if let Stage::Welcomed(told) = &self.stage { Some(&told.welcome) } else { None };
                // Another version of the server may know what this one did not.
                let is_known = told.is_some_and(|told| welcome::is_same_server(seed, &told.answer, result));
                if self.has_refused && !is_known {
                    self.known.forget_refusals();
                    self.is_changed = true;
                }
                self.learnt = Some(match told {
                    Some(told) => welcome.with_lists_of(told),
                    None => welcome,
                });
                self.keep(seed);
            }
            Noted::Arrival(_) => {}
            Noted::List(form) => self.read_page(seed, Pages::new(form), result),
            Noted::NextPage(form) => {
                if let Some(at) = self.pages.iter().position(|(pages, _)| pages.form() == form) {
                    let (pages, _) = self.pages.swap_remove(at);
                    self.read_page(seed, pages, result);
                }
            }
        }
    }

    /// The server does not know the request with which the client began.
    fn refused(&mut self, seed: Seed, client: Arrival, error: &[u8]) {
        let refusal = Welcome::refusal(client, error).filter(|_| is_line(error));
        if let Some(refusal) = refusal
            && self.known.of(seed, refusal.client()) != Some(&refusal)
        {
            self.known.keep(seed, refusal);
            self.is_changed = true;
        }
    }

    /// Reads a page of a list that the client has asked for.
    fn read_page(&mut self, seed: Seed, mut pages: Pages, result: &[u8]) {
        let form = pages.form();
        self.pages.retain(|(others, _)| others.form() != form);
        match pages.add(result) {
            Page::Last(list) => self.set_list(seed, form, Some(list)),
            Page::Next(cursor) => self.pages.push((pages, cursor)),
            Page::Unfit => self.set_list(seed, form, None),
        }
    }

    fn set_list(&mut self, seed: Seed, form: &'static ListForm, list: Option<Box<[u8]>>) {
        if let Some(learnt) = &mut self.learnt {
            match list {
                Some(list) => learnt.set_list(form.method, list),
                None => learnt.drop_list(form.method),
            }
            self.keep(seed);
        }
    }

    /// Keeps what was learnt for the next start.
    fn keep(&mut self, seed: Seed) {
        if let Some(learnt) = &self.learnt
            && self.known.of(seed, learnt.client()) != Some(learnt)
        {
            self.known.keep(seed, learnt.clone());
            self.is_changed = true;
        }
    }

    /// Bytes of memory held.
    pub(super) fn held(&self) -> usize {
        let told = match &self.stage {
            Stage::Passing => 0,
            Stage::Welcomed(told) => told.welcome.held() + told.meta.len(),
            Stage::Checking(checking) => {
                let own = checking.own.iter().map(|(_, pages)| pages.held()).sum::<usize>();
                checking.told.held() + checking.meta.len() + own
            }
            Stage::Unfit(why) => why.len(),
        };
        let pages = self.pages.iter().map(|(pages, cursor)| pages.held() + cursor.len()).sum::<usize>();
        size_of::<Self>()
            + told
            + pages
            + self.known.held()
            + self.learnt.as_ref().map_or(0, Welcome::held)
            + self.asked.capacity() * size_of::<(Key, Noted)>()
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self { known, stage, has_arrived, has_refused, has_initialized, learnt, .. } = self;
        let Self { asked, pages, lacks, news, is_changed, .. } = self;
        asked.iter().for_each(|(key, noted)| (key.index(), noted).hash(state));
        (known, stage, has_arrived, has_refused, has_initialized, learnt).hash(state);
        (pages, lacks, news, is_changed).hash(state);
        if let Stage::Welcomed(told) = &self.stage {
            told.next_report.is_armed().then(|| told.next_report.at.since(now)).hash(state);
        }
    }
}

impl Relay {
    /// Since when a client that was welcomed early waits for its server, which has not answered yet (D70).
    #[must_use]
    pub fn awaits_start(&self) -> Option<Instant> {
        match &self.core.welcome.as_deref()?.stage {
            Stage::Welcomed(told) => Some(told.since),
            Stage::Passing | Stage::Checking(_) | Stage::Unfit(_) => None,
        }
    }

    /// The next news of a client that was welcomed early.
    #[must_use]
    pub fn poll_welcome_news(&mut self) -> Option<WelcomeNews> {
        self.core.welcome.as_deref_mut()?.news.pop_front()
    }

    /// What is known of the server's answers, if that has changed since this was last asked: a document for its next start
    /// ([`Welcomes::read`]).
    #[must_use]
    pub fn poll_welcomes(&mut self) -> Option<Vec<u8>> {
        let welcome = self.core.welcome.as_deref_mut()?;
        core::mem::take(&mut welcome.is_changed).then(|| welcome.known.write())
    }

    /// Decides what becomes of a request of the client that was just taken in. `may_be_first`: it can pass others.
    #[cold]
    pub(super) fn welcome_request(
        &mut self,
        now: Instant,
        (request, body): (RequestKey, usize),
        is_handshake: bool,
        method: &str,
        params: &Params<'_>,
        may_be_first: bool,
    ) -> Course {
        let Some(dialect) = self.exchange(request).map(|exchange| exchange.dialect) else { return Course::Passes };
        let Some(early) = self.core.welcome.as_deref_mut() else { return Course::Passes };
        let raw = params.raw.unwrap_or(b"{}");
        let list = dialect.lists.iter().find(|list| list.method == method);
        let is_opener = is_handshake || dialect.stateless && dialect.opener() == Some(method);
        match &mut early.stage {
            Stage::Unfit(why) => {
                let why = why.clone();
                return self.end_unwelcome(now, request, error_code::UPSTREAM_GONE, &why);
            }
            Stage::Welcomed(told) => {
                if let Some(list) = list
                    && welcome::cursor(raw).is_none()
                    && let Some(answer) = told.welcome.list(method)
                {
                    let answer = told_as(dialect, answer);
                    if !told.lists.contains(&list) {
                        told.lists.push(list);
                    }
                    return self.answer_early(now, request, &answer, false);
                }
                // It asks whether the link stands.
                if dialect.ping == Some(method) {
                    return self.answer_early(now, request, b"{}", false);
                }
                let backlog = self.core.links.server.outbox.backlog() + body;
                if self.tables.client.live() > MAX_WAITING || backlog > self.core.config.max_backlog {
                    let text =
                        "too many requests wait for the server, which has not started yet; this one was not sent";
                    return self.end_unwelcome(now, request, error_code::OVERLOADED, text);
                }
            }
            Stage::Passing | Stage::Checking(_) => {
                let capability = method.split('/').next().unwrap_or_default();
                if let Some(name) = early.lacks.iter().find(|name| ***name == *capability) {
                    let text = format!(
                        "the server has no {name} any more; its client was told so from the server's last start \
                         (rescind run --greet-from-cache). Start the server again"
                    );
                    return self.end_unwelcome(now, request, error_code::METHOD_NOT_FOUND, &text);
                }
                if is_opener && !core::mem::replace(&mut early.has_arrived, true) {
                    match self.arrive(now, request, (dialect, is_handshake, raw), may_be_first) {
                        Course::Passes => {}
                        course @ (Course::PassesFirst | Course::Ended) => return course,
                    }
                }
            }
        }
        self.note_for_next_start(request.key, (dialect, is_opener, list), method, raw);
        Course::Passes
    }

    /// Answers the request with which a client begins, if it is known what the server answers to it.
    fn arrive(
        &mut self,
        now: Instant,
        request: RequestKey,
        (dialect, is_handshake, params): (&'static Dialect, bool, &[u8]),
        may_be_first: bool,
    ) -> Course {
        let seed = Seed::new(self.core.config.seed);
        let Some(opener) = dialect.opener().filter(|_| !dialect.lists.is_empty()) else { return Course::Passes };
        let link = &self.core.links.server;
        // One of an array, or behind another message, would have to pass what it cannot.
        let may_be_first = may_be_first && !link.gated && !link.write_closed && self.core.reports.allowance.is_none();
        let Some(early) = self.core.welcome.as_deref_mut() else { return Course::Passes };
        let Some(client) = Arrival::of(dialect, opener, params) else { return Course::Passes };
        let known = early.known.of(seed, &client).cloned();
        if let Some(welcome) = known.as_ref().filter(|welcome| welcome.refuses) {
            // The server never receives it. The client begins anew with a request that it knows.
            (early.has_arrived, early.has_refused) = (false, true);
            let code =
                json::member(&welcome.answer, "code").and_then(json::integer).and_then(|code| code.try_into().ok());
            let words = json::member(&welcome.answer, "message").and_then(json::text).unwrap_or_default();
            return self.end_unwelcome(now, request, code.unwrap_or(error_code::METHOD_NOT_FOUND), &words);
        }
        let known = known.filter(|_| may_be_first);
        early.has_initialized |= !is_handshake;
        early.asked.push((request.key, Noted::Arrival(client)));
        let Some(welcome) = known else { return Course::Passes };
        let answer = told_as(dialect, &welcome.answer);
        let id = self.tables.client.get(request.key).map_or(RequestId::NULL, |exchange| exchange.upstream().clone());
        let meta = if dialect.stateless { json::member(params, "_meta").unwrap_or_default() } else { b"" };
        early.news.push_back(WelcomeNews::Welcomed);
        early.stage = Stage::Welcomed(Box::new(Welcomed {
            opener: request.key,
            id,
            method: opener,
            is_handshake,
            since: now,
            welcome,
            lists: Vec::new(),
            meta: meta.into(),
            reports: 0,
            next_report: self.core.timers.arm(now + RHYTHM, Timer::StillStarting),
        }));
        self.core.links.server.gated = true;
        if is_handshake {
            self.core.negotiation.saw_initialize_result(&answer);
        }
        self.answer_early(now, request, &answer, true);
        Course::PassesFirst
    }

    /// Notes a request of the client whose answer the next start can use.
    fn note_for_next_start(
        &mut self,
        key: Key,
        (dialect, is_opener, list): (&'static Dialect, bool, Option<&'static ListForm>),
        method: &str,
        params: &[u8],
    ) {
        let Self { tables, core, .. } = self;
        let Some(early) = core.welcome.as_deref_mut() else { return };
        early.asked.retain(|(key, _)| tables.client.get(*key).is_some_and(|exchange| exchange.is_open_upstream()));
        if early.asked.len() >= MAX_ASKED || early.asked.iter().any(|(asked, _)| *asked == key) {
            return;
        }
        let noted = if is_opener {
            Arrival::of(dialect, method, params).map(Noted::Arrival)
        } else {
            list.and_then(|list| match welcome::cursor(params) {
                None => Some(Noted::List(list)),
                Some(cursor) => {
                    let is_next = |(pages, next): &&(Pages, Box<[u8]>)| pages.form() == list && **next == *cursor;
                    early.pages.iter().find(is_next).map(|_| Noted::NextPage(list))
                }
            })
        };
        early.asked.extend(noted.map(|noted| (key, noted)));
    }

    /// Answers a request from what is known. The server never receives it, unless it `is_sent` by the caller.
    fn answer_early(&mut self, now: Instant, request: RequestKey, answer: &[u8], is_sent: bool) -> Course {
        self.step(now, request, |step| {
            if !is_sent {
                step.exchange.up = Up::Never;
            }
            step.answer(Settled::AnsweredHere { code: None }, |id, out| message::result(id, answer, out));
        });
        Course::Ended
    }

    /// Answers a request that is not sent with an error.
    fn end_unwelcome(&mut self, now: Instant, request: RequestKey, code: i32, text: &str) -> Course {
        self.step(now, request, |step| step.end_unsent(code, text));
        Course::Ended
    }

    /// The server has answered the first request of a client that was welcomed early.
    pub(super) fn server_arrived(&mut self, now: Instant, body: &ResponseBody<'_>) {
        let seed = Seed::new(self.core.config.seed);
        let Some(early) = self.core.welcome.as_deref_mut().filter(|early| early.is_told()) else { return };
        let Stage::Welcomed(mut told) = core::mem::take(&mut early.stage) else { return };
        self.core.timers.stop(&mut told.next_report);
        let result = match body {
            ResponseBody::Result(result) => *result,
            ResponseBody::Error(error) => {
                let said = json::member(error, "message").and_then(json::text).unwrap_or_default();
                early.forget(seed, &told.welcome);
                let why = format!("it refuses {}: {}", told.method, excerpt(said.as_bytes()));
                return self.be_unfit(now, &why);
            }
        };
        let version = json::member(&told.welcome.answer, "protocolVersion").unwrap_or_default();
        if told.is_handshake && !welcome::is_version(result, version) {
            let real = json::member(result, "protocolVersion").unwrap_or(b"none");
            let why = format!("it now speaks revision {}, and its client was told {}", excerpt(real), excerpt(version));
            return self.be_unfit(now, &why);
        }
        let lacks: Vec<_> = welcome::lacking(&told.welcome.answer, result).collect();
        let has = |name: &str| json::lookup(result, &["capabilities", name]).is_some();
        early.lacks = lacks.iter().filter(|name| !has(name)).cloned().collect();
        told.lists.retain(|list| has(list.capability));
        early.news.push_back(WelcomeNews::Confirmed { after: now.since(told.since), lacks });
        let Welcomed { welcome: told, lists: left, meta, .. } = *told;
        early.stage = Stage::Checking(Box::new(Checking { told, left, own: Vec::new(), meta }));
        self.core.links.server.gated = false;
    }

    /// The client cannot go on with this server: what waits is answered, and what comes is, too.
    fn be_unfit(&mut self, now: Instant, why: &str) {
        let Some(early) = self.core.welcome.as_deref_mut() else { return };
        early.news.push_back(WelcomeNews::Unfit(why.to_owned()));
        let text = format!(
            "the server started otherwise than its client was told from its last start (rescind run --greet-from-cache): \
             {why}. This was not sent; start the server again"
        );
        early.stage = Stage::Unfit(text.as_str().into());
        for key in self.tables.client.by_age(Exchange::is_waiting) {
            self.end_unwelcome(now, RequestKey { from: Side::Client, key }, error_code::UPSTREAM_GONE, &text);
        }
    }

    /// Does what follows from messages that were taken in.
    #[cold]
    pub(super) fn pursue_welcome(&mut self, now: Instant) {
        let Some(early) = self.core.welcome.as_deref() else { return };
        match &early.stage {
            // The answer could not be read.
            Stage::Welcomed(told)
                if self.tables.client.get(told.opener).is_some_and(|opener| opener.up == Up::Answered) =>
            {
                let text = br#"{"message":"its answer cannot be read"}"#;
                self.server_arrived(now, &ResponseBody::Error(text));
            }
            Stage::Checking(_) if early.has_initialized => self.ask_for_lists(),
            Stage::Passing | Stage::Welcomed(_) | Stage::Checking(_) | Stage::Unfit(_) => {}
        }
    }

    /// Asks for the lists that the client was shown, behind what has waited.
    fn ask_for_lists(&mut self) {
        let Self { tables, core, .. } = self;
        let Core { welcome, links, .. } = core;
        let Some(early) = welcome.as_deref_mut() else { return };
        let Stage::Checking(checking) = &mut early.stage else { return };
        let link = &mut links.server;
        for form in core::mem::take(&mut checking.left) {
            if !link.write_closed {
                let id = tables.client.own_id(&RequestId::integer(0));
                write_ask(&id, form, &checking.meta, None, |write| _ = link.outbox.push(PackedTag::PLAIN, write));
                checking.own.push((id, Pages::new(form)));
            }
        }
        if checking.own.is_empty() {
            early.stage = Stage::Passing;
        }
    }

    /// Whether a response answers a request of ours, or the first one of a client that was welcomed early and is forgotten:
    /// then it goes no further.
    #[cold]
    pub(super) fn is_answer_of_welcome(&mut self, now: Instant, from: Side, response: &Response<'_>) -> bool {
        let Some(early) = self.core.welcome.as_deref_mut().filter(|_| from == Side::Server) else { return false };
        let names = |own: &RequestId| is_loosely(response.id.as_ref(), own);
        match &mut early.stage {
            Stage::Welcomed(told) if names(&told.id) => {
                if let (ResponseBody::Result(result), true) = (&response.body, told.is_handshake) {
                    self.core.negotiation.saw_initialize_result(result);
                    self.core.implementations.server = Implementation::of(result);
                }
                self.server_arrived(now, &response.body);
                true
            }
            Stage::Checking(checking) => {
                let Some(at) = checking.own.iter().position(|(own, _)| names(own)) else { return false };
                let (_, pages) = checking.own.swap_remove(at);
                self.check_list(pages, &response.body);
                true
            }
            Stage::Passing | Stage::Welcomed(_) | Stage::Unfit(_) => false,
        }
    }

    /// A page of a list that the client was shown has come from the server itself.
    fn check_list(&mut self, mut pages: Pages, body: &ResponseBody<'_>) {
        let seed = Seed::new(self.core.config.seed);
        let Self { tables, core, .. } = self;
        let Some(early) = core.welcome.as_deref_mut() else { return };
        let Stage::Checking(checking) = &mut early.stage else { return };
        let form = pages.form();
        let list = match body {
            ResponseBody::Result(result) => match pages.add(result) {
                Page::Last(list) => Some(list),
                Page::Unfit => None,
                Page::Next(cursor) => {
                    let id = tables.client.own_id(&RequestId::integer(0));
                    let outbox = &mut core.links.server.outbox;
                    write_ask(&id, form, &checking.meta, Some(&cursor), |write| {
                        _ = outbox.push(PackedTag::PLAIN, write)
                    });
                    return checking.own.push((id, pages));
                }
            },
            ResponseBody::Error(_) => None,
        };
        let told = checking.told.list(form.method).unwrap_or_default();
        let is_same = list.as_deref().is_some_and(|list| welcome::has_same_items(seed, form, list, told));
        // In a revision without sessions a client asks for notifications, and waits with that for the server.
        let is_reported = checking.meta.is_empty() && checking.told.reports_changes(form.capability);
        if checking.own.is_empty() {
            early.stage = Stage::Passing;
        }
        early.set_list(seed, form, list);
        if is_same {
            return;
        }
        early.news.push_back(WelcomeNews::Changed { list: form.method, is_reported });
        if is_reported {
            core.write(Side::Client, Tag::Plain, |out| message::raw_notification(form.changed, b"", out));
        }
    }

    /// Nothing more comes from the client: what waits goes to the server, which reads it as it would without us.
    pub(super) fn open_early(&mut self) {
        if self.core.welcome.as_deref().is_some_and(EarlyWelcome::is_told) {
            self.core.links.server.gated = false;
        }
    }

    /// Notifies a client that asked for progress that its requests wait (MCP-P02). What it has not read is not repeated.
    pub(super) fn still_starting(&mut self, now: Instant) {
        let Some(early) = self.core.welcome.as_deref_mut() else { return };
        let Stage::Welcomed(told) = &mut early.stage else { return };
        told.next_report = self.core.timers.arm(now + RHYTHM, Timer::StillStarting);
        told.reports = told.reports.saturating_add(1);
        let (reports, waited) = (told.reports, now.since(told.since).as_secs());
        let waits = |ex: &Exchange| ex.is_waiting() && ex.token.is_some() && matches!(ex.up, Up::Queued(_));
        for key in self.tables.client.by_age(waits) {
            self.step(now, RequestKey { from: Side::Client, key }, |step| step.report_waiting(reports, waited));
        }
    }
}

impl EarlyWelcome {
    /// Forgets what was shown, which the server does not stand by.
    fn forget(&mut self, seed: Seed, told: &Welcome) {
        self.known.forget(seed, told.client());
        self.is_changed = true;
    }
}

impl Step<'_> {
    /// Notes what the server has answered, for its next start.
    #[cold]
    pub(super) fn answered_for_next_start(&mut self, body: &ResponseBody<'_>) {
        let seed = Seed::new(self.core.config.seed);
        if let Some(early) = self.core.welcome.as_deref_mut().filter(|_| self.request.from == Side::Client) {
            early.answered(seed, self.request.key, body);
        }
    }

    /// Ends a request with an error, before it was sent.
    fn end_unsent(&mut self, code: i32, text: &str) {
        if let Up::Queued(Some(ticket)) = self.exchange.up {
            self.core.links.server.outbox.withdraw(ticket);
        }
        self.exchange.up = Up::Never;
        self.answer_error(code, text, None);
    }

    /// Notifies the requester that its request waits. The values lie below those of the server, which counts from 0.
    fn report_waiting(&mut self, reports: u32, waited: u64) {
        const BELOW: u32 = 1_000_000;
        let Some(form) = self.exchange.dialect.progress else { return };
        let Some(token) = self.exchange.token.clone().filter(|_| self.exchange.rare().notices.is_empty()) else {
            return;
        };
        let tag = Tag::Of(self.request, Part::Notice);
        let ticket = self.core.write(Side::Client, tag, |out| {
            message::notification(form.method, out, |out| {
                json::write_string(out, form.token);
                out.push(b':');
                token.write(out);
                let below = BELOW.saturating_sub(reports);
                let words = format!("rescind: the server has not started yet; this waits for it ({waited} s)");
                out.extend_from_slice(format!(r#","progress":-0.{below:09},"message":"#).as_bytes());
                json::write_string(out, &words);
            });
        });
        self.exchange.rare().notices.extend(ticket);
    }
}

/// What is known, as a client of this dialect is shown it: it may not keep what is not the server's answer.
fn told_as(dialect: &Dialect, answer: &[u8]) -> Vec<u8> {
    if dialect.stateless { welcome::not_to_be_kept(answer) } else { answer.into() }
}

/// Writes a request of ours for a list.
fn write_ask(
    id: &RequestId,
    form: &ListForm,
    meta: &[u8],
    cursor: Option<&[u8]>,
    push: impl FnOnce(&dyn Fn(&mut Vec<u8>)),
) {
    push(&|out| {
        message::frame(Framing::Line, out, |out| {
            message::request(id, form.method, out, |out| {
                if let Some(cursor) = cursor {
                    welcome::write_cursor(cursor, out);
                }
                if !meta.is_empty() {
                    out.extend_from_slice(if cursor.is_some() { br#","_meta":"# } else { br#""_meta":"# });
                    welcome::write_without_token(meta, out);
                }
            });
        });
    });
}

/// Whether this can be kept in a document of one line.
fn is_line(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}
