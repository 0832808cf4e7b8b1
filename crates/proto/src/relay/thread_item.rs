//! What a turn of a thread leaves at work (D58): agents in threads of their own (CDX-10), and commands (CDX-09); and what a
//! client has started itself (CDX-13).

use std::collections::BTreeSet;

use super::{
    Relay,
    exchange::ThreadPart,
    thread_turn::named,
    threads::{Command, Origin},
};
use crate::{
    cause::CauseCode,
    dialect::{Dialect, TERMINAL, TerminalForm, ThreadForm, codex},
    json,
    link::RequestKey,
    receipt::Answer,
    side::Side,
    slab::Key,
    time::Instant,
};

impl Relay {
    /// Takes in news of an item of a turn in this thread.
    pub(super) fn handle_item(
        &mut self,
        now: Instant,
        form: &ThreadForm,
        has_begun: bool,
        thread: &[u8],
        params: &[u8],
    ) {
        let Some(kind) = json::lookup(params, form.items.kind).and_then(json::text) else { return };
        if kind == form.items.command {
            let Some(item) = json::lookup(params, form.items.id).filter(|id| json::is_string(id)) else { return };
            if !has_begun {
                return self.end_command(now, thread, item);
            }
            let process = json::lookup(params, form.items.process).filter(|id| json::is_string(id));
            let turn = named(Some(params), form.turn_of);
            if let (Some(turn), Some(process)) = (turn, process) {
                self.core.threads().begin_command(thread, turn, item, process);
            }
        }
        for (_, path) in form.items.children.iter().filter(|(of, _)| kind == *of) {
            let Some(found) = json::lookup(params, path) else { continue };
            if json::is_string(found) {
                self.note_child(now, found, thread);
            }
            for child in json::elements(found).into_iter().flatten().map_while(Result::ok) {
                if json::is_string(child) {
                    self.note_child(now, child, thread);
                }
            }
        }
    }

    /// A thread was opened by a turn of another: a turn of it that has begun before that was known has its parent now.
    fn note_child(&mut self, now: Instant, child: &[u8], thread: &[u8]) {
        let threads = self.core.threads();
        threads.note_child(child, thread);
        let Some(parent_turn) = threads.parent_turn(child) else { return };
        let turns: Vec<_> = threads.turns_of(child).collect();
        for key in turns {
            let request = RequestKey { from: Side::Client, key };
            let is_news = self.with(now, request, |step| {
                let part = step.exchange.rare().thread.as_deref_mut();
                let Some(ThreadPart::Turn { parent: parent @ None, .. }) = part else { return false };
                *parent = Some(parent_turn);
                step.mark_changed();
                true
            });
            if is_news == Some(true) {
                self.report_part(request);
            }
            self.cancel_with_parent(now, key);
        }
    }

    fn end_command(&mut self, now: Instant, thread: &[u8], item: &[u8]) {
        let ended = self.core.threads.as_deref_mut().and_then(|threads| threads.end_command(thread, item));
        if let Some(key) = ended {
            self.step(now, RequestKey { from: Side::Client, key }, |step| step.work_over(Answer::Result, false));
        }
    }

    /// A turn is over: commands of it that were not seen to end work on, and are followed by themselves from now on. They
    /// are ended with a turn that the relay has cancelled, where a message can do that; a client's own cancel is left as it is.
    pub(super) fn outlive(&mut self, now: Instant, thread: &[u8], turn: &[u8], key: Key, cause: Option<CauseCode>) {
        let commands =
            self.core.threads.as_deref().map(|threads| threads.commands_of(thread, turn)).unwrap_or_default();
        for (at, command) in commands {
            let entry = self.follow_terminal(now, at, command, Some(key));
            if let Some(entry) = entry.filter(|_| cause.is_some_and(|cause| cause != CauseCode::Caller)) {
                self.cancel_part(now, entry, cause);
            }
        }
    }

    /// Follows a command by itself from now on, if there is room.
    fn follow_terminal(&mut self, now: Instant, at: Key, command: Command, turn: Option<Key>) -> Option<Key> {
        if !self.has_room_for_work() {
            self.core.threads().note_unkept();
            return None;
        }
        // Its end is reported as that of an item, if at all (CDX-18).
        let dialect = self.spoken_if_told(!self.core.negotiation.greeting().hides_items);
        let method = self.core.methods.intern(TERMINAL);
        let part = ThreadPart::Terminal { thread: command.thread, process: command.process, turn };
        let entry = self.insert_work(now, command.item, dialect, method, None, part);
        self.core.threads().enter_command(at, entry);
        Some(entry)
    }

    /// What the server speaks, of work whose end it reports or does not.
    fn spoken_if_told(&self, is_told: bool) -> &'static Dialect {
        if is_told { self.core.spoken(Side::Server) } else { &codex::UNSEEN }
    }

    /// The server has listed terminals of a thread: those work that are listed, and no others, if these are all. Then `since`
    /// is when the client asked: what is younger may be missing.
    pub(super) fn terminals_listed(
        &mut self,
        now: Instant,
        form: &ThreadForm,
        thread: &[u8],
        since: Option<Instant>,
        result: &[u8],
    ) {
        let TerminalForm { pages: (_, next), listed, item, process, .. } = form.terminals;
        let Some(all) = json::member(result, listed).and_then(json::elements) else { return };
        let mut seen = BTreeSet::new();
        for one in all.map_while(Result::ok) {
            let (Some(item), Some(process)) = (named(Some(one), item), named(Some(one), process)) else { continue };
            if let Some((at, command)) = self.core.threads().find_terminal(thread, item, process) {
                self.follow_terminal(now, at, command, None);
            }
            seen.extend(self.core.threads().terminal(thread, item));
        }
        let has_more = json::member(result, next).is_some_and(|next| next != b"null");
        let Some(since) = since.filter(|_| !has_more) else { return };
        let gone: Vec<_> = self.core.threads().terminals_of(thread).filter(|key| !seen.contains(key)).collect();
        for key in gone {
            let request = RequestKey { from: Side::Client, key };
            if self.exchange(request).is_some_and(|terminal| terminal.asked <= since) {
                self.step(now, request, |step| step.work_over(Answer::Result, false));
            }
        }
    }

    /// The start of a process was answered.
    pub(super) fn spawn_answered(&mut self, now: Instant, handle: Box<[u8]>, origin: Origin, has_started: bool) {
        let has_room = self.has_room_for_work();
        if !self.core.threads().takes_process(&handle, has_started, has_room) {
            return;
        }
        let dialect = self.spoken_if_told(!self.core.negotiation.greeting().hides_exits);
        let part = ThreadPart::Process(handle.clone());
        let entry = self.insert_work(now, origin.id, dialect, origin.method, None, part);
        self.core.threads().enter_process(&handle, entry);
    }

    /// A process of the client is over.
    pub(super) fn end_process(&mut self, now: Instant, form: &ThreadForm, params: &[u8]) {
        let Some(handle) = named(Some(params), form.processes.handle) else { return };
        let ended = self.core.threads.as_deref_mut().and_then(|threads| threads.end_process(handle));
        if let Some(key) = ended {
            let (code, killed) = form.processes.killed;
            let is_killed = json::member(params, code) == Some(killed.as_bytes());
            self.step(now, RequestKey { from: Side::Client, key }, |step| step.work_over(Answer::Result, is_killed));
        }
    }
}
