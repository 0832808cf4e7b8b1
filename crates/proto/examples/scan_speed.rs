//! How fast messages are read: the envelope beside serde_json with a borrowed
//! raw envelope, and the codecs beside nothing.
//!
//! Rounds are interleaved and the medians of them compared: use the ratios.
//! `cargo run --release -p rescind-proto --example scan_speed`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use std::{borrow::Cow, hint::black_box, time::Instant};

use rescind_proto::{
    frame,
    framing::{Decoder, Framing},
};
use serde_json::value::RawValue;

#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "only the time it takes to fill them matters")]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

const MIB: usize = 1 << 20;
const ROUNDS: usize = 31;

const CALL: &str = r#"{"jsonrpc":"2.0","id":123456,"method":"tools/call","params":{"name":"search_files","arguments":{"path":"/home/user/project/src","pattern":"fn main","limit":50,"recursive":true},"_meta":{"progressToken":"tok-123"}}}"#;
const RESPONSE: &str = r#"{"result":{"content":[{"type":"text","text":"a line of text with a \"quote\" and a line break\n"}],"isError":false},"jsonrpc":"2.0","id":123456}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":123456,"reason":"user pressed stop"}}"#;
const PROGRESS: &str = r#"{"method":"notifications/progress","params":{"progressToken":"tok-123","progress":5,"total":10},"jsonrpc":"2.0"}"#;

fn main() {
    let filled = |before: &str, text: &str, after: &str| {
        let body = text.repeat(MIB / text.len());
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{before}{body}{after}}}"#)
    };
    let cases = [
        ("tools/call", CALL.to_owned()),
        ("tools/call, string id", CALL.replace("123456,", "\"5f64c8f0-8c3b-4f5e-9a51-1b2c3d4e5f60\",")),
        ("response", RESPONSE.to_owned()),
        ("cancel", CANCEL.to_owned()),
        ("progress", PROGRESS.to_owned()),
        (
            "1 MiB escaped string",
            filled("[\"", r#"fn main() {\n    println!(\"hello, \\\"world\\\"\");\n}\n// no escapes here\n"#, "\"]"),
        ),
        ("1 MiB plain string", filled("[\"", "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQgdGV4dCBvZiBhIGltYWdl", "\"]")),
        ("1 MiB small objects", filled("[", r#"{"id":12345,"name":"item name","tags":["a","b"],"ok":true},"#, "{}]")),
        ("1 MiB tiny objects", filled("[", r#"{"a":[1]},"#, "{}]")),
        ("1 MiB Japanese", filled("[\"", "日本語のテキスト、改行\\n。", "\"]")),
        ("1 MiB French", filled("[\"", "Voilà un texte français, très ordinaire. ", "\"]")),
    ];
    println!("{:<24}{:>9}{:>12}{:>12}{:>8}{:>8}", "envelope", "bytes", "ours ns", "serde ns", "ratio", "GB/s");
    for (name, body) in &cases {
        compare(name, body.as_bytes());
    }
    println!("\n{:<24}{:>9}{:>12}{:>8}", "codec", "bytes", "ns/message", "GB/s");
    for (name, framing) in [("lines", Framing::Line), ("header blocks", Framing::Headers)] {
        for body in [&cases[0].1, &cases[6].1] {
            decode(name, framing, body.as_bytes());
        }
    }
}

fn compare(name: &str, body: &[u8]) {
    let times = (MIB / body.len()).max(1);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(nanos(times, || drop(black_box(frame::parse(black_box(body))))));
        theirs.push(nanos(times, || drop(black_box(serde_json::from_slice::<Envelope<'_>>(black_box(body))))));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let (ratio, speed) = (theirs / ours, body.len() as f64 / ours);
    println!("{name:<24}{:>9}{ours:>12.1}{theirs:>12.1}{ratio:>8.2}{speed:>8.2}", body.len());
}

/// Messages that arrive in pieces of 64 KiB.
fn decode(name: &str, framing: Framing, body: &[u8]) {
    let mut stream = Vec::new();
    while stream.len() < 8 * MIB {
        framing.write(&mut stream, body);
    }
    let messages = stream.len() / (body.len() + 1);
    let times = (0..ROUNDS).map(|_| {
        let mut decoder = Decoder::new(Some(framing), 2 * MIB);
        nanos(1, || {
            for mut piece in stream.chunks(64 * 1024) {
                while let Some(chunk) = decoder.decode(&mut piece) {
                    black_box(chunk);
                }
            }
        })
    });
    let time = median(times.collect());
    let (each, speed) = (time / messages as f64, stream.len() as f64 / time);
    println!("{name:<24}{:>9}{each:>12.1}{speed:>8.2}", body.len());
}

fn nanos(times: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    start.elapsed().as_nanos() as f64 / times as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
