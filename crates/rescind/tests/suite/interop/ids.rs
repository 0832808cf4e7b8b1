//! Ids that one careless comparison takes for each other or for none, sent as they are: a `Peer` never sends such.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout},
};

use super::{
    program::{listen, to_run},
    protocol::Protocol,
    sdk::Sdk,
    table::Seen,
};

struct Raw {
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
}

/// Which work each cancel of 0, 5 and "5" stops, all three in flight.
pub(crate) async fn three_ids(sdk: Sdk, command: &[String]) -> Seen {
    let protocol = sdk.protocol();
    if protocol == Protocol::Lsp {
        return Seen::Cannot;
    }
    let mut server = to_run(command).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut journal = listen(server.stderr.take().unwrap());
    let (stdin, stdout) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let mut raw = Raw { lines: BufReader::new(stdout).lines(), stdin };
    raw.round_trip("hello", protocol.opening(), protocol.hello()).await;
    if let Some((method, params)) = protocol.initialized() {
        raw.say(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }
    let ids = [json!(0), json!(5), json!("5")];
    let works = ids.clone().map(|id| id.to_string());
    for (id, work) in ids.iter().zip(&works) {
        let params = protocol.work("obeys", json!({ "work": work }));
        raw.say(json!({ "jsonrpc": "2.0", "id": id, "method": protocol.work_method(), "params": params })).await;
        journal.until(work, &["started"]).await;
    }
    let mut hits = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let (method, params) = protocol.cancel(id);
        raw.say(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        for round in 0..3 {
            let barrier = format!("barrier {at} {round}");
            let params = protocol.work("obeys", json!({ "work": barrier, "ticks": 0 }));
            raw.round_trip(&barrier, protocol.work_method(), params).await;
            journal.until(&barrier, &["finished"]).await;
        }
        let mut stopped = works.to_vec();
        stopped.retain(|work| journal.events(work).contains(&"stopped"));
        hits.push(stopped.join(" "));
    }
    match hits.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["0", "0 5", r#"0 5 "5""#] => Seen::Ok,
        ["", "5", r#"5 "5""#] => Seen::Fault("never hears of a cancel for id 0"),
        ["0", r#"0 "5""#, r#"0 "5""#] => Seen::Fault(r#"stops "5" when 5 is cancelled, and then never 5"#),
        ref odd => panic!("{}: {odd:?}", sdk.name()),
    }
}

impl Raw {
    async fn say(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn round_trip(&mut self, id: &str, method: &str, params: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return;
            }
        }
    }
}
