//! Tools that compute: seen while they work, stopped between two pieces of it, and never in each other's way.
//!
//! Server and client have a thread of their own each, and a socket between them. The work waits for its client by
//! blocking its thread, so that what a test calls live was seen while the work had not gone on.

#![cfg(unix)]

use std::{
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rescind::{
    mcp::{Client, NoArguments, Server, ToolResult},
    peer::{Builder, Context, ErrorObject, Outcome},
};
use tokio::{runtime, sync::mpsc as channel};

/// Only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The chunks of work of one call.
const CHUNKS: u32 = 20;

#[derive(Clone, Copy, PartialEq)]
enum Threads {
    One,
    Two,
}

impl Threads {
    fn runtime(self) -> runtime::Runtime {
        let mut builder = match self {
            Self::One => runtime::Builder::new_current_thread(),
            Self::Two => runtime::Builder::new_multi_thread(),
        };
        builder.worker_threads(2).enable_all().build().unwrap()
    }
}

/// Lets a thread that blocks go on.
#[derive(Clone)]
struct Gate(Arc<Mutex<mpsc::Receiver<()>>>);

fn gate() -> (mpsc::Sender<()>, Gate) {
    let (open, gate) = mpsc::channel();
    (open, Gate(Arc::new(Mutex::new(gate))))
}

impl Gate {
    /// Blocks this thread.
    fn pass(&self, why: &str) {
        self.0.lock().unwrap().recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{why}"));
    }
}

/// Runs a client beside a server whose runtime has so many threads.
fn beside<F: Future<Output = ()>>(threads: Threads, server: Server, client: impl FnOnce(Client) -> F) {
    beside_a_client(threads, server, Client::peer_builder(), client);
}

/// The same with a client that answers something.
fn beside_a_client<F: Future<Output = ()>>(
    threads: Threads,
    server: Server,
    builder: Builder,
    client: impl FnOnce(Client) -> F,
) {
    let (near, far) = UnixStream::pair().unwrap();
    let serving: JoinHandle<()> = thread::spawn(move || {
        threads.runtime().block_on(async {
            // A task, as a server is that was accepted from a listener.
            // A client that leaves notifications unread has reset the socket.
            let _ = tokio::spawn(server.serve(from_std(far))).await.unwrap();
        });
    });
    Threads::One.runtime().block_on(async {
        let (peer, driver) = builder.connect(from_std(near));
        let driven = driver.spawn();
        let session = Client::new(peer, "test", "0");
        session.initialize().await.unwrap();
        client(session).await;
        driven.await.unwrap().unwrap();
    });
    serving.join().unwrap();
}

fn from_std(stream: UnixStream) -> tokio::net::UnixStream {
    stream.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(stream).unwrap()
}

/// A server with a tool `compute`: each of its chunks begins once its gate is open.
fn computer(gate: Gate, begun: Arc<AtomicU32>, ended: mpsc::Sender<u32>) -> Server {
    Server::new("computer", "0").tool("compute", "Computes in chunks", move |NoArguments {}, cx: Context| {
        let (gate, begun, ended) = (gate.clone(), Arc::clone(&begun), ended.clone());
        async move {
            for chunk in 1..=CHUNKS {
                if cx.is_cancelled() {
                    break;
                }
                gate.pass("a report did not leave while the tool was at work");
                begun.store(chunk, Ordering::SeqCst);
                cx.progress(f64::from(chunk), Some(f64::from(CHUNKS)), None).await;
            }
            ended.send(begun.load(Ordering::SeqCst)).unwrap();
            if cx.is_cancelled() { Err(ErrorObject::cancelled()) } else { Ok("computed") }
        }
    })
}

fn reports_of_a_tool_that_computes_arrive_live(threads: Threads) {
    let (open, gate) = gate();
    let begun = Arc::new(AtomicU32::new(0));
    let (ended, end) = mpsc::channel();
    beside(threads, computer(gate, Arc::clone(&begun), ended), |client| async move {
        open.send(()).unwrap();
        let seen = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&seen);
        let result: ToolResult = client
            .call_tool("compute", &())
            .progress(move |report| {
                let chunk = counted.fetch_add(1, Ordering::SeqCst) + 1;
                assert_eq!(report.done(), Some(f64::from(chunk)));
                // The chunk after it has not begun, for its gate was closed.
                assert_eq!(begun.load(Ordering::SeqCst), chunk, "a report was late");
                open.send(()).unwrap();
            })
            .await
            .unwrap();
        assert_eq!(result.text(), "computed");
        assert_eq!(seen.load(Ordering::SeqCst), CHUNKS);
        assert_eq!(end.recv_timeout(PATIENCE).unwrap(), CHUNKS);
    });
}

