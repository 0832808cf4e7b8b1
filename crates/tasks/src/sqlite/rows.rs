//! Tasks as rows.

use std::{sync::Arc, time::Duration};

use rescind_proto::cause::{Cause, CauseCode};
use rusqlite::{
    Connection, OptionalExtension, Row, named_params,
    types::{FromSql, FromSqlError, Type},
};

use crate::{
    id::TaskId,
    input::Inputs,
    json::Json,
    outcome::TaskOutcome,
    owner::Owner,
    status::Status,
    subscribers::TaskUpdate,
    task::{CancelRecord, Task, TaskDialect, TaskRequest, TaskRevision, TaskSummary},
    time::{Timestamp, millis},
};

const SUMMARY: &str = "id, dialect, status, message, created, updated, ttl, poll";

/// Loads a task and its number.
pub(super) fn load(database: &Connection, id: &TaskId) -> rusqlite::Result<Option<(i64, Task)>> {
    let mut select = database.prepare_cached("SELECT * FROM task JOIN request USING (number) WHERE id = ?1")?;
    select.query_row([id.as_str()], |row| Ok((row.get("number")?, task(row)?))).optional()
}

pub(super) fn insert(database: &Connection, change: i64, task: &Task) -> rusqlite::Result<()> {
    let Task { summary, owner, request, .. } = task;
    database
        .prepare_cached(
            "INSERT INTO task (number, id, owner, dialect, status, message, created, updated, ttl, expires, poll,
                               runner, attempt, revision, change)
             VALUES (:change, :id, :owner, :dialect, :status, :message, :created, :updated, :ttl, :expires, :poll,
                     :runner, :attempt, :revision, :change)",
        )?
        .execute(named_params! {
            ":change": change,
            ":id": summary.id.as_str(),
            ":owner": owner_text(owner),
            ":dialect": dialect_number(summary.dialect),
            ":status": summary.status.as_str(),
            ":message": summary.message,
            ":created": whole(summary.created.0),
            ":updated": whole(summary.updated.0),
            ":ttl": summary.ttl.map(|ttl| whole(millis(ttl))),
            ":expires": summary.expires().map(|expires| whole(expires.0)),
            ":poll": summary.poll_interval.map(|every| whole(millis(every))),
            ":runner": task.runner,
            ":attempt": task.attempt,
            ":revision": whole(task.revision.0),
        })?;
    database.prepare_cached("INSERT INTO request VALUES (?1, ?2, ?3, ?4)")?.execute((
        change,
        &request.method,
        request.params.as_ref().map(Json::as_str),
        request.meta.as_ref().map(Json::as_str),
    ))?;
    Ok(())
}

/// Writes the columns that can change.
pub(super) fn update(database: &Connection, number: i64, change: i64, task: &Task) -> rusqlite::Result<()> {
    let (cause, at) = task.cancel.as_ref().map(|cancel| (&cancel.cause, cancel.at)).unzip();
    let inputs = if task.inputs.is_empty() { None } else { Some(inputs_text(&task.inputs)?) };
    database
        .prepare_cached(
            "UPDATE task SET status = :status, message = :message, updated = :updated, runner = :runner,
                 attempt = :attempt, revision = :revision, change = :change, cancel_code = :code, cancel_root = :root,
                 cancel_text = :text, cancelled = :cancelled, inputs = :inputs, outcome_kind = :kind, outcome = :outcome
             WHERE number = :number",
        )?
        .execute(named_params! {
            ":number": number,
            ":status": task.summary.status.as_str(),
            ":message": task.summary.message,
            ":updated": whole(task.summary.updated.0),
            ":runner": task.runner,
            ":attempt": task.attempt,
            ":revision": whole(task.revision.0),
            ":change": change,
            ":code": cause.map(|cause| cause.code.as_str()),
            ":root": cause.and_then(|cause| cause.root).map(CauseCode::as_str),
            ":text": cause.and_then(Cause::text),
            ":cancelled": at.map(|at| whole(at.0)),
            ":inputs": inputs,
            ":kind": task.outcome.as_ref().map(outcome_number),
            ":outcome": task.outcome.as_ref().and_then(TaskOutcome::json).map(Json::as_str),
        })?;
    Ok(())
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
    let found = select
        .query_map((owner_text(owner), dialect_number(dialect), after, whole(now.0), at_most), |row| {
            Ok((row.get("number")?, summary(row)?))
        })?;
    found.collect()
}

