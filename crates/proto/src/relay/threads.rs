//! What is known of the threads of a link whose turns end with a notification (D58): the turns at work, those that were
//! seen to end, commands that are not over, and which thread was opened by which.
//!
//! All of it is bounded: what finds no room is not followed, which hides work and breaks nothing.

use core::hash::{Hash, Hasher};
use std::collections::VecDeque;

use crate::{id::RequestId, method::Method, slab::Key, turns::one_spelling};

/// Turns at work, and commands that are not over, are followed up to so many.
const MAX_AT_WORK: usize = 1024;

/// So many ended turns are remembered, and so many threads by the thread that opened them.
const MAX_REMEMBERED: usize = 256;

/// Starts whose turn has not been named yet.
const MAX_AWAITED: usize = 16;

/// What has longer ids is not followed.
const MAX_ID: usize = 256;

/// An id: JSON, in its one spelling.
type Id = Box<[u8]>;

/// The threads of one link.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    /// Oldest first.
    turns: Vec<Turn>,
    /// Turns that were seen to end: a late word about their beginning begins nothing.
    over: VecDeque<Id>,
    /// Requests that were answered without a name of the turn that they start (CDX-14), by their thread.
    awaited: VecDeque<(Id, Origin)>,
    /// A thread, and the one in which it was opened (CDX-10).
    parents: VecDeque<(Id, Id)>,
    /// Commands of the model that were not seen to end (CDX-09).
    commands: Vec<Command>,
    /// Threads that the client has left: their turns end unseen (CDX-16).
    left: VecDeque<Id>,
}

/// A turn at work.
#[derive(Clone, Debug)]
struct Turn {
    thread: Box<[u8]>,
    id: Box<[u8]>,
    key: Key,
}

/// The request that started a turn.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) id: RequestId,
    pub(super) method: Method,
}

/// A command of the model with a process that may outlive its turn.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) thread: Box<[u8]>,
    turn: Box<[u8]>,
    /// That of the item, under which its end is reported.
    pub(super) item: Box<[u8]>,
    pub(super) process: Box<[u8]>,
    /// Its entry in the table, once its turn is over.
    entry: Option<Key>,
}

impl Threads {
    /// The turn at work that these ids name.
    pub(super) fn turn(&self, thread: &[u8], id: &[u8]) -> Option<Key> {
        let (thread, id) = (&*one_spelling(thread), &*one_spelling(id));
        self.turns.iter().find(|turn| *turn.thread == *thread && *turn.id == *id).map(|turn| turn.key)
    }

    /// The turns at work of a thread, the newest first.
    pub(super) fn turns_of(&self, thread: &[u8]) -> impl Iterator<Item = Key> {
        let thread = one_spelling(thread);
        self.turns.iter().rev().filter(move |turn| *turn.thread == *thread).map(|turn| turn.key)
    }

    /// Whether a turn of these ids can be followed from now on: it is new, and there is room.
    pub(super) fn takes_turn(&self, thread: &[u8], id: &[u8]) -> bool {
        let is_over = || {
            let id = &*one_spelling(id);
            self.over.iter().any(|over| **over == *id)
        };
        is_kept(thread)
            && is_kept(id)
            && self.turns.len() < MAX_AT_WORK
            && self.turn(thread, id).is_none()
            && !is_over()
    }

    pub(super) fn begin_turn(&mut self, thread: &[u8], id: &[u8], key: Key) {
        self.turns.push(Turn { thread: one_spelling(thread).into(), id: one_spelling(id).into(), key });
    }

    /// Notes that a turn is over, known or not.
    pub(super) fn note_over(&mut self, id: &[u8]) {
        if is_kept(id) {
            remember(&mut self.over, one_spelling(id).into(), MAX_REMEMBERED);
        }
    }

    /// Forgets what stands in the table under `key`.
    pub(super) fn forget(&mut self, key: Key) {
        self.turns.retain(|turn| turn.key != key);
        self.commands.retain(|command| command.entry != Some(key));
    }

