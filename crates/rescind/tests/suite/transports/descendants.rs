//! A process that this one starts, and what that starts: both do not care for being asked to end, and both end.
//!
//! They are this test program, started again. Each has a connection to the test, which closes when it ends.

use std::{
    env,
    future::pending,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rescind::peer::{Context, ErrorObject, Peer, dialect::mcp, route, transport};
use tokio::sync::{mpsc, oneshot};

/// Where the test listens.
const TEST: &str = "RESCIND_TEST";
/// Whether the process is the one that starts the other.
const IS_PARENT: &str = "RESCIND_TEST_IS_PARENT";

#[test]
#[ignore = "started by the other tests"]
fn as_a_process() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut asked = Asked::listen().unwrap();
        let mut test = TcpStream::connect(env::var(TEST).unwrap()).unwrap();
        let mut end = test.try_clone().unwrap();
        // If the test ends first, nothing is left behind.
        thread::spawn(move || {
            let _ = end.read(&mut [0]);
            std::process::exit(1);
        });
        if env::var_os(IS_PARENT).is_some() {
            let mut other = tokio::process::Command::from(program());
            other.env_remove(IS_PARENT).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        }
        test.write_all(b"lives\n").unwrap();
        asked.wait().await;
        test.write_all(b"was asked\n").unwrap();
        pending::<()>().await;
    });
}

/// How a process is asked to end.
struct Asked(#[cfg(unix)] tokio::signal::unix::Signal, #[cfg(windows)] tokio::signal::windows::CtrlBreak);

impl Asked {
    fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        let asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        #[cfg(windows)]
        let asked = tokio::signal::windows::ctrl_break();
        asked.map(Self)
    }

    async fn wait(&mut self) {
        self.0.recv().await.unwrap();
    }
}

fn program() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "transports::descendants::as_a_process", "--ignored", "--nocapture", "--quiet"]);
    command
}

/// What the test hears of the two processes. Threads read for it: Wine 8 loses the end of a socket that is polled.
struct Test {
    address: SocketAddr,
    processes: mpsc::UnboundedReceiver<Process>,
}

/// What a process says, until it ends.
struct Process(mpsc::UnboundedReceiver<String>);

impl Test {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, processes) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for connection in listener.incoming().take(2) {
                let (said, says) = mpsc::unbounded_channel();
                let lines = BufReader::new(connection.unwrap()).lines().map_while(Result::ok);
                thread::spawn(move || lines.for_each(|line| drop(said.send(line))));
                accepted.send(Process(says)).unwrap();
            }
        });
        Self { address, processes }
    }

    /// The command of the process that starts the other.
    fn parent(&self) -> Command {
        let mut command = program();
        command.env(TEST, self.address.to_string()).env(IS_PARENT, "yes").stderr(Stdio::null());
        command
    }

    /// Waits until both live.
    async fn both(&mut self) -> [Process; 2] {
        [self.next().await, self.next().await]
    }

    async fn next(&mut self) -> Process {
        let mut process = self.processes.recv().await.unwrap();
        process.says("lives").await;
        process
    }
}

impl Process {
    async fn says(&mut self, word: &str) {
        assert_eq!(self.0.recv().await.as_deref(), Some(word));
    }

    /// Under Wine 8 no event reaches a console group.
    async fn was_asked(&mut self) {
        if cfg!(unix) {
            self.says("was asked").await;
        }
    }

    /// Waits until it has ended.
    async fn ends(&mut self) {
        while self.0.recv().await.is_some() {}
    }
}

#[tokio::test]
async fn a_child_and_what_it_started_are_asked_to_end_and_killed() {
    let mut test = Test::listen();
    let (_transport, child) = transport::child(test.parent()).unwrap();
    let mut both = test.both().await;
    child.terminate();
    for process in &mut both {
        process.was_asked().await;
    }
    child.kill();
    for process in &mut both {
        process.ends().await;
    }
    assert!(!child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_end_of_a_connection_is_the_end_of_both() {
    let mut test = Test::listen();
    let (transport, child) = transport::child(test.parent()).unwrap();
    let mut both = test.both().await;
    tokio::time::pause();
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(transport);
    drop(peer);
    driver.await.unwrap();
    assert!(!child.wait().await.unwrap().success());
    for process in &mut both {
        process.ends().await;
    }
}

#[test]
fn the_end_of_the_runtime_is_the_end_of_both() {
    let [own, other] = [(); 2].map(|()| tokio::runtime::Runtime::new().unwrap());
    let mut test = Test::listen();
    let (_transport, child) = other.block_on(async { transport::child(test.parent()).unwrap() });
    let mut both = own.block_on(test.both());
    drop(other);
    own.block_on(async {
        for process in &mut both {
            process.ends().await;
        }
    });
    assert!(child.status().is_some_and(|status| !status.success()));
}

/// D22: politely when the token fires, and at once when the handler has ended.
#[tokio::test]
async fn what_a_request_owns_is_asked_to_end_when_it_is_cancelled_and_killed_when_its_handler_ends() {
    let mut test = Test::listen();
    let (handler_may_end, may_end) = oneshot::channel::<()>();
    let owned = std::sync::Mutex::new(Some((test.parent(), may_end)));
    let server = Peer::builder(&mcp::LATEST_LEGACY).on_request(
        "run",
        route(move |cx: Context| {
            let (parent, may_end) = owned.lock().unwrap().take().unwrap();
            async move {
                let child = cx.command(parent.into()).map_err(|error| ErrorObject::internal(error.to_string()))?;
                let _ = may_end.await;
                drop(child);
                Err::<(), _>(ErrorObject::cancelled())
            }
        })
        .grace(Duration::from_secs(3600)),
    );
    let (near, far) = transport::memory();
    let served = tokio::spawn(server.serve(far));
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(near);
    let driven = driver.spawn();
    let call = tokio::spawn(peer.request::<serde_json::Value>("run", &()));
    let mut both = test.both().await;
    call.abort();
    for process in &mut both {
        process.was_asked().await;
    }
    handler_may_end.send(()).unwrap();
    for process in &mut both {
        process.ends().await;
    }
    drop(peer);
    driven.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
}
