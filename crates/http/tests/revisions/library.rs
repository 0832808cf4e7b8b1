//! The library's clients and servers.

use rescind::{
    mcp::{self, Client, Revision},
    peer::transport::memory,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

use crate::{Server, date, named, request, stateless};

/// The other end of a connection: a line each.
struct Wire(BufReader<DuplexStream>);

impl Wire {
    fn new() -> (Self, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        (Self(BufReader::new(ours)), theirs)
    }

    async fn say(&mut self, message: &Value) {
        self.0.get_mut().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next message; `None` at the end.
    async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }
}

#[tokio::test]
async fn a_client_opens_a_server_of_each_revision_in_its_words() {
    for server in Server::all() {
        let (mut wire, theirs) = Wire::new();
        let (seen, mut requests) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(request) = wire.hear().await {
                let answer = server.answers(&request);
                // The test may have seen enough.
                let _ = seen.send(request);
                wire.say(&answer).await;
            }
        });
        let client = Client::connect(theirs, "client", "1").await.unwrap();
        assert_eq!(client.server().unwrap().revision.date(), date(server.revision), "{server:?}");
        assert!(client.list_tools().await.unwrap().is_empty());
        let mut last = Value::Null;
        while let Ok(request) = requests.try_recv() {
            assert_ne!(request["method"], "initialize", "{server:?}");
            last = request;
        }
        assert_eq!((&last["method"], named(&last)), (&json!("tools/list"), date(server.revision)), "{server:?}");
    }
}

#[tokio::test]
async fn a_client_and_a_server_agree_on_what_both_speak() {
    for revision in Revision::ALL {
        let (ours, theirs) = memory();
        let (peer, driver) = mcp::Server::new("server", "1").revisions(&[revision]).accept(theirs);
        driver.spawn();
        let client = Client::connect(ours, "client", "1").await;
        let agreed = client.map(|client| client.server().unwrap().revision);
        // A client asks for the newest revision with sessions, and takes what the server has instead.
        assert_eq!(agreed.ok(), Some(revision), "{revision}");
        drop(peer);
    }
}

#[tokio::test]
async fn a_server_answers_a_client_of_each_revision_in_its_words() {
    for client in stateless() {
        let (mut wire, theirs) = Wire::new();
        let (_peer, driver) = mcp::Server::new("server", "1").accept(theirs);
        driver.spawn();
        wire.say(&request(client, 1, "server/discover", json!({}))).await;
        let found = wire.hear().await.unwrap()["result"].clone();
        assert!(found["supportedVersions"].as_array().unwrap().contains(&json!(date(client))), "{client}");
        wire.say(&request(client, 2, "tools/list", json!({}))).await;
        assert_eq!(wire.hear().await.unwrap()["result"]["resultType"], "complete", "{client}");
        for (id, method) in [(3, "ping"), (4, "initialize")] {
            wire.say(&request(client, id, method, json!({}))).await;
            assert_eq!(wire.hear().await.unwrap()["error"]["code"], -32601, "{client} {method}");
        }
    }
}
