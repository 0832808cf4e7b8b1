//! Whose the tasks are of a program that serves several owners.
//!
//! The program knows nothing of owners, and has one list of tasks. A task is the owner's whose request was answered with its
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
    HttpServer, SessionKey, Sessions,
    door::Owner,
    door::strict::{Ambiguous, elements, only, only_text, text},
    look_alike::RELATED,
    posted::Edit,
    streams::{Session, Stream},
};

/// The most tasks whose owners are remembered.
pub(crate) const MAX_TASKS: usize = 16_384;

/// The longest id of a task that is remembered, in bytes.
pub(crate) const MAX_TASK_ID: usize = 256;

pub(crate) const LIST: &str = "tasks/list";
const STATUS: &str = "notifications/tasks/status";
const LOG: &str = "notifications/message";

/// Owners by their tasks.
///
/// An owner takes another place only while it has fewer than are free; else its oldest task is forgotten. So one owner
/// alone has no other's forgotten: that takes as many owners as there are places. A task that is forgotten goes on, and
/// cannot be asked about any more.
#[derive(Clone, Debug)]
pub(crate) struct TaskOwners {
    most: usize,
    owners: HashMap<Arc<str>, Owner, FixedState>,
    /// The same, oldest first.
    tasks: VecDeque<(Arc<str>, Owner)>,
}

impl TaskOwners {
    /// Remembers so many at most.
    pub(crate) fn new(most: usize, seed: u64) -> Self {
        Self { most, owners: HashMap::with_hasher(FixedState::with_seed(seed)), tasks: VecDeque::new() }
    }

    /// Notes the owner of a task. A task that has one keeps it.
    fn insert(&mut self, id: &str, owner: &Owner) {
        if id.len() > MAX_TASK_ID || self.owners.contains_key(id) {
            return;
        }
        let mut own = self.tasks.iter().enumerate().filter(|(_, (_, one))| one == owner).map(|(place, _)| place);
        let oldest = own.next();
        let taken = oldest.iter().len() + own.count();
        let free = self.most.saturating_sub(self.tasks.len());
        let makes_room = if free == 0 { oldest.or(Some(0)) } else { oldest.filter(|_| taken >= free) };
        if let Some((id, _)) = makes_room.and_then(|place| self.tasks.remove(place)) {
            self.owners.remove(&id);
        }
        let id: Arc<str> = id.into();
        self.owners.insert(Arc::clone(&id), owner.clone());
        self.tasks.push_back((id, owner.clone()));
    }

    fn is_of(&self, id: &str, owner: Option<&Owner>) -> bool {
        owner.is_some() && self.owners.get(id) == owner
    }

    /// Whether this is the owner of such a task; who that is, is established only if somebody has one.
    pub(crate) fn has(&self, id: &str, owner: impl FnOnce() -> Option<Owner>) -> bool {
        self.owners.get(id).is_some_and(|known| owner().as_ref() == Some(known))
    }

    /// Whether a request is about no task in particular, or about one of its own owner.
    pub(crate) fn may_ask(&self, owner: Option<&Owner>, request: &Request<'_>) -> bool {
        if !request.method.starts_with("tasks/") || request.method == LIST {
            return true;
        }
        let params = request.params.raw;
        params.and_then(|params| only_text(params, "taskId")).is_some_and(|id| self.is_of(&id, owner))
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let texts: usize = self.tasks.iter().map(|(id, owner)| id.len() + owner.name().len()).sum();
        texts + (self.owners.capacity() + self.tasks.capacity()) * size_of::<(Arc<str>, Owner)>()
    }

    /// Feeds what decides its future into a hasher.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.tasks.hash(state);
    }
}

impl HttpServer {
    /// Whether one program serves several owners.
    pub(crate) const fn serves_owners_together(&self) -> bool {
        self.config.access.has_owners() && matches!(self.config.sessions, Sessions::SharedLink)
    }

