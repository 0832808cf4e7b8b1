//! A dialect: one protocol revision's answers to every question about cancellation (D1).
//!
//! A table of values, not behaviour: the machines ask the table and never the
//! name of a protocol. One const per revision; a program can write its own.

pub mod acp;
pub mod codex;
mod discovered;
pub mod lsp;
pub mod mcp;
pub mod negotiation;
mod plain;
mod progress;
mod session_work;
mod thread_form;

use core::{
    fmt,
    hash::{Hash, Hasher},
    time::Duration,
};
use std::borrow::Cow;

pub use discovered::{DISCOVER, Discovered};
pub use plain::{JSON_RPC, UNKNOWN};
pub use progress::{ProgressForm, Reading, Report, ReportForm};
pub(crate) use session_work::BACKGROUND;
pub use session_work::{ItemKind, SessionWorkForm};
pub(crate) use session_work::{StateNews, StateReport, StopReport};
pub(crate) use thread_form::TERMINAL;
pub use thread_form::{
    CommandForm, Greeting, GreetingForm, InterruptForm, ItemForm, ProcessForm, TerminalForm, ThreadForm,
};

use crate::{
    child::{ChildEnd, ChildState},
    frame::ResponseBody,
    json,
    method::is_same,
    rule::Rule,
};

/// One protocol revision's answers about cancellation.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// The name flags and recordings use, such as `mcp-2025-11-25`.
    pub name: &'static str,
    /// Which protocol this is a revision of.
    pub family: Family,
    /// The date by which MCP names it, in a handshake or in the `_meta` of a request.
    pub date: Option<&'static str>,
    /// Whether it has no sessions: nothing opens one, and each request says in `_meta` which revision it is of.
    pub stateless: bool,
    /// Whether every message passes as it is: no id is replaced, nothing is refused, no clock runs, and no request is
    /// cancelled by its id (D57, D58).
    pub opaque: bool,
    /// The notification we send.
    pub cancel: CancelForm,
    /// Other spellings we accept, and send back to a peer that itself used one (D3).
    pub aliases: &'static [CancelForm],
    /// What the requester gets for a request it cancelled.
    pub settlement: CancelReply,
    /// The error for a request that its own handler or server gave up (D24).
    pub gave_up: ErrorText,
    /// Who may send a cancel.
    pub cancellers: Cancellers,
    /// The rule that forbids the server to send requests, if one does.
    pub no_server_requests: Option<Rule>,
    /// Methods whose requests are never cancelled on the wire, with the rule that says so.
    pub uncancellable: &'static [(&'static str, Rule)],
    /// How a request becomes a task, which only `tasks/cancel` may cancel (MCP-C13); `None` where there are none.
    pub tasks: Option<TaskForm>,
    /// What the end of input means for requests received on the connection (D27).
    pub disconnect: Disconnect,
    /// The capability a side must declare before it may be sent a cancel (ACP-20).
    pub gate: Option<Gate>,
    /// Whether an array of messages is one message (MCP-B01).
    pub batches: bool,
    /// When an id may be used again.
    pub reuse: IdReuse,
    /// Whether a request may carry `id: null`.
    pub null_ids: bool,
    /// Whether a cancel that overtook its request may be held for it (D9).
    pub sticky: bool,
    /// Whether an error may stand without the id of a request.
    pub stray_error: StrayError,
    /// Clocks of requests that name none (D16).
    pub clocks: DefaultClocks,
    /// Methods that have a result of their own for "cancelled" (ACP-01, ACP-08).
    pub cancel_results: &'static [CancelResult],
    /// Requests that open a session, keep it up, or follow or end work that goes on: a limit counts them only where it
    /// names their method (D65).
    pub upkeep: &'static [&'static str],
    /// A request whose result can show that its work failed, if there is one: what a model reads of its end.
    pub failure: Option<FailureForm>,
    /// How progress names its request.
    pub progress: Option<ProgressForm>,
    /// The turn of an agent's session, cancelled as a whole (D37).
    pub turn: Option<&'static TurnForm>,
    /// The turns of threads, which a notification ends (D58).
    pub threads: Option<&'static ThreadForm>,
    /// The client's request that opens a session, if there are any: its params and its answer tell which revision is spoken.
    pub handshake: Option<&'static str>,
    /// A request that either side makes at any time, so that it is part of no other.
    pub ping: Option<&'static str>,
    /// A request after which its issuer may send no cancel (LSP-06).
    pub last_request: Option<&'static str>,
    /// Whether nothing may be cancelled before the handshake has been answered (LSP-06, ACP-21).
    pub handshake_first: Option<Rule>,
    /// A client's request that the server ends with a cancel of its own, and how its notifications name it (MCP-M02).
    pub subscription: Option<SubscriptionForm>,
    /// The lists of a server that its clients read when they arrive.
    pub lists: &'static [ListForm],
    /// Whether `_meta` exists, and so can carry the remaining time (D17).
    pub meta: bool,
    /// How it is spoken over HTTP, if it is.
    pub http: Option<HttpForm>,
}

