//! Which dialect a link speaks, learnt from what passes (D2).
//!
//! `initialize` with an integer `protocolVersion` is ACP, with a date MCP, with
//! none under content-length framing LSP. The answer settles the revision. A
//! request that names its revision in `_meta` beats the handshake. Whatever a
//! caller pinned beats everything. What the client's first message shows to be
//! none of these is [`UNKNOWN`] (D57), unless the answer to its `initialize` is
//! that of Codex's app server (D58).

use super::{CancelForm, Cancellers, Dialect, Greeting, TurnForm, UNKNOWN, acp, codex, lsp, mcp};
use crate::{
    frame::{Frame, Malformed, Params, Reason, Request},
    framing::Framing,
    json,
    method::is_same,
    rule::Rule,
    side::{Side, Sides},
};

/// What a link has shown of its dialect so far.
#[derive(Clone, Debug)]
pub struct Negotiation {
    pinned: Sides<Option<&'static Dialect>>,
    settled: Option<&'static Dialect>,
    /// The message that tells whether the link speaks a known protocol at all has not been seen (D57).
    opening: bool,
    handshake: Handshake,
    /// Whether the side declared that it understands cancels (ACP-20).
    declared: Sides<bool>,
    /// The client asked for news of the children of its sessions (ACP-30).
    children: bool,
    /// What a side declared of tasks: a raw object (TASK-11).
    tasks: Sides<Option<Box<[u8]>>>,
    /// The spelling a side used itself, if it was not the current one (D3).
    spelling: Sides<Option<CancelForm>>,
    /// The client sent the request after which it may send no cancel (LSP-06).
    closing: bool,
    /// What the client of an opaque link declared in its last handshake, and in the one that was answered (D58).
    greetings: (Option<Greeting>, Option<Greeting>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handshake {
    NotSeen,
    Asked,
    Answered,
}

impl Negotiation {
    /// Begins with nothing seen. A pinned side speaks that dialect whatever passes; if it is opaque, both sides do.
    #[must_use]
    pub const fn new(pinned: Sides<Option<&'static Dialect>>) -> Self {
        let pinned = match pinned {
            Sides { client: Some(opaque), .. } if opaque.opaque => Sides { client: Some(opaque), server: Some(opaque) },
            Sides { server: Some(opaque), .. } if opaque.opaque => Sides { client: Some(opaque), server: Some(opaque) },
            pinned => pinned,
        };
        Self {
            pinned,
            settled: None,
            opening: false,
            handshake: Handshake::NotSeen,
            declared: Sides { client: false, server: false },
            children: false,
            tasks: Sides { client: None, server: None },
            spelling: Sides { client: None, server: None },
            closing: false,
            greetings: (None, None),
        }
    }

    /// Says whether the first message may show that the link speaks no protocol that is known here (D57). It may not where
    /// a side is pinned.
    #[must_use]
    pub const fn or_unknown(mut self, may_be: bool) -> Self {
        self.opening = may_be && self.pinned.client.is_none() && self.pinned.server.is_none();
        self
    }

    /// Whether a message can still show that the link speaks no protocol that is known here: if so, hand each to
    /// [`saw_opening`](Self::saw_opening) first.
    #[inline]
    #[must_use]
    pub const fn is_opening(&self) -> bool {
        self.opening
    }

    /// Whether the link speaks no protocol that is known here: everything passes as it is (D57).
    #[inline]
    #[must_use]
    pub const fn is_opaque(&self) -> bool {
        match (self.pinned.client, self.settled) {
            (Some(dialect), _) | (None, Some(dialect)) => dialect.opaque,
            (None, None) => false,
        }
    }

    /// Notes a message of a link that is opening, and what was read of it. The first that tells decides (D57).
    ///
    /// A known protocol is JSON-RPC 2.0, and says so; its `initialize` has a `protocolVersion`, or a `Content-Length`.
    /// Bytes that are not JSON decide nothing, nor does a server's line before its client has spoken: it may be noise.
    #[cold]
    pub fn saw_opening(&mut self, from: Side, framing: Framing, body: &[u8], read: &Result<Frame<'_>, Malformed>) {
        let Some(is_known) = is_known(framing, body, read) else { return };
        if from == Side::Server && (framing == Framing::Line || is_known) {
            return;
        }
        self.opening = false;
        if !is_known {
            self.settled = Some(&UNKNOWN);
        }
    }

    /// Returns the dialect spoken with `side` now: a guess by framing until a message has shown it.
    #[must_use]
    pub fn of(&self, side: Side, framing: Framing) -> &'static Dialect {
        self.pinned[side].or(self.settled).unwrap_or(match framing {
            Framing::Headers => &lsp::LSP,
            Framing::Line => &mcp::LATEST_LEGACY,
        })
    }

    /// Finds the dialect that the `_meta` of a request names.
    #[must_use]
    #[inline]
    pub fn named(meta: Option<&[u8]>) -> Option<&'static Dialect> {
        meta.and_then(by_meta)
    }

