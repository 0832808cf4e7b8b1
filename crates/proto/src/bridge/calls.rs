//! Requests that the server has, by the id that it knows: of clients, and of our own.

use core::time::Duration;

use super::{LISTEN, kind::Kinds, level::Level, task::Step};
use crate::{
    frame::Request,
    hash::Seed,
    id::RequestId,
    outbox::Ticket,
    slab::Key,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
};

/// Requests at the server: not answered, or cancelled.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    table: Table<Call>,
    /// The id of the next one.
    next: i64,
    /// How many in flight want log messages of each level.
    wanted: [usize; Level::ALL.len()],
    /// How many in flight the server may ask something for, and their ids, combined by exclusive or: the id of the only
    /// one, if there is one.
    askers: (usize, i64),
    /// Bytes of params, and of what is known of tasks, that are kept.
    kept_bytes: usize,
    /// Cancelled calls whose cancel is held back until the server names their task (MCP-C13).
    unheard: usize,
}

/// Which era a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// It begins with `initialize`.
    InSession,
    /// Every request describes itself in `_meta`.
    Enveloped,
}

/// What we ask the server ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Discover,
    Initialize,
    /// Reports of changes, for a client with a session.
    Listen,
    /// Something whose answer does not matter.
    Nothing,
    /// For the result of a task, so that the server asks what it wants to know for that.
    TaskResult,
}

/// What becomes of the answer to a client's request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Plain,
    /// The receiver may keep the result (2026-07-28).
    Kept,
    /// As that, and it names tools.
    Tools,
    /// It ends a `subscriptions/listen`.
    Listening,
    /// It is about a task.
    Task(Step),
}

/// A request that the server has.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The id that the server knows.
    pub(super) own: i64,
    /// The one that the client knows, if it is a client's.
    pub(super) client_id: Option<RequestId>,
    pub(super) style: Style,
    /// What it is, if it is ours.
    pub(super) asked: Option<Asked>,
    pub(super) form: Form,
    /// The least level of log messages that it wants.
    pub(super) level: Option<Level>,
    /// What is kept of a call that the server may ask something for.
    pub(super) asks: Option<Box<Asks>>,
    pub(super) is_cancelled: bool,
    /// Its line for the server, or that of its cancel, as long as it waits.
    pub(super) line: Option<Ticket>,
}

/// What is kept of a call that the server may ask something for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asks {
    /// Its method, one of [`ASKERS`].
    pub(super) method: &'static str,
    /// What its client answers.
    pub(super) kinds: Kinds,
    /// The token under which the server reports its progress.
    pub(super) token: Option<RequestId>,
    /// Its params as the server got them, where each answer is a request of its own.
    pub(super) params: Option<Box<[u8]>>,
    /// How often it was asked something.
    pub(super) rounds: u8,
}

/// A call that was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cancelled {
    /// The id that the server knows.
    pub(super) own: i64,
    /// Its line, which may still wait.
    pub(super) line: Option<Ticket>,
    /// The server may have asked something for it.
    pub(super) may_ask: bool,
}

/// Methods whose results may ask for input (2026-07-28).
const ASKERS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

impl Asks {
    /// Bytes of memory that it holds.
    fn held(&self) -> usize {
        let params = self.params.as_ref().map_or(0, |params| params.len());
        size_of::<Self>() + params + self.token.as_ref().map_or(0, RequestId::heap_bytes)
    }
}

impl Form {
    fn of(method: &str) -> Self {
        match method {
            LISTEN => Self::Listening,
            TOOLS => Self::Tools,
            method if CACHEABLE.contains(&method) => Self::Kept,
            _ => Self::Plain,
        }
    }

    /// Bytes of memory that it holds beside itself.
    fn held(&self) -> usize {
        match self {
            Self::Task(step) => step.held(),
            Self::Plain | Self::Kept | Self::Tools | Self::Listening => 0,
        }
    }
}

impl Entry for Call {
    type Id = i64;

    fn id(&self) -> &i64 {
        &self.own
    }

    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        self.client_id.iter()
    }
}

impl Call {
    /// Whether its cancel is held back until the server names its task.
    fn is_unheard(&self) -> bool {
        self.is_cancelled && self.form == Form::Task(Step::Make)
    }

    /// The token under which the server reports its progress, if it may be asked something for it.
    pub(super) fn token(&self) -> Option<&RequestId> {
        self.asks.as_ref()?.token.as_ref()
    }
}

/// The one of [`ASKERS`] with this name.
pub(super) fn asker(method: &str) -> Option<&'static str> {
    ASKERS.into_iter().find(|asker| *asker == method)
}

/// Our ids count down from here, as a relay's do (D32): few clients count so far.
const FIRST: i64 = (1 << 31) - 1;

/// Of calls that were cancelled, and may still be answered, these are remembered (D8).
const BOUNDS: Bounds =
    Bounds { most: 4096, hard: 16 * 4096, least: Duration::from_secs(5), longest: Duration::from_secs(600) };

/// Methods whose results can be kept (2026-07-28).
const CACHEABLE: [&str; 4] = ["prompts/list", "resources/list", "resources/templates/list", "resources/read"];

