//! What a log says of a cancelled request.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::{
    fmt::{Debug, Write},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rescind::peer::{
    Context, ErrorObject, Outcome, Params, Peer,
    dialect::{acp, lsp, mcp},
    transport,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Writes every span, field and line down as text.
#[derive(Clone, Default)]
struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
    /// Asked something at every word: nobody may hold its lock meanwhile.
    peers: Arc<OnceLock<[Peer; 2]>>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Notes {
    fn add(&self, mut text: String, fields: impl FnOnce(&mut Fields)) {
        let mut visitor = Fields(String::new());
        fields(&mut visitor);
        text.push_str(&visitor.0);
        self.peers.get().into_iter().flatten().for_each(|peer| drop(peer.in_flight()));
        self.lines.lock().unwrap().push(text);
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rescind")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.add(format!("span {id} {}", span.metadata().name()), |fields| span.record(fields));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.add(format!("record {}", span.into_u64()), |fields| values.record(fields));
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.add(format!("{} follows {}", span.into_u64(), follows.into_u64()), |_| ());
    }

    fn event(&self, event: &Event<'_>) {
        self.add(event.metadata().level().to_string(), |fields| event.record(fields));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// D20, D31.
#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_neither_error_nor_success_and_words_of_the_peer_are_made_harmless() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (near, far) = transport::memory();
    let server = Peer::builder(&mcp::LATEST).on_request("ping", || async { Ok::<_, ErrorObject>(()) }).on_request(
        "work",
        |cx: Context| async move {
            cx.cancelled().await;
            Err::<(), _>(ErrorObject::cancelled())
        },
    );
    let (server, driver) = server.accept(far);
    driver.spawn();
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    notes.peers.set([peer.clone(), server]).unwrap();
    let call = peer.request::<Value>("work", &json!({})).send();
    peer.request::<Value>("ping", &()).await.unwrap();
    drop(call.cancel("stop\u{1b}[2Jit"));
    for _ in 0..3 {
        peer.request::<Value>("ping", &()).await.unwrap();
    }
    let lines = notes.lines.lock().unwrap().clone();
    let find = |start: &str, parts: &[&str]| {
        let fits = |line: &&String| line.starts_with(start) && parts.iter().all(|part| line.contains(part));
        assert!(lines.iter().any(|line| fits(&line)), "{start} {parts:?}: {lines:#?}");
    };
    let names = ["conn=", "mcp.method.name=\"work\"", "otel.name=\"work\"", "mcp.protocol.version=\"2026-07-28\""];
    find("span 1 request", &[&names[..], &["side=\"outgoing\"", "otel.kind=\"client\""]].concat());
    find("record 1", &["jsonrpc.request.id=\"1\""]);
    find("span 3 request", &[&names[..], &["side=\"incoming\"", "jsonrpc.request.id=\"1\""]].concat());
    for span in ["record 1", "record 3"] {
        find(span, &["cause=\"caller\""]);
        find(span, &["outcome=\"cancelled\""]);
    }
    find("INFO", &["a cancel was sent", "id=1", "method=work", "initiator=\"caller\"", "stop\u{fffd}[2Jit"]);
    find("INFO", &["a cancel was received", "id=\"1\"", "in_flight="]);
    find("", &["follows 1"]);
    find("", &["follows 3"]);
    assert!(lines.iter().all(|line| !line.contains("status_code")), "{lines:#?}");
    assert!(
        lines.iter().all(|line| !line.contains('\u{1b}') && !line.starts_with("ERROR") && !line.starts_with("WARN"))
    );
}

/// D31: what is refused is a warning, what is late says so softly, what cannot be read is an error once.
#[tokio::test(start_paused = true)]
async fn each_kind_of_cancel_has_its_level_and_an_error_its_status() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let server = Peer::builder(&mcp::LATEST_LEGACY)
        .on_request("ping", || async { Ok::<_, ErrorObject>(()) })
        .on_request("fail", || async { Err::<(), _>(ErrorObject::internal("it broke")) });
    let served = tokio::spawn(server.serve(far));
    let cancel =
        |id: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    let request = |id, method| json!({ "jsonrpc": "2.0", "id": id, "method": method });
    let text = |messages: &[Value]| messages.iter().map(|message| format!("{message}\n")).collect::<String>();
    let (reader, mut writer) = tokio::io::split(near);
    writer.write_all(text(&[request(1, "ping"), request(2, "fail")]).as_bytes()).await.unwrap();
    let mut reader = BufReader::new(reader);
    for _ in 0..2 {
        reader.read_line(&mut String::new()).await.unwrap();
    }
    let cancels = [json!(1), json!(77), json!(true), json!(1.5)].map(cancel);
    writer.write_all(text(&cancels).as_bytes()).await.unwrap();
    // Until a cancel of nothing is held no longer.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    writer.shutdown().await.unwrap();
    reader.read_to_end(&mut Vec::new()).await.unwrap();
    served.await.unwrap().unwrap();
    let lines = notes.lines.lock().unwrap().clone();
    let count =
        |start: &str, part: &str| lines.iter().filter(|line| line.starts_with(start) && line.contains(part)).count();
    assert_eq!(count("DEBUG", "id=\"1\""), 1, "{lines:#?}");
    assert_eq!(count("WARN", "id=\"77\""), 1, "{lines:#?}");
    assert_eq!(count("ERROR", "cannot be read"), 1, "{lines:#?}");
    assert_eq!(count("record 1", "status_code"), 0, "{lines:#?}");
    assert_eq!(count("record 2", "otel.status_code=\"ERROR\""), 1, "{lines:#?}");
}

/// D31: a cancel that nobody took before the connection ended is a line, and nothing is thrown.
#[tokio::test(start_paused = true)]
async fn a_cancel_that_could_not_be_sent_is_a_debug_line() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (near, mut far) = tokio::io::duplex(64);
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    let driven = driver.spawn();
    let call = peer.request::<Value>("work", &json!({})).send();
    // The request has been written; its cancel finds the pipe full.
    far.read_exact(&mut [0; 1]).await.unwrap();
    let _more = peer.request::<Value>("more", &json!({ "text": "x".repeat(200) })).send().detach();
    tokio::task::yield_now().await;
    let receipt = call.cancel("enough");
    drop(far);
    assert_eq!(receipt.await.outcome, Outcome::Unknown);
    let _ = driven.await.unwrap();
    let lines = notes.lines.lock().unwrap().clone();
    let about: Vec<_> = lines.iter().filter(|line| line.contains("outcome=\"unknown\"")).collect();
    assert!(matches!(&about[..], [line] if line.starts_with("DEBUG")), "{lines:#?}");
}

