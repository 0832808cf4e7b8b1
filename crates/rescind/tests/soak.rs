//! A minute of drops, cancels, timeouts and broken links at random, over Unix sockets, and then: nothing is left.
//!
//! ```text
//! RESCIND_SOAK_SECONDS=600 RESCIND_SOAK_SEED=7 cargo test --release -p rescind --test soak -- --ignored --nocapture
//! ```
//!
//! A few connections stand for the whole time; beside them others are made and ended, again and again, in every way
//! there is. What is left is told by the work itself (each handler, task and thread holds a guard), by the peers, by
//! the runtime and by the kernel.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::{
    collections::hash_map::RandomState,
    env, fs,
    hash::BuildHasher,
    io,
    net::Shutdown,
    os::unix::net::UnixStream,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rescind::peer::{
    Builder, Call, Context, Dialect, ErrorObject, Framing, Params, Peer,
    dialect::{acp, lsp, mcp},
};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    runtime::Handle,
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

const DIALECTS: [&Dialect; 4] = [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP];
/// Connections that are made and ended all the time; as many again stand throughout.
const LANES: u64 = 32;
/// To end a connection.
const WAYS: u64 = 8;
const METHOD: &str = "work";
/// Far above what a shared machine needs; a call that takes longer never ends.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of resident memory, between a third of the time and its end: what allocator and scheduler may shift.
const SLACK: usize = 8 << 20;

/// A small source of numbers: the same seed, the same numbers.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    const fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// What all connections share.
struct World {
    /// Handlers, linked tasks and threads that are there.
    here: AtomicUsize,
    calls: AtomicUsize,
    handlers: AtomicUsize,
    links: AtomicUsize,
    children: AtomicUsize,
    /// So few at once that the machine can start them in time.
    processes: Semaphore,
    threads: Semaphore,
    /// In the environment of our children alone, and of what they start.
    mark: String,
}

/// Held by work; dropped when it is gone.
struct Here(Arc<World>);

