//! A request that a side makes: admitted or refused, and kept as an exchange.

use core::mem::replace;
use std::borrow::Cow;

use super::{
    Relay, Settled, Step,
    early_welcome::Course,
    exchange::{Exchange, Rare, Up},
    link::{Part, Passed, Tag},
    task_work::{TaskAsk, TaskPart},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{Dialect, IdReuse, negotiation::Negotiation},
    early_cancels::EarlyCancel,
    error_code,
    frame::Request,
    id::RequestId,
    link::{Implementation, Rejected, RequestKey},
    method::Method,
    rule::Rule,
    side::Side,
    slab::Key,
    time::Instant,
};

/// Why a request is not admitted, and the code and words of the error that answers it.
type Refusal = (Rejected, i32, Cow<'static, str>);

/// Refuses a second request with an id in flight. Most who meet it share a server without knowing.
const DUPLICATE_ID: &str =
    "another request with this id is already in flight; if clients share this server, start one server for each client";

impl Relay {
    /// Takes a request in; `body` is its text, in which spans count.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        request: &mut Request<'_>,
    ) -> Option<Passed> {
        let id = replace(&mut request.id, RequestId::NULL);
        let (method, params) = (&*request.method, &request.params);
        let (framing, negotiation) = (self.core.framing, &mut self.core.negotiation);
        let named = Negotiation::named(params.meta);
        let (dialect, is_handshake) = negotiation.saw_request_from(from, framing, method, params, named);
        let upstream_dialect = negotiation.of_request(from.other(), framing, named);
        if is_handshake {
            self.core.implementations.client = params.raw.and_then(Implementation::of);
        }
        let (hash, previous, is_taken) = self.tables[from].probe(&id);
        if dialect.opaque {
            return self.follow_opaque(now, from, request, is_handshake, (id, hash, previous));
        }
        if let Err((why, code, text)) = self.admit(from, &id, dialect, previous) {
            self.core.refuse(from, Some(&id), code, &text);
            self.core.reject(from, why, method.as_bytes());
            return None;
        }
        if from == Side::Client {
            if dialect.last_request == Some(method) {
                self.core.negotiation.saw_last_request();
            }
        } else if let Some(rule) = dialect.no_server_requests {
            self.core.report_violation(from, rule, Some(id.clone()));
        }

        let is_taken = is_taken || self.core.restart.as_ref().is_some_and(|restart| restart.has_asked(&id));
        let is_taken = is_taken || self.core.welcome.as_ref().is_some_and(|early| early.has_asked(&id));
        let table = &mut self.tables[from];
        let ambiguous = table.is_ambiguous(&id) && upstream_dialect.uncancellable(method).is_none();
        let renamed = (dialect.reuse != upstream_dialect.reuse || is_taken || ambiguous).then(|| table.own_id(&id));
        let parent = self.parent_of(from, dialect, method, params.session_id);
        let partial = dialect.progress.and_then(|form| form.asked_partial(params));
        let is_question = dialect.clocks.is_question(method);
        let turn = dialect.turn;
        let in_turns = from == Side::Client && turn.is_some_and(|turn| turn.is_in_updates(method));
        let is_card = from == Side::Server && turn.is_some() && is_question;
        let is_close = from == Side::Client && turn.is_some_and(|turn| turn.close == method);
        let session = params.session_id.filter(|_| in_turns || is_card || is_close);
        let task = self.core.about_task(from, dialect, method, params.raw);
        let has_rare = session.is_some() || parent.is_some() || partial.is_some() || is_question || is_handshake;
        let has_rare = has_rare || task.is_some();
        let cancels_task = matches!(task, Some(TaskPart::About(_, TaskAsk::Cancel)));
        let early = self.early_cancels[from].claim(&id);
        let core = &mut self.core;
        let exchange = Exchange {
            renamed: renamed.clone(),
            token: dialect.progress.and_then(|form| form.asked(params)),
            clocks: core.clocks_for(now, from, method, params.name, &dialect.clocks),
            rare: has_rare.then(|| {
                let session = session.map(Into::into);
                Box::new(Rare { session, parent, partial, is_question, is_handshake, task, ..Rare::default() })
            }),
            name: params.name.map_or(Method::OTHER, |name| core.names.intern_json(name)),
            is_task: core.negotiation.asks_for_task(from, dialect, method, params),
            ..Exchange::new(id, dialect, upstream_dialect, now, core.methods.intern(method))
        };
        let request_key = RequestKey { from, key: self.tables[from].insert(hash, exchange) };
        self.keep_arguments(request_key, params.raw);
        if is_question {
            self.core.questions[from.other()].hold(now);
        }
        if let Some(session) = session.filter(|_| !is_close) {
            let core = &mut self.core;
            let of_session = if in_turns { &mut core.turns } else { &mut core.cards };
            of_session.insert(session, request_key.key);
            if in_turns && turn.is_some_and(|turn| turn.loads.contains(&method)) {
                self.void_children(now, session);
            }
        }
        if !self.with(now, request_key, |step| step.open(early.as_ref()))? || !self.open_card(now, request_key) {
            return None;
        }
        if self.core.limits.is_some() && self.ends_at_limit(now, request_key, method, params) {
            return None;
        }
        if self.core.restart.is_some() && from == Side::Client {
            self.note_for_restart(request_key.key, is_handshake, method, params);
        }
        if cancels_task {
            self.note_task_cancel(now, request_key);
        }
        let mut urgent = false;
        if self.core.welcome.is_some() && from == Side::Client {
            let asked = (request_key, body.len());
            match self.welcome_request(now, asked, is_handshake, method, params, renamed.is_none()) {
                Course::Passes => {}
                Course::PassesFirst => urgent = true,
                Course::Ended => return None,
            }
        }
        let splice = renamed.map(|id| (request.id_span.clone(), id));
        if in_turns && session.is_some() {
            return self.unless_held(now, request_key, body, splice);
        }
        if is_close && let Some(session) = session {
            self.take_back_prompts(now, session);
        }
        Some(Passed { splice, tag: Tag::Of(request_key, Part::Request), urgent })
    }

    /// Whether a request may be taken in: its id must be free (D7), and there must be room (D12). A settled request of
    /// the same id gives way to it.
    fn admit(&mut self, from: Side, id: &RequestId, dialect: &Dialect, previous: Option<Key>) -> Result<(), Refusal> {
        if id.is_null() && !dialect.null_ids {
            return Err((Rejected::NullId, error_code::INVALID_REQUEST, "a request id must not be null".into()));
        }
        if let Some(previous) = previous {
            self.refuse_or_replace(from, previous, id, dialect.reuse)?;
        }
        let (table, config) = (&self.tables[from], &self.core.config);
        if table.live().saturating_sub(self.core.tasks[from].len()) >= config.max_in_flight {
            let (limit, name) = (config.max_in_flight, config.setting_names.max_in_flight);
            let text = format!("too many requests in flight; the limit is {limit} ({name})");
            return Err((Rejected::Overloaded, error_code::OVERLOADED, text.into()));
        }
        if table.kept > config.max_kept {
            let text = "too many bytes of request ids are in use";
            return Err((Rejected::Overloaded, error_code::OVERLOADED, text.into()));
        }
        Ok(())
    }

    #[cold]
    fn refuse_or_replace(&mut self, from: Side, previous: Key, id: &RequestId, reuse: IdReuse) -> Result<(), Refusal> {
        if self.tables[from].get(previous).is_some_and(Exchange::is_live) {
            return Err((Rejected::DuplicateId, error_code::INVALID_REQUEST, DUPLICATE_ID.into()));
        }
        if reuse == IdReuse::Never {
            self.core.report_violation(from, Rule::McpI02, Some(id.clone()));
        }
        self.tables[from].replace(previous);
        Ok(())
    }

    /// The request of the other side during which `from` makes one: the turn of the session that it names, or the only
    /// one that there is.
    fn parent_of(&self, from: Side, dialect: &Dialect, method: &str, session: Option<&[u8]>) -> Option<Key> {
        // A client's requests are made by people, not by the server's requests.
        if from == Side::Client || dialect.ping == Some(method) {
            return None;
        }
        let table = &self.tables[Side::Client];
        let is = |wanted: fn(&Exchange) -> bool| move |key| table.get(key).is_some_and(wanted);
        let turn_is = |wanted: fn(&Exchange) -> bool| {
            move |key| table.get(key).is_some_and(|exchange| wanted(exchange) && self.core.is_turn(exchange))
        };
        let is_at_work = |exchange: &Exchange| exchange.is_waiting() && !exchange.is_held();
        let has_session = turn_is(|exchange| exchange.session().is_some());
        let parent = self.core.turns.parent(session, turn_is(is_at_work), table.only_live(), has_session);
        // Nothing is part of what the other side has not seen, or has answered.
        parent.filter(|key| is(|exchange| exchange.up == Up::Sent && exchange.task_work().is_none())(*key))
    }
}