#[test]
fn reports_of_a_tool_that_computes_arrive_live_on_one_thread() {
    reports_of_a_tool_that_computes_arrive_live(Threads::One);
}

#[test]
fn reports_of_a_tool_that_computes_arrive_live_on_two_threads() {
    reports_of_a_tool_that_computes_arrive_live(Threads::Two);
}

/// How a tool lets its connection have a turn between two chunks.
#[derive(Clone, Copy, Debug)]
enum Between {
    Checkpoint,
    UnlessCancelled,
    Progress,
    /// Nothing is reported, for its client asked for no progress.
    ProgressUnasked,
    Notify,
}

/// A stop after the third chunk ends the work with the fourth, whichever await of its context it makes in between.
#[test]
fn a_tool_that_computes_is_stopped_between_two_chunks_on_one_thread() {
    use Between::{Checkpoint, Notify, Progress, ProgressUnasked, UnlessCancelled};
    for between in [Checkpoint, UnlessCancelled, Progress, ProgressUnasked, Notify] {
        let (open, gate) = gate();
        let (begin, mut begun) = channel::unbounded_channel();
        let (ended, end) = mpsc::channel();
        let work = move |NoArguments {}, cx: Context| {
            let (gate, begin, ended) = (gate.clone(), begin.clone(), ended.clone());
            async move {
                for chunk in 1..=CHUNKS {
                    begin.send(chunk).unwrap();
                    gate.pass("the gate stayed closed");
                    match between {
                        Between::Checkpoint => drop(cx.checkpoint().await),
                        Between::UnlessCancelled => drop(cx.unless_cancelled(async {}).await),
                        Between::Progress | Between::ProgressUnasked => {
                            let _ = cx.progress(f64::from(chunk), None, None).await;
                        }
                        Between::Notify => {
                            let _ = cx.notify("notifications/message", &()).await;
                        }
                    }
                    if cx.is_cancelled() {
                        ended.send(chunk).unwrap();
                        return Err(ErrorObject::cancelled());
                    }
                }
                ended.send(CHUNKS).unwrap();
                Ok("computed")
            }
        };
        let server = Server::new("computer", "0").tool("compute", "Computes in chunks", work);
        beside(Threads::One, server, |client| async move {
            let call = client.call_tool("compute", &());
            let call = if matches!(between, Between::Progress) { call.progress(drop) } else { call };
            let stop = call.handle();
            let waiting = tokio::spawn(call);
            for _ in 0..3 {
                begun.recv().await.unwrap();
                open.send(()).unwrap();
            }
            assert_eq!(begun.recv().await, Some(4));
            assert_eq!(stop.cancel("enough").await.outcome, Outcome::Sent);
            for _ in 3..CHUNKS {
                open.send(()).unwrap();
            }
            assert!(waiting.await.unwrap().is_err());
            assert_eq!(end.recv_timeout(PATIENCE).unwrap(), 4, "{between:?}: the work went on");
        });
    }
}