const TOOLS: &str = "tools/list";

impl Calls {
    pub(super) const fn new(seed: Seed) -> Self {
        Self {
            table: Table::new(seed),
            next: FIRST,
            wanted: [0; Level::ALL.len()],
            askers: (0, 0),
            kept_bytes: 0,
            unheard: 0,
        }
    }

    /// A number that no message of ours has had as its id.
    pub(super) const fn number(&mut self) -> i64 {
        self.next -= 1;
        self.next + 1
    }

    /// Whether a message of ours has had this id.
    pub(super) const fn is_ours(&self, own: i64) -> bool {
        self.next < own && own <= FIRST
    }

    /// Notes a client's request, and returns the id under which the server is to know it.
    pub(super) fn open(
        &mut self,
        request: &Request<'_>,
        style: Style,
        level: Option<Level>,
        asks: Option<Box<Asks>>,
    ) -> i64 {
        self.open_as(Form::of(&request.method), request, style, level, asks)
    }

    /// The same, of a request that is about a task.
    pub(super) fn open_task(
        &mut self,
        request: &Request<'_>,
        style: Style,
        level: Option<Level>,
        asks: Option<Box<Asks>>,
        step: Step,
    ) -> i64 {
        self.open_as(Form::Task(step), request, style, level, asks)
    }

    fn open_as(
        &mut self,
        form: Form,
        request: &Request<'_>,
        style: Style,
        level: Option<Level>,
        asks: Option<Box<Asks>>,
    ) -> i64 {
        let client_id = Some(request.id.clone());
        self.insert(Call { own: 0, client_id, style, asked: None, form, level, asks, is_cancelled: false, line: None })
    }

    /// Notes another round of a call that the server has answered, and returns the id that it is to have.
    pub(super) fn reopen(&mut self, call: Call) -> i64 {
        self.insert(call)
    }

    /// The call goes on at the server, and its client has been answered: returns the id that the client knew.
    pub(super) fn pause(&mut self, own: i64) -> Option<RequestId> {
        let mut call = self.take(own)?;
        let client_id = call.client_id.take();
        call.level = None;
        self.put(call);
        client_id
    }

    /// Gives up a call whose client is answered without the server: its answer is dropped. Returns the id that the client
    /// knew.
    pub(super) fn give_up(&mut self, now: Instant, own: i64) -> Option<RequestId> {
        let client_id = self.pause(own);
        _ = self.cancel_own(now, own);
        client_id
    }

    /// The client waits for such a call again, by another request.
    pub(super) fn resume(&mut self, own: i64, client_id: RequestId, level: Option<Level>, kinds: Kinds) {
        let Some(mut call) = self.take(own) else { return };
        (call.client_id, call.level) = (Some(client_id), level);
        if let Some(asks) = &mut call.asks {
            asks.kinds = kinds;
        }
        self.put(call);
    }

    /// The call in flight that the server may ask something for, if it is the only one.
    pub(super) fn only_asker(&self) -> Option<&Call> {
        let (1, own) = self.askers else { return None };
        self.get(own)
    }

    /// A request by the id that the server knows.
    pub(super) fn get(&self, own: i64) -> Option<&Call> {
        self.table.get(self.table.by_id(&own)?)
    }

    /// Whether the server may still ask something for a cancelled call, since the cancel is held back.
    pub(super) const fn has_unheard(&self) -> bool {
        self.unheard > 0
    }

    /// How many in flight the server may ask something for.
    pub(super) const fn askers(&self) -> usize {
        self.askers.0
    }

    /// Bytes of params, and of what is known of tasks, that are kept for calls in flight.
    pub(super) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Notes a request of our own.
    pub(super) fn ask(&mut self, asked: Asked) -> i64 {
        self.insert(Call {
            own: 0,
            client_id: None,
            style: Style::Enveloped,
            form: if asked == Asked::Listen { Form::Listening } else { Form::Plain },
            asked: Some(asked),
            level: None,
            asks: None,
            is_cancelled: false,
            line: None,
        })
    }

    fn insert(&mut self, call: Call) -> i64 {
        let own = self.number();
        self.put(Call { own, ..call });
        own
    }

    fn put(&mut self, call: Call) {
        self.count(&call);
        self.table.insert(self.table.hash(&call.own), call);
    }

    /// Takes a call in flight out.
    fn take(&mut self, own: i64) -> Option<Call> {
        let key = self.table.by_id(&own)?;
        self.table.get(key).filter(|call| !call.is_cancelled)?;
        let call = self.table.remove(key, None)?;
        self.uncount(own, call.level, call.asks.as_deref(), call.form.held());
        Some(call)
    }

    fn count(&mut self, call: &Call) {
        if let Some(level) = call.level {
            self.wanted[level as usize] += 1;
        }
        self.kept_bytes += call.form.held();
        if let Some(asks) = &call.asks {
            self.askers = (self.askers.0 + 1, self.askers.1 ^ call.own);
            self.kept_bytes += asks.held();
        }
    }

