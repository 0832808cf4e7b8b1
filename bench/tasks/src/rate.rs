//! Tasks created and cancelled per second.

use std::{error::Error, path::Path, rc::Rc, time::Instant};

use rescind_tasks::{
    Access, Cause, CauseCode, Json, MemoryStore, NewTask, Owner, SqliteOptions, SqliteStore, StoreLimits, TaskDialect,
    TaskRequest, TaskStore,
};
use rusqlite::Connection;
use tokio::task::LocalSet;

/// What keeps the tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Memory,
    Sqlite,
    /// One transaction that inserts a row of as many bytes, one that changes it; nothing else.
    Plain,
    /// The same, as many rows in a transaction as there are callers.
    PlainTogether,
}

impl Contender {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Sqlite, Self::Plain, Self::PlainTogether];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Plain => "plain SQLite, one by one",
            Self::PlainTogether => "plain SQLite, together",
        }
    }

    /// Pairs of create and cancel per second.
    pub(crate) fn rate(self, folder: &Path, callers: usize, tasks: usize) -> Result<f64, Box<dyn Error>> {
        let limits = StoreLimits { tasks_per_owner: u32::MAX, ..StoreLimits::default() };
        let file = folder.join("tasks.db");
        let options = SqliteOptions { limits, ..SqliteOptions::default() };
        // In memory it takes a while until there is something to be measured.
        match self {
            Self::Memory => ours(MemoryStore::new(limits), callers, tasks * 64),
            Self::Sqlite => ours(SqliteStore::open(file, options)?, callers, tasks),
            Self::Plain => plain(&file, 1, tasks),
            Self::PlainTogether => plain(&file, callers, tasks),
        }
    }
}

fn ours(store: impl TaskStore + 'static, callers: usize, tasks: usize) -> Result<f64, Box<dyn Error>> {
    let store = Rc::new(store);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let local = LocalSet::new();
    let each = tasks / callers;
    let begun = Instant::now();
    let working: Vec<_> = (0..callers)
        .map(|_| {
            let store = Rc::clone(&store);
            local.spawn_local(async move {
                let mut runs = Vec::with_capacity(each);
                for _ in 0..each {
                    let run = store.create(task()?).await?;
                    let id = run.task().summary.id.clone();
                    store.cancel(Access::Owner(Owner::NONE), &id, Cause::new(CauseCode::Caller)).await?;
                    // Kept, since dropping it is one step more.
                    runs.push(run);
                }
                Ok::<_, Box<dyn Error>>(runs)
            })
        })
        .collect();
    let mut kept = Vec::new();
    for work in working {
        kept.push(local.block_on(&runtime, work)??);
    }
    let took = begun.elapsed();
    drop(kept);
    Ok((each * callers) as f64 / took.as_secs_f64())
}

fn plain(file: &Path, together: usize, tasks: usize) -> Result<f64, Box<dyn Error>> {
    let mut database = Connection::open(file)?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    database.execute_batch("CREATE TABLE row (id TEXT PRIMARY KEY, body TEXT NOT NULL, status TEXT NOT NULL)")?;
    // Ours beside the params: method, times, runner.
    let body = format!("{PARAMS}{}", "x".repeat(120));
    let begun = Instant::now();
    for group in 0..tasks / together {
        let ids: Vec<_> = (0..together).map(|n| format!("{:032x}", scatter(group * together + n))).collect();
        let insert = database.transaction()?;
        for id in &ids {
            insert.prepare_cached("INSERT INTO row VALUES (?1, ?2, 'working')")?.execute((id, &body))?;
        }
        insert.commit()?;
        let update = database.transaction()?;
        for id in &ids {
            update.prepare_cached("UPDATE row SET status = 'cancelled' WHERE id = ?1")?.execute([id])?;
        }
        update.commit()?;
    }
    Ok((tasks / together * together) as f64 / begun.elapsed().as_secs_f64())
}

/// Ids in no order, as ours are.
const fn scatter(n: usize) -> u128 {
    (n as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

const PARAMS: &str = r#"{"name":"build","arguments":{"target":"all","features":["one","two"],"profile":"release"}}"#;

pub(crate) fn task() -> Result<NewTask, serde_json::Error> {
    let request = TaskRequest { method: "tools/call".into(), params: Some(Json::parse(PARAMS)?), meta: None };
    Ok(NewTask {
        owner: Owner::NONE,
        dialect: TaskDialect::November2025,
        request,
        ttl: None,
        poll_interval: None,
        message: None,
    })
}