    /// Returns the dialect of a request to or from `side` that [names](Self::named) this one, which beats the handshake.
    #[must_use]
    #[inline]
    pub fn of_request(&self, side: Side, framing: Framing, named: Option<&'static Dialect>) -> &'static Dialect {
        named.filter(|_| self.pinned[side].is_none() && !self.is_opaque()).unwrap_or_else(|| self.of(side, framing))
    }

    /// Whether the dialect is known rather than guessed.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.settled.is_some() || (self.pinned.client.is_some() && self.pinned.server.is_some())
    }

    /// Whether the dialect spoken with `side` is known rather than guessed.
    #[must_use]
    pub fn is_known(&self, side: Side) -> bool {
        self.settled.is_some() || self.pinned[side].is_some()
    }

    /// Notes that the client sent `initialize` with these params.
    pub fn saw_initialize(&mut self, framing: Framing, params: Option<&[u8]>) {
        self.handshake = Handshake::Asked;
        let Some(params) = params else { return };
        if self.is_opaque() {
            self.greetings.0 = codex::APP_SERVER.threads.map(|form| form.greeting(params));
        }
        if framing == Framing::Headers && json::member(params, "protocolVersion").is_none() && !self.is_opaque() {
            self.settled = Some(&lsp::LSP);
        }
        self.children = json::lookup(params, acp::CHILDREN).is_some_and(|declared| declared.starts_with(b"{"));
        self.saw_declaration(Side::Client, acp::GATE.client, params);
    }

    /// Notes that the server answered `initialize`. An error leaves the handshake open: the client may try again.
    pub fn saw_initialize_result(&mut self, result: &[u8]) {
        self.handshake = Handshake::Answered;
        self.saw_declaration(Side::Server, acp::GATE.server, result);
        if self.is_opaque() {
            self.saw_greeting_answered(result);
        }
    }