words! {
    /// The protocol that a dialect is a revision of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Family {
        /// Model Context Protocol.
        Mcp = "MCP",
        /// Agent Client Protocol.
        Acp = "ACP",
        /// Language Server Protocol.
        Lsp = "LSP",
        /// The app server of Codex.
        Codex = "Codex",
        /// A table of the user's own.
        Custom = "custom",
    }
}

/// The shape of a cancel notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancelForm {
    /// Its method.
    pub method: &'static str,
    /// The params member that names the request.
    pub id: &'static str,
    /// The params member that holds a reason in words.
    pub reason: Option<&'static str>,
}

/// What the requester gets for a request it cancelled.
///
/// It never grows: a cancelled request is answered once or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelReply {
    /// Nothing at all (MCP-C06).
    Silent,
    /// Exactly one answer: a result, the method's own cancellation result, or this error (ACP-01, LSP-01).
    Answered(ErrorText),
}

/// An error code and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorText {
    /// The JSON-RPC code.
    pub code: i32,
    /// The message.
    pub message: &'static str,
}

/// Who may send a cancel.
///
/// It never grows: both sides cancel or the client alone: no protocol lets only a server cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cancellers {
    /// Either side, for requests of its own (MCP-C01).
    Both,
    /// The client only; the server may end a subscription (MCP-M01, MCP-M02).
    Client,
}

/// What the end of input means for requests received on the connection.
///
/// It never grows: work outlives its connection or it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disconnect {
    /// They are cancelled.
    Cancels,
    /// They run on; the stream may be resumed (MCP-H01).
    Detaches,
}

/// How a dialect is spoken over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HttpForm {
    /// What it means for a request that its client closes the stream of its response (D40).
    pub stream_closed: Disconnect,
    /// Whether a stream begins with an event without a message, behind which its client can resume (MCP-H07).
    pub primer: bool,
}

/// Where a side declares in the handshake that it understands cancels (ACP-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    /// The path in the params of `initialize`.
    pub client: &'static [&'static str],
    /// The path in the result of `initialize`.
    pub server: &'static [&'static str],
    /// The rule that a cancel sent without it breaks.
    pub rule: Rule,
}

/// When an id may be used again.
///
/// It never grows: an id is free again after its answer or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdReuse {
    /// Never within the session (MCP-I02).
    Never,
    /// Once the earlier request has been answered (MCP-I03).
    AfterAnswer,
}

/// Whether an error object may come without the id of a request (D36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StrayError {
    /// With `id: null` (JSON-RPC).
    NullId,
    /// Without an `id` member (MCP from 2025-11-25).
    NoId,
    /// In neither form.
    Invalid,
}

/// Clocks of requests that name none (D16). A relay ignores them: it sets no clock without a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefaultClocks {
    /// Until the answer; progress resets it where the caller asked for that.
    pub response: Option<Duration>,
    /// Until the answer, whatever happens (MCP-T05).
    pub total: Option<Duration>,
    /// Methods that a person answers: without any clock, and while one is open the response clocks of the side that is
    /// asked stand still (D49).
    pub questions: &'static [&'static str],
    /// Other methods without any clock: they take as long as what they wait for.
    pub unclocked: &'static [&'static str],
}

