//! The file of a store: what is refused, in words, and that nothing is lost by it.

use std::{
    fs,
    path::Path,
    task::{Context, Waker},
    time::Duration,
};

use rescind_tasks::{
    Json, NewTask, Owner, SqliteOptions, SqliteStore, Status, StoreFaultKind, TaskDialect, TaskError, TaskOutcome,
    TaskRequest, TaskStore,
};
use rusqlite::Connection;

fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file, SqliteOptions::default()).unwrap()
}

fn refusal(file: &Path) -> (StoreFaultKind, String) {
    let fault = SqliteStore::open(file, SqliteOptions::default()).unwrap_err();
    assert!(fault.to_string().contains(file.file_name().unwrap().to_str().unwrap()), "{fault}");
    (fault.kind(), fault.to_string())
}

fn kind<T>(refused: Result<T, TaskError>) -> Option<StoreFaultKind> {
    match refused {
        Err(TaskError::Store(fault)) => Some(fault.kind()),
        Err(_) | Ok(_) => None,
    }
}

fn new(bytes: usize) -> NewTask {
    let params = Json::parse(&format!("\"{}\"", "x".repeat(bytes))).unwrap();
    NewTask {
        owner: Owner::NONE,
        dialect: TaskDialect::November2025,
        request: TaskRequest { method: "tools/call".into(), params: Some(params), meta: None },
        ttl: None,
        poll_interval: None,
        message: None,
    }
}

fn result() -> TaskOutcome {
    TaskOutcome::Result(Json::parse("{}").unwrap())
}

/// Case 60, TASK-23: an orderly end is no loss either.
#[tokio::test]
async fn an_answered_step_is_there_when_the_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let store = open(&file);
    let mut run = store.create(new(10)).await.unwrap();
    run.finish(result(), Some("done")).await.unwrap();
    let before = run.task().clone();
    let left = store.create(new(10)).await.unwrap();
    let left_id = left.task().summary.id.clone();
    left.release().await.unwrap();
    drop((store, run));
    assert_eq!(fs::read_dir(folder.path().join("tasks.db.runners")).unwrap().count(), 2, "its own files are gone");

    let store = open(&file);
    assert_eq!(store.task(&Owner::NONE, &before.summary.id).await.unwrap(), before);
    let mut runs = store.recover().await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].task().summary.id, left_id);
    runs[0].finish(result(), None).await.unwrap();
}

/// A process whose lock was deleted from under it is taken for dead: its work stops, and cannot spoil the next one's.
/// Windows does not delete what is open.
#[cfg(unix)]
#[tokio::test]
async fn a_process_taken_for_dead_stops_its_work_and_can_write_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let store = open(&file);
    let mut run = store.create(new(10)).await.unwrap();
    for left in fs::read_dir(folder.path().join("tasks.db.runners")).unwrap() {
        let left = left.unwrap().path();
        if left.extension().is_some_and(|kind| kind == "lock") {
            fs::remove_file(left).unwrap();
        }
    }
    let other = open(&file);
    let mut next = other.recover().await.unwrap().remove(0);
    assert_eq!(run.cancelled().await.cause.code, rescind_tasks::CauseCode::Disconnect);
    assert!(matches!(run.finish(result(), None).await, Err(TaskError::Superseded)));
    assert!(!next.is_cancelled());
    drop(run);
    next.finish(result(), None).await.unwrap();
    let task = other.task(&Owner::NONE, &next.task().summary.id).await.unwrap();
    assert_eq!((task.summary.status, task.cancel), (Status::Completed, None));
}

/// A run that is dropped last has its end written before the store is gone.
#[tokio::test]
async fn dropping_the_last_clone_writes_every_pending_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let store = open(&file);
    let run = store.create(new(10)).await.unwrap();
    let id = run.task().summary.id.clone();
    drop(store);
    drop(run);
    let task = open(&file).task(&Owner::NONE, &id).await.unwrap();
    assert_eq!((task.summary.status, task.is_settled()), (Status::Failed, true));
}

#[cfg(unix)]
#[test]
fn only_their_user_can_access_the_file_and_its_folder() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let _store = open(&file);
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        ["tasks.db", "tasks.db-wal", "tasks.db-shm", "tasks.db.runners"].map(mode),
        [0o600, 0o600, 0o600, 0o700]
    );
}

