//! What a connection holds while nothing happens on it, and what its calls leave behind. Alone in its process, whose memory it measures.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use rescind::peer::{ErrorObject, Peer, RawParams, dialect::mcp};
use serde_json::{Value, value::RawValue};
use tokio::{net::UnixStream, sync::Mutex, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Sessions, each of two peers.
const SESSIONS: usize = 200;

/// Resident bytes that a peer may cost while idle.
const MOST: usize = 8 * 1024;

/// One test at a time: each measures the whole process.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Resident bytes of this process, counted page by page: the kernel batches what it adds to `VmRSS` on each processor.
fn resident() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let field = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    field.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

type Session = (Peer, [JoinHandle<std::io::Result<()>>; 2]);

/// A client of a server that echoes, over a socket; both driven.
fn session() -> Session {
    let (near, far) = UnixStream::pair().unwrap();
    let echo = |RawParams(params)| async move { Ok::<_, ErrorObject>(params) };
    let server = Peer::builder(&mcp::LATEST).on_request("echo", echo);
    let (_, serving) = server.accept(far);
    let (client, driving) = Peer::builder(&mcp::LATEST).connect(near);
    (client, [serving.spawn(), driving.spawn()])
}

async fn echo(client: &Peer, params: &str) {
    let answer: Box<RawValue> = client.request("echo", &Value::from(params)).await.unwrap();
    assert_eq!(answer.get().len(), params.len() + 2);
}

/// What each idle peer holds that made as many echoes of these params, and the sessions, which stay.
async fn idle(rounds: usize, params: &str) -> (usize, Vec<Session>) {
    let mut sessions = Vec::with_capacity(SESSIONS);
    let before = resident();
    for _ in 0..SESSIONS {
        let (client, drivers) = session();
        for _ in 0..rounds {
            echo(&client, params).await;
        }
        sessions.push((client, drivers));
        // It is idle for as long as it takes to notice; what it gives back, the next one can have.
        tokio::time::pause();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        tokio::time::resume();
    }
    let each = resident().saturating_sub(before) / (2 * SESSIONS);
    for (client, _) in &sessions {
        echo(client, "still here").await;
    }
    (each, sessions)
}

#[expect(clippy::print_stdout, reason = "the figures are what this test is read for")]
#[tokio::test]
async fn an_idle_peer_holds_at_most_8_kib() {
    let _alone = ALONE.lock().await;
    let (client, _drivers) = session();
    echo(&client, "what the first session alone costs").await;
    let (fresh, _fresh_sessions) = idle(1, "hello").await;
    let (used, _used_sessions) = idle(3, &"x".repeat(20_000)).await;
    println!("resident bytes of an idle peer: {fresh}; after three echoes of 20 KB: {used}");
    assert!(fresh <= MOST, "{fresh} bytes");
    assert!(used <= MOST, "{used} bytes after three echoes");
}

/// Case 34.
#[expect(clippy::print_stdout, reason = "the figures are what this test is read for")]
#[tokio::test]
async fn calls_that_share_a_token_leave_nothing_with_it() {
    const CALLS: usize = 20_000;

    let _alone = ALONE.lock().await;
    let (client, _drivers) = session();
    let token = CancellationToken::new();
    let calls = async || {
        for _ in 0..CALLS {
            let answer = client.request::<Box<RawValue>>("echo", &Value::from("hello")).token(token.clone()).await;
            assert_eq!(answer.unwrap().get(), r#""hello""#);
        }
    };
    calls().await;
    let before = resident();
    calls().await;
    let grown = resident().saturating_sub(before);
    println!("resident bytes that {CALLS} calls with one token have left: {grown}");
    assert!(grown < CALLS * 64, "{grown} bytes: each that it kept would take hundreds");
    token.cancel();
    let ended = client.request::<Box<RawValue>>("echo", &Value::from("hello")).token(token.clone()).await;
    assert!(ended.unwrap_err().is_cancelled());
}