    fn uncount(&mut self, own: i64, level: Option<Level>, asks: Option<&Asks>, of_form: usize) {
        self.kept_bytes -= of_form;
        if let Some(level) = level {
            self.wanted[level as usize] -= 1;
        }
        if let Some(asks) = asks {
            self.askers = (self.askers.0 - 1, self.askers.1 ^ own);
            self.kept_bytes -= asks.held();
        }
    }

    /// The request that the server has answered, which is over by that.
    pub(super) fn answered(&mut self, own: i64) -> Option<Call> {
        let key = self.table.by_id(&own)?;
        let ring = self.table.get(key)?.is_cancelled.then_some(Ring::Abandoned);
        let call = self.table.remove(key, ring)?;
        self.unheard -= usize::from(call.is_unheard());
        if ring.is_none() {
            self.uncount(own, call.level, call.asks.as_deref(), call.form.held());
        }
        Some(call)
    }

    /// Forgets our own request of this kind.
    pub(super) fn remove_asked(&mut self, asked: Asked) {
        let found = self.table.iter().find(|(_, call)| call.asked == Some(asked) && !call.is_cancelled);
        if let Some((key, _)) = found {
            self.table.remove(key, None);
        }
    }

    /// Notes that a client cancelled its request; `None` if there is none, or it was cancelled before.
    pub(super) fn cancel(&mut self, now: Instant, client_id: &RequestId) -> Option<Cancelled> {
        let key = self.table.by_token(client_id, |call| !call.is_cancelled)?;
        self.cancel_entry(now, key)
    }

    /// Notes that a call is cancelled that is known by this id.
    pub(super) fn cancel_own(&mut self, now: Instant, own: i64) -> Option<Cancelled> {
        self.cancel_entry(now, self.table.by_id(&own)?)
    }

    fn cancel_entry(&mut self, now: Instant, key: Key) -> Option<Cancelled> {
        let call = self.table.get_mut(key).filter(|call| !call.is_cancelled)?;
        call.is_cancelled = true;
        self.unheard += usize::from(call.is_unheard());
        let (own, line, level, asks, of_form) = (call.own, call.line, call.level, call.asks.take(), call.form.held());
        if of_form > 0 {
            // It goes no further.
            call.form = Form::Plain;
        }
        self.uncount(own, level, asks.as_deref(), of_form);
        self.table.retire(key, now, Ring::Abandoned);
        Some(Cancelled { own, line, may_ask: asks.is_some() })
    }

    /// Notes that a line of the call waits to be written.
    pub(super) fn put_line(&mut self, own: i64, line: Option<Ticket>) {
        if let Some(call) = self.table.by_id(&own).and_then(|key| self.table.get_mut(key)) {
            call.line = line;
        }
    }

    /// Whether this is a `subscriptions/listen`.
    pub(super) fn listens(&self, own: i64) -> bool {
        self.get(own).is_some_and(|call| call.form == Form::Listening)
    }

    /// The id under which a client knows its request.
    pub(super) fn client_id(&self, own: i64) -> Option<&RequestId> {
        self.get(own)?.client_id.as_ref()
    }

    /// The least level of log messages that any request wants.
    pub(super) fn level(&self) -> Option<Level> {
        Level::ALL.into_iter().find(|level| self.wanted[*level as usize] > 0)
    }

    /// When a cancelled call may be forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        self.table.due(Ring::Abandoned, &BOUNDS)
    }

    /// Forgets cancelled calls that are too old, or too many.
    pub(super) fn prune(&mut self, now: Instant) {
        let unheard = &mut self.unheard;
        self.table.prune(Ring::Abandoned, now, &BOUNDS, |_, call| *unheard -= usize::from(call.is_unheard()));
    }

    /// Entries in flight, and those that were cancelled.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.table.live(), self.table.retired())
    }

    /// Entries of every collection.
    pub(super) fn residue(&self) -> usize {
        self.table.residue()
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        let of = |call: &Call| call.client_id.as_ref().map_or(0, RequestId::heap_bytes);
        self.table.held() + self.table.iter().map(|(_, call)| of(call)).sum::<usize>() + self.kept_bytes
    }

    /// Panics if the table does not agree with itself.
    pub(super) fn check(&self) {
        self.table.check(|call| !call.is_cancelled);
        let askers = self.table.iter().filter(|(_, call)| call.asks.is_some());
        let counted = askers.fold((0, 0), |(count, ids), (_, call)| (count + 1, ids ^ call.own));
        assert_eq!(counted, self.askers, "invariant 8: the count of calls that may ask is off");
        let unheard = self.table.iter().filter(|(_, call)| call.is_unheard()).count();
        assert_eq!(unheard, self.unheard, "invariant 8: the count of calls whose cancel is not heard is off");
        let kept = |call: &Call| call.asks.as_ref().map_or(0, |asks| asks.held()) + call.form.held();
        let kept: usize = self.table.iter().map(|(_, call)| kept(call)).sum();
        assert_eq!(kept, self.kept_bytes, "invariant 8: the count of what is kept for calls is off");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for (_, call) in self.table.iter() {
            (
                self.next - call.own,
                &call.client_id,
                call.style,
                call.asked,
                &call.form,
                call.level,
                &call.asks,
                call.is_cancelled,
            )
                .hash(state);
        }
    }
}
