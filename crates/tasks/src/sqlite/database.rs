//! The database file: its schema, how it is opened, the meaning of its errors.

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use crate::{
    error::{StoreFault, StoreFaultKind},
    sqlite::rows,
};

/// The application id in the file's header, `rscn`. It tells our databases from others.
const APPLICATION: i64 = 0x7273_636e;

/// The schema that this library reads and writes.
const SCHEMA: i64 = 1;

/// `change` counts every change of the file; other processes find updates by it. The `number` of a task is the change
/// that created it, and so gives lists their order. `counter` keeps the last change when tasks were last deleted.
///
/// Each page that a commit changes is written twice, so a commit should change few. A task that has not changed since its
/// creation is not in the index of changes, since other processes do not wait for it. A small request is in the row of its
/// task; a large one is in a table of its own, so that a change of status does not write it again. `owner` keeps the number
/// of tasks, since counting them takes longer with each.
const TABLES: &str = "
    CREATE TABLE task (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, dialect INTEGER NOT NULL,
        status TEXT NOT NULL, message TEXT,
        created INTEGER NOT NULL, updated INTEGER NOT NULL, ttl INTEGER, expires INTEGER, poll INTEGER,
        runner TEXT, attempt INTEGER NOT NULL, revision INTEGER NOT NULL, change INTEGER NOT NULL,
        cancel_code TEXT, cancel_root TEXT, cancel_text TEXT, cancelled INTEGER,
        inputs TEXT, outcome_kind INTEGER, outcome TEXT,
        method TEXT NOT NULL, params TEXT, meta TEXT
    ) STRICT;
    CREATE INDEX task_by_owner ON task (owner, dialect, number);
    CREATE INDEX task_by_change ON task (change) WHERE change > number;
    CREATE INDEX task_by_expiry ON task (expires) WHERE expires IS NOT NULL;
    CREATE INDEX task_by_runner ON task (runner) WHERE runner IS NOT NULL;
    CREATE INDEX task_left ON task (number) WHERE runner IS NULL AND status IN ('working', 'input_required');
    CREATE TABLE request (number INTEGER PRIMARY KEY, params TEXT, meta TEXT) STRICT;
    CREATE TABLE owner (name TEXT PRIMARY KEY, tasks INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE counter (change INTEGER NOT NULL) STRICT;
    INSERT INTO counter VALUES (0);
";

/// Creates the file, accessible to its user alone (on Windows: to those who may use its folder), unless it exists. Returns its canonical path, by which processes find
/// each other.
pub(super) fn locate(path: &Path) -> Result<PathBuf, StoreFault> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.append(true).create(true).open(path) {
        Ok(_) => {}
        // SQLite reports whether a read-only file can be used.
        Err(_) if path.is_file() => {}
        Err(error) => return Err(at(path, &error)),
    }
    path.canonicalize().map_err(|error| at(path, &error))
}

/// Converts an error of the file system at `path`.
pub(super) fn at(path: &Path, error: &io::Error) -> StoreFault {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the kinds of the standard library grow")]
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreFaultKind::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreFaultKind::Full,
        _ => StoreFaultKind::Io,
    };
    StoreFault::new(kind, format!("{}: {error}", path.display()))
}

/// Opens a database of ours, and creates the schema if the file is empty.
pub(super) fn open(path: &Path, busy: Duration, bytes: u64) -> Result<Connection, StoreFault> {
    connect(path, busy, bytes).map_err(|fault| StoreFault::new(fault.kind(), format!("{}: {fault}", path.display())))
}

fn connect(path: &Path, busy: Duration, bytes: u64) -> Result<Connection, StoreFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags).map_err(fault)?;
    database.busy_timeout(busy).map_err(fault)?;
    // Checked before any change: the file may be another program's.
    if header(&database).map_err(fault)? != (APPLICATION, SCHEMA) {
        let made = database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
        match header(&made).map_err(fault)? {
            (APPLICATION, SCHEMA) => {}
            (0, 0) if is_empty(&made).map_err(fault)? => {
                made.execute_batch(TABLES).map_err(fault)?;
                made.pragma_update(None, "application_id", APPLICATION).map_err(fault)?;
                made.pragma_update(None, "user_version", SCHEMA).map_err(fault)?;
                made.commit().map_err(fault)?;
            }
            (APPLICATION, newer) => {
                return Err(StoreFault::new(
                    StoreFaultKind::Newer,
                    format!("schema {newer}, but this version reads {SCHEMA}"),
                ));
            }
            (other, _) => return Err(StoreFault::new(StoreFaultKind::Foreign, format!("application id {other:#x}"))),
        }
    }
    let journal: String =
        database.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(fault)?;
    if !journal.eq_ignore_ascii_case("wal") {
        return Err(StoreFault::new(StoreFaultKind::Io, format!("no write-ahead log, only {journal}")));
    }
    // A commit survives even a power cut (TASK-23).
    database.pragma_update(None, "synchronous", "full").map_err(fault)?;
    database.pragma_update(None, "journal_size_limit", 64 << 20).map_err(fault)?;
    // A page that many commits change is copied into the file once, and the two waits for the disk are rare.
    database.pragma_update_and_check(None, "wal_autocheckpoint", 4096, |_| Ok(())).map_err(fault)?;
    let page: i64 = database.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(fault)?;
    let pages = rows::whole(bytes) / page.max(1);
    // The pragma returns the new value.
    database.pragma_update_and_check(None, "max_page_count", pages.clamp(1, 0xffff_fffe), |_| Ok(())).map_err(fault)?;
    database.set_prepared_statement_cache_capacity(64);
    Ok(database)
}

fn header(database: &Connection) -> rusqlite::Result<(i64, i64)> {
    let of = |name: &str| database.pragma_query_value(None, name, |row| row.get(0));
    Ok((of("application_id")?, of("user_version")?))
}

fn is_empty(database: &Connection) -> rusqlite::Result<bool> {
    database.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Converts an error of SQLite.
pub(super) fn fault(error: rusqlite::Error) -> StoreFault {
    StoreFault::new(kind(&error), error)
}

pub(super) fn kind(error: &rusqlite::Error) -> StoreFaultKind {
    use rusqlite::Error as E;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the codes of SQLite, and those of its binding, grow")]
    match error {
        E::SqliteFailure(ffi::Error { code, .. }, _) => match code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreFaultKind::Busy,
            ErrorCode::DiskFull => StoreFaultKind::Full,
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreFaultKind::ReadOnly,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreFaultKind::Corrupt,
            ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed => {
                StoreFaultKind::Io
            }
            _ => StoreFaultKind::Internal,
        },
        // Not a row that this library wrote.
        E::FromSqlConversionFailure(..) | E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..) => {
            StoreFaultKind::Corrupt
        }
        _ => StoreFaultKind::Internal,
    }
}