impl Step<'_> {
    /// Begins with a request that was taken in. Whether it goes on: not where it was cancelled before it came (D9), nor
    /// where nothing can be written.
    #[inline]
    pub(super) fn open(&mut self, early: Option<&EarlyCancel>) -> bool {
        self.start_clocks();
        self.report_opened();
        if let Some(early) = early
            && self.may_be_cancelled_early()
        {
            // The other side never receives it.
            self.cancel_upstream(Cause::by(CauseCode::Caller, early.reason.as_deref()));
            self.report_receipt();
            self.settle_cancelled();
            return false;
        }
        if self.core.links[self.request.from.other()].write_closed {
            self.answer_gone();
            return false;
        }
        true
    }

    /// Whether an early cancel of this request counts.
    fn may_be_cancelled_early(&mut self) -> bool {
        let forbidden = self.exchange.dialect.uncancellable(self.method());
        let Some(rule) = forbidden.or_else(|| self.exchange.is_task.then_some(Rule::McpC13)) else { return true };
        self.core.report_violation(self.request.from, rule, Some(self.exchange.id.clone()));
        false
    }

    /// Answers a request that can no longer be sent anywhere (D35).
    pub(super) fn answer_gone(&mut self) {
        self.exchange.up = Up::Lost;
        if self.request.from == Side::Server {
            // The client's pipe has ended; the server's own end will come.
            return self.settle(Settled::Gone);
        }
        let (text, data) = self.core.server_exit_error();
        self.answer_error(error_code::UPSTREAM_GONE, &text, Some(&data));
    }
}
