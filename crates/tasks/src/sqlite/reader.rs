//! The thread that reads, so that no look at a task waits for a write.

use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{
    cursor,
    error::TaskError,
    id::TaskId,
    owner::Owner,
    sqlite::{database::fault, rows},
    store::Page,
    task::{Dialect, Task},
    time::Timestamp,
};

/// Something to be read, and who wants it.
pub(super) enum Read {
    Task {
        owner: Owner,
        id: TaskId,
        now: Timestamp,
        reply: oneshot::Sender<Result<Task, TaskError>>,
    },
    List {
        owner: Owner,
        dialect: Dialect,
        after: u64,
        at_most: usize,
        now: Timestamp,
        reply: oneshot::Sender<Result<Page, TaskError>>,
    },
}

/// Reads until nobody can ask any more.
pub(super) fn read(database: &Connection, wanted: &Receiver<Read>) {
    while let Ok(read) = wanted.recv() {
        // Who has gone away wants nothing.
        match read {
            Read::Task { owner, id, now, reply } => {
                let _ = reply.send(task(database, &owner, &id, now));
            }
            Read::List { owner, dialect, after, at_most, now, reply } => {
                let _ = reply.send(list(database, &owner, dialect, after, at_most, now));
            }
        }
    }
}

fn task(database: &Connection, owner: &Owner, id: &TaskId, now: Timestamp) -> Result<Task, TaskError> {
    let found = rows::load(database, id).map_err(fault)?;
    found.map(|(_, task)| task).filter(|task| task.is_found_by(owner, now)).ok_or(TaskError::NotFound)
}

fn list(
    database: &Connection,
    owner: &Owner,
    dialect: Dialect,
    after: u64,
    at_most: usize,
    now: Timestamp,
) -> Result<Page, TaskError> {
    // One more than asked for tells whether there is a next page.
    let wanted = rows::whole(u64::try_from(at_most).unwrap_or(u64::MAX).saturating_add(1));
    let mut found = rows::list(database, owner, dialect, rows::whole(after), now, wanted).map_err(fault)?;
    let has_more = found.len() > at_most;
    found.truncate(at_most);
    let next = found.last().filter(|_| has_more).map(|(number, _)| cursor::write(number.unsigned_abs()));
    Ok(Page { tasks: found.into_iter().map(|(_, summary)| summary).collect(), next })
}
