//! Queries, run on a thread of their own, so that reads do not wait for writes.

use rusqlite::Connection;

use crate::{
    cursor,
    dialect::TaskDialect,
    error::TaskError,
    id::TaskId,
    owner::Owner,
    sqlite::{database::fault, rows},
    store::SummaryPage,
    task::Task,
    time::Timestamp,
};

/// A query, which sends its own result.
pub(super) type Read = Box<dyn FnOnce(&Connection) + Send>;

pub(super) fn task(database: &Connection, owner: &Owner, id: &TaskId, now: Timestamp) -> Result<Task, TaskError> {
    let found = rows::load(database, id).map_err(fault)?;
    found.map(|(_, task)| task).filter(|task| task.is_found_by(owner, now)).ok_or(TaskError::NotFound)
}

pub(super) fn list(
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