/// The conventions for tools: their name, and that a result may be an error.
#[tokio::test(start_paused = true)]
async fn a_tool_is_named_and_one_that_says_it_failed_has_failed() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (near, far) = transport::memory();
    let call = || async { Ok::<_, ErrorObject>(json!({ "content": [], "isError": true })) };
    let server = Peer::builder(&mcp::LATEST).on_request("tools/call", call);
    server.accept(far).1.spawn();
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    peer.request::<Value>("tools/call", &json!({ "name": "se\u{1b}arch" })).await.unwrap();
    let lines = notes.lines.lock().unwrap().clone();
    let spans: Vec<_> = lines.iter().filter(|line| line.contains("otel.name=\"tools/call se\u{fffd}arch\"")).collect();
    assert_eq!(spans.len(), 2, "{lines:#?}");
    assert!(spans.iter().all(|span| span.contains("gen_ai.tool.name=\"se\u{fffd}arch\"")));
    for told in ["error.type=\"tool_error\"", "otel.status_code=\"ERROR\""] {
        assert_eq!(lines.iter().filter(|line| line.contains(told)).count(), 2, "{told}: {lines:#?}");
    }
}

/// Neither side's params, results and errors, nor what a handler makes of params that it cannot use.
#[tokio::test(start_paused = true)]
async fn no_byte_of_params_or_results_is_in_a_span_or_line() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let server = Peer::builder(&mcp::LATEST_LEGACY)
        .on_request("typed", |Params(_): Params<[u32; 1]>| async { Ok::<_, ErrorObject>(()) })
        .on_request("echo", |Params(given): Params<Value>| async { Ok::<_, ErrorObject>(given) })
        .on_request("fail", || async {
            Err::<(), _>(ErrorObject::internal("hunter2").with_data(&json!({ "password": "hunter2" })))
        });
    let served = tokio::spawn(server.serve(far));
    let (reader, mut writer) = tokio::io::split(near);
    let secret = json!({ "password": "hunter2" });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "typed", "params": ["hunter2"] }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "echo", "params": secret }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "fail", "params": secret }),
        json!({ "jsonrpc": "2.0", "id": 4, "method": "nothing", "params": secret }),
        json!({ "jsonrpc": "2.0", "id": secret, "method": "echo" }),
        json!({ "jsonrpc": "2.0", "id": null, "method": "echo", "params": secret }),
        json!({ "jsonrpc": "2.0", "id": 77, "result": secret }),
        json!({ "jsonrpc": "2.0", "error": secret }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": secret } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/other", "params": secret }),
        secret,
    ];
    let text = messages.iter().map(|message| format!("{message}\n")).collect::<String>();
    writer.write_all(format!("{text}password=hunter2\n").as_bytes()).await.unwrap();
    writer.shutdown().await.unwrap();
    BufReader::new(reader).read_to_end(&mut Vec::new()).await.unwrap();
    served.await.unwrap().unwrap();
    let lines = notes.lines.lock().unwrap().clone();
    assert!(!lines.iter().any(|line| line.contains("hunter2")), "{lines:#?}");
    for told in ["a message went nowhere", "cannot be read", "error.type=\"-32602\"", "error.type=\"-32603\""] {
        assert!(lines.iter().any(|line| line.contains(told)), "{told}: {lines:#?}");
    }
}

