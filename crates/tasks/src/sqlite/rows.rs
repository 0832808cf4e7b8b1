//! Tasks as rows.

use std::{sync::Arc, time::Duration};

use rescind_proto::cause::{Cause, CauseCode};
use rusqlite::{
    Connection, OptionalExtension, Row, params,
    types::{FromSql, FromSqlError, Type},
};

use crate::{
    dialect::TaskDialect,
    id::TaskId,
    input::Inputs,
    json::Json,
    outcome::TaskOutcome,
    owner::Owner,
    revision::TaskRevision,
    status::Status,
    subscribers::TaskUpdate,
    task::{CancelRecord, Task, TaskRequest, TaskSummary},
    time::{Timestamp, millis},
};

/// The most bytes of a request that is kept in the row of its task, and written again with it.
const SMALL_REQUEST: usize = 1 << 10;

// The columns in the order in which they are read.
const SUMMARY: &str = "id, dialect, status, message, created, updated, ttl, poll";
const CANCEL: &str = "cancel_code, cancel_root, cancel_text, cancelled";
// A request of which a part is in the row has no other.
const REQUEST: &str = "method, \
     iif(ifnull(params, meta) IS NULL, (SELECT params FROM request WHERE request.number = task.number), params), \
     iif(ifnull(params, meta) IS NULL, (SELECT meta FROM request WHERE request.number = task.number), meta)";

/// Loads a task and its number.
pub(super) fn load(database: &Connection, id: &TaskId) -> rusqlite::Result<Option<(i64, Task)>> {
    let mut select = database.prepare_cached(&format!(
        "SELECT number, {SUMMARY}, owner, {REQUEST}, inputs, outcome_kind, outcome, {CANCEL}, runner, attempt, revision
         FROM task WHERE id = ?1"
    ))?;
    select
        .query_row([id.as_str()], |row| {
            let mut cells = Cells::of(row);
            Ok((cells.next()?, task(&mut cells)?))
        })
        .optional()
}

pub(super) fn insert(database: &Connection, change: i64, task: &Task) -> rusqlite::Result<()> {
    let Task { summary, owner, request, .. } = task;
    let texts = [&request.params, &request.meta].map(|json| json.as_ref().map(Json::as_str));
    let (small, large) = if request.size() <= SMALL_REQUEST { (texts, [None; 2]) } else { ([None; 2], texts) };
    database
        .prepare_cached(
            "INSERT INTO task (number, change, id, owner, dialect, status, message, created, updated, ttl, expires, poll,
                               runner, attempt, revision, method, params, meta)
             VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(params![
            change,
            summary.id.as_str(),
            owner_text(owner),
            dialect_number(summary.dialect),
            summary.status.as_str(),
            summary.message,
            whole(summary.created.0),
            whole(summary.updated.0),
            summary.ttl.map(|ttl| whole(millis(ttl))),
            summary.expires().map(|expires| whole(expires.0)),
            summary.poll_interval.map(|every| whole(millis(every))),
            task.runner,
            task.attempt,
            whole(task.revision.0),
            request.method,
            small[0],
            small[1],
        ])?;
    if large != [None; 2] {
        let mut insert = database.prepare_cached("INSERT INTO request VALUES (?1, ?2, ?3)")?;
        insert.execute((change, large[0], large[1]))?;
    }
    Ok(())
}

/// Writes the columns that can change, but for the run.
pub(super) fn update(database: &Connection, number: i64, change: i64, task: &Task) -> rusqlite::Result<()> {
    let (cause, at) = task.cancel.as_ref().map(|cancel| (&cancel.cause, cancel.at)).unzip();
    let inputs = if task.inputs.is_empty() { None } else { Some(inputs_text(&task.inputs)?) };
    database
        .prepare_cached(
            "UPDATE task SET status = ?2, message = ?3, updated = ?4, revision = ?5, change = ?6, cancel_code = ?7,
                 cancel_root = ?8, cancel_text = ?9, cancelled = ?10, inputs = ?11, outcome_kind = ?12, outcome = ?13
             WHERE number = ?1",
        )?
        .execute(params![
            number,
            task.summary.status.as_str(),
            task.summary.message,
            whole(task.summary.updated.0),
            whole(task.revision.0),
            change,
            cause.map(|cause| cause.code.as_str()),
            cause.and_then(|cause| cause.root).map(CauseCode::as_str),
            cause.and_then(Cause::text),
            at.map(|at| whole(at.0)),
            inputs,
            task.outcome.as_ref().map(outcome_number),
            task.outcome.as_ref().and_then(TaskOutcome::json).map(Json::as_str),
        ])?;
    Ok(())
}