    /// Notes a request that starts a turn of this thread, which its answer has not named.
    pub(super) fn await_turn(&mut self, thread: &[u8], origin: Origin) {
        if is_kept(thread) {
            remember(&mut self.awaited, (one_spelling(thread).into(), origin), MAX_AWAITED);
        }
    }

    /// The oldest such request of a thread. None is left.
    pub(super) fn take_awaited(&mut self, thread: &[u8]) -> Option<Origin> {
        let thread = &*one_spelling(thread);
        let found = self.awaited.iter().find(|(of, _)| **of == *thread).map(|(_, origin)| origin.clone());
        self.awaited.retain(|(of, _)| **of != *thread);
        found
    }

    /// Notes that `child` was opened in the thread `parent`.
    pub(super) fn note_child(&mut self, child: &[u8], parent: &[u8]) {
        let (child, parent) = (one_spelling(child), one_spelling(parent));
        let is_known = self.parents.iter().any(|(known, _)| **known == *child);
        if is_kept(&child) && is_kept(&parent) && !is_known && child != parent {
            remember(&mut self.parents, (child.into(), parent.into()), MAX_REMEMBERED);
        }
    }

    /// The thread in which this one was opened.
    pub(super) fn parent(&self, thread: &[u8]) -> Option<&[u8]> {
        let thread = &*one_spelling(thread);
        self.parents.iter().find(|(child, _)| **child == *thread).map(|(_, parent)| &**parent)
    }

    /// Notes that the client has left a thread, or is back.
    pub(super) fn note_left(&mut self, thread: &[u8], is_left: bool) {
        let thread = &*one_spelling(thread);
        self.left.retain(|left| **left != *thread);
        if is_left && is_kept(thread) {
            remember(&mut self.left, thread.into(), MAX_REMEMBERED);
        }
    }

    pub(super) fn has_left(&self, thread: &[u8]) -> bool {
        let thread = &*one_spelling(thread);
        self.left.iter().any(|left| **left == *thread)
    }

    /// Notes that a command has begun.
    pub(super) fn begin_command(&mut self, thread: &[u8], turn: &[u8], item: &[u8], process: &[u8]) {
        let all_kept = [thread, turn, item, process].into_iter().all(is_kept);
        if all_kept && self.commands.len() < MAX_AT_WORK && self.place_of_command(thread, item).is_none() {
            let [thread, turn, item] = [thread, turn, item].map(|id| one_spelling(id).into());
            self.commands.push(Command { thread, turn, item, process: process.into(), entry: None });
        }
    }

    /// Notes that a command is over; its entry in the table, if it has one.
    pub(super) fn end_command(&mut self, thread: &[u8], item: &[u8]) -> Option<Key> {
        let place = self.place_of_command(thread, item)?;
        self.commands.remove(place).entry
    }

    fn place_of_command(&self, thread: &[u8], item: &[u8]) -> Option<usize> {
        let (thread, item) = (&*one_spelling(thread), &*one_spelling(item));
        self.commands.iter().position(|command| *command.thread == *thread && *command.item == *item)
    }

    /// Commands of a turn that were not seen to end and have no entry.
    pub(super) fn commands_of(&self, thread: &[u8], turn: &[u8]) -> Vec<Command> {
        let (thread, turn) = (&*one_spelling(thread), &*one_spelling(turn));
        let is_of =
            |command: &&Command| *command.thread == *thread && *command.turn == *turn && command.entry.is_none();
        self.commands.iter().filter(is_of).cloned().collect()
    }

    /// Gives a command its entry in the table.
    pub(super) fn enter_command(&mut self, command: &Command, entry: Key) {
        if let Some(place) = self.place_of_command(&command.thread, &command.item) {
            self.commands[place].entry = Some(entry);
        }
    }