/// The same of the side that asks: what it sends, what it is answered, late or twice too, and what it cannot read.
#[tokio::test(start_paused = true)]
async fn no_byte_of_params_or_results_is_in_a_span_or_line_of_a_caller() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    let (reader, mut writer) = tokio::io::split(far);
    let mut reader = BufReader::new(reader);
    let answers = [
        r#""result":{"password":"hunter2"}"#,
        r#""error":{"code":-32603,"message":"hunter2","data":{"password":"hunter2"}}"#,
        r#""error":{"code":"hunter2","message":"hunter2"}"#,
        r#""result":"hunter2","error":{"code":1,"message":"hunter2"}"#,
        r#""result":hunter2"#,
        r#""result":7"#,
    ];
    let mut ends = Vec::new();
    for answer in answers {
        let call = peer.request::<u32>("echo", &json!({ "password": "hunter2" })).send();
        let mut asked = String::new();
        reader.read_line(&mut asked).await.unwrap();
        assert!(asked.contains("hunter2"), "{asked}");
        let asked: Value = serde_json::from_str(&asked).unwrap();
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{answer}}}\n", asked["id"]);
        writer.write_all(answer.repeat(2).as_bytes()).await.unwrap();
        ends.push(call.await.is_ok());
    }
    assert_eq!(ends, [false, false, false, false, false, true]);
    let lines = notes.lines.lock().unwrap().clone();
    assert!(!lines.iter().any(|line| line.contains("hunter2")), "{lines:#?}");
    let told = [
        "outcome=\"result\"",
        "error.type=\"-32603\"",
        "error.type=\"unreadable\"",
        "a message went nowhere",
        "something arrived late",
    ];
    for told in told {
        assert!(lines.iter().any(|line| line.contains(told)), "{told}: {lines:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_is_named_as_the_conventions_of_its_protocol_have_it() {
    for (dialect, is_mcp) in [(&mcp::LATEST, true), (&acp::V1, false), (&lsp::LSP, false)] {
        let notes = Notes::default();
        let _guard = tracing::subscriber::set_default(notes.clone());
        let (near, far) = transport::memory();
        let (_server, driver) =
            Peer::builder(dialect).on_request("initialize", || async { Ok::<_, ErrorObject>(()) }).accept(far);
        driver.spawn();
        let (peer, driver) = Peer::builder(dialect).connect(near);
        driver.spawn();
        let _: Value = peer.request("initialize", &json!({})).await.unwrap();
        let lines = notes.lines.lock().unwrap().clone();
        let count = |part: &str| lines.iter().filter(|line| line.starts_with("span") && line.contains(part)).count();
        let (ours, theirs) = (count("mcp.method.name=\"initialize\""), count("rpc.method=\"initialize\""));
        assert_eq!((ours, theirs), if is_mcp { (2, 0) } else { (0, 2) }, "{lines:#?}");
    }
}

#[tokio::test]
async fn the_protocol_that_carries_a_request_is_named_if_anything_but_bytes_does() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let listener = transport::Listener::websocket("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.address().unwrap());
    let server = || Peer::builder(&mcp::LATEST).on_request("ping", || async { Ok::<_, ErrorObject>(()) });
    tokio::spawn(listener.serve(server));
    let (near, far) = transport::memory();
    let (_server, driver) = server().accept(far);
    driver.spawn();
    for (transport, is_named) in [(transport::websocket(&url).await.unwrap(), true), (near, false)] {
        notes.lines.lock().unwrap().clear();
        let (peer, driver) = Peer::builder(&mcp::LATEST).connect(transport);
        driver.spawn();
        let _: Value = peer.request("ping", &()).await.unwrap();
        let lines = notes.lines.lock().unwrap().clone();
        let spans = lines.iter().filter(|line| line.starts_with("span"));
        for span in spans {
            assert_eq!(span.contains("network.protocol.name=\"websocket\""), is_named, "{span}");
            assert_eq!(span.contains("network.protocol.name"), is_named, "{span}");
        }
    }
}
