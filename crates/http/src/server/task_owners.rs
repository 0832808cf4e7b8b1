//! Whose the tasks are of programs that serve several owners, and which tasks were made here, where several machines serve
//! the same: a request about one is for the machine whose program has it (TASK-26).
//!
//! A program knows nothing of owners, and has one list of tasks. A task is the owner's whose request was answered with its
//! handle; for everybody else, and for ids that were never seen here, there is none (TASK-08). So whether another's task
//! exists cannot be found out, and what is not known for certain has no owner.

use core::hash::{Hash, Hasher};
use std::{collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rescind_proto::{
    dialect::mcp,
    frame::{self, Notification, Request},
    json,
};

use super::{
    config::HttpServerConfig,
    door::Owner,
    door::strict::{Ambiguous, elements, only, only_text, text},
    here::Here,
    look_alike::RELATED,
    posted::Edit,
};

/// The most tasks that are remembered.
pub(crate) const MAX_TASKS: usize = 16_384;

/// The longest id of a task that is remembered, in bytes.
pub(crate) const MAX_TASK_ID: usize = 256;

pub(crate) const LIST: &str = "tasks/list";
const STATUS: &str = "notifications/tasks/status";
const LOG: &str = "notifications/message";

/// Tasks that were made here, and their owners, if one program serves several.
///
/// An owner takes another place only while it has fewer than are free; else its oldest task is forgotten. So one owner
/// alone has no other's forgotten: that takes as many owners as there are places. Tasks without owners have all places. A
/// task that is forgotten goes on, and cannot be asked about any more.
#[derive(Clone, Debug)]
pub(crate) struct TaskOwners {
    /// No more are remembered.
    most: usize,
    /// One program serves several owners.
    has_owners: bool,
    owners: HashMap<Arc<str>, Option<Owner>, FixedState>,
    /// The same, oldest first.
    tasks: VecDeque<(Arc<str>, Option<Owner>)>,
}

impl TaskOwners {
    /// Remembers nothing unless tasks have owners, or others serve the same.
    pub(crate) fn new(config: &HttpServerConfig) -> Self {
        let has_owners = config.serves_owners_together();
        let most = if has_owners || config.pool_member.is_some() { MAX_TASKS } else { 0 };
        Self::with(most, has_owners, config.seed)
    }

    fn with(most: usize, has_owners: bool, seed: u64) -> Self {
        Self { most, has_owners, owners: HashMap::with_hasher(FixedState::with_seed(seed)), tasks: VecDeque::new() }
    }

    /// Notes the task whose handle a result may be, and whose it is.
    pub(crate) fn note(&mut self, owner: Option<&Owner>, result: &[u8]) {
        let owner = owner.filter(|_| self.has_owners);
        if self.most == 0 || owner.is_some() != self.has_owners {
            return;
        }
        // A program may give tasks of either dialect, whichever it greets in.
        let forms = [&mcp::LATEST_LEGACY, &mcp::LATEST_STATELESS].into_iter().filter_map(|dialect| dialect.tasks);
        for id in forms.filter_map(|form| form.handle(result)).filter_map(json::text) {
            self.insert(&id, owner);
        }
    }

    /// Notes the owner of a task. A task that has one keeps it.
    fn insert(&mut self, id: &str, owner: Option<&Owner>) {
        if id.len() > MAX_TASK_ID || self.owners.contains_key(id) {
            return;
        }
        let free = self.most.saturating_sub(self.tasks.len());
        let is_own = |(_, one): &&(Arc<str>, Option<Owner>)| one.as_ref() == owner;
        let has_share = || owner.is_some() && self.tasks.iter().filter(is_own).count() >= free;
        let oldest = || self.tasks.iter().position(|task| is_own(&task));
        let makes_room = if free == 0 {
            oldest().or(Some(0))
        } else if has_share() {
            oldest()
        } else {
            None
        };
        if let Some((id, _)) = makes_room.and_then(|place| self.tasks.remove(place)) {
            self.owners.remove(&id);
        }
        let id: Arc<str> = id.into();
        self.owners.insert(Arc::clone(&id), owner.cloned());
        self.tasks.push_back((id, owner.cloned()));
    }

    fn is_of(&self, id: &str, owner: Option<&Owner>) -> bool {
        owner.is_some() && self.owners.get(id).and_then(Option::as_ref) == owner
    }

    /// Whether such a task was made here, and is this owner's, if it has one; only then it is established who asks.
    pub(crate) fn has(&self, id: &str, owner: impl FnOnce() -> Option<Owner>) -> bool {
        self.owners.get(id).is_some_and(|known| known.is_none() || *known == owner())
    }

    /// Whether a request is about no task in particular, or about one of its own owner.
    fn may_ask(&self, owner: Option<&Owner>, request: &Request<'_>) -> bool {
        if !self.has_owners || !request.method.starts_with("tasks/") || request.method == LIST {
            return true;
        }
        let params = request.params.raw;
        params.and_then(|params| only_text(params, "taskId")).is_some_and(|id| self.is_of(&id, owner))
    }

    /// What answers a request in place of a program: one about another's task is answered as one that does not exist
    /// (TASK-07).
    pub(crate) fn answer(&self, owner: Option<&Owner>, request: &Request<'_>) -> Option<Here> {
        (!self.may_ask(owner, request)).then_some(Here::UnknownTask)
    }

    /// What of a list of tasks is left out, since it is not the owner's. A page may become short; its cursor stays.
    pub(crate) fn own(&self, owner: Option<&Owner>, message: &[u8], result: &[u8]) -> Option<Edit> {
        let is_own = |task: &&[u8]| only_text(task, "taskId").is_some_and(|id| self.is_of(&id, owner));
        let (span, own) = match only(result, "tasks").map(|list| list.filter(|_| self.has_owners)) {
            Ok(None) => return None,
            Ok(Some(list)) => {
                let own: Vec<&[u8]> = elements(list).into_iter().filter(is_own).collect();
                (frame::span_of(message, list), [b"[", &*own.join(&b","[..]), b"]"].concat())
            }
            // Two lists.
            Err(Ambiguous) => (frame::span_of(message, result), br#"{"tasks":[]}"#.to_vec()),
        };
        Some((span?, own))
    }

    /// Whether a subscriber may get this: nothing of another's task.
    pub(crate) fn may_hear(&self, owner: Option<&Owner>, params: Option<&[u8]>) -> bool {
        match params.filter(|_| self.has_owners).map_or(Ok(None), |params| only(params, "taskId")) {
            Ok(None) => true,
            Ok(Some(id)) => text(id).is_some_and(|id| self.is_of(&id, owner)),
            Err(Ambiguous) => false,
        }
    }

    /// Whose a notification is; `None` if it is for all that listen, `Some(None)` if for none of them. A log line that names no
    /// task may be about any of them, and is for none.
    pub(crate) fn whose(&self, notification: &Notification<'_>) -> Option<Option<&Owner>> {
        let params = notification.params.raw.unwrap_or_default();
        let id = match &*notification.method {
            _ if !self.has_owners => return None,
            STATUS => only_text(params, "taskId"),
            LOG => json::lookup(params, &["_meta", RELATED]).and_then(|related| only_text(related, "taskId")),
            _ => return None,
        };
        Some(id.and_then(|id| self.owners.get(&*id)?.as_ref()))
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let name = |owner: &Option<Owner>| owner.as_ref().map_or(0, |owner| owner.name().len());
        let texts: usize = self.tasks.iter().map(|(id, owner)| id.len() + name(owner)).sum();
        texts + (self.owners.capacity() + self.tasks.capacity()) * size_of::<(Arc<str>, Owner)>()
    }

    /// Feeds what decides its future into a hasher.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.tasks.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_as_many_tasks_as_are_free_and_never_one_of_anothers_forgotten() {
        let [ann, bob] = ["ann", "bob"].map(|name| Owner::new(name).unwrap());
        let mut owners = TaskOwners::with(16, true, 0);
        owners.insert("hers", Some(&ann));
        let most = 8;
        (0..=most).for_each(|number| owners.insert(&format!("his {number}"), Some(&bob)));
        assert_eq!(owners.owners.len(), most + 1);
        assert!(owners.is_of("hers", Some(&ann)));
        assert!(!owners.is_of("his 0", Some(&bob)) && owners.is_of(&format!("his {most}"), Some(&bob)));
        // It is taken once, by the first.
        owners.insert("hers", Some(&bob));
        assert!(owners.is_of("hers", Some(&ann)) && !owners.is_of("hers", Some(&bob)) && !owners.is_of("hers", None));
        owners.insert(&"x".repeat(MAX_TASK_ID + 1), Some(&ann));
        owners.insert("another of hers", Some(&ann));
        assert_eq!((owners.owners.len(), owners.tasks.len()), (most + 2, most + 2));
        for number in 0..100 {
            owners.insert(&format!("of {number}"), Owner::new(&format!("owner {number}")).as_ref());
            assert!(owners.tasks.len() <= 16 && owners.owners.len() == owners.tasks.len());
        }
    }

    #[test]
    fn without_owners_the_oldest_are_forgotten() {
        let mut made = TaskOwners::with(2, false, 0);
        for id in ["a", "b", "a", "c"] {
            made.insert(id, None);
        }
        made.insert(&"x".repeat(MAX_TASK_ID + 1), None);
        assert_eq!(["a", "b", "c"].map(|id| made.has(id, || None)), [false, true, true]);
        assert!(made.held() > 0);
    }

    #[test]
    fn nothing_is_remembered_that_nobody_asks_for() {
        let handle = br#"{"task":{"taskId":"a","status":"working"}}"#;
        for (most, is_known) in [(0, false), (1, true)] {
            let mut made = TaskOwners::with(most, false, 0);
            made.note(None, handle);
            assert_eq!(made.has("a", || None), is_known, "{most}");
        }
    }
}
