//! Round trips a second over a pair in memory, beside a bare echo with a JSON envelope.
//!
//! `cargo run --release -p rescind --example round_trips`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints")]

use std::time::Instant;

use rescind::peer::{Call, Params, Peer, dialect::mcp, transport};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
}

const PARAMS: &str = r#"{"name":"echo","arguments":{"message":"the quick brown fox jumps over the lazy dog, and then it does so once more for good measure","count":3,"flag":true}}"#;

async fn lines(io: &mut DuplexStream, mut each: impl FnMut(Envelope<'_>, &mut Vec<u8>) -> bool) {
    let (mut buf, mut have, mut out) = (vec![0; 65536], 0, Vec::new());
    loop {
        let n = io.read(&mut buf[have..]).await.unwrap();
        if n == 0 {
            return;
        }
        have += n;
        let mut at = 0;
        let mut go = true;
        while let Some(end) = buf[at..have].iter().position(|&b| b == b'\n') {
            go &= each(serde_json::from_slice(&buf[at..at + end]).unwrap(), &mut out);
            at += end + 1;
        }
        buf.copy_within(at..have, 0);
        have -= at;
        io.write_all(&out).await.unwrap();
        out.clear();
        if !go {
            return;
        }
    }
}

fn request(id: u64, out: &mut Vec<u8>) {
    let params = serde_json::from_str(PARAMS).unwrap();
    let e = Envelope { jsonrpc: "2.0", id, method: Some("tools/call"), params: Some(params), result: None };
    serde_json::to_writer(&mut *out, &e).unwrap();
    out.push(b'\n');
}

async fn level_one(outstanding: u64, total: u64) -> f64 {
    let (mut a, mut b) = tokio::io::duplex(1 << 20);
    let server = tokio::spawn(async move {
        lines(&mut b, |e, out| {
            let answer = Envelope { jsonrpc: "2.0", id: e.id, method: None, params: None, result: e.params };
            serde_json::to_writer(&mut *out, &answer).unwrap();
            out.push(b'\n');
            true
        })
        .await;
    });
    let start = Instant::now();
    let mut first = Vec::new();
    for id in 0..outstanding {
        request(id, &mut first);
    }
    a.write_all(&first).await.unwrap();
    let (mut next, mut done) = (outstanding, 0);
    lines(&mut a, |_, out| {
        done += 1;
        if next < total {
            request(next, out);
            next += 1;
        }
        done < total
    })
    .await;
    let took = start.elapsed();
    drop(a);
    server.await.unwrap();
    total as f64 / took.as_secs_f64()
}

async fn library(outstanding: u64, total: u64) -> f64 {
    let (a, b) = transport::memory();
    let server = Peer::builder(&mcp::LATEST_LEGACY)
        .on_request("tools/call", |Params(params): Params<Box<RawValue>>| async move {
            Ok::<_, rescind::peer::ErrorObject>(params)
        });
    let server = tokio::spawn(server.serve(b));
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(a);
    let driver = driver.spawn();
    let params: Box<RawValue> = serde_json::from_str(PARAMS).unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = (0..outstanding)
        .map(|_| {
            let (peer, params) = (peer.clone(), params.clone());
            tokio::spawn(async move {
                for _ in 0..total / outstanding {
                    let call: Call<Box<RawValue>> = peer.request("tools/call", &params);
                    call.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = start.elapsed();
    drop(peer);
    driver.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
    total as f64 / took.as_secs_f64()
}

fn main() {
    for workers in [1, 2] {
        let runtime = || {
            if workers == 1 {
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
            } else {
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
            }
        };
        for outstanding in [1, 64, 1024] {
            let total = if outstanding == 1 { 200_000 } else { 1 << 20 };
            for _ in 0..2 {
                let one = runtime().block_on(async move { tokio::spawn(level_one(outstanding, total)).await.unwrap() });
                let ours = runtime().block_on(async move { tokio::spawn(library(outstanding, total)).await.unwrap() });
                println!(
                    "{workers} worker(s), {outstanding:4}: L1 {:7.0} k/s  ours {:7.0} k/s  {:.2}",
                    one / 1e3,
                    ours / 1e3,
                    ours / one
                );
            }
        }
    }
}