impl DefaultClocks {
    /// Whether a person answers requests of this method.
    #[must_use]
    pub fn is_question(&self, method: &str) -> bool {
        self.questions.iter().any(|question| is_same(question, method))
    }

    /// Whether requests of this method have clocks unless they name some.
    #[must_use]
    pub fn run_for(&self, method: &str) -> bool {
        !self.is_question(method) && !self.unclocked.contains(&method)
    }
}

/// A method's own way to say "cancelled".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancelResult {
    /// The request's method.
    pub method: &'static str,
    /// Where in a result to look, and the value that means "cancelled".
    pub path: &'static [&'static str],
    /// The value at `path`: a string, or a number as it is written.
    pub value: &'static str,
    /// The whole result, as JSON.
    pub json: &'static str,
}

impl CancelResult {
    /// Whether a result says "cancelled" in this way: by a string, or a number.
    #[must_use]
    pub fn is_in(&self, result: &[u8]) -> bool {
        let found = json::lookup(result, self.path);
        found.is_some_and(|found| found == self.value.as_bytes() || json::text(found).as_deref() == Some(self.value))
    }
}

/// How the result of a request shows that its work failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailureForm {
    /// The request.
    pub method: &'static str,
    /// The member of a result that shows it, and its value.
    pub mark: (&'static str, &'static str),
    /// The member of a result that is the end of the work, and its value; one without it is, too.
    pub whole: Option<(&'static str, &'static str)>,
    /// Such a result as JSON, as far as the words about the failure.
    pub before: &'static str,
    /// What follows the words, as far as the closing brace.
    pub after: &'static str,
}

/// The turn of a session (D37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnForm {
    /// The request that is the turn.
    pub prompt: &'static str,
    /// The notification that cancels the turn.
    pub cancel: &'static str,
    /// The params member that names the session, in all of these.
    pub session: &'static str,
    /// The notification that shows the turn's progress.
    pub update: &'static str,
    /// Where in its params the kind of an update stands.
    pub kind: &'static [&'static str],
    /// Kinds of updates that belong to no turn: news of other sessions, and of the session itself (D34).
    pub beside: &'static [&'static str],
    /// How the agent says that a child's work was cancelled.
    pub child: ChildForm,
    /// Requests whose work shows in updates of the session that they name, as the turn's does (D16). News of
    /// children that comes before the answer is history (ACP-44).
    pub loads: &'static [&'static str],
    /// The request that ends a session, and its children with it (ACP-42).
    pub close: &'static str,
    /// The agent's request that must be answered "cancelled" when the turn is (ACP-08).
    pub permission: &'static str,
    /// Whether a prompt is answered once its turn has ended, so that the next one can wait for that (D60).
    pub answered_at_end: bool,
    /// How long a cancelled turn may take before a relay ends it for a client that waits (D34).
    pub limit: Duration,
    /// How long a client that has cancelled the turn itself may leave the agent's questions of that session unanswered,
    /// before a relay does that (D37); `None` where it is the agent that says which of them are over (ACP-53).
    pub cards: Option<Duration>,
    /// How updates report the work of a session, where the answer to a prompt does not end it (D55).
    pub work: Option<&'static SessionWorkForm>,
}

impl TurnForm {
    /// Whether the work of a client's request with this method shows in updates of its session.
    #[must_use]
    pub fn is_in_updates(&self, method: &str) -> bool {
        method == self.prompt || self.loads.contains(&method)
    }

    /// Whether a client's request with this method works on a session as a whole: it is a turn, loads it or closes it.
    pub(crate) fn names_session(&self, method: &str) -> bool {
        self.is_in_updates(method) || method == self.close
    }

