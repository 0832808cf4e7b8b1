//! A cancel in one process, the work in another.

use std::{fs, path::Path};

use rescind_tasks::{
    Access, CancelEffect, Cause, CauseCode, Owner, SqliteOptions, SqliteStore, Status, TaskDialect, TaskId, TaskStore,
};

use super::child::{Process, Role, block_on};

/// Case 52, TASK-05: the work says itself that it stopped, and why.
#[test]
fn a_cancel_stops_the_work_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    cancel_elsewhere(&folder.path().join("tasks.db"), Role::Worker, || {});
}

/// A doorbell may be lost; then the slow check finds the cancel.
#[test]
fn a_cancel_stops_the_work_in_another_process_without_its_doorbell() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let doorbells = folder.path().join("tasks.db.runners");
    cancel_elsewhere(&file, Role::SlowWorker, || {
        let files = fs::read_dir(&doorbells).unwrap().map(|file| file.unwrap().path());
        let bells: Vec<_> = files.filter(|file| file.extension().is_some_and(|kind| kind == "bell")).collect();
        assert!(!bells.is_empty());
        bells.iter().for_each(|bell| fs::remove_file(bell).unwrap());
    });
}

/// An address of a socket holds a hundred bytes or so.
#[cfg(unix)]
#[test]
fn a_cancel_reaches_another_process_whatever_the_length_of_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    cancel_elsewhere(&deep.join("tasks.db"), Role::Worker, || {});
}

fn cancel_elsewhere(file: &Path, role: fn(TaskDialect) -> Role, before: impl Fn()) {
    let store = SqliteStore::open(file, SqliteOptions::default()).unwrap();
    for dialect in [TaskDialect::November2025, TaskDialect::Extension] {
        let mut worker = Process::start(role(dialect), file);
        let made = worker.says().unwrap();
        let id = TaskId::received(&made[1]);
        before();
        let cause = Cause::new(CauseCode::Operator).with_text("enough");
        assert!(matches!(block_on(store.cancel(Access::Operator, &id, cause)).unwrap(), CancelEffect::Recorded(_)));
        assert_eq!(worker.says().unwrap(), ["stopped", "operator", "enough"]);
        assert_eq!(worker.says().unwrap(), ["ended"]);
        let task = block_on(store.task(&Owner::NONE, &id)).unwrap();
        assert_eq!((task.summary.status, task.is_settled()), (Status::Cancelled, true));
    }
}