impl World {
    fn enter(self: &Arc<Self>) -> Here {
        self.here.fetch_add(1, Ordering::SeqCst);
        Here(Arc::clone(self))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.here.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a request asks its handler for.
type Task = (u64, u8);

fn endpoint(dialect: &'static Dialect, world: &Arc<World>, elsewhere: Option<Peer>) -> Builder {
    let world = Arc::clone(world);
    let short = Duration::from_millis(20);
    Peer::builder(dialect)
        .framing(Framing::Line)
        .max_running(64)
        .grace(short)
        .short_grace(short)
        .linger(Duration::from_millis(200))
        .configure(|config| {
            config.sticky = short;
            config.remember = (Duration::from_millis(50), Duration::from_millis(300));
            config.max_debt = 256 << 10;
        })
        .request("initialize", || async { Ok::<_, ErrorObject>(json!({})) })
        .request(METHOD, move |Params((seed, depth)): Params<Task>, cx: Context| {
            world.handlers.fetch_add(1, Ordering::Relaxed);
            let here = world.enter();
            let (world, elsewhere) = (Arc::clone(&world), elsewhere.clone());
            async move {
                let _here = here;
                work(&world, elsewhere, cx, Dice(seed), depth).await
            }
        })
}

/// Ends by itself, by its token, or not at all; alone or with what it owns.
async fn work(
    world: &Arc<World>,
    elsewhere: Option<Peer>,
    cx: Context,
    mut dice: Dice,
    depth: u8,
) -> Result<Value, ErrorObject> {
    // The newest MCP knows no requests of a server (MCP-M03): nobody could stop them.
    let may_ask_back = cx.dialect() != &mcp::LATEST;
    let kinds = match (depth, &elsewhere) {
        (0, _) => 9,
        (_, Some(_)) if !may_ask_back => 11,
        (_, None) if !may_ask_back => 9,
        _ => 12,
    };
    match dice.below(kinds) {
        0 => {}
        1 => sleep(dice.millis(5)).await,
        2 => cx.cancelled().await,
        3 => std::future::pending().await,
        4 => {
            let here = world.enter();
            let task = cx.spawn(async move {
                let _here = here;
                std::future::pending::<()>().await;
            });
            if dice.below(2) == 0 {
                drop(task.await);
            }
        }
        5 => {
            let Ok(_permit) = world.processes.try_acquire() else { return Ok(json!("busy")) };
            let ignores = if dice.below(2) == 0 { "trap '' TERM; " } else { "" };
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{ignores}sleep 1000 & wait")]).env("RESCIND_SOAK", &world.mark);
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = cx.command(shell).map_err(|error| ErrorObject::internal(error.to_string()))?;
            world.children.fetch_add(1, Ordering::Relaxed);
            match dice.below(3) {
                0 => drop(child),
                1 => drop(child.wait().await),
                _ => sleep(dice.millis(5)).await,
            }
        }
        6 => {
            let Ok(_permit) = world.threads.try_acquire() else { return Ok(json!("busy")) };
            let (here, runtime) = (world.enter(), Handle::current());
            let thread = cx.spawn_blocking(move |token| {
                let _here = here;
                runtime.block_on(token.cancelled());
            });
            drop(thread.await);
        }
        7 => {
            let mut done = 0.0;
            while cx.progress(done, None, None).await && done < 50.0 {
                done += 1.0;
                tokio::task::yield_now().await;
            }
        }
        8 => return Ok(json!("x".repeat(64 << 10))),
        9 | 10 => {
            let next = elsewhere.unwrap_or_else(|| cx.peer());
            let nested = ask(&next, &mut dice, depth - 1).response_timeout(dice.millis(200));
            return Ok(nested.await?);
        }
        _ => {
            let both = (ask(&cx.peer(), &mut dice, depth - 1), ask(&cx.peer(), &mut dice, depth - 1));
            let linked = cx.spawn(both.0.response_timeout(dice.millis(200)));
            drop(both.1.response_timeout(dice.millis(200)).await);
            drop(linked.await);
        }
    }
    if cx.is_cancelled() && dice.below(2) == 0 { Err(ErrorObject::cancelled()) } else { Ok(json!({})) }
}

fn ask(peer: &Peer, dice: &mut Dice, depth: u8) -> Call<Value> {
    peer.request(METHOD, &(dice.next(), depth))
}

/// One call, made and ended in one of the ways there are; it does end.
async fn call(peer: Peer, mut dice: Dice) {
    let (way, dialect) = (dice.below(11), peer.dialect().name);
    let call = ask(&peer, &mut dice, 2).response_timeout(Duration::from_millis(1 + dice.below(300)));
    drop(peer);
    let ended = timeout(PATIENCE, end_call(call, way, dice)).await;
    assert!(ended.is_ok(), "{dialect}: a call that was ended in way {way} does not end");
}

async fn end_call(call: Call<Value>, way: u64, mut dice: Dice) {
    match way {
        0 => drop(call),
        1 => drop(call.send()),
        2 => {
            let call = call.send();
            sleep(dice.millis(10)).await;
            drop(call);
        }
        3 => drop(timeout(dice.millis(20), call).await),
        4 => {
            let (stop, call) = (call.handle(), tokio::spawn(call));
            sleep(dice.millis(10)).await;
            let receipt = stop.cancel("enough");
            drop(call.await.unwrap());
            drop(receipt.await);
        }
        5 => drop(call.send().cancel_and_wait("enough", dice.millis(30)).await),
        6 => {
            let token = CancellationToken::new();
            let call = tokio::spawn(call.token(token.clone()));
            sleep(dice.millis(10)).await;
            token.cancel();
            drop(call.await.unwrap());
        }
        7 => drop(call.detach()),
        8 => drop(call.progress(|_| ()).total_timeout(dice.millis(100)).await),
        9 => drop(call.send().cancel("at once").await),
        _ => drop(call.await),
    }
}

fn transport(end: UnixStream) -> tokio::net::UnixStream {
    end.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(end).unwrap()
}

type Driven = JoinHandle<io::Result<()>>;

/// Two peers and what joins them.
struct Link {
    client: Peer,
    server: Peer,
    driven: [Driven; 2],
    /// The socket's ends once more, to break it by.
    ends: [UnixStream; 2],
}

impl Link {
    async fn open(dialect: &'static Dialect, world: &Arc<World>, elsewhere: Option<Peer>) -> Self {
        world.links.fetch_add(1, Ordering::Relaxed);
        let (a, b) = UnixStream::pair().unwrap();
        let ends = [a.try_clone().unwrap(), b.try_clone().unwrap()];
        let (client, driver) = endpoint(dialect, world, None).connect(transport(a));
        let at_client = driver.spawn();
        let (server, driver) = endpoint(dialect, world, elsewhere).accept(transport(b));
        let at_server = driver.spawn();
        if dialect.handshake_first.is_some() {
            client.request::<Value>("initialize", &json!({})).await.unwrap();
        }
        Self { client, server, driven: [at_client, at_server], ends }
    }

    /// Makes calls in both directions until `over`.
    async fn traffic(&self, world: &Arc<World>, dice: &mut Dice, over: &AtomicBool, most: u64) {
        let mut calls = JoinSet::new();
        for _ in 0..most {
            if over.load(Ordering::Relaxed) {
                break;
            }
            world.calls.fetch_add(1, Ordering::Relaxed);
            let is_upward = dice.below(4) == 0 && self.server.dialect() != &mcp::LATEST;
            let from = if is_upward { &self.server } else { &self.client };
            calls.spawn(call(from.clone(), Dice(dice.next())));
            match dice.below(8) {
                0 => sleep(dice.millis(4)).await,
                1 => tokio::task::yield_now().await,
                _ => {}
            }
            while calls.len() > 64 {
                calls.join_next().await.unwrap().unwrap();
            }
        }
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
    }

    /// Ends it in one of the ways there are, in the midst of traffic, and sees that nothing of it is left.
    async fn end(self, world: &Arc<World>, dice: &mut Dice, ways: u64) {
        let Self { client, server, driven, ends } = self;
        let mut calls = JoinSet::new();
        for _ in 0..dice.below(40) {
            calls.spawn(call(client.clone(), Dice(dice.next())));
        }
        sleep(dice.millis(10)).await;
        let way = dice.below(ways);
        match way {
            0 => client.shutdown(),
            1 => server.shutdown(),
            2 => driven[0].abort(),
            3 => driven[1].abort(),
            4 => ends[0].shutdown(Shutdown::Both).unwrap(),
            5 => ends[0].shutdown(Shutdown::Write).unwrap(),
            6 => ends[1].shutdown(Shutdown::Write).unwrap(),
            _ => {}
        }
        drop(ends);
        // In the last way, its calls are its last handles.
        let client = (way != WAYS - 1).then_some(client);
        for (peer, name) in client.iter().map(|peer| (peer, "client")).chain([(&server, "server")]) {
            left(peer, name, way, world).await;
        }
        drop(client);
        drop(server);
        for driven in driven {
            drop(timeout(PATIENCE, driven).await.expect("a driver ends"));
        }
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
    }
}

/// Calls that do not even fit into the socket of a peer that reads nothing.
async fn wedged(world: &Arc<World>, dice: &mut Dice) {
    let (near, _far) = UnixStream::pair().unwrap();
    let (client, driver) = endpoint(&acp::V1, world, None).connect(transport(near));
    let driven = driver.spawn();
    let mut calls = JoinSet::new();
    for _ in 0..dice.below(40) {
        world.calls.fetch_add(1, Ordering::Relaxed);
        let call = client.request(METHOD, &"x".repeat(64 << 10)).response_timeout(dice.millis(300));
        calls.spawn(end_call(call, dice.below(11), Dice(dice.next())));
    }
    sleep(dice.millis(30)).await;
    client.shutdown();
    left(&client, "client of a peer that reads nothing", 0, world).await;
    drop((client, timeout(PATIENCE, driven).await.expect("a driver ends")));
    while let Some(ended) = timeout(PATIENCE, calls.join_next()).await.expect("every call ends") {
        ended.unwrap();
    }
}

/// A peer that has ended has nothing in its tables; one whose driver was dropped, as soon as its handlers are.
async fn left(peer: &Peer, name: &str, way: u64, world: &World) {
    let ended = timeout(PATIENCE, peer.closed()).await;
    let here = &world.here;
    assert!(ended.is_ok(), "{name}, ended in way {way}, does not close; {here:?} handlers; {:#?}", peer.in_flight());
    let is_empty = || {
        let flight = peer.in_flight();
        flight.ours.is_empty() && flight.theirs.is_empty()
    };
    let is_aborted = way == 2 || way == 3;
    assert!(is_aborted || is_empty(), "{name}, ended in way {way}: {:#?}", peer.in_flight());
    becomes("nothing is in flight", is_empty, || format!("{name}, ended in way {way}: {:#?}", peer.in_flight())).await;
}

/// Makes and ends connections: one that asks, and one more that its handlers ask.
async fn lane(world: Arc<World>, mut dice: Dice, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let mut dialect = || DIALECTS[usize::try_from(dice.below(4)).unwrap()];
        let (near, far) = (dialect(), dialect());
        if dice.below(8) == 0 {
            wedged(&world, &mut dice).await;
        }
        let back = Link::open(far, &world, None).await;
        let front = Link::open(near, &world, Some(back.client.clone())).await;
        let most = dice.below(300);
        front.traffic(&world, &mut dice, &over, most).await;
        if dice.below(2) == 0 {
            front.end(&world, &mut dice, WAYS).await;
            back.end(&world, &mut dice, WAYS).await;
        } else {
            // The handlers in front still hold it.
            back.end(&world, &mut dice, WAYS - 1).await;
            front.end(&world, &mut dice, WAYS).await;
        }
    }
}

/// Waits until `is_so`, which the state at the end must become by itself.
async fn becomes(what: &str, is_so: impl Fn() -> bool, describe: impl Fn() -> String) {
    let waited = timeout(PATIENCE, async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: {}", describe());
}

/// Children of this process, zombies included, and whatever of their groups still carries our mark.
fn processes(mark: &str) -> Vec<String> {
    let ours = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if parent == Some(&ours) || String::from_utf8_lossy(&environment).contains(mark) {
            found.push(stat);
        }
    }
    found
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory, in bytes.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Case 14, 20, 35, 37, 38, 41, 44, 72.
#[test]
#[ignore = "takes a minute"]
#[expect(clippy::print_stdout, reason = "the seed repeats a run, the figures are what it is run for")]
fn after_a_minute_of_anything_nothing_is_left() {
    let seconds = setting("RESCIND_SOAK_SECONDS").unwrap_or(60);
    let seed = setting("RESCIND_SOAK_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("RESCIND_SOAK_SECONDS={seconds} RESCIND_SOAK_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(soak(seconds, seed));
}

#[expect(clippy::print_stdout, reason = "the figures are what this test is run for")]
async fn soak(seconds: u64, seed: u64) {
    let world = Arc::new(World {
        here: AtomicUsize::new(0),
        calls: AtomicUsize::new(0),
        handlers: AtomicUsize::new(0),
        links: AtomicUsize::new(0),
        children: AtomicUsize::new(0),
        processes: Semaphore::new(4),
        threads: Semaphore::new(8),
        mark: format!("rescind-soak-{}-{seed}", std::process::id()),
    });
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let (tasks_before, descriptors_before) = (tasks(), descriptors());
    let mut dice = Dice(seed);
    let over = Arc::new(AtomicBool::new(false));
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        lanes.spawn(lane(Arc::clone(&world), Dice(dice.next()), Arc::clone(&over)));
    }
    let mut standing = Vec::new();
    for n in 0..LANES {
        let link = Arc::new(Link::open(DIALECTS[usize::try_from(n % 4).unwrap()], &world, None).await);
        let (world, over, mut dice) = (Arc::clone(&world), Arc::clone(&over), Dice(dice.next()));
        standing.push(Arc::clone(&link));
        lanes.spawn(async move { link.traffic(&world, &mut dice, &over, u64::MAX).await });
    }
    let start = Instant::now();
    let mut resident_at = Vec::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        sleep(Duration::from_secs(1)).await;
        resident_at.push(resident());
        while let Some(ended) = lanes.try_join_next() {
            ended.unwrap();
        }
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = lanes.join_next().await {
        ended.unwrap();
    }

    for link in &standing {
        for peer in [&link.client, &link.server] {
            let is_empty = || {
                let flight = peer.in_flight();
                flight.ours.is_empty() && flight.theirs.is_empty() && peer.remembered() == 0
            };
            let describe = || format!("{} remembered, {:#?}", peer.remembered(), peer.in_flight());
            becomes("a quiet connection forgets everything", is_empty, describe).await;
        }
    }
    becomes("all work is gone", || world.here.load(Ordering::SeqCst) == 0, || format!("{:?}", world.here)).await;
    for link in standing {
        Arc::into_inner(link).unwrap().end(&world, &mut dice, WAYS).await;
    }
    becomes("all work is gone", || world.here.load(Ordering::SeqCst) == 0, || format!("{:?}", world.here)).await;
    becomes("no task is left", || tasks() == tasks_before, || format!("{} of {tasks_before}", tasks())).await;
    let mark = &world.mark;
    becomes("no process is left", || processes(mark).is_empty(), || format!("{:#?}", processes(mark))).await;
    // What the runtime keeps to hear of signals, once it has been asked to, is two descriptors.
    let open = || descriptors() <= descriptors_before + 2;
    becomes("no socket is left", open, || format!("{} of {descriptors_before}", descriptors())).await;

    let third = resident_at.len() / 3;
    let (early, late) = (median(&resident_at[third..]), median(&resident_at[resident_at.len().saturating_sub(5)..]));
    let World { calls, handlers, links, children, .. } = &*world;
    println!("{calls:?} calls, {handlers:?} handlers, {links:?} connections, {children:?} child processes");
    println!("resident MiB, second by second: {:?}", resident_at.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>());
    assert!(late <= early + early / 10 + SLACK, "memory grew from {early} to {late} bytes");
}

/// Of the first few.
fn median(bytes: &[usize]) -> usize {
    let mut few: Vec<_> = bytes.iter().take(5).copied().collect();
    few.sort_unstable();
    few[few.len() / 2]
}