    /// The kind of an update with these params, if it has one.
    pub(crate) fn kind_of<'a>(&self, params: &'a [u8]) -> Option<Cow<'a, str>> {
        json::lookup(params, self.kind).and_then(json::text)
    }

    /// Reads the news of a child in an update with these params, if it has some and names one.
    pub(crate) fn child_news<'a>(&self, params: &'a [u8]) -> Option<ChildNews<'a>> {
        let form = &self.child;
        let is_news = self.kind_of(params).is_some_and(|kind| kind == form.kind);
        let session = json::lookup(params, form.session).filter(|id| is_news && id.starts_with(b"\""))?;
        Some(ChildNews {
            session,
            title: json::lookup(params, form.title).map(json::text),
            can_cancel: form.grant_in(params),
            state: json::lookup(params, form.state).map(|state| form.state_of(state)),
        })
    }
}

/// How the updates of a session report its children: sessions that its agent opened for parts of the work (D54).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChildForm {
    /// Where in the handshake the client asks for news of children, as an object (ACP-30); empty where it need not ask.
    pub declared: &'static [&'static str],
    /// The kind of an update with news of a child, in the session of the child's parent (ACP-31).
    pub kind: &'static str,
    /// Where in its params the child's id stands.
    pub session: &'static [&'static str],
    /// Where the child's name for people stands.
    pub title: &'static [&'static str],
    /// Where that stands which the client may do with the child (ACP-33).
    pub grants: &'static [&'static str],
    /// The member of it that allows a cancel, as an object.
    pub cancel_grant: &'static str,
    /// Where the child's state stands; null where it is not known.
    pub state: &'static [&'static str],
    /// The member of a state with its word.
    pub state_word: &'static str,
    /// Words for work that goes on.
    pub at_work: &'static [&'static str],
    /// The word for work that is over.
    pub idle: &'static str,
    /// The member of a state with the reason why the work is over.
    pub stop_reason: &'static str,
    /// The reason that is a cancel (ACP-36).
    pub cancelled_reason: &'static str,
    /// The reason that is a failure (ACP-37).
    pub failed_reason: &'static str,
    /// The member of a state with the error that was such a failure.
    pub error: &'static str,
}

impl ChildForm {
    /// Whether what these params are about may be cancelled from now on, if they report that.
    pub(crate) fn grant_in(&self, params: &[u8]) -> Option<bool> {
        let grants = json::lookup(params, self.grants)?;
        Some(json::member(grants, self.cancel_grant).is_some_and(|grant| grant.starts_with(b"{")))
    }

    /// Reads the state that the agent reports: a value takes the place of the whole of the earlier one.
    pub(crate) fn state_of(&self, state: &[u8]) -> ChildState {
        let word = |member| json::member(state, member).and_then(json::text);
        match word(self.state_word) {
            Some(said) if self.at_work.contains(&&*said) => ChildState::Running,
            Some(said) if said == self.idle => ChildState::Idle(match word(self.stop_reason) {
                Some(reason) if reason == self.cancelled_reason => ChildEnd::Cancelled,
                Some(reason) if reason == self.failed_reason => ChildEnd::Failed,
                Some(_) | None => ChildEnd::Finished,
            }),
            // Also a word of a later revision: no word but that for idle means that the work is over.
            Some(_) => ChildState::Unknown,
            None => ChildState::Unconfirmed,
        }
    }
}

/// News of a child in an update. What it leaves out is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildNews<'a> {
    /// Its id, as JSON.
    pub(crate) session: &'a [u8],
    /// Its name for people, if it has one.
    pub(crate) title: Option<Option<Cow<'a, str>>>,
    /// Whether it may be cancelled, from now on (ACP-33).
    pub(crate) can_cancel: Option<bool>,
    /// Its state.
    pub(crate) state: Option<ChildState>,
}

/// A request that stays open, and how the server's notifications name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionForm {
    /// The request.
    pub method: &'static str,
    /// Where in the params of a notification its id stands.
    pub path: &'static [&'static str],
}

/// A list of a server that its clients read when they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListForm {
    /// The request for it.
    pub method: &'static str,
    /// The member of a result that holds the items.
    pub items: &'static str,
    /// The capability with which a server declares that it has the list.
    pub capability: &'static str,
    /// The notification that the list has changed.
    pub changed: &'static str,
}