#[test]
fn a_later_schema_is_rejected_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    drop(open(&file));
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let before = fs::read(&file).unwrap();
    let (kind, words) = refusal(&file);
    assert_eq!(kind, StoreFaultKind::Newer);
    assert!(words.contains("schema 2, but this version reads 1"), "{words}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn the_database_of_another_program_is_rejected_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE note (words TEXT)").unwrap();
    let before = fs::read(&file).unwrap();
    assert_eq!(refusal(&file).0, StoreFaultKind::Foreign);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_file_that_is_not_a_database_is_rejected_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.txt");
    let letter = "no database at all, ".repeat(1000);
    fs::write(&file, &letter).unwrap();
    assert_eq!(refusal(&file).0, StoreFaultKind::Corrupt);
    assert_eq!(fs::read_to_string(&file).unwrap(), letter);
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refusal(&folder.path().join("none/tasks.db")).0, StoreFaultKind::Io);
    let of_folder = if cfg!(windows) { StoreFaultKind::ReadOnly } else { StoreFaultKind::Io };
    assert_eq!(refusal(folder.path()).0, of_folder);
}

#[tokio::test]
async fn a_damaged_page_is_reported_and_the_other_tasks_stay() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let store = open(&file);
    let mut run = store.create(new(10)).await.unwrap();
    run.finish(result(), None).await.unwrap();
    let id = run.task().summary.id.clone();
    drop((run, store));
    let raw = Connection::open(&file).unwrap();
    raw.execute(
        "INSERT INTO task (number, id, owner, dialect, status, created, updated, attempt, revision, change, method)
         VALUES (99, 'odd', '', 0, 'dancing', 0, 0, 1, 1, 99, 'x')",
        [],
    )
    .unwrap();
    drop(raw);
    let store = open(&file);
    let odd = rescind_tasks::TaskId::received("odd");
    assert_eq!(kind(store.task(&Owner::NONE, &odd).await), Some(StoreFaultKind::Corrupt));
    assert_eq!(store.task(&Owner::NONE, &id).await.unwrap().summary.status, Status::Completed);
}

#[tokio::test]
async fn while_another_program_holds_the_file_steps_fail_and_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let options = SqliteOptions { busy_timeout: Duration::ZERO, ..SqliteOptions::default() };
    let store = SqliteStore::open(&file, options).unwrap();
    let mut run = store.create(new(10)).await.unwrap();
    let id = run.task().summary.id.clone();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(kind(store.create(new(10)).await), Some(StoreFaultKind::Busy));
    assert_eq!(kind(run.finish(result(), None).await), Some(StoreFaultKind::Busy));
    assert_eq!(store.task(&Owner::NONE, &id).await.unwrap().summary.status, Status::Working);
    other.execute_batch("ROLLBACK").unwrap();
    run.finish(result(), None).await.unwrap();
    let page = store.list(&Owner::NONE, TaskDialect::November2025, None, 10).await.unwrap();
    assert_eq!(page.tasks.len(), 1, "what was refused was not made");
}

/// Returns the number of transactions in the write-ahead log of a new file.
fn transactions(file: &Path) -> usize {
    let log = fs::read(file.with_extension("db-wal")).unwrap();
    let page = u32::from_be_bytes(log[8..12].try_into().unwrap());
    let frames = log[32..].chunks(24 + usize::try_from(page).unwrap());
    // The last frame of each has the size of the database.
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn what_waits_while_nothing_can_be_written_shares_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let store = open(&file);
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut creating: Vec<_> = (0..64).map(|_| store.create(new(10))).collect();
    for creating in &mut creating {
        assert!(creating.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    other.execute_batch("ROLLBACK").unwrap();
    let mut runs = Vec::new();
    for creating in creating {
        runs.push(creating.await.unwrap());
    }
    // The writer may have taken up the first of them before it saw the next.
    assert!((1..=2).contains(&transactions(&file)), "{}", transactions(&file));
}

#[tokio::test]
async fn a_full_file_rejects_new_data_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let options = SqliteOptions { file_bytes: 256 << 10, ..SqliteOptions::default() };
    let store = SqliteStore::open(&file, options).unwrap();
    let mut runs = Vec::new();
    let full = loop {
        match store.create(new(5000)).await {
            Ok(run) => runs.push(run),
            refused => break kind(refused),
        }
    };
    assert_eq!(full, Some(StoreFaultKind::Full));
    assert!(runs.len() > 10);
    // Of those that come together each is judged by itself.
    let (small, large) = tokio::join!(store.create(new(1)), store.create(new(100_000)));
    assert_eq!(kind(large), Some(StoreFaultKind::Full));
    runs.extend(small);
    for store in [&store, &open(&file)] {
        let page = store.list(&Owner::NONE, TaskDialect::November2025, None, 100).await.unwrap();
        assert_eq!(page.tasks.len(), runs.len());
    }
    for mut run in runs {
        run.finish(result(), None).await.unwrap();
    }
}
