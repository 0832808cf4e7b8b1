//! A process that opens the file, does what its parent wants, and says on its standard output what it did.

use std::{
    env,
    io::{self, BufRead, BufReader, Lines, Read, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use rescind_tasks::{
    Access, Cause, CauseCode, FinishEffect, Json, NewTask, Owner, SqliteOptions, SqliteStore, TaskDialect, TaskOutcome,
    TaskRequest, TaskStore,
};

const ROLE: &str = "RESCIND_TASKS_CHILD_ROLE";
const FILE: &str = "RESCIND_TASKS_CHILD_FILE";

/// What a child is to be.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// Works on one task until it is cancelled; hears of that by its doorbell alone.
    Worker(TaskDialect),
    /// The same, and looks by itself as well.
    SlowWorker(TaskDialect),
    /// Begins three tasks and works on them for ever.
    Busy,
    /// Does everything at random, of its own owner, until it is killed.
    Storm(u64),
}

/// A child of the test's. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(role: Role, file: &Path) -> Self {
        let role = match role {
            Role::Worker(TaskDialect::November2025) => "worker".to_owned(),
            Role::Worker(TaskDialect::Extension) => "worker-extension".to_owned(),
            Role::SlowWorker(TaskDialect::November2025) => "slow-worker".to_owned(),
            Role::SlowWorker(TaskDialect::Extension) => "slow-worker-extension".to_owned(),
            Role::Worker(other) | Role::SlowWorker(other) => panic!("{other:?}"),
            Role::Busy => "busy".to_owned(),
            Role::Storm(seed) => seed.to_string(),
        };
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "processes::as_a_child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// The next thing that it says, in words; `None` at its end.
    pub(crate) fn says(&mut self) -> Option<Vec<String>> {
        loop {
            // The test framework speaks too.
            let line = self.said.next()?.unwrap();
            if let Some((_, words)) = line.split_once("> ") {
                return Some(words.split(' ').map(str::to_owned).collect());
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One line in one write: whole, or not there at all.
fn say(words: &str) {
    let line = format!("> {words}\n");
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

pub(crate) fn be() {
    let (Ok(role), Ok(file)) = (env::var(ROLE), env::var(FILE)) else { return };
    let mut options = SqliteOptions::default();
    if role.starts_with("worker") {
        options.slow_check = Duration::from_secs(3600);
    }
    let store = SqliteStore::open(file, options).unwrap();
    match &*role {
        "worker" | "slow-worker" => work(&store, TaskDialect::November2025),
        "worker-extension" | "slow-worker-extension" => work(&store, TaskDialect::Extension),
        "busy" => {
            let runs: Vec<_> =
                (0..3).map(|_| block_on(store.create(new(Owner::NONE, TaskDialect::Extension)))).collect();
            for run in &runs {
                say(&format!("made {}", run.as_ref().unwrap().task().summary.id));
            }
            rest();
        }
        seed => storm(&store, seed.parse().unwrap()),
    }
}

fn work(store: &SqliteStore, dialect: TaskDialect) {
    let mut run = block_on(store.create(new(Owner::NONE, dialect))).unwrap();
    say(&format!("made {}", run.task().summary.id));
    // The work itself, on a thread of its own: nothing but the cancel ends it.
    let cancelled = run.cancelled();
    let cancel = thread::spawn(move || {
        let cancel = block_on(cancelled);
        say(&format!("stopped {} {}", cancel.cause.code, cancel.cause.wire_reason()));
        cancel
    });
    cancel.join().unwrap();
    block_on(run.finish(TaskOutcome::Stopped, None)).unwrap();
    say("ended");
    rest();
}

fn storm(store: &SqliteStore, seed: u64) {
    let threads: Vec<_> = (0..3)
        .map(|n| {
            let store = store.clone();
            thread::spawn(move || {
                let (mut dice, owner) = (Dice(seed.wrapping_mul(3).wrapping_add(n)), Owner::named(&seed.to_string()));
                let mut runs = Vec::new();
                loop {
                    let dialect = if dice.roll(2) == 0 { TaskDialect::November2025 } else { TaskDialect::Extension };
                    let mut run = block_on(store.create(new(owner.clone(), dialect))).unwrap();
                    let id = run.task().summary.id.clone();
                    say(&format!("made {id}"));
                    for _ in 0..dice.roll(3) {
                        match dice.roll(3) {
                            0 => drop(block_on(run.set_working(Some("on it")))),
                            1 => drop(block_on(run.ask_input(None, vec![("a".to_owned(), json("{}"))]))),
                            _ => {
                                let cause = Cause::new(CauseCode::Caller);
                                block_on(store.cancel(Access::Owner(owner.clone()), &id, cause)).unwrap();
                                if dialect == TaskDialect::November2025 {
                                    say(&format!("ended {id} cancelled"));
                                }
                            }
                        }
                    }
                    if dice.roll(2) == 0 {
                        let done = block_on(run.finish(TaskOutcome::Result(json("[]")), None)).unwrap();
                        if let FinishEffect::Won(status) = done {
                            say(&format!("ended {id} {}", status.as_str()));
                        }
                    } else {
                        // Not dropped: that would end it.
                        runs.push(run);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Until the parent is done.
fn rest() {
    let _ = io::stdin().read(&mut [0]);
}

/// Numbers that look random and are the same for the same seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

pub(crate) fn new(owner: Owner, dialect: TaskDialect) -> NewTask {
    let request = TaskRequest { method: "tools/call".into(), params: Some(json(r#"{"name":"build"}"#)), meta: None };
    NewTask { owner, dialect, request, ttl: None, poll_interval: None, message: None }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
