//! `kill -9` at random points.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::RandomState},
    env, fs,
    hash::{BuildHasher, Hasher},
    path::Path,
    thread,
};

use rescind_tasks::{
    Owner, SqliteOptions, SqliteStore, Status, StoreLimits, TaskDialect, TaskId, TaskOutcome, TaskStore, TaskSummary,
};

use super::child::{Dice, Process, Role, block_on, json};

/// Case 60, TASK-23, TASK-04: no task whose id was told is lost, none stays `working`, none leaves its end.
#[test]
fn two_hundred_kills_lose_no_task_and_leave_none_working() {
    let seed = env::var("RESCIND_SEED")
        .map_or_else(|_| RandomState::new().build_hasher().finish(), |seed| seed.parse().unwrap());
    #[expect(clippy::print_stdout, reason = "shown when the test fails")]
    {
        println!("RESCIND_SEED={seed}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let store = open(&file);
    let mut dice = Dice(seed);
    let mut interrupted = 0;
    for kill in 0..200 {
        interrupted += kill_once(&store, &file, seed.wrapping_add(kill), 1 + dice.roll(30));
    }
    assert!(interrupted > 200, "{interrupted} tasks were interrupted: too few to show anything");

    // What the dead left beside the file is cleared away by whoever opens it next.
    let other = open(&file);
    let left = fs::read_dir(folder.path().join("tasks.db.runners")).unwrap().count();
    assert_eq!(left, 6, "two files of each of two, and two of all");
    drop(other);
}

/// One child, killed after it said that much; how many of its tasks were interrupted.
fn kill_once(store: &SqliteStore, file: &Path, seed: u64, lines: u64) -> usize {
    let (mut made, mut ended) = (BTreeSet::new(), BTreeMap::new());
    let mut child = Process::start(Role::Storm(seed), file);
    let mut heed = |words: Vec<String>| match &words[..] {
        [what, id] if what == "made" => {
            made.insert(TaskId::received(id));
        }
        [what, id, status] if what == "ended" => {
            ended.insert(TaskId::received(id), Status::named(status).unwrap());
        }
        _ => panic!("{words:?}"),
    };
    for _ in 0..lines {
        heed(child.says().unwrap());
    }
    child.kill();
    // What it said before it died holds as well.
    while let Some(words) = child.says() {
        heed(words);
    }

    let owner = Owner::named(&seed.to_string());
    let before: BTreeMap<_, _> = tasks(store, &owner).into_iter().map(|task| (task.id, task.status)).collect();
    assert!(made.iter().all(|id| before.contains_key(id)), "a task is lost");
    let resumed = block_on(store.recover()).unwrap();
    let resumed: BTreeMap<_, _> = resumed.into_iter().map(|run| (run.task().summary.id.clone(), run)).collect();
    assert!(block_on(store.recover()).unwrap().is_empty(), "handed out twice");
    for (id, status) in &ended {
        assert_eq!(before[id], *status, "an end that was told is gone");
        assert!(!resumed.contains_key(id), "resurrected");
    }
    for task in tasks(store, &owner) {
        let is_resumed = resumed.contains_key(&task.id);
        assert_eq!(task.status.is_terminal(), !is_resumed, "{task:?}");
        if before[&task.id].is_terminal() {
            assert_eq!(task.status, before[&task.id], "a terminal status was left");
        }
    }
    let interrupted = resumed.len();
    for (_, mut run) in resumed {
        block_on(run.finish(TaskOutcome::Error(json(r#"{"code":-32603,"message":"interrupted"}"#)), None)).unwrap();
    }
    for task in tasks(store, &owner) {
        let task = block_on(store.task(&owner, &task.id)).unwrap();
        assert!(task.is_settled(), "{task:?}");
    }
    interrupted
}

/// Case 60: each interrupted task goes to one of those who ask, and to no other.
#[test]
fn each_task_of_a_dead_process_is_recovered_by_one_of_two() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let stores = [open(&file), open(&file)];
    let mut busy = Process::start(Role::Busy, &file);
    let made: BTreeSet<_> = (0..3).map(|_| TaskId::received(&busy.says().unwrap()[1])).collect();
    assert!(block_on(stores[0].recover()).unwrap().is_empty(), "it lives");
    busy.kill();
    let recovering = stores.map(|store| thread::spawn(move || block_on(store.recover()).unwrap()));
    let runs: Vec<_> = recovering.into_iter().flat_map(|runs| runs.join().unwrap()).collect();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs.iter().map(|run| run.task().summary.id.clone()).collect::<BTreeSet<_>>(), made);
    assert!(runs.iter().all(|run| run.task().attempt == 2));
}

fn open(file: &Path) -> SqliteStore {
    let limits = StoreLimits { tasks_per_owner: u32::MAX, ..StoreLimits::default() };
    SqliteStore::open(file, SqliteOptions { limits, ..SqliteOptions::default() }).unwrap()
}

fn tasks(store: &SqliteStore, owner: &Owner) -> Vec<TaskSummary> {
    let of = |dialect| {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = block_on(store.list(owner, dialect, cursor.as_deref(), 100)).unwrap();
            found.extend(page.tasks);
            cursor = page.next;
            if cursor.is_none() {
                return found;
            }
        }
    };
    [of(TaskDialect::November2025), of(TaskDialect::Extension)].concat()
}
