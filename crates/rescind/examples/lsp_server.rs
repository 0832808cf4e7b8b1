//! A language server whose search can be stopped: an editor cancels it with every key that is typed.
//!
//! `cargo run -p rescind --example lsp_server`, on stdin and stdout.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use rescind::{
    lsp,
    peer::{Context, ErrorObject, Params, transport},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The documents that the editor has open, by URI.
#[derive(Clone, Default)]
struct Documents(Arc<Mutex<BTreeMap<String, String>>>);

impl Documents {
    fn open(&self, uri: String, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uri, text);
    }

    fn all(&self) -> BTreeMap<String, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Deserialize)]
struct Query {
    query: String,
}

/// Every line that defines something of this name, slowly. If it is stopped, what it has found so far is a lawful
/// answer (LSP-01); this one says instead that it was cancelled.
async fn search(query: String, documents: Documents, cx: Context) -> Result<Vec<Value>, ErrorObject> {
    let mut found = Vec::new();
    for (uri, text) in documents.all() {
        for (number, line) in text.lines().enumerate() {
            if cx.is_cancelled() {
                return Err(ErrorObject::cancelled());
            }
            if line.starts_with("fn ") && line.contains(&query) {
                let place = json!({ "line": number, "character": 0 });
                let location = json!({ "uri": uri, "range": { "start": place, "end": place } });
                found.push(json!({ "name": line, "kind": 12, "location": location }));
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(found)
}

#[tokio::main]
async fn main() -> io::Result<lsp::Exit> {
    let documents = Documents::default();
    let opened = documents.clone();
    lsp::Server::new("symbols", "1.0.0")
        .capability("textDocumentSync", json!({ "openClose": true }))
        .capability("workspaceSymbolProvider", true)
        .on_notification("textDocument/didOpen", move |Params(open): Params<Value>| {
            let document = &open["textDocument"];
            if let (Some(uri), Some(text)) = (document["uri"].as_str(), document["text"].as_str()) {
                opened.open(uri.to_owned(), text.to_owned());
            }
        })
        .on_request("workspace/symbol", move |Params(Query { query }): Params<Query>, cx: Context| {
            search(query, documents.clone(), cx)
        })
        .serve(transport::stdio())
        .await
}
