//! Drops, cancels, timeouts and answers at random, on several threads at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rescind::peer::{Context, ErrorObject, Params, Peer, dialect::mcp, transport};
use serde_json::Value;

use crate::rig::DIALECTS;

/// Counts the handlers that are there.
struct Here(Arc<AtomicUsize>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn peer(dialect: &'static rescind::peer::Dialect, here: &Arc<AtomicUsize>) -> rescind::peer::Builder {
    let here = Arc::clone(here);
    Peer::builder(dialect)
        .configure(|config| config.max_running = 1 << 20)
        .on_request("initialize", || async { Ok::<_, ErrorObject>(()) })
        .on_request("work", move |Params(kind): Params<u32>, cx: Context| {
            here.fetch_add(1, Ordering::SeqCst);
            let guard = Here(Arc::clone(&here));
            async move {
                let _guard = guard;
                match kind % 4 {
                    0 => return Ok(kind),
                    1 => tokio::task::yield_now().await,
                    2 => cx.cancelled().await,
                    // A nested request back to the caller, which waits for a cancel.
                    _ => drop(cx.peer().request::<Value>("work", &(kind - 1)).await),
                }
                Err(ErrorObject::cancelled())
            }
        })
}

/// Case 35, 37: nothing is left, whichever way thousands of calls end, in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_storm_nothing_is_left() {
    for dialect in DIALECTS {
        let here = Arc::new(AtomicUsize::new(0));
        let (a, b) = transport::memory();
        let (client, driver) = peer(dialect, &here).connect(a);
        let client_driven = driver.spawn();
        let (server, driver) = peer(dialect, &here).accept(b);
        let server_driven = driver.spawn();
        client.request::<Value>("initialize", &serde_json::json!({})).await.unwrap();
        let mut storm = tokio::task::JoinSet::new();
        for n in 0..2000_u32 {
            let both_may_ask = dialect.name != mcp::LATEST.name;
            let from = if n % 3 == 0 && both_may_ask { server.clone() } else { client.clone() };
            storm.spawn(async move {
                // A server of the newest MCP may not cancel what it asked: only kinds that end by themselves.
                let kind = if both_may_ask { n / 3 } else { n / 3 % 3 };
                let call = from.request::<Value>("work", &kind).response_timeout(Duration::from_millis(300));
                let stop = call.handle();
                match n % 5 {
                    0 => drop(tokio::time::timeout(Duration::from_micros(u64::from(n % 97)), call).await),
                    1 => drop(call.send()),
                    2 => {
                        let call = tokio::spawn(call);
                        tokio::task::yield_now().await;
                        drop(stop.cancel("enough"));
                        drop(call.await);
                    }
                    _ => drop(call.await),
                }
            });
        }
        while storm.join_next().await.is_some() {}
        tokio::time::timeout(Duration::from_secs(60), async {
            while here.load(Ordering::SeqCst) > 0 || !server.in_flight().theirs.is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{}: {:#?}", dialect.name, server.in_flight()));
        drop((client, server));
        client_driven.await.unwrap().unwrap();
        server_driven.await.unwrap().unwrap();
    }
}