    /// What stands in the table: turns, and commands that have outlived theirs.
    pub(super) fn entries(&self) -> impl Iterator<Item = Key> {
        self.turns.iter().map(|turn| turn.key).chain(self.commands.iter().filter_map(|command| command.entry))
    }

    /// Bytes of memory held, capacities included; ids have at most 256 bytes each.
    pub(super) fn held(&self) -> usize {
        let turns = self.turns.iter().map(|turn| turn.thread.len() + turn.id.len()).sum::<usize>();
        let commands =
            self.commands.iter().map(|one| one.thread.len() + one.turn.len() + one.item.len() + one.process.len());
        let pairs = self.parents.iter().map(|(child, parent)| child.len() + parent.len()).sum::<usize>();
        let names = self.over.iter().chain(&self.left).chain(self.awaited.iter().map(|(thread, _)| thread));
        let ids = self.awaited.iter().map(|(_, origin)| origin.id.heap_bytes()).sum::<usize>();
        size_of::<Self>()
            + self.turns.capacity() * size_of::<Turn>()
            + self.commands.capacity() * size_of::<Command>()
            + (self.over.capacity() + self.left.capacity()) * size_of::<Id>()
            + self.awaited.capacity() * size_of::<(Id, Origin)>()
            + self.parents.capacity() * size_of::<(Id, Id)>()
            + turns
            + commands.sum::<usize>()
            + pairs
            + ids
            + names.map(|name| name.len()).sum::<usize>()
    }

    pub(super) fn hash_state(&self, state: &mut impl Hasher) {
        let Self { turns, over, awaited, parents, commands, left } = self;
        for Turn { thread, id, key } in turns {
            (thread, id, key.index()).hash(state);
        }
        for Command { thread, turn, item, process, entry } in commands {
            (thread, turn, item, process, entry.map(Key::index)).hash(state);
        }
        for (thread, Origin { id, method }) in awaited {
            (thread, id, method).hash(state);
        }
        (over, parents, left).hash(state);
    }
}

fn is_kept(id: &[u8]) -> bool {
    id.len() <= MAX_ID
}

/// Keeps what is new, if need be in the place of the oldest.
fn remember<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn an_ended_turn_does_not_begin_again_and_a_long_id_is_not_followed() {
        let (mut threads, mut slab) = (Threads::default(), Slab::new());
        let key = slab.insert(0);
        assert!(threads.takes_turn(b"\"t\"", b"\"u\""));
        threads.begin_turn(b"\"t\"", b"\"u\"", key);
        assert_eq!(threads.turn(br#""\u0074""#, br#""\u0075""#), Some(key), "an id has one spelling");
        assert!(!threads.takes_turn(b"\"t\"", b"\"u\""), "it is known");
        threads.note_over(b"\"u\"");
        threads.forget(key);
        assert_eq!(threads.turn(b"\"t\"", b"\"u\""), None);
        assert!(!threads.takes_turn(b"\"t\"", b"\"u\""), "it was over");
        assert!(!threads.takes_turn(&[b'x'; 257], b"\"v\""));
    }

    #[test]
    fn nothing_grows_without_a_bound() {
        let (mut threads, mut slab) = (Threads::default(), Slab::new());
        for number in 0..5000 {
            let id = format!("\"{number}{}\"", "x".repeat(200));
            let id = id.as_bytes();
            if threads.takes_turn(id, id) {
                threads.begin_turn(id, id, slab.insert(number));
            }
            let origin = Origin { id: RequestId::integer(1), method: Method::OTHER };
            threads.await_turn(id, origin);
            threads.note_child(id, b"\"root\"");
            threads.note_over(format!("\"over {number}\"").as_bytes());
            threads.note_left(id, true);
            threads.begin_command(id, id, id, id);
        }
        assert!(threads.held() < 4 << 20, "{}", threads.held());
        assert_eq!((threads.turns.len(), threads.commands.len()), (MAX_AT_WORK, MAX_AT_WORK));
    }
}
