//! Requests that the server has, by the id that it knows: of clients, and of our own.

use core::time::Duration;
use std::collections::BTreeSet;

use super::{LISTEN, kind::Kinds, level::Level, rewrite::Style, task::Step};
use crate::{
    frame::Request,
    hash::Seed,
    id::RequestId,
    outbox::Ticket,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
};

/// Requests at the server: not answered, or cancelled.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    table: Table<Call>,
    /// The id of the next one.
    next: i64,
    counts: Counts,
    /// Calls that were forgotten, and the server may ask something for, since their cancel has not left.
    unsent: BTreeSet<i64>,
    /// When the last cancel has left of a call that the server may ask something for.
    cancelled_at: Option<Instant>,
}

/// What is counted of all calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// How many in flight want log messages of each level.
    wanted: [usize; Level::ALL.len()],
    /// How many in flight the server may ask something for.
    askers: usize,
    /// Their ids, combined by exclusive or: the id of the only one, if there is one.
    asker: i64,
    /// Bytes of params, and of what is known of tasks, that are kept.
    kept_bytes: usize,
    /// Cancelled calls that the server may ask something for, since their cancel has not left.
    unheard: usize,
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

/// What becomes of the answer to a request.
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
    /// It is for us.
    Own(Asked),
}

/// How far a call's cancel has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cancel {
    /// There is none.
    No,
    /// The server may ask something for the call until it has received it, and it has not left.
    Unheard,
    /// It has left, or the server asks nothing for such a call.
    Heard,
}

/// A request that the server has.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The id that the server knows.
    pub(super) own: i64,
    /// The one that the client knows, if it is a client's.
    pub(super) client_id: Option<RequestId>,
    pub(super) style: Style,
    pub(super) form: Form,
    /// The least level of log messages that it wants.
    pub(super) level: Option<Level>,
    /// What is kept of a call that the server may ask something for.
    pub(super) asks: Option<Box<Asks>>,
    /// It has left, so that the server can have read it.
    pub(super) has_left: bool,
    pub(super) cancel: Cancel,
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

/// Methods whose results may ask for input (2026-07-28).
const ASKERS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// The one of [`ASKERS`] with this name.
pub(super) fn asker(method: &str) -> Option<&'static str> {
    ASKERS.into_iter().find(|asker| *asker == method)
}

/// Our ids count down from here, as a relay's do (D32): few clients count so far.
const FIRST: i64 = (1 << 31) - 1;

/// Of calls that were cancelled, and may still be answered, these are remembered (D8).
const BOUNDS: Bounds =
    Bounds { most: 4096, hard: 16 * 4096, least: Duration::from_secs(5), longest: Duration::from_secs(600) };

/// After this time a server that has received a cancel asks nothing more for its request.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

/// Methods whose results can be kept (2026-07-28).
const CACHEABLE: [&str; 4] = ["prompts/list", "resources/list", "resources/templates/list", "resources/read"];

const TOOLS: &str = "tools/list";

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
            Self::Plain | Self::Kept | Self::Tools | Self::Listening | Self::Own(_) => 0,
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
    /// A client's request, which has no id at the server so far.
    pub(super) fn of(request: &Request<'_>, style: Style) -> Self {
        let client_id = Some(request.id.clone());
        Self { client_id, style, form: Form::of(&request.method), ..Self::own(Asked::Nothing) }
    }

    /// The same, about a task.
    pub(super) fn about_task(request: &Request<'_>, style: Style, step: Step) -> Self {
        Self { form: Form::Task(step), ..Self::of(request, style) }
    }

    /// A request of our own.
    pub(super) const fn own(asked: Asked) -> Self {
        Self {
            own: 0,
            client_id: None,
            style: Style::Enveloped,
            form: Form::Own(asked),
            level: None,
            asks: None,
            has_left: false,
            cancel: Cancel::No,
            line: None,
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel != Cancel::No
    }

    /// Whether the server makes a task of it that it has not named.
    pub(super) fn is_to_be_task(&self) -> bool {
        self.form == Form::Task(Step::Make)
    }

    /// Whether its answer matters: it was not cancelled, or names the task that is to be cancelled.
    pub(super) fn goes_on(&self) -> bool {
        self.is_to_be_task() || !self.is_cancelled()
    }

    /// The token under which the server reports its progress, if it may be asked something for it.
    pub(super) fn token(&self) -> Option<&RequestId> {
        self.asks.as_ref()?.token.as_ref()
    }

    /// Bytes that are kept for it.
    fn kept(&self) -> usize {
        let of_asks = |asks: &Asks| {
            let params = asks.params.as_ref().map_or(0, |params| params.len());
            size_of::<Asks>() + params + asks.token.as_ref().map_or(0, RequestId::heap_bytes)
        };
        self.form.held() + self.asks.as_deref().map_or(0, of_asks)
    }
}

