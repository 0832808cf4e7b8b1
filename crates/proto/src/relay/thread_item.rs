//! What a turn of a thread leaves at work (D58): agents in threads of their own (CDX-10), and commands (CDX-09).

use super::{Relay, exchange::ThreadPart, thread_turn::named};
use crate::{
    cause::CauseCode, dialect::ThreadForm, id::RequestId, json, link::RequestKey, receipt::Answer, side::Side,
    slab::Key, time::Instant,
};

/// What the entry of a command is called that has outlived its turn.
const TERMINAL: &str = "terminal";

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
                self.core.threads.get_or_insert_default().begin_command(thread, turn, item, process);
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
        let threads = self.core.threads.get_or_insert_default();
        threads.note_child(child, thread);
        let turns: Vec<_> = threads.turns_of(child).collect();
        let Some(parent_turn) = threads.parent(child).and_then(|parent| threads.turns_of(parent).next()) else {
            return;
        };
        for key in turns {
            self.step(now, RequestKey { from: Side::Client, key }, |step| {
                if let Some(ThreadPart::Turn { parent: parent @ None, .. }) = step.exchange.rare().thread.as_deref_mut()
                {
                    *parent = Some(parent_turn);
                    step.mark_changed();
                }
            });
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
        for command in commands {
            let (table, config) = (&self.tables.client, &self.core.config);
            let Some(id) = RequestId::from_json(&command.item) else { continue };
            if table.live() >= config.max_in_flight || table.kept > config.max_kept {
                return;
            }
            let (dialect, method) = (self.core.spoken(Side::Server), self.core.methods.intern(TERMINAL));
            let part = ThreadPart::Terminal { thread: thread.into(), process: command.process.clone(), turn: key };
            let entry = self.insert_work(now, id, dialect, method, None, part);
            if let Some(threads) = self.core.threads.as_deref_mut() {
                threads.enter_command(&command, entry);
            }
            if cause.is_some_and(|cause| cause != CauseCode::Caller) {
                self.cancel_part(now, entry, cause);
            }
        }
    }
}