/// Writes the run of a task. Most changes leave it and its index as they are.
pub(super) fn update_run(database: &Connection, number: i64, task: &Task) -> rusqlite::Result<()> {
    let mut update = database.prepare_cached("UPDATE task SET runner = ?2, attempt = ?3 WHERE number = ?1")?;
    update.execute((number, &task.runner, task.attempt)).map(drop)
}

/// Loads at most `at_most` of an owner's tasks after the number `after`.
pub(super) fn list(
    database: &Connection,
    owner: &Owner,
    dialect: TaskDialect,
    after: i64,
    now: Timestamp,
    at_most: i64,
) -> rusqlite::Result<Vec<(i64, TaskSummary)>> {
    let mut select = database.prepare_cached(&format!(
        "SELECT number, {SUMMARY} FROM task
         WHERE owner = ?1 AND dialect = ?2 AND number > ?3 AND (expires IS NULL OR expires > ?4)
         ORDER BY number LIMIT ?5"
    ))?;
    let wanted = (owner_text(owner), dialect_number(dialect), after, whole(now.0), at_most);
    let found = select.query_map(wanted, |row| {
        let mut cells = Cells::of(row);
        Ok((cells.next()?, summary(&mut cells)?))
    })?;
    found.collect()
}

/// Loads the updates after `change`, and the last change of the file.
pub(super) fn updates_after(database: &Connection, change: i64) -> rusqlite::Result<(i64, Vec<TaskUpdate>)> {
    let last = last_change(database)?;
    let mut select = database.prepare_cached(&format!(
        "SELECT id, revision, attempt, runner IS NOT NULL, {CANCEL} FROM task
         WHERE change > ?1 AND change <= ?2 AND change > number ORDER BY change"
    ))?;
    let found = select.query_map([change, last], |row| {
        let mut cells = Cells::of(row);
        Ok(TaskUpdate {
            id: cells.id()?,
            revision: TaskRevision(cells.count()?),
            attempt: cells.next()?,
            has_runner: cells.next()?,
            cancel: cancel(&mut cells)?,
        })
    })?;
    Ok((last, found.collect::<Result<_, _>>()?))
}

/// Returns the last change of the file.
pub(super) fn last_change(database: &Connection) -> rusqlite::Result<i64> {
    let mut select = database.prepare_cached(
        "SELECT max(change, (SELECT ifnull(max(number), 0) FROM task),
                    (SELECT ifnull(max(change), 0) FROM task WHERE change > number))
         FROM counter",
    )?;
    select.query_row([], |row| row.get(0))
}

/// The cells of a row, one after the other.
struct Cells<'a> {
    row: &'a Row<'a>,
    at: usize,
}

impl<'a> Cells<'a> {
    const fn of(row: &'a Row<'a>) -> Self {
        Self { row, at: 0 }
    }

    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    fn text(&mut self) -> rusqlite::Result<&'a str> {
        self.at += 1;
        Ok(self.row.get_ref(self.at - 1)?.as_str()?)
    }

    fn id(&mut self) -> rusqlite::Result<TaskId> {
        self.text().map(TaskId::received)
    }

    fn count(&mut self) -> rusqlite::Result<u64> {
        self.next().map(i64::unsigned_abs)
    }

    fn span(&mut self) -> rusqlite::Result<Option<Duration>> {
        Ok(self.next::<Option<i64>>()?.map(|millis| Duration::from_millis(millis.unsigned_abs())))
    }

    fn json(&mut self) -> rusqlite::Result<Option<Json>> {
        Ok(self.next::<Option<Arc<str>>>()?.map(Json::stored))
    }
}

