//! rmcp as a client.

use std::{collections::HashSet, time::Duration};

use rescind_peers_wrap::{EVER, Fate, Raw, Way, Work, answer, both, connection, row, seconds};
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequest, CallToolRequestParams, ClientRequest},
    service::{PeerRequestOptions, RunningService},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::rmcp_server::Tools;

type Client = RunningService<RoleClient, ()>;

fn arguments(work: &str) -> serde_json::Map<String, Value> {
    json!({"work": work}).as_object().cloned().unwrap_or_default()
}

fn call(tool: &'static str, work: &str) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments(work))
}

fn request(work: &str) -> ClientRequest {
    ClientRequest::CallToolRequest(CallToolRequest::new(call("obey", work)))
}

/// The server's side of the handshake, in raw messages.
async fn shake_hands(server: &mut Raw) {
    loop {
        let message = server.receive().await;
        match message["method"].as_str() {
            Some("initialize") => {
                let info = json!({"name": "raw", "version": "0"});
                let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info});
                server.send(answer(message["id"].clone(), hello)).await;
            }
            Some("notifications/initialized") => return,
            method => panic!("no handshake: {method:?}"),
        }
    }
}

/// A client that has shaken hands with a raw server.
async fn connected(way: Way) -> (Client, Raw) {
    let (io, mut server) = connection(4096);
    let io = way.client(io, |wrap| wrap);
    let (client, ()) = tokio::join!(().serve(io), shake_hands(&mut server));
    (client.expect("the handshake is right"), server)
}

#[tokio::test(start_paused = true)]
async fn a_timeout_does_not_wait_for_a_pipe_that_nobody_reads() {
    const LIMIT: Duration = Duration::from_millis(300);
    const DEAF: Duration = Duration::from_millis(4500);
    let seen = both(async |way| {
        let (client, mut server) = connected(way).await;
        let filler = "x".repeat(100_000);
        let options = || PeerRequestOptions::with_timeout(LIMIT);
        let waiting = client.send_cancellable_request(request(&filler), PeerRequestOptions::with_timeout(EVER)).await;
        let asked = Instant::now();
        let call = async {
            let handle = client.send_cancellable_request(request("small"), options()).await.expect("it is queued");
            let failed = handle.await_response().await;
            assert!(failed.is_err(), "nobody answers");
            asked.elapsed()
        };
        let reading = async {
            sleep(DEAF).await;
            loop {
                server.receive().await;
            }
        };
        let after = tokio::select! {
            after = call => after,
            () = reading => unreachable!("it reads for ever"),
        };
        drop(waiting);
        format!("returns after {}", seconds(after))
    })
    .await;
    row("rmcp client: a timeout of 0.3 s, the pipe blocked for 4.5 s", &seen);
    assert_eq!(seen[0], "returns after 4.5 s");
    assert_eq!(seen[1], "returns after 0.3 s");
}

/// 4,000 calls at work, all dropped at once: rmcp queues as many cancels as its channel holds and forgets the rest.
#[tokio::test(start_paused = true)]
async fn what_a_burst_of_drops_left_running_ends_by_the_clock() {
    const CALLS: usize = 4000;
    const CLOCK: Duration = Duration::from_secs(60);
    let seen = both(async |way| {
        let work = Work::default();
        let (near, far) = tokio::io::duplex(4096);
        let serving = Tools(work.clone()).serve(tokio::io::split(far));
        let io = way.client(near, |wrap| wrap.response_timeout(CLOCK));
        let (client, server) = tokio::join!(().serve(io), serving);
        let (client, _server) = (client.expect("a client"), server.expect("a server"));
        let calls: Vec<_> = (0..CALLS)
            .map(|n| {
                let peer = client.peer().clone();
                tokio::spawn(async move { peer.call_tool(call("obey", &n.to_string())).await.is_ok() })
            })
            .collect();
        for n in 0..CALLS {
            work.comes_to(&n.to_string(), Fate::Running).await;
        }
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        for call in calls {
            let _ = call.await;
        }
        sleep(Duration::from_secs(1)).await;
        let at_once = work.count(Fate::Stopped);
        sleep(EVER).await;
        (at_once, work.count(Fate::Running))
    })
    .await;
    let text = seen.map(|(at_once, left)| format!("{at_once} stop at once, {left} never"));
    row("rmcp client: 4,000 call_tool futures dropped in one go", &text);
    assert!(seen[0].1 > 0, "a burst loses cancels");
    assert_eq!(seen[1].1, 0, "the relay's clock ends what nobody waits for");
}

/// rmcp's tasks that write a request and its cancel race for the pipe: callers that cancel at once, one after another
/// and as many as there are tasks for, on two threads.
#[test]
fn a_cancel_that_overtakes_its_request_stops_it_all_the_same() {
    const CALLS: usize = 8000;
    for callers in [1, 100, CALLS] {
        let seen = on_two_threads(async |way| {
            let (client, server) = connected(way).await;
            let serving = tokio::spawn(count(server));
            let tasks: Vec<_> = (0..callers)
                .map(|caller| {
                    let peer = client.peer().clone();
                    tokio::spawn(async move {
                        for n in 0..CALLS / callers {
                            let request = request(&format!("{caller}/{n}"));
                            let options = PeerRequestOptions::no_options();
                            let handle = peer.send_cancellable_request(request, options).await.expect("it is queued");
                            handle.cancel(None).await.expect("it is queued");
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("the caller has cancelled all its calls");
            }
            client.cancel().await.expect("the client ends");
            serving.await.expect("the server counts")
        });
        let text = seen.map(|(early, left)| format!("{early} cancels come first; {left} work on"));
        row(&format!("rmcp client: 8,000 calls of {callers} callers, each cancelled at once"), &text);
        assert_eq!(seen[1], (0, 0));
    }
}

/// What a server sees until its client ends: cancels that came before their request, which it forgets, and requests
/// that nothing has stopped.
async fn count(mut server: Raw) -> (usize, usize) {
    let (mut cancelled, mut working, mut early) = (HashSet::new(), HashSet::new(), 0);
    loop {
        let message = server.receive().await;
        match message["method"].as_str() {
            Some("tools/call") => {
                let id = message["id"].to_string();
                early += usize::from(cancelled.contains(&id));
                working.insert(id);
            }
            Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].to_string();
                working.remove(&id);
                cancelled.insert(id);
            }
            Some(_) => {}
            None => return (early, working.len()),
        }
    }
}

/// Plays the same scene both ways on two threads and the clock of the wall.
fn on_two_threads<T>(scene: impl AsyncFn(Way) -> T) -> [T; 2] {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(both(scene))
}