    /// Notes the task whose handle a result may be, and whose it is.
    pub(crate) fn note_task(&mut self, owner: Option<&Owner>, result: &[u8]) {
        let has_owners = self.serves_owners_together();
        if !has_owners && self.config.pool_member.is_none() {
            return;
        }
        let owner = owner.filter(|_| has_owners);
        // A program may give tasks of either dialect, whichever it greets in.
        let forms = [&mcp::LATEST_LEGACY, &mcp::LATEST_STATELESS].into_iter().filter_map(|dialect| dialect.tasks);
        for id in forms.filter_map(|form| form.handle(result)).filter_map(json::text) {
            owner.into_iter().for_each(|owner| self.task_owners.insert(&id, owner));
            self.made_tasks.insert(&id);
        }
    }

    /// What of a list of tasks is left out, since it is not the owner's. A page may become short; its cursor stays.
    pub(crate) fn own_tasks(&self, owner: Option<&Owner>, message: &[u8], result: &[u8]) -> Vec<Edit> {
        if !self.serves_owners_together() {
            return Vec::new();
        }
        let is_own = |task: &&[u8]| only_text(task, "taskId").is_some_and(|id| self.task_owners.is_of(&id, owner));
        let (span, own) = match only(result, "tasks") {
            Ok(None) => return Vec::new(),
            Ok(Some(list)) => {
                let own: Vec<&[u8]> = elements(list).into_iter().filter(is_own).collect();
                (frame::span_of(message, list), [b"[", &*own.join(&b","[..]), b"]"].concat())
            }
            // Two lists.
            Err(Ambiguous) => (frame::span_of(message, result), br#"{"tasks":[]}"#.to_vec()),
        };
        span.map(|span| (span, own)).into_iter().collect()
    }

    /// Whether a stream may get this of a subscription: nothing of another's task.
    pub(crate) fn may_hear(&self, stream: &Stream, params: Option<&[u8]>) -> bool {
        if !self.serves_owners_together() {
            return true;
        }
        match params.map_or(Ok(None), |params| only(params, "taskId")) {
            Ok(None) => true,
            Ok(Some(id)) => text(id).is_some_and(|id| self.task_owners.is_of(&id, stream.owner.as_ref())),
            Err(Ambiguous) => false,
        }
    }

    /// The sessions that get a notification which is one owner's; `None` if it is for all that listen. A log line that names
    /// no task may be about any of them, and goes to none.
    pub(crate) fn hearers(&self, notification: &Notification<'_>) -> Option<Vec<SessionKey>> {
        if !self.serves_owners_together() {
            return None;
        }
        let params = notification.params.raw.unwrap_or_default();
        let id = match &*notification.method {
            STATUS => only_text(params, "taskId"),
            LOG => json::lookup(params, &["_meta", RELATED]).and_then(|related| only_text(related, "taskId")),
            _ => return None,
        };
        let owner = id.and_then(|id| self.task_owners.owners.get(&*id));
        let is_his = |session: &Session| owner.is_some() && session.owner.as_ref() == owner;
        Some(self.streams.sessions.iter().filter(|(_, session)| is_his(session)).map(|(key, _)| *key).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_as_many_tasks_as_are_free_and_never_one_of_anothers_forgotten() {
        let [ann, bob] = ["ann", "bob"].map(|name| Owner::new(name).unwrap());
        let mut owners = TaskOwners::new(16, 0);
        owners.insert("hers", &ann);
        let most = 8;
        (0..=most).for_each(|number| owners.insert(&format!("his {number}"), &bob));
        assert_eq!(owners.owners.len(), most + 1);
        assert!(owners.is_of("hers", Some(&ann)));
        assert!(!owners.is_of("his 0", Some(&bob)) && owners.is_of(&format!("his {most}"), Some(&bob)));
        // It is taken once, by the first.
        owners.insert("hers", &bob);
        assert!(owners.is_of("hers", Some(&ann)) && !owners.is_of("hers", Some(&bob)) && !owners.is_of("hers", None));
        owners.insert(&"x".repeat(MAX_TASK_ID + 1), &ann);
        owners.insert("another of hers", &ann);
        assert_eq!((owners.owners.len(), owners.tasks.len()), (most + 2, most + 2));
        for number in 0..100 {
            owners.insert(&format!("of {number}"), &Owner::new(&format!("owner {number}")).unwrap());
            assert!(owners.tasks.len() <= 16 && owners.owners.len() == owners.tasks.len());
        }
    }
}