impl Counts {
    /// Adds a call to them, or takes it off.
    fn count(&mut self, call: &Call, change: impl Fn(&mut usize, usize)) {
        if let Some(level) = call.level {
            change(&mut self.wanted[level as usize], 1);
        }
        if call.asks.is_some() {
            change(&mut self.askers, 1);
            self.asker ^= call.own;
        }
        change(&mut self.kept_bytes, call.kept());
        change(&mut self.unheard, usize::from(call.cancel == Cancel::Unheard));
    }

    fn add(&mut self, call: &Call) {
        self.count(call, |count, by| *count += by);
    }

    fn remove(&mut self, call: &Call) {
        self.count(call, |count, by| *count -= by);
    }
}

impl Calls {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            table: Table::new(seed),
            next: FIRST,
            counts: Counts::default(),
            unsent: BTreeSet::new(),
            cancelled_at: None,
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

    /// Notes a request that the server is to have, or another part of one that it has answered. Returns the id under which
    /// it is to know it.
    pub(super) fn open(&mut self, call: Call) -> i64 {
        let own = self.number();
        self.put(Call { own, ..call });
        own
    }

    /// The call goes on at the server for another request of its client, or for none while that is to call again. Returns the
    /// id that the client knew.
    pub(super) fn rename(&mut self, own: i64, client_id: Option<RequestId>, level: Option<Level>) -> Option<RequestId> {
        self.get(own).filter(|call| !call.is_cancelled())?;
        let call = self.answered(own)?;
        let known = call.client_id.clone();
        self.put(Call { client_id, level, ..call });
        known
    }

    /// The call in flight that the server may ask something for, if it is the only one.
    pub(super) fn only_asker(&self) -> Option<&Call> {
        self.get(self.counts.asker).filter(|_| self.counts.askers == 1)
    }

    /// How many in flight the server may ask something for.
    pub(super) const fn askers(&self) -> usize {
        self.counts.askers
    }

    /// Whether the server may still ask something for a call that was cancelled.
    pub(super) fn may_ask_for_cancelled(&self, now: Instant) -> bool {
        self.counts.unheard > 0
            || !self.unsent.is_empty()
            || self.cancelled_at.is_some_and(|at| now.since(at) < HEARD_WITHIN)
    }

    /// A request by the id that the server knows.
    pub(super) fn get(&self, own: i64) -> Option<&Call> {
        self.table.get(self.table.by_id(&own)?)
    }

    /// Bytes of params, and of what is known of tasks, that are kept for calls in flight.
    pub(super) const fn kept_bytes(&self) -> usize {
        self.counts.kept_bytes
    }

    fn put(&mut self, call: Call) {
        self.counts.add(&call);
        self.table.insert(self.table.hash(&call.own), call);
    }

    /// The request that the server has answered, which is over by that.
    pub(super) fn answered(&mut self, own: i64) -> Option<Call> {
        let key = self.table.by_id(&own)?;
        let ring = self.table.get(key)?.is_cancelled().then_some(Ring::Abandoned);
        let call = self.table.remove(key, ring)?;
        self.counts.remove(&call);
        Some(call)
    }

    /// Forgets our own request of this kind.
    pub(super) fn remove_asked(&mut self, asked: Asked) {
        let is_it = |call: &Call| call.form == Form::Own(asked) && !call.is_cancelled();
        let found = self.table.iter().find(|(_, call)| is_it(call)).map(|(_, call)| call.own);
        found.into_iter().for_each(|own| _ = self.answered(own));
    }