/// How a request becomes a task, how its answer names that, and how a task is cancelled (D38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskForm {
    /// Whether a `task` in the params asks for it, of a side that declared to take tasks (TASK-11). Otherwise the
    /// answer alone tells (TASK-20).
    pub asked: bool,
    /// A member of the result and its value, which every handle has.
    pub mark: Option<(&'static str, &'static str)>,
    /// Where in a handle the task's id stands.
    pub id: &'static [&'static str],
    /// Where in a handle the task's status stands; elsewhere it stands in the result or the params themselves.
    pub status: &'static [&'static str],
    /// Where in a handle the time stands that the server wants between two looks at the task, in milliseconds; elsewhere it
    /// stands in the result or the params themselves.
    pub poll: &'static [&'static str],
    /// The request that cancels a task.
    pub cancel: &'static str,
    /// The request that asks for its status.
    pub get: &'static str,
    /// The request that waits for its end, where there is one (TASK-06, TASK-20).
    pub result: Option<&'static str>,
    /// The notification that reports its status.
    pub pushed: &'static str,
    /// The extension that requests about tasks must declare in `_meta` (TASK-24).
    pub extension: Option<&'static str>,
}

impl TaskForm {
    /// The longest result that is looked at: a handle is small, and a large result is not read twice.
    const MAX_HANDLE: usize = 16 * 1024;

    /// Returns the id of the task whose handle this result is, as JSON.
    #[must_use]
    pub fn handle<'a>(&self, result: &'a [u8]) -> Option<&'a [u8]> {
        if result.len() > Self::MAX_HANDLE {
            return None;
        }
        if let Some((member, value)) = self.mark
            && json::member(result, member).and_then(json::text).as_deref() != Some(value)
        {
            return None;
        }
        json::lookup(result, self.id).filter(|id| id.starts_with(b"\""))
    }
}

