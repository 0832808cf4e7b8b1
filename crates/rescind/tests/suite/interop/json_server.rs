//! A language server that people use, driven by our client.

use std::{sync::Arc, time::Duration};

use rescind::peer::{Call, CallError, CauseCode, Context, ErrorObject, Outcome, Params, Peer};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    journal::{Journal, journal},
    program::{Program, bounded, pass},
    protocol::Protocol,
    sdk::Sdk,
    table::{Behaviour, Report, Role, Seen},
};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn json_server() {
    bounded(play()).await;
}

async fn play() {
    let mut report = Report::new(Sdk::JsonServer);
    let Some(command) = Sdk::JsonServer.command(Role::Server) else { return };
    let mut editor = Editor::open(&command).await;
    report.note(Behaviour::OurCancel, editor.our_cancel_stops_its_work().await);
    report.note(Behaviour::OurTimeout, editor.our_timeout_stops_its_work().await);
    report.note(Behaviour::TheirLateAnswer, editor.its_late_answers_harmed_nobody());
    editor.close().await;
}

/// The server asks its client for the schema of a document, and answers nothing about the document until it has it:
/// a request is in flight for as long as the editor keeps the schema back. (That question outlives the request: the
/// server wants the schema for its diagnostics, too.)
struct Editor {
    peer: Peer,
    server: Program,
    ours: Journal,
    give: Arc<Notify>,
}

impl Editor {
    async fn open(command: &[String]) -> Self {
        let (server, transport) = Program::start(command);
        let (ours, teller) = journal();
        let logged = teller.clone();
        let give = Arc::new(Notify::new());
        let given = Arc::clone(&give);
        let (peer, driver) = Peer::builder(Protocol::Lsp.dialect())
            .on_request("vscode/content", move |uri: Params<Value>, cx: Context| {
                let (given, teller) = (Arc::clone(&given), teller.clone());
                async move {
                    let schema = uri.0.as_str().or_else(|| uri.0[0].as_str()).unwrap_or_default().to_owned();
                    teller.tell(&schema, "asked", Value::Null);
                    tokio::select! {
                        () = given.notified() => {}
                        () = cx.cancelled() => teller.tell(&schema, "withdrawn", Value::Null),
                    }
                    let word = json!({ "description": "what the schema says" });
                    Ok::<_, ErrorObject>(json!({ "properties": { "word": word } }).to_string())
                }
            })
            // What the server logs when it finds work of its own cancelled.
            .on_notification("window/logMessage", move |log: Params<Value>| {
                logged.tell("server", log.0["message"].as_str().unwrap_or_default(), Value::Null);
            })
            .connect(transport);
        driver.spawn();
        let mut hello = Protocol::Lsp.hello();
        hello["capabilities"] = json!({ "textDocument": { "hover": { "contentFormat": ["plaintext"] } } });
        // Any other schema is asked of the client.
        hello["initializationOptions"] = json!({ "handledSchemaProtocols": ["file"] });
        peer.request::<Value>("initialize", &hello).await.unwrap();
        peer.try_notify("initialized", &json!({})).unwrap();
        Self { peer, server, ours, give }
    }

    async fn our_cancel_stops_its_work(&mut self) -> Seen {
        let hover = self.hover("cancelled").await;
        let stop = hover.handle();
        let receipt = stop.cancel("");
        assert!(hover.await.unwrap_err().is_cancelled());
        self.give.notify_one();
        assert!(matches!(receipt.await.outcome, Outcome::Confirmed { .. }), "{stop:?}");
        self.ours.until("server", &["cancelled"]).await;
        self.goes_on("cancelled").await;
        Seen::Ok
    }

    async fn our_timeout_stops_its_work(&mut self) -> Seen {
        let hover = self.hover("timed out").await;
        let stop = hover.handle();
        pass(MINUTE).await;
        assert!(matches!(hover.await, Err(CallError::TimedOut { after, .. }) if after == MINUTE));
        self.give.notify_one();
        self.goes_on("timed out").await;
        let receipt = stop.receipt().unwrap();
        assert_eq!(receipt.cause.code, CauseCode::Timeout);
        assert!(matches!(receipt.outcome, Outcome::Confirmed { .. }), "{receipt:?}");
        Seen::Ok
    }

    /// Both its confirmations came when nobody waited for them any more.
    fn its_late_answers_harmed_nobody(&self) -> Seen {
        let in_flight = self.peer.in_flight();
        assert!(in_flight.ours.is_empty() && in_flight.theirs.is_empty(), "{in_flight:?}");
        assert_eq!(self.peer.counters().late, 2);
        Seen::Ok
    }

    /// Asks about a word of a new document, whose schema the server has just asked for.
    async fn hover(&mut self, name: &str) -> Call<Value> {
        let schema = format!("held://{name}").replace(' ', "-");
        let text = json!({ "$schema": schema, "word": 1 }).to_string();
        let document = json!({ "uri": uri(name), "languageId": "json", "version": 1, "text": text });
        self.peer.try_notify("textDocument/didOpen", &json!({ "textDocument": document })).unwrap();
        let hover = self.peer.request("textDocument/hover", &position(name)).response_timeout(MINUTE).send();
        self.ours.until(&schema, &["asked"]).await;
        hover
    }

    /// The same question again, now that the server has the schema.
    async fn goes_on(&mut self, name: &str) {
        let hover: Value = self.peer.request("textDocument/hover", &position(name)).await.unwrap();
        assert!(hover.to_string().contains("what the schema says"), "{hover}");
    }

    async fn close(self) {
        self.peer.request::<Value>("shutdown", &()).await.unwrap();
        self.peer.try_notify("exit", &()).unwrap();
        self.server.exited().await;
        self.peer.closed().await;
    }
}

fn uri(name: &str) -> String {
    format!("file:///{}.json", name.replace(' ', "-"))
}

fn position(name: &str) -> Value {
    // In the key `word`, whatever the length of the schema's name.
    let character = json!({ "$schema": format!("held://{name}") }).to_string().len() + 2;
    json!({ "textDocument": { "uri": uri(name) }, "position": { "line": 0, "character": character } })
}
