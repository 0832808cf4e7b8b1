//! tower-lsp-server, whose slots are for cancels, too.

use rescind_peers_wrap::{Fate, Work, both, connection, eventually, notification, request, row, settled};
use serde_json::{Value, json};
use tower_lsp_server::{
    LanguageServer, LspService, Server,
    gen_lsp_types::{InitializeParams, InitializeResult},
    jsonrpc::Result,
};

struct Backend(Work);

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl Backend {
    async fn work(&self, params: Value) -> Result<Value> {
        Ok(self.0.run(params["work"].as_str().unwrap_or_default()).await.into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_finds_a_slot() {
    const SLOTS: usize = 4;
    let seen = both(async |way| {
        let work = Work::default();
        let (io, client) = connection(64 * 1024);
        let mut client = client.headers();
        let theirs = work.clone();
        let (service, socket) =
            LspService::build(move |_| Backend(theirs.clone())).custom_method("work", Backend::work).finish();
        // One slot is left for what is no request.
        let (reader, writer) = way.server(io, |wrap| wrap.max_in_flight(SLOTS - 1));
        tokio::spawn(Server::new(reader, writer, socket).concurrency_level(SLOTS).serve(service));
        client.send(request("hello", "initialize", json!({"capabilities": {}}))).await;
        client.answer_to("hello").await;
        for id in 1..=SLOTS {
            client.send(request(id, "work", json!({"work": id.to_string()}))).await;
        }
        for id in 1..SLOTS {
            work.comes_to(&id.to_string(), Fate::Running).await;
        }
        settled().await;
        client.send(notification("$/cancelRequest", json!({"id": 1}))).await;
        match eventually(work.comes_to("1", Fate::Stopped)).await {
            None => "waits for a slot; the work goes on",
            Some(()) => "stops the work; the fourth is refused",
        }
    })
    .await;
    row("tower-lsp-server: 4 slots, 4 requests; a cancel", &seen);
    assert_eq!(seen[0], "waits for a slot; the work goes on");
    assert_eq!(seen[1], "stops the work; the fourth is refused");
}
