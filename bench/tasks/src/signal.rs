//! How long a cancel takes from one process to the work in another.

use std::{
    env,
    error::Error,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use rescind_tasks::{
    Access, Cause, CauseCode, Json, SqliteOptions, SqliteStore, StoreLimits, TaskId, TaskOutcome, TaskStore,
};
use rustix::time::{ClockId, clock_gettime};

use crate::rate::task;

/// One cancel, in microseconds from when it was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Signal {
    /// Until the token fired in the other process.
    pub(crate) fired: f64,
    /// Until the caller knew that it lasts.
    pub(crate) answered: f64,
}

impl Signal {
    /// So many cancels; `busy`, while the other process writes as fast as it can.
    pub(crate) fn measure(file: &Path, cancels: usize, busy: bool) -> Result<Vec<Self>, Box<dyn Error>> {
        let store = SqliteStore::open(file, SqliteOptions::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut worker = Command::new(env::current_exe()?)
            .arg("--worker")
            .arg(file)
            .args(busy.then_some("--busy"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = BufReader::new(worker.stdout.take().ok_or("no pipe")?).lines();
        let mut next = || said.next().ok_or("the worker has ended")?.map_err(Box::<dyn Error>::from);
        let mut measured = Vec::with_capacity(cancels);
        for _ in 0..cancels {
            let id = TaskId::received(&next()?);
            let asked = now();
            runtime.block_on(store.cancel(Access::Operator, &id, Cause::new(CauseCode::Operator)))?;
            let answered = now() - asked;
            let fired = next()?.parse::<f64>()? - asked;
            measured.push(Self { fired, answered });
        }
        // At the end of its input, which is a pipe of ours, it ends.
        drop(worker.stdin.take());
        worker.kill()?;
        worker.wait()?;
        Ok(measured)
    }
}

/// Works on one task after the other; says its id, and when its token fired.
pub(crate) fn work(file: &Path, busy: bool) -> Result<(), Box<dyn Error>> {
    let limits = StoreLimits { tasks_per_owner: u32::MAX, ..StoreLimits::default() };
    let store = SqliteStore::open(file, SqliteOptions { limits, ..SqliteOptions::default() })?;
    for _ in 0..if busy { 16 } else { 0 } {
        let store = store.clone();
        thread::spawn(move || make_busy(&store));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    loop {
        let mut run = runtime.block_on(store.create(task()?))?;
        writeln!(io::stdout(), "{}", run.task().summary.id)?;
        runtime.block_on(run.cancelled());
        let fired = now();
        runtime.block_on(run.finish(TaskOutcome::Stopped, None))?;
        writeln!(io::stdout(), "{fired}")?;
    }
}

/// Writes for ever.
fn make_busy(store: &SqliteStore) -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    loop {
        let mut run = runtime.block_on(store.create(task()?))?;
        runtime.block_on(run.finish(TaskOutcome::Result(Json::parse("{}")?), None))?;
    }
}

/// Microseconds by a clock that all processes share.
fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}
