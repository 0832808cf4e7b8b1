//! What is known of the threads of a link whose turns end with a notification (D58): the turns at work, those that were
//! seen to end, commands that are not over, and which thread was opened by which.
//!
//! All of it is bounded, and each message costs the same however much there is. What finds no room is not followed: it is
//! counted, and said where the rest is shown.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::collections::VecDeque;

use super::exchange::ThreadPart;
use crate::{
    family::{Family, Work},
    hash::Seed,
    id::RequestId,
    method::Method,
    slab::Key,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
    turns::{Turns, one_spelling},
};

/// Turns at work, and commands that are not over, are followed up to so many.
const MAX_AT_WORK: usize = 1024;

/// So many requests of a thread are noted that start a turn, or cancel the one that is being started.
const MAX_REQUESTS: usize = 16;

/// What has longer ids is not followed.
const MAX_ID: usize = 256;

/// The most bytes that the threads of a link hold: as many turns, commands, processes and threads as there may be, each with
/// its ids and indexes.
pub(super) const MAX_HELD: usize = MAX_AT_WORK * (4 << 10);

/// Turns that were seen to end: a late word about their beginning begins nothing.
const OVER: Bounds = Bounds { most: 256, hard: 256, least: Duration::ZERO, longest: Duration::MAX };

/// The threads of one link.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    family: Family<Thread>,
    /// Those at work, and as tombstones those that were seen to end.
    turns: Table<Turn>,
    /// Commands of the model that were not seen to end (CDX-09).
    commands: Table<Command>,
    /// The same by the id of their turn.
    of_turn: Turns,
    /// Processes that the client has started or is starting (CDX-13).
    processes: Table<Process>,
    /// How often something was not followed, beside threads that found no room in the family.
    unkept: u64,
}

/// A thread; which one opened it, its family knows (CDX-10).
#[derive(Clone, Debug, Default)]
struct Thread {
    /// Its turns at work in the table of requests, oldest first.
    turns: VecDeque<Key>,
    /// Requests in flight that start a turn of it, or cancel the one that is being started, oldest first.
    requests: VecDeque<Key>,
    /// The oldest request that was answered without a name of the turn that it starts (CDX-14).
    awaited: Option<Origin>,
    /// The client has left it: its turns end unseen (CDX-16).
    is_left: bool,
    /// The last turn that it was opened by, or given work, which may be over.
    opened_by: Option<Key>,
}

impl Work for Thread {
    fn is_idle(&self) -> bool {
        self.turns.is_empty() && self.requests.is_empty()
    }

    fn held(&self) -> usize {
        let awaited = self.awaited.as_ref().map_or(0, |origin| origin.id.heap_bytes());
        (self.turns.capacity() + self.requests.capacity()) * size_of::<Key>() + awaited
    }
}

/// A turn, at work or over.
#[derive(Clone, Debug)]
struct Turn {
    id: RequestId,
    thread: Box<[u8]>,
    /// In the table of requests, while it is at work.
    key: Option<Key>,
}

impl Entry for Turn {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.id
    }
}

/// The request that started a turn.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) id: RequestId,
    pub(super) method: Method,
}

impl Origin {
    /// Whether its id, which a client has chosen, is short enough to be kept for longer than its request.
    pub(super) fn is_kept(&self) -> bool {
        self.id.heap_bytes() <= MAX_ID
    }
}

/// A command of the model with a process that may outlive its turn.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// That of the item, under which its end is reported.
    pub(super) item: RequestId,
    pub(super) thread: Box<[u8]>,
    turn: Box<[u8]>,
    pub(super) process: Box<[u8]>,
    /// In the table of requests, once its turn is over.
    entry: Option<Key>,
}

impl Entry for Command {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.item
    }
}

/// A process of the client.
#[derive(Clone, Debug)]
struct Process {
    handle: RequestId,
    /// The request that starts it.
    start: Key,
    /// In the table of requests, once that was answered.
    entry: Option<Key>,
    /// It was over before that.
    has_exited: bool,
}