    /// Notes that the server of an opaque link answered the handshake: the answer may show which protocol it is (D58).
    fn saw_greeting_answered(&mut self, result: &[u8]) {
        let is_unknown = self.settled == Some(&UNKNOWN);
        if is_unknown && codex::APP_SERVER.threads.is_some_and(|form| form.is_shown_by(result)) {
            self.settled = Some(&codex::APP_SERVER);
        }
        self.greetings.1 = self.greetings.0;
        // No message shows this client the end of a turn.
        let hides_ends = self.greeting().hides_ends();
        let unseen = |known: &mut Option<&'static Dialect>| {
            if hides_ends && *known == Some(&codex::APP_SERVER) {
                *known = Some(&codex::UNSEEN);
            }
        };
        unseen(&mut self.settled);
        unseen(&mut self.pinned.client);
        unseen(&mut self.pinned.server);
    }

    /// What the client of an opaque link has declared: nothing until that was answered (D58).
    #[must_use]
    pub fn greeting(&self) -> Greeting {
        self.greetings.1.unwrap_or_default()
    }

    /// Notes what the handshake of `side` says of its capabilities and of the revision.
    fn saw_declaration(&mut self, side: Side, gate: &[&str], handshake: &[u8]) {
        self.declared[side] = json::lookup(handshake, gate) == Some(b"true");
        // One of unreasonable size declares nothing.
        let tasks = json::lookup(handshake, &["capabilities", "tasks"]).filter(|tasks| tasks.len() <= MAX_DECLARATION);
        self.tasks[side] = tasks.map(Into::into);
        if let Some(version) = json::member(handshake, "protocolVersion") {
            self.settled = by_version(version).or(self.settled);
        }
        // Either side declares the capability that the proposal introduced.
        if self.settled == Some(&acp::V1) && (self.declared.client || self.declared.server) {
            self.settled = Some(&acp::RFD_2025_11_13);
        }
    }

    /// Notes a request of this method from `from` and returns its dialect, which settles that of both sides if nothing
    /// did before, and whether it opens the session.
    #[inline]
    pub fn saw_request_from(
        &mut self,
        from: Side,
        framing: Framing,
        method: &str,
        params: &Params<'_>,
        named: Option<&'static Dialect>,
    ) -> (&'static Dialect, bool) {
        let is_handshake = self.is_handshake(from, framing, method);
        if is_handshake {
            self.saw_initialize(framing, params.raw);
        }
        (self.saw_revision(from, framing, named), is_handshake)
    }

    /// Returns the dialect of a request from `from`. The revision that its `_meta` names counts for the link, if none was
    /// settled before.
    pub fn saw_revision(&mut self, from: Side, framing: Framing, named: Option<&'static Dialect>) -> &'static Dialect {
        let dialect = self.of_request(from, framing, named);
        if named.is_some() && !self.is_settled() && dialect != self.of(from, framing) {
            self.settled = Some(dialect);
        }
        dialect
    }

    /// Whether a request of this method from `from` opens the session. A client may have tried a revision without before.
    #[inline]
    #[must_use]
    pub fn is_handshake(&self, from: Side, framing: Framing, method: &str) -> bool {
        let spoken = self.of(from, framing);
        let spoken = if spoken.stateless { &mcp::LATEST_LEGACY } else { spoken };
        from == Side::Client && spoken.handshake.is_some_and(|handshake| is_same(handshake, method))
    }

    /// Notes that the client sent the last request of its session.
    pub const fn saw_last_request(&mut self) {
        self.closing = true;
    }

    /// Notes that `side` sent a cancel in this form.
    pub fn saw_cancel(&mut self, side: Side, framing: Framing, form: CancelForm) {
        if !self.is_settled() && form.method != mcp::LATEST.cancel.method && framing == Framing::Line {
            self.settled = Some(&acp::V1);
        }
        self.spelling[side] = (form != self.of(side, framing).cancel).then_some(form);
    }

    /// Returns the form in which `side` is to be sent cancels.
    #[must_use]
    pub fn cancel_form(&self, side: Side, dialect: &'static Dialect) -> CancelForm {
        self.spelling[side].unwrap_or(dialect.cancel)
    }

    /// Whether a notification of this method, from a side that speaks `dialect`, is a cancel.
    ///
    /// While the dialect is only a guess, every known spelling counts.
    #[must_use]
    pub fn is_cancel(&self, dialect: &'static Dialect, method: &str) -> bool {
        dialect.forms().any(|form| form.method == method)
            || (!self.is_settled() && Dialect::ALL.iter().any(|known| known.cancel.method == method))
    }

    /// Whether `side` runs requests of this method as tasks when asked: the capability is exhaustive (TASK-11).
    #[must_use]
    pub fn takes_tasks(&self, side: Side, method: &str) -> bool {
        self.task_capability(side, core::iter::once("requests").chain(method.split('/')))
    }

    /// Whether `side` lets tasks be cancelled (TASK-11, D38).
    #[must_use]
    pub fn cancels_tasks(&self, side: Side) -> bool {
        self.task_capability(side, ["cancel"])
    }

    /// Whether `side` declared this member of its `tasks` capability, `requests/tools/call` or `cancel`, in its
    /// handshake.
    #[must_use]
    pub fn task_capability<'a>(&self, side: Side, path: impl IntoIterator<Item = &'a str>) -> bool {
        let Some(declared) = &self.tasks[side] else { return false };
        path.into_iter().try_fold(&**declared, json::member).is_some()
    }

    /// Whether a request from `from` with a `task` in its params becomes one: the other side has declared that (TASK-11).
    #[must_use]
    pub fn asks_for_task(&self, from: Side, dialect: &Dialect, method: &str, params: &Params<'_>) -> bool {
        dialect.asks_for_tasks() && params.task.is_some() && self.takes_tasks(from.other(), method)
    }

    /// Whether the client gets news of the children of its sessions: where its dialect wants that asked for, it has (ACP-30).
    #[inline]
    #[must_use]
    pub const fn shows_children(&self, turn: &TurnForm) -> bool {
        self.children || turn.child.declared.is_empty()
    }

    /// Finds the rule that `from` breaks by cancelling a request of its own (D30). `request` is its method, and whether
    /// its requester knows that it is a task; `None` if no such request is known.
    #[must_use]
    pub fn forbids_requester(
        &self,
        from: Side,
        dialect: &'static Dialect,
        request: Option<(&str, bool)>,
    ) -> Option<Rule> {
        if dialect.cancellers == Cancellers::Client && from == Side::Server {
            return Some(Rule::McpM01);
        }
        request
            .and_then(|(method, is_task)| dialect.uncancellable(method).or_else(|| is_task.then_some(Rule::McpC13)))
            .or_else(|| self.forbids_cancel(from, dialect))
    }

    /// Finds the rule that keeps a cancel from `from` off the wire to the other side now.
    #[must_use]
    pub fn forbids_cancel(&self, from: Side, dialect: &'static Dialect) -> Option<Rule> {
        if let Some(rule) = dialect.handshake_first
            && self.handshake == Handshake::Asked
        {
            return Some(rule);
        }
        if self.closing && from == Side::Client && dialect.last_request.is_some() {
            return dialect.handshake_first;
        }
        let gate = dialect.gate?;
        (!self.declared[from.other()]).then_some(gate.rule)
    }

    /// Feeds what has been learnt into a hasher.
    pub(crate) fn hash_state(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        let Self { pinned: _, settled, opening, handshake, declared, children, tasks, spelling, closing, greetings } =
            self;
        let settled = settled.map(|dialect| dialect.name);
        (settled, opening, handshake, declared, children, tasks, spelling, closing, greetings).hash(state);
    }
}