fn task(cells: &mut Cells<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        summary: summary(cells)?,
        owner: cells.text()?.strip_prefix(NAMED).map_or(Owner::NONE, Owner::named),
        request: TaskRequest { method: cells.next()?, params: cells.json()?, meta: cells.json()? },
        inputs: cells.next::<Option<String>>()?.map(|text| inputs_of(&text)).transpose()?.unwrap_or_default(),
        outcome: match (cells.next::<Option<i64>>()?, cells.json()?) {
            (None, None) => None,
            (Some(0), Some(json)) => Some(TaskOutcome::Result(json)),
            (Some(1), Some(json)) => Some(TaskOutcome::ToolError(json)),
            (Some(2), Some(json)) => Some(TaskOutcome::Error(json)),
            (Some(3), None) => Some(TaskOutcome::Stopped),
            (_, _) => return Err(unreadable("unknown kind of outcome")),
        },
        cancel: cancel(cells)?,
        runner: cells.next()?,
        attempt: cells.next()?,
        revision: TaskRevision(cells.count()?),
    })
}

fn summary(cells: &mut Cells<'_>) -> rusqlite::Result<TaskSummary> {
    Ok(TaskSummary {
        id: cells.id()?,
        dialect: match cells.next()? {
            0 => TaskDialect::November2025,
            1 => TaskDialect::Extension,
            other => return Err(unreadable(&format!("unknown dialect {other}"))),
        },
        status: Status::named(cells.text()?).ok_or_else(|| unreadable("unknown status"))?,
        message: cells.next()?,
        created: Timestamp(cells.count()?),
        updated: Timestamp(cells.count()?),
        ttl: cells.span()?,
        poll_interval: cells.span()?,
    })
}

fn cancel(cells: &mut Cells<'_>) -> rusqlite::Result<Option<CancelRecord>> {
    let [code, root, text]: [Option<String>; 3] = [cells.next()?, cells.next()?, cells.next()?];
    let at: Option<i64> = cells.next()?;
    let Some(code) = code else { return Ok(None) };
    let mut cause = Cause::new(cause_code(&code)?);
    cause.root = root.map(|root| cause_code(&root)).transpose()?;
    if let Some(text) = text {
        cause = cause.with_text(&text);
    }
    Ok(Some(CancelRecord { cause, at: Timestamp(at.unwrap_or_default().unsigned_abs()) }))
}

fn cause_code(word: &str) -> rusqlite::Result<CauseCode> {
    use CauseCode as C;
    [C::Caller, C::Timeout, C::Parent, C::Disconnect, C::Shutdown, C::Operator, C::Policy]
        .into_iter()
        .find(|code| code.as_str() == word)
        .ok_or_else(|| unreadable("unknown cause"))
}

/// The prefix of a named owner. It tells an empty name from no owner.
const NAMED: char = '=';

pub(super) fn owner_text(owner: &Owner) -> String {
    owner.name().map_or_else(String::new, |name| format!("{NAMED}{name}"))
}

const fn dialect_number(dialect: TaskDialect) -> i64 {
    match dialect {
        TaskDialect::November2025 => 0,
        TaskDialect::Extension => 1,
    }
}

const fn outcome_number(outcome: &TaskOutcome) -> i64 {
    match outcome {
        TaskOutcome::Result(_) => 0,
        TaskOutcome::ToolError(_) => 1,
        TaskOutcome::Error(_) => 2,
        TaskOutcome::Stopped => 3,
    }
}

fn inputs_text(inputs: &Inputs) -> rusqlite::Result<String> {
    serde_json::to_string(inputs).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn inputs_of(text: &str) -> rusqlite::Result<Inputs> {
    serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))
}

/// Converts to SQLite's integers. Larger times are as good as unlimited.
pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The error for a row that this library did not write.
fn unreadable(what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, FromSqlError::Other(what.into()).into())
}