impl Entry for Process {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.handle
    }
}

impl Threads {
    pub(super) const fn new(seed: Seed) -> Self {
        Self {
            family: Family::new(seed),
            turns: Table::new(seed),
            commands: Table::new(seed),
            of_turn: Turns::new(seed),
            processes: Table::new(seed),
            unkept: 0,
        }
    }

    /// How often something was not followed, since no room was left or its ids were too long.
    pub(super) const fn unkept(&self) -> u64 {
        self.unkept + self.family.unkept()
    }

    /// Something was not followed, since the table of requests is full.
    pub(super) const fn note_unkept(&mut self) {
        self.unkept += 1;
    }

    fn thread(&self, name: &[u8]) -> Option<&Thread> {
        self.family.get(self.family.find(name)?)
    }

    /// Changes what is known of a thread, if it is kept.
    fn change<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Thread) -> R) -> Option<R> {
        let key = self.family.find(name)?;
        let changed = change(self.family.get_mut(key)?);
        self.family.settle(key);
        Some(changed)
    }

    /// The thread of this name, which is kept from now on if there is room.
    fn keep(&mut self, name: &[u8]) -> Option<Key> {
        if !is_kept(name) {
            self.unkept += 1;
            return None;
        }
        self.family.find(name).or_else(|| self.family.add(name, b"", Thread::default()).ok())
    }

    fn find_turn(&self, thread: &[u8], id: &[u8]) -> Option<Key> {
        let (thread, id) = (&*one_spelling(thread), RequestId::from_json(id)?);
        self.turns.find(self.turns.hash(&id), |turn| turn.id == id && *turn.thread == *thread)
    }

    /// The turn at work that these ids name.
    pub(super) fn turn(&self, thread: &[u8], id: &[u8]) -> Option<Key> {
        self.turns.get(self.find_turn(thread, id)?)?.key
    }

    /// The turns at work of a thread, the newest first.
    pub(super) fn turns_of(&self, thread: &[u8]) -> impl Iterator<Item = Key> {
        self.thread(thread).into_iter().flat_map(|thread| thread.turns.iter().rev().copied())
    }

    /// The newest turn at work of the thread in which this one was opened.
    pub(super) fn parent_turn(&self, thread: &[u8]) -> Option<Key> {
        self.newest_turn(self.family.member(self.family.find(thread)?)?.parent_key?)
    }

    fn newest_turn(&self, thread: Key) -> Option<Key> {
        self.family.get(thread)?.turns.back().copied()
    }

    /// The turn by which this thread was opened, or given work last; it may be over.
    pub(super) fn opener(&self, thread: &[u8]) -> Option<Key> {
        self.thread(thread)?.opened_by
    }

    /// Whether a turn of these ids is followed from now on: it is new, and there is room, in the table of requests, too.
    pub(super) fn takes_turn(&mut self, thread: &[u8], id: &[u8], has_room: bool) -> bool {
        if self.find_turn(thread, id).is_some() {
            return false;
        }
        if !has_room || self.turns.live() >= MAX_AT_WORK || !is_kept(id) {
            self.unkept += 1;
            return false;
        }
        self.keep(thread).is_some()
    }

    /// Follows a turn that is [taken](Self::takes_turn), under its key in the table of requests.
    pub(super) fn begin_turn(&mut self, thread: &[u8], id: &[u8], key: Key) {
        let Some(id) = RequestId::from_json(id) else { return };
        let turn = Turn { id, thread: one_spelling(thread).into(), key: Some(key) };
        self.turns.insert(self.turns.hash(&turn.id), turn);
        self.change(thread, |thread| thread.turns.push_back(key));
    }

    /// Notes that a turn is over that is not followed.
    pub(super) fn note_over(&mut self, now: Instant, thread: &[u8], id: &[u8]) {
        if is_kept(thread)
            && is_kept(id)
            && self.find_turn(thread, id).is_none()
            && let Some(id) = RequestId::from_json(id)
        {
            let turn = Turn { id, thread: one_spelling(thread).into(), key: None };
            let at = self.turns.insert(self.turns.hash(&turn.id), turn);
            self.remember_over(now, at);
        }
    }

    fn remember_over(&mut self, now: Instant, at: Key) {
        self.turns.retire(at, now, Ring::Over);
        self.turns.prune(Ring::Over, now, &OVER, |_, _| ());
    }

    /// Notes that what stands in the table of requests under `key` and `id` has settled.
    pub(super) fn note_settled(&mut self, now: Instant, key: Key, id: &RequestId, part: &ThreadPart) {
        match part {
            ThreadPart::Turn { thread, turn, .. } => {
                if let Some(at) = self.find_turn(thread, turn)
                    && let Some(turn) = self.turns.get_mut(at)
                    && turn.key.take().is_some()
                {
                    self.remember_over(now, at);
                }
                self.change(thread, |thread| thread.turns.retain(|known| *known != key));
            }
            ThreadPart::Terminal { thread, .. } => _ = self.take_command(thread, id),
            ThreadPart::Starts(thread) | ThreadPart::Interrupts { thread, .. } => {
                self.change(thread, |thread| thread.requests.retain(|known| *known != key));
            }
            ThreadPart::Process(handle) => _ = self.take_process(handle),
            ThreadPart::Spawns(handle) => self.forget_unstarted(handle, key),
            ThreadPart::Leaves(_) | ThreadPart::Runs(_) => {}
            ThreadPart::Lists { .. } | ThreadPart::Ours(_) => {}
            // It is of a session.
            ThreadPart::Foreground | ThreadPart::Background { .. } => {}
        }
    }

    /// Notes a request in flight that starts a turn of this thread, or cancels the one that is being started.
    pub(super) fn note_request(&mut self, thread: &[u8], key: Key) {
        if self.keep(thread).is_some() {
            self.change(thread, |thread| {
                if thread.requests.len() < MAX_REQUESTS {
                    thread.requests.push_back(key);
                }
            });
        }
    }

    /// Such requests, oldest first.
    pub(super) fn requests_of(&self, thread: &[u8]) -> impl Iterator<Item = Key> {
        self.thread(thread).into_iter().flat_map(|thread| thread.requests.iter().copied())
    }

    /// Notes a request that starts a turn of this thread, which its answer has not named.
    /// One with a long id is not kept: its turn is then called by an id of its own.
    pub(super) fn await_turn(&mut self, thread: &[u8], origin: Origin) {
        if origin.is_kept() && self.keep(thread).is_some() {
            self.change(thread, |thread| _ = thread.awaited.get_or_insert(origin));
        }
    }

    /// The oldest such request of a thread. None is left.
    pub(super) fn take_awaited(&mut self, thread: &[u8]) -> Option<Origin> {
        self.change(thread, |thread| thread.awaited.take()).flatten()
    }

    /// Notes that `child` was opened in the thread `parent`, if that of neither was known.
    pub(super) fn note_child(&mut self, child: &[u8], parent: &[u8]) {
        if let Some(parent) = self.keep(parent)
            && let Some(child) = self.keep(child)
        {
            self.family.set_parent(child, parent);
            let turn = self.family.member(child).and_then(|child| child.parent_key).and_then(|of| self.newest_turn(of));
            if let Some(thread) = self.family.get_mut(child) {
                thread.opened_by = turn.or(thread.opened_by);
            }
        }
    }

    /// Notes that the client has left a thread, or is back.
    pub(super) fn note_left(&mut self, thread: &[u8], is_left: bool) {
        if !is_left || self.keep(thread).is_some() {
            self.change(thread, |thread| thread.is_left = is_left);
        }
    }

    pub(super) fn has_left(&self, thread: &[u8]) -> bool {
        self.thread(thread).is_some_and(|thread| thread.is_left)
    }

    /// Notes that a command has begun.
    pub(super) fn begin_command(&mut self, thread: &[u8], turn: &[u8], item: &[u8], process: &[u8]) {
        let Some(id) = RequestId::from_json(item) else { return };
        if self.find_command(thread, &id).is_some() {
            return;
        }
        if self.commands.live() >= MAX_AT_WORK || ![thread, turn, item, process].into_iter().all(is_kept) {
            self.unkept += 1;
            return;
        }
        let [thread, of] = [thread, turn].map(|id| one_spelling(id).into());
        let command = Command { item: id, thread, turn: of, process: process.into(), entry: None };
        let at = self.commands.insert(self.commands.hash(&command.item), command);
        self.of_turn.insert(turn, at);
    }

    /// Notes that a command is over; its entry in the table of requests, if it has one.
    pub(super) fn end_command(&mut self, thread: &[u8], item: &[u8]) -> Option<Key> {
        self.take_command(thread, &RequestId::from_json(item)?)
    }

    fn take_command(&mut self, thread: &[u8], item: &RequestId) -> Option<Key> {
        let at = self.find_command(thread, item)?;
        let command = self.commands.remove(at, None)?;
        self.of_turn.remove(&command.turn, at);
        command.entry
    }

    fn find_command(&self, thread: &[u8], item: &RequestId) -> Option<Key> {
        let thread = &*one_spelling(thread);
        self.commands.find(self.commands.hash(item), |command| command.item == *item && *command.thread == *thread)
    }

    /// Commands of a turn that were not seen to end and have no entry.
    pub(super) fn commands_of(&self, thread: &[u8], turn: &[u8]) -> Vec<(Key, Command)> {
        let thread = &*one_spelling(thread);
        let known = self.of_turn.of(turn).filter_map(|at| Some((at, self.commands.get(at)?)));
        let is_of = |(_, command): &(Key, &Command)| *command.thread == *thread && command.entry.is_none();
        known.filter(is_of).map(|(at, command)| (at, command.clone())).collect()
    }

    /// Gives a command its entry in the table of requests.
    pub(super) fn enter_command(&mut self, at: Key, entry: Key) {
        if let Some(command) = self.commands.get_mut(at) {
            command.entry = Some(entry);
        }
    }

    /// Follows a command whose beginning was not seen, if it is not known and there is room. Its entry is still to be made.
    pub(super) fn find_terminal(&mut self, thread: &[u8], item: &[u8], process: &[u8]) -> Option<(Key, Command)> {
        let id = RequestId::from_json(item)?;
        if self.find_command(thread, &id).is_some() {
            return None;
        }
        self.begin_command(thread, b"", item, process);
        let at = self.find_command(thread, &id)?;
        self.commands.get(at).map(|command| (at, command.clone()))
    }

    /// The entry of a command in the table of requests, if it has outlived its turn.
    pub(super) fn terminal(&self, thread: &[u8], item: &[u8]) -> Option<Key> {
        self.commands.get(self.find_command(thread, &RequestId::from_json(item)?)?)?.entry
    }

    /// The entries of such commands of a thread.
    pub(super) fn terminals_of(&self, thread: &[u8]) -> impl Iterator<Item = Key> {
        let thread = one_spelling(thread);
        let of = self.commands.iter().filter(move |(_, command)| *command.thread == *thread);
        of.filter_map(|(_, command)| command.entry)
    }

    fn find_process(&self, handle: &[u8]) -> Option<Key> {
        self.processes.by_id(&RequestId::from_json(handle)?)
    }

    fn take_process(&mut self, handle: &[u8]) -> Option<Process> {
        self.processes.remove(self.find_process(handle)?, None)
    }

    /// Notes that the client starts a process by this request.
    pub(super) fn await_process(&mut self, handle: &[u8], start: Key) {
        let Some(handle) = RequestId::from_json(handle) else { return };
        match self.processes.len() < MAX_AT_WORK {
            true => {
                let hash = self.processes.hash(&handle);
                _ = self.processes.insert_new(hash, Process { handle, start, entry: None, has_exited: false });
            }
            false => self.unkept += 1,
        }
    }

    /// The request that starts a process has ended: without an answer that it works, the process is not awaited any more.
    fn forget_unstarted(&mut self, handle: &[u8], start: Key) {
        let known = self.find_process(handle).and_then(|at| self.processes.get(at));
        if known.is_some_and(|process| process.start == start && process.entry.is_none()) {
            self.take_process(handle);
        }
    }

    /// The start of a process was answered: whether it works, and is to be followed.
    pub(super) fn takes_process(&mut self, handle: &[u8], has_started: bool, has_room: bool) -> bool {
        let known = self.find_process(handle).and_then(|at| self.processes.get(at));
        let Some(process) = known.filter(|process| process.entry.is_none()) else { return false };
        let is_taken = has_started && !process.has_exited && has_room;
        self.unkept += u64::from(has_started && !process.has_exited && !has_room);
        if !is_taken {
            self.take_process(handle);
        }
        is_taken
    }

    /// Gives a process its entry in the table of requests.
    pub(super) fn enter_process(&mut self, handle: &[u8], entry: Key) {
        if let Some(process) = self.find_process(handle).and_then(|at| self.processes.get_mut(at)) {
            process.entry = Some(entry);
        }
    }

    /// A process is over; its entry in the table of requests, if it has one.
    pub(super) fn end_process(&mut self, handle: &[u8]) -> Option<Key> {
        let process = self.processes.get_mut(self.find_process(handle)?)?;
        process.has_exited = true;
        process.entry
    }

    /// What stands in the table of requests: turns, commands that have outlived theirs, and processes.
    pub(super) fn entries(&self) -> impl Iterator<Item = Key> {
        let turns = self.turns.iter().filter_map(|(_, turn)| turn.key);
        let commands = self.commands.iter().filter_map(|(_, command)| command.entry);
        turns.chain(commands).chain(self.processes.iter().filter_map(|(_, process)| process.entry))
    }

    /// Bytes of memory held, capacities included; ids have at most 256 bytes each.
    pub(super) fn held(&self) -> usize {
        let turns = self.turns.iter().map(|(_, turn)| turn.id.heap_bytes() + turn.thread.len());
        let commands = self.commands.iter().map(|(_, command)| {
            command.item.heap_bytes() + command.thread.len() + command.turn.len() + command.process.len()
        });
        let processes = self.processes.iter().map(|(_, process)| process.handle.heap_bytes());
        size_of::<Self>()
            + self.family.held()
            + self.turns.held()
            + self.commands.held()
            + self.of_turn.held()
            + self.processes.held()
            + turns.chain(commands).chain(processes).sum::<usize>()
    }

    /// Panics if a bound is broken, or what is known of who opened whom.
    pub(super) fn check(&self) {
        self.family.check();
        let most = self.turns.live().max(self.commands.len()).max(self.processes.len());
        assert!(most <= MAX_AT_WORK, "invariant 8: too many turns or commands are followed");
    }

    pub(super) fn hash_state(&self, state: &mut impl Hasher) {
        self.unkept().hash(state);
        let indices = |keys: &VecDeque<Key>| keys.iter().map(|key| key.index()).collect::<Vec<_>>();
        for (key, member) in self.family.members() {
            let Some(Thread { turns, requests, awaited, is_left, opened_by }) = self.family.get(key) else { continue };
            (&member.name, &member.parent, indices(turns), indices(requests), is_left).hash(state);
            opened_by.map(Key::index).hash(state);
            awaited.as_ref().map(|Origin { id, method }| (id, method)).hash(state);
        }
        for (_, Turn { id, thread, key }) in self.turns.iter() {
            (id, thread, key.map(Key::index)).hash(state);
        }
        for (_, Process { handle, start, entry, has_exited }) in self.processes.iter() {
            (handle, start.index(), entry.map(Key::index), has_exited).hash(state);
        }
        for (_, Command { item, thread, turn, process, entry }) in self.commands.iter() {
            (item, thread, turn, process, entry.map(Key::index)).hash(state);
        }
    }
}