    /// Notes that a client cancelled its request; `None` if there is none, or it was cancelled before. Returns the id that the
    /// server knows, and the line of the request, which may still wait.
    pub(super) fn cancel(&mut self, now: Instant, client_id: &RequestId) -> Option<(i64, Option<Ticket>)> {
        let key = self.table.by_token(client_id, |call| !call.is_cancelled())?;
        self.cancel_own(now, self.table.get(key)?.own)
    }

    /// Notes that a call is cancelled that is known by this id.
    pub(super) fn cancel_own(&mut self, now: Instant, own: i64) -> Option<(i64, Option<Ticket>)> {
        let key = self.table.by_id(&own)?;
        let call = self.table.get_mut(key).filter(|call| !call.is_cancelled())?;
        self.counts.remove(call);
        let may_ask = call.asks.take().is_some();
        call.cancel = if may_ask { Cancel::Unheard } else { Cancel::Heard };
        call.level = None;
        if call.form.held() > 0 {
            // It goes no further.
            call.form = Form::Plain;
        }
        self.counts.add(call);
        let cancelled = (own, call.line);
        self.table.retire(key, now, Ring::Abandoned);
        Some(cancelled)
    }

    /// Notes that the cancel of a call has left.
    pub(super) fn cancel_left(&mut self, now: Instant, own: i64) {
        if let Some(call) = self.get_mut(own).filter(|call| call.cancel == Cancel::Unheard) {
            call.cancel = Cancel::Heard;
            self.counts.unheard -= 1;
        } else if !self.unsent.remove(&own) {
            return;
        }
        self.cancelled_at = Some(now);
    }

    /// A request of which nothing is changed that is counted, or that it is found by.
    pub(super) fn get_mut(&mut self, own: i64) -> Option<&mut Call> {
        self.table.get_mut(self.table.by_id(&own)?)
    }

    /// Whether this is a `subscriptions/listen`.
    pub(super) fn listens(&self, own: i64) -> bool {
        self.get(own).is_some_and(|call| matches!(call.form, Form::Listening | Form::Own(Asked::Listen)))
    }

    /// The id under which a client knows its request.
    pub(super) fn client_id(&self, own: i64) -> Option<&RequestId> {
        self.get(own)?.client_id.as_ref()
    }

    /// The least level of log messages that any request wants.
    pub(super) fn level(&self) -> Option<Level> {
        Level::ALL.into_iter().find(|level| self.counts.wanted[*level as usize] > 0)
    }

    /// When a cancelled call may be forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        self.table.due(Ring::Abandoned, &BOUNDS)
    }

    /// Forgets cancelled calls that are too old, or too many.
    pub(super) fn prune(&mut self, now: Instant) {
        let Self { table, counts, unsent, .. } = self;
        table.prune(Ring::Abandoned, now, &BOUNDS, |_, call| {
            if call.cancel == Cancel::Unheard && !call.is_to_be_task() {
                unsent.insert(call.own);
            }
            counts.remove(call);
        });
    }

    /// Entries of every collection.
    pub(super) fn residue(&self) -> usize {
        self.table.residue()
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        let of = |call: &Call| call.client_id.as_ref().map_or(0, RequestId::heap_bytes);
        self.table.held() + self.table.iter().map(|(_, call)| of(call)).sum::<usize>() + self.kept_bytes()
    }

    /// Panics if the table does not agree with itself.
    pub(super) fn check(&self) {
        self.table.check(|call| !call.is_cancelled());
        let mut counts = Counts::default();
        self.table.iter().for_each(|(_, call)| counts.add(call));
        assert_eq!(counts, self.counts, "invariant 8: what is counted of calls is off");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for (_, call) in self.table.iter() {
            let Call { own, client_id, style, form, level, asks, has_left, cancel, line: _ } = call;
            (self.next - own, client_id, style, form, level, asks, has_left, cancel).hash(state);
        }
        let cancelled = self.cancelled_at.map(|at| now.since(at).min(HEARD_WITHIN));
        (self.unsent.len(), cancelled).hash(state);
    }
}
