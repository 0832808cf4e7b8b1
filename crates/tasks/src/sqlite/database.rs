//! The file: how it is opened, what is in it, what its faults mean.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use crate::{
    error::{Fault, FaultKind},
    sqlite::rows,
};

/// What this library writes into the file's header, so that no other database is taken for one of ours: `rscn`.
const APPLICATION: i64 = 0x7273_636e;

/// The schema that this library reads and writes.
const SCHEMA: i64 = 1;

/// `change` counts every change of the file, and is what the other processes learn news by; the `number` of a task is
/// the change that made it, and so the order of lists. What a task was asked stands apart, so that a change of status
/// does not write it again. `owner` counts tasks, since counting them anew takes longer with each.
const TABLES: &str = "
    CREATE TABLE task (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, dialect INTEGER NOT NULL,
        status TEXT NOT NULL, message TEXT,
        created INTEGER NOT NULL, updated INTEGER NOT NULL, ttl INTEGER, expires INTEGER, poll INTEGER,
        runner TEXT, attempt INTEGER NOT NULL, revision INTEGER NOT NULL, change INTEGER NOT NULL,
        cancel_code TEXT, cancel_root TEXT, cancel_text TEXT, cancelled INTEGER,
        inputs TEXT, outcome_kind INTEGER, outcome TEXT
    ) STRICT;
    CREATE INDEX task_by_owner ON task (owner, dialect, number);
    CREATE INDEX task_by_change ON task (change);
    CREATE INDEX task_by_expiry ON task (expires) WHERE expires IS NOT NULL;
    CREATE INDEX task_by_runner ON task (runner) WHERE runner IS NOT NULL;
    CREATE INDEX task_left ON task (number) WHERE runner IS NULL AND status IN ('working', 'input_required');
    CREATE TABLE request (number INTEGER PRIMARY KEY, method TEXT NOT NULL, params TEXT, meta TEXT) STRICT;
    CREATE TABLE owner (name TEXT PRIMARY KEY, tasks INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE counter (change INTEGER NOT NULL) STRICT;
    INSERT INTO counter VALUES (0);
";

/// Creates the file, readable to its user alone, unless it exists; its one true path, by which processes find each
/// other.
pub(super) fn settle(path: &Path) -> Result<PathBuf, Fault> {
    let create = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    match create {
        Ok(_) => {}
        // SQLite will say what can be done with a file that cannot be written.
        Err(_) if path.is_file() => {}
        Err(error) => return Err(at(path, &error)),
    }
    path.canonicalize().map_err(|error| at(path, &error))
}

/// A fault of the file system at `path`.
pub(super) fn at(path: &Path, error: &io::Error) -> Fault {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the kinds of the standard library grow")]
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FaultKind::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FaultKind::Full,
        _ => FaultKind::Io,
    };
    Fault::new(kind, format!("{}: {error}", path.display()))
}

/// A connection to a database of ours, whose schema is made if the file is empty.
pub(super) fn open(path: &Path, busy: Duration, bytes: u64) -> Result<Connection, Fault> {
    connect(path, busy, bytes).map_err(|fault| Fault::new(fault.kind(), format!("{}: {fault}", path.display())))
}

fn connect(path: &Path, busy: Duration, bytes: u64) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags).map_err(fault)?;
    database.busy_timeout(busy).map_err(fault)?;
    // Looked at before anything is changed: it may be somebody else's.
    if marks(&database).map_err(fault)? != (APPLICATION, SCHEMA) {
        let made = database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
        match marks(&made).map_err(fault)? {
            (APPLICATION, SCHEMA) => {}
            (0, 0) if is_empty(&made).map_err(fault)? => {
                made.execute_batch(TABLES).map_err(fault)?;
                made.pragma_update(None, "application_id", APPLICATION).map_err(fault)?;
                made.pragma_update(None, "user_version", SCHEMA).map_err(fault)?;
                made.commit().map_err(fault)?;
            }
            (APPLICATION, newer) => {
                return Err(Fault::new(FaultKind::Newer, format!("schema {newer}, and {SCHEMA} is known")));
            }
            (other, _) => return Err(Fault::new(FaultKind::Foreign, format!("application {other:#x}"))),
        }
    }
    let journal: String =
        database.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(fault)?;
    if !journal.eq_ignore_ascii_case("wal") {
        return Err(Fault::new(FaultKind::Io, format!("no write-ahead log here, only {journal}")));
    }
    // Lasting when a transaction returns, the power cut included (TASK-23).
    database.pragma_update(None, "synchronous", "full").map_err(fault)?;
    database.pragma_update(None, "journal_size_limit", 64 << 20).map_err(fault)?;
    let page: i64 = database.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(fault)?;
    let pages = rows::whole(bytes) / page.max(1);
    // The pragma answers with what it is now.
    database.pragma_update_and_check(None, "max_page_count", pages.clamp(1, 0xffff_fffe), |_| Ok(())).map_err(fault)?;
    database.set_prepared_statement_cache_capacity(64);
    Ok(database)
}

fn marks(database: &Connection) -> rusqlite::Result<(i64, i64)> {
    let of = |name: &str| database.pragma_query_value(None, name, |row| row.get(0));
    Ok((of("application_id")?, of("user_version")?))
}

fn is_empty(database: &Connection) -> rusqlite::Result<bool> {
    database.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// What a fault of SQLite means.
pub(super) fn fault(error: rusqlite::Error) -> Fault {
    Fault::new(kind(&error), error)
}

pub(super) fn kind(error: &rusqlite::Error) -> FaultKind {
    use rusqlite::Error as E;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the codes of SQLite, and those of its binding, grow")]
    match error {
        E::SqliteFailure(ffi::Error { code, .. }, _) => match code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => FaultKind::Busy,
            ErrorCode::DiskFull => FaultKind::Full,
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => FaultKind::ReadOnly,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => FaultKind::Corrupt,
            ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed => FaultKind::Io,
            _ => FaultKind::Internal,
        },
        // A row that we would not have written.
        E::FromSqlConversionFailure(..) | E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..) => {
            FaultKind::Corrupt
        }
        _ => FaultKind::Internal,
    }
}