/// The tool never lets go of its thread: the token is fired on another one.
#[test]
fn a_tool_that_blocks_its_thread_sees_its_stop_on_two_threads() {
    let (ended, end) = mpsc::channel();
    let (begin, mut begun) = channel::unbounded_channel();
    let work = move |NoArguments {}, cx: Context| {
        let (begin, ended) = (begin.clone(), ended.clone());
        async move {
            cx.progress(1.0, None, None).await;
            begin.send(()).unwrap();
            let began = std::time::Instant::now();
            while !cx.is_cancelled() && began.elapsed() < PATIENCE {
                thread::yield_now();
            }
            ended.send(cx.is_cancelled()).unwrap();
            Err::<(), _>(ErrorObject::cancelled())
        }
    };
    let server = Server::new("computer", "0").tool("compute", "Computes at a stretch", work);
    beside(Threads::Two, server, |client| async move {
        for _ in 0..50 {
            let call = client.call_tool("compute", &());
            let stop = call.handle();
            let waiting = tokio::spawn(call);
            begun.recv().await.unwrap();
            assert_eq!(stop.cancel("enough").await.outcome, Outcome::Sent);
            assert!(waiting.await.unwrap().is_err());
            assert!(end.recv_timeout(2 * PATIENCE).unwrap(), "the token did not fire while the tool was at work");
        }
    });
}

/// Whichever is asked for first, and whether they arrive together or not.
#[test]
fn a_fast_tool_answers_while_another_blocks_its_thread() {
    let (open, gate) = gate();
    let (begin, mut begun) = channel::unbounded_channel();
    let block = move |NoArguments {}, _cx: Context| {
        let (gate, begin) = (gate.clone(), begin.clone());
        async move {
            begin.send(()).unwrap();
            gate.pass("the fast tool was not answered while this one was at work");
            Ok::<_, ErrorObject>("released")
        }
    };
    let server = Server::new("computer", "0").tool("block", "Blocks its thread", block).tool(
        "fast",
        "Answers at once",
        |NoArguments {}| async { Ok::<_, ErrorObject>("fast") },
    );
    beside(Threads::Two, server, |client| async move {
        for order in (0..150).map(|round| round % 3) {
            let call = |name| client.call_tool(name, &());
            let (blocked, fast) = match order {
                0 => {
                    let blocked = call("block").send();
                    begun.recv().await.unwrap();
                    (blocked, call("fast").send())
                }
                1 => (call("block").send(), call("fast").send()),
                _ => {
                    let fast = call("fast").send();
                    (call("block").send(), fast)
                }
            };
            assert_eq!(fast.await.unwrap().text(), "fast");
            if order != 0 {
                begun.recv().await.unwrap();
            }
            // It has been at work all the time.
            open.send(()).unwrap();
            assert_eq!(blocked.await.unwrap().text(), "released");
        }
    });
}

/// A call that was sent leaves, and is answered, while its handler computes.
#[test]
fn a_call_that_a_tool_sends_leaves_before_the_tool_lets_go_of_its_thread() {
    let (open, gate) = gate();
    let work = move |NoArguments {}, cx: Context| {
        let gate = gate.clone();
        async move {
            cx.checkpoint().await?;
            let asked = cx.peer().request::<serde_json::Value>("roots/list", &()).send();
            gate.pass("the call had not left while the tool was at work");
            drop(asked);
            gate.pass("the cancel had not left while the tool was at work");
            Ok::<_, ErrorObject>("asked")
        }
    };
    let server = Server::new("asker", "0").tool("ask", "Asks, and computes meanwhile", work);
    let opening = open.clone();
    let roots = move |cx: Context| {
        let open = open.clone();
        async move {
            open.send(()).unwrap();
            cx.cancelled().await;
            Err::<(), _>(ErrorObject::cancelled())
        }
    };
    let builder =
        Client::peer_builder().on_request("roots/list", roots).on_cancelled(move |_| opening.send(()).unwrap());
    beside_a_client(Threads::Two, server, builder, |client| async move {
        for _ in 0..50 {
            assert_eq!(client.call_tool("ask", &()).await.unwrap().text(), "asked");
        }
    });
}