/// Whether an id is short enough to be kept.
pub(super) fn is_kept(id: &[u8]) -> bool {
    id.len() <= MAX_ID
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    const NOW: Instant = Instant::ORIGIN;

    fn turn(id: &[u8]) -> ThreadPart {
        ThreadPart::Turn { thread: id.into(), turn: id.into(), parent: None, is_alone: false }
    }

    #[test]
    fn an_ended_turn_does_not_begin_again_and_a_long_id_is_not_followed() {
        let (mut threads, mut slab) = (Threads::new(Seed::new(1)), Slab::new());
        let key = slab.insert(0);
        assert!(threads.takes_turn(b"\"u\"", b"\"u\"", true));
        threads.begin_turn(b"\"u\"", b"\"u\"", key);
        assert_eq!(threads.turn(br#""\u0075""#, br#""\u0075""#), Some(key), "an id has one spelling");
        assert!(!threads.takes_turn(b"\"u\"", b"\"u\"", true), "it is known");
        threads.note_settled(NOW, key, &RequestId::integer(1), &turn(b"\"u\""));
        assert_eq!((threads.turn(b"\"u\"", b"\"u\""), threads.turns_of(b"\"u\"").count()), (None, 0));
        assert!(!threads.takes_turn(b"\"u\"", b"\"u\"", true), "it was over");
        threads.note_over(NOW, b"\"u\"", b"\"never begun\"");
        assert!(!threads.takes_turn(b"\"u\"", b"\"never begun\"", true));
        assert_eq!(threads.unkept(), 0);
        let long = format!("\"{}\"", "x".repeat(255));
        assert!(!threads.takes_turn(long.as_bytes(), b"\"v\"", true));
        assert_eq!(threads.unkept(), 1);
    }

    #[test]
    fn nothing_grows_without_a_bound_and_what_finds_no_room_is_counted() {
        let (mut threads, mut slab) = (Threads::new(Seed::new(1)), Slab::new());
        for number in 0..1500 {
            let id = format!("\"{number:04}{}\"", "x".repeat(250));
            let id = id.as_bytes();
            if threads.takes_turn(id, id, true) {
                threads.begin_turn(id, id, slab.insert(number));
            }
            let origin = |length| Origin { id: RequestId::string(&"x".repeat(length)), method: Method::OTHER };
            // One is as long as a message, and not kept.
            threads.await_turn(id, origin(if number == 0 { 8 << 20 } else { 200 }));
            threads.note_over(NOW, id, format!("\"over {number}\"").as_bytes());
            threads.note_left(id, true);
            (0..17).for_each(|_| threads.note_request(id, slab.insert(number)));
            threads.begin_command(id, id, id, id);
            threads.await_process(id, slab.insert(number));
        }
        threads.check();
        assert!((MAX_HELD / 2..MAX_HELD).contains(&threads.held()), "{} of {MAX_HELD}", threads.held());
        assert_eq!((threads.turns.live(), threads.commands.len()), (MAX_AT_WORK, MAX_AT_WORK));
        assert_eq!(threads.processes.len(), MAX_AT_WORK);
        assert!(threads.turns.retired() <= 256 + 32, "{}", threads.turns.retired());
        assert!(threads.unkept() >= 3 * (1500 - MAX_AT_WORK as u64), "{}", threads.unkept());
    }
}
