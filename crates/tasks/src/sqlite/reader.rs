//! The thread that reads, so that reads do not wait for writes.

use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{
    cursor,
    error::TaskError,
    id::TaskId,
    owner::Owner,
    sqlite::{database::fault, rows},
    store::SummaryPage,
    task::{Task, TaskDialect},
    time::Timestamp,
};

/// A query and where its result goes.
pub(super) enum Read {
    Task {
        owner: Owner,
        id: TaskId,
        now: Timestamp,
        reply: oneshot::Sender<Result<Task, TaskError>>,
    },
    List {
        owner: Owner,
        dialect: TaskDialect,
        after: u64,
        at_most: usize,
        now: Timestamp,
        reply: oneshot::Sender<Result<SummaryPage, TaskError>>,
    },
}

/// Reads until the store is dropped.
pub(super) fn read(database: &Connection, wanted: &Receiver<Read>) {
    while let Ok(read) = wanted.recv() {
        // A caller may have gone.
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
    dialect: TaskDialect,
    after: u64,
    at_most: usize,
    now: Timestamp,
) -> Result<SummaryPage, TaskError> {
    // One more than asked for shows whether there is a next page.
    let wanted = rows::whole(u64::try_from(at_most).unwrap_or(u64::MAX).saturating_add(1));
    let mut found = rows::list(database, owner, dialect, rows::whole(after), now, wanted).map_err(fault)?;
    let has_more = found.len() > at_most;
    found.truncate(at_most);
    let next = found.last().filter(|_| has_more).map(|(number, _)| cursor::write(number.unsigned_abs()));
    Ok(SummaryPage { tasks: found.into_iter().map(|(_, summary)| summary).collect(), next })
}