/// Finds the dialect that the `_meta` of a request names.
#[inline(never)]
fn by_meta(meta: &[u8]) -> Option<&'static Dialect> {
    let version = json::text(json::member(meta, mcp::VERSION_IN_META)?)?;
    Some(mcp::named_in_meta(&version))
}

/// Whether this is a message of a protocol that is known here; `None` if it does not tell.
fn is_known(framing: Framing, body: &[u8], read: &Result<Frame<'_>, Malformed>) -> Option<bool> {
    let is_versioned = |message| json::member(message, "jsonrpc").is_some();
    match read {
        Ok(Frame::Request(Request { method, params, .. })) if method == "initialize" => {
            let version = params.raw.and_then(|params| json::member(params, "protocolVersion"));
            let is_version = |version| json::is_integer(version) || json::text(version).is_some();
            // Without one it is LSP, which frames its messages.
            Some(version.map_or(framing == Framing::Headers, is_version))
        }
        Ok(Frame::Request(Request { params, .. })) if Negotiation::named(params.meta).is_some() => Some(true),
        Ok(Frame::Request(_) | Frame::Notification(_) | Frame::Response(_)) => Some(is_versioned(body)),
        Ok(Frame::Batch(batch)) => Some(batch.members().any(is_versioned)),
        Err(Malformed::Invalid { reason: Reason::NoKind, .. }) => Some(is_versioned(body)),
        // It is meant as JSON-RPC, or as nothing at all.
        Err(Malformed::NotJson | Malformed::Invalid { .. }) => None,
    }
}

/// Finds the dialect of a `protocolVersion` member.
fn by_version(version: &[u8]) -> Option<&'static Dialect> {
    if let Some(date) = json::text(version) {
        return mcp::by_version(&date);
    }
    json::is_integer(version).then_some(if version == b"2" { &acp::V2_DRAFT } else { &acp::V1 })
}