impl Dialect {
    /// What people call its protocol.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        if self.family == Family::Custom { self.name } else { self.family.as_str() }
    }

    /// Whether a `task` in the params of a request makes it a task.
    #[must_use]
    pub const fn asks_for_tasks(&self) -> bool {
        matches!(self.tasks, Some(TaskForm { asked: true, .. }))
    }

    /// Whether a request that its requester cancelled is never answered.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        matches!(self.settlement, CancelReply::Silent)
    }

    /// Writes the member of `_meta` in which a request names this revision.
    pub fn write_date_in_meta(&self, out: &mut Vec<u8>) {
        json::write_string(out, mcp::VERSION_IN_META);
        out.push(b':');
        json::write_string(out, self.date.unwrap_or_default());
    }

    /// Lists the forms we understand, ours first (D3).
    pub fn forms(&self) -> impl Iterator<Item = &CancelForm> {
        let own = (!self.opaque).then_some(&self.cancel);
        own.into_iter().chain(self.aliases)
    }

    /// Finds the rule that forbids cancelling this method on the wire.
    #[must_use]
    pub fn uncancellable(&self, method: &str) -> Option<Rule> {
        self.uncancellable.iter().find(|(name, _)| *name == method).map(|(_, rule)| *rule)
    }

    /// Whether an answer to a request of this method says "cancelled": this dialect's error, or the method's own result.
    #[must_use]
    pub fn says_cancelled(&self, method: &str, answer: &ResponseBody<'_>) -> bool {
        match answer {
            ResponseBody::Error(_) => {
                matches!(self.settlement, CancelReply::Answered(text) if answer.error_code() == Some(i64::from(text.code)))
            }
            ResponseBody::Result(result) => self.cancel_result(method).is_some_and(|own| own.is_in(result)),
        }
    }

    /// The request with which a client begins, and by whose answer it knows what its server has: the handshake, or in a
    /// revision without sessions [`DISCOVER`].
    #[must_use]
    pub fn opener(&self) -> Option<&'static str> {
        if self.stateless { Some(DISCOVER) } else { self.handshake }
    }

    /// The notifications that lists have changed, of those lists whose capability `has` chooses: each once.
    pub(crate) fn list_changes(&self, has: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let mut changes: Vec<_> =
            self.lists.iter().filter(|list| has(list.capability)).map(|list| list.changed).collect();
        changes.dedup();
        changes
    }

    /// Finds the method's own cancellation result.
    #[must_use]
    pub fn cancel_result(&self, method: &str) -> Option<&CancelResult> {
        self.cancel_results.iter().find(|own| own.method == method)
    }

    /// All known dialects that cancel a request by its id; the revisions of a family stand side by side, oldest first.
    pub const ALL: [&'static Self; 9] = [
        &mcp::REVISION_2024_11_05,
        &mcp::REVISION_2025_03_26,
        &mcp::REVISION_2025_06_18,
        &mcp::REVISION_2025_11_25,
        &mcp::REVISION_2026_07_28,
        &acp::V1,
        &acp::V2_DRAFT,
        &acp::RFD_2025_11_13,
        &lsp::LSP,
    ];

    /// Whether a person answers requests of this method, in any dialect that is known here.
    #[must_use]
    pub fn is_any_question(method: &str) -> bool {
        let all = Self::ALL.into_iter().chain([&codex::APP_SERVER]);
        all.into_iter().any(|dialect| dialect.clocks.is_question(method))
    }

    /// Whether a request of this method may start work of its own, in every dialect that is known here: it opens no session,
    /// keeps none up, and subscribes to nothing.
    #[must_use]
    pub fn is_any_work(method: &str) -> bool {
        let mut all = Self::ALL.into_iter().chain([&codex::APP_SERVER]);
        !all.any(|dialect| {
            dialect.upkeep.contains(&method)
                || dialect.ping == Some(method)
                || dialect.handshake == Some(method)
                || dialect.subscription.as_ref().is_some_and(|form| form.method == method)
        })
    }

    /// Whether what is listed under this method is background work, in any dialect that is known here: it goes on without the
    /// turn that began it.
    #[must_use]
    pub fn is_any_background(method: &str) -> bool {
        let forms = Self::ALL.into_iter().filter_map(|dialect| dialect.turn?.work);
        let has = |form: &SessionWorkForm| form.child.0 == method || form.items.iter().any(|kind| kind.word == method);
        [TERMINAL, BACKGROUND].contains(&method) || forms.into_iter().any(has)
    }

    /// Finds a dialect by name: `mcp-2025-11-25`, `acp-v1`, `lsp` …; `mcp` and `acp` mean the newest stable one,
    /// `codex` the app server of Codex, and `unknown` none of them ([`UNKNOWN`]).
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        match name {
            "mcp" => Some(&mcp::LATEST),
            "acp" => Some(&acp::V1),
            "codex" => Some(&codex::APP_SERVER),
            "codex-unseen" => Some(&codex::UNSEEN),
            "unknown" => Some(&UNKNOWN),
            _ => Self::ALL.into_iter().find(|dialect| dialect.name == name),
        }
    }
}

/// Two dialects are the same when they have the same name.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Dialect {}

impl Hash for Dialect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::by_name(dialect.name), Some(dialect));
        }
        assert_eq!(Dialect::by_name("smtp"), None);
    }

    #[test]
    fn background_work_is_what_goes_on_without_its_turn() {
        for method in ["terminal", "tool_call", "subagent", "background"] {
            assert!(Dialect::is_any_background(method), "{method}");
        }
        for method in ["turn", "turn/start", "session/prompt", "process/spawn", "tools/call"] {
            assert!(!Dialect::is_any_background(method), "{method}");
        }
    }

    #[test]
    fn every_cancellation_result_says_what_its_path_says() {
        for own in Dialect::ALL.iter().flat_map(|dialect| dialect.cancel_results) {
            let found = json::lookup(own.json.as_bytes(), own.path);
            assert_eq!(found, Some(format!("\"{}\"", own.value).as_bytes()), "{}", own.method);
        }
    }

    #[test]
    fn no_answered_dialect_settles_with_a_code_of_mcp() {
        for dialect in Dialect::ALL {
            if let CancelReply::Answered(error) = dialect.settlement {
                assert_ne!(dialect.family, Family::Mcp, "-32800 does not exist in MCP");
                assert_eq!(error.code, -32800);
            }
        }
    }
}