/// Loads the updates after `change`, and the last change of the file.
pub(super) fn updates_after(database: &Connection, change: i64) -> rusqlite::Result<(i64, Vec<TaskUpdate>)> {
    let last = last_change(database)?;
    let mut select =
        database.prepare_cached("SELECT * FROM task WHERE change > ?1 AND change <= ?2 ORDER BY change")?;
    let found = select.query_map([change, last], |row| {
        Ok(TaskUpdate {
            id: TaskId::received(row.get_ref("id")?.as_str()?),
            revision: TaskRevision(count(row, "revision")?),
            attempt: row.get("attempt")?,
            has_runner: row.get::<_, Option<String>>("runner")?.is_some(),
            cancel: cancel(row)?,
        })
    })?;
    Ok((last, found.collect::<Result<_, _>>()?))
}

pub(super) fn last_change(database: &Connection) -> rusqlite::Result<i64> {
    database.prepare_cached("SELECT change FROM counter")?.query_row([], |row| row.get(0))
}

fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let json = |column| row.get::<_, Option<String>>(column).map(|text| text.map(Json::stored));
    let inputs: Option<String> = row.get("inputs")?;
    Ok(Task {
        summary: summary(row)?,
        owner: match row.get_ref("owner")?.as_str()?.strip_prefix(NAMED) {
            Some(name) => Owner::named(name),
            None => Owner::NONE,
        },
        request: TaskRequest { method: row.get("method")?, params: json("params")?, meta: json("meta")? },
        inputs: inputs.map(|text| inputs_of(&text)).transpose()?.unwrap_or_default(),
        outcome: match (row.get::<_, Option<i64>>("outcome_kind")?, json("outcome")?) {
            (None, None) => None,
            (Some(0), Some(json)) => Some(TaskOutcome::Result(json)),
            (Some(1), Some(json)) => Some(TaskOutcome::ToolError(json)),
            (Some(2), Some(json)) => Some(TaskOutcome::Error(json)),
            (Some(3), None) => Some(TaskOutcome::Stopped),
            (_, _) => return Err(unreadable("unknown kind of outcome")),
        },
        cancel: cancel(row)?,
        runner: row.get("runner")?,
        attempt: row.get("attempt")?,
        revision: TaskRevision(count(row, "revision")?),
    })
}

fn summary(row: &Row<'_>) -> rusqlite::Result<TaskSummary> {
    let span = |column| optional::<i64>(row, column).map(|it| it.map(|it| Duration::from_millis(it.unsigned_abs())));
    Ok(TaskSummary {
        id: TaskId::received(row.get_ref("id")?.as_str()?),
        dialect: match row.get("dialect")? {
            0 => TaskDialect::November2025,
            1 => TaskDialect::Extension,
            other => return Err(unreadable(&format!("unknown dialect {other}"))),
        },
        status: Status::named(row.get_ref("status")?.as_str()?).ok_or_else(|| unreadable("unknown status"))?,
        message: row.get::<_, Option<Arc<str>>>("message")?,
        created: Timestamp(count(row, "created")?),
        updated: Timestamp(count(row, "updated")?),
        ttl: span("ttl")?,
        poll_interval: span("poll")?,
    })
}

fn cancel(row: &Row<'_>) -> rusqlite::Result<Option<CancelRecord>> {
    let Some(code) = optional::<String>(row, "cancel_code")? else { return Ok(None) };
    let root: Option<String> = row.get("cancel_root")?;
    let text: Option<String> = row.get("cancel_text")?;
    let mut cause = Cause::new(cause_code(&code)?);
    cause.root = root.map(|root| cause_code(&root)).transpose()?;
    if let Some(text) = text {
        cause = cause.with_text(&text);
    }
    Ok(Some(CancelRecord { cause, at: Timestamp(count(row, "cancelled")?) }))
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

fn optional<T: FromSql>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    row.get(column)
}

fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

/// Converts to SQLite's integers. Larger times are as good as unlimited.
pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The error for a row that this library did not write.
fn unreadable(what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, FromSqlError::Other(what.into()).into())
}