/// Two methods are all that revisions know; this leaves room for a hundred.
const MAX_DECLARATION: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Sides<Option<&'static Dialect>> = Sides { client: None, server: None };

    fn after(params: &str, result: &str, framing: Framing) -> &'static Dialect {
        let mut negotiation = Negotiation::new(FREE);
        negotiation.saw_initialize(framing, Some(params.as_bytes()));
        negotiation.saw_initialize_result(result.as_bytes());
        negotiation.of(Side::Server, framing)
    }

    #[test]
    fn the_handshake_tells_the_protocols_apart() {
        let line = Framing::Line;
        assert_eq!(after(r#"{"protocolVersion":1}"#, r#"{"protocolVersion":1}"#, line), &acp::V1);
        assert_eq!(after(r#"{"protocolVersion":2}"#, r#"{"protocolVersion":1}"#, line), &acp::V1);
        let (asked, given) = (r#"{"protocolVersion":"2025-11-25"}"#, r#"{"protocolVersion":"2025-03-26"}"#);
        assert_eq!(after(asked, given, line), &mcp::REVISION_2025_03_26);
        assert_eq!(after(r#"{"processId":1}"#, "{}", Framing::Headers), &lsp::LSP);
    }

    #[test]
    fn the_proposal_is_chosen_when_either_side_declares_it() {
        let yes = r#"{"protocolVersion":1,"clientCapabilities":{"cancellation":{"request":true}}}"#;
        let agent = r#"{"protocolVersion":1,"agentCapabilities":{"cancellation":{"request":true}}}"#;
        let plain = r#"{"protocolVersion":1}"#;
        assert_eq!(after(yes, plain, Framing::Line), &acp::RFD_2025_11_13);
        assert_eq!(after(plain, agent, Framing::Line), &acp::RFD_2025_11_13);
        assert_eq!(after(yes, agent, Framing::Line), &acp::RFD_2025_11_13);
        assert_eq!(after(plain, plain, Framing::Line), &acp::V1);
    }

    #[test]
    fn a_side_that_declared_nothing_is_sent_nothing() {
        let mut negotiation = Negotiation::new(FREE);
        negotiation.saw_initialize(Framing::Line, Some(br#"{"protocolVersion":1}"#));
        let rfd = &acp::RFD_2025_11_13;
        assert_eq!(negotiation.forbids_cancel(Side::Client, rfd), Some(Rule::Acp21), "before the handshake ends");
        negotiation
            .saw_initialize_result(br#"{"protocolVersion":1,"agentCapabilities":{"cancellation":{"request":true}}}"#);
        assert_eq!(negotiation.forbids_cancel(Side::Client, rfd), None);
        assert_eq!(negotiation.forbids_cancel(Side::Server, rfd), Some(Rule::Acp20));
    }

    #[test]
    fn a_request_that_names_its_revision_beats_the_handshake() {
        let mut negotiation = Negotiation::new(FREE);
        negotiation.saw_initialize(Framing::Line, Some(br#"{"protocolVersion":"2025-06-18"}"#));
        let meta = br#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let named = Negotiation::named(Some(meta));
        assert_eq!(negotiation.of_request(Side::Client, Framing::Line, named), &mcp::LATEST);
        assert_eq!(negotiation.of_request(Side::Client, Framing::Line, None), &mcp::REVISION_2025_06_18);
        let no_date = Negotiation::named(Some(br#"{"io.modelcontextprotocol/protocolVersion":"next"}"#));
        assert_eq!(no_date, Some(&mcp::LATEST), "no earlier revision has names in requests");
        let pinned = Negotiation::new(Sides { client: Some(&mcp::REVISION_2025_11_25), server: None });
        assert_eq!(pinned.of_request(Side::Client, Framing::Line, named), &mcp::REVISION_2025_11_25);
    }

    /// The marker of Codex's app server, and what lacks a part of it.
    #[test]
    fn only_the_answer_to_a_handshake_shows_codex() {
        let answered = |framing, params: &str, result: &str| {
            let mut negotiation = Negotiation::new(FREE);
            negotiation.settled = Some(&UNKNOWN);
            negotiation.saw_initialize(framing, Some(params.as_bytes()));
            assert!(negotiation.of(Side::Client, framing) == &UNKNOWN, "a request alone shows nothing");
            negotiation.saw_initialize_result(result.as_bytes());
            negotiation
        };
        let line = Framing::Line;
        let marked = r#"{"userAgent":"x/0.171.0 (linux)","codexHome":"/h","platformOs":"linux"}"#;
        let codex = answered(line, r#"{"clientInfo":{},"capabilities":{"experimentalApi":true}}"#, marked);
        assert_eq!(codex.of(Side::Server, line), &codex::APP_SERVER);
        assert!(codex.greeting().experimental);
        for other in ["{}", r#"{"userAgent":"x"}"#, r#"{"userAgent":"x","codexHome":7}"#, "[]", "null"] {
            assert_eq!(answered(line, "{}", other).of(Side::Client, line), &UNKNOWN, "{other}");
        }
        let hides = r#"{"capabilities":{"optOutNotificationMethods":["turn/completed","thread/status/changed"]}}"#;
        assert_eq!(answered(line, hides, marked).of(Side::Client, line), &codex::UNSEEN);
        // One that was not taken for unknown is not taken for this either.
        assert_eq!(after(r#"{"protocolVersion":1}"#, marked, line), &acp::V1);
        let pinned = Negotiation::new(Sides { client: None, server: Some(&codex::APP_SERVER) });
        assert_eq!(pinned.of(Side::Client, line), &codex::APP_SERVER, "it cannot be translated");
    }

    #[test]
    fn an_older_spelling_is_answered_in_kind() {
        let mut negotiation = Negotiation::new(FREE);
        negotiation.saw_initialize(Framing::Line, Some(br#"{"protocolVersion":1}"#));
        let kotlin = acp::V1.aliases[0];
        negotiation.saw_cancel(Side::Client, Framing::Line, kotlin);
        assert_eq!(negotiation.cancel_form(Side::Client, &acp::V1), kotlin);
        assert_eq!(negotiation.cancel_form(Side::Server, &acp::V1), acp::V1.cancel);
    }
}
