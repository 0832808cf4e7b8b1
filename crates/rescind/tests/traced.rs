//! What a log says of a cancelled request.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::{
    fmt::{Debug, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use rescind::peer::{Context, ErrorObject, Peer, dialect::mcp, transport};
use serde_json::Value;
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
    let server = Peer::builder(&mcp::LATEST).request("ping", || async { Ok::<_, ErrorObject>(()) }).request(
        "work",
        |cx: Context| async move {
            cx.cancelled().await;
            Err::<(), _>(ErrorObject::cancelled())
        },
    );
    let (_server, driver) = server.accept(far);
    driver.spawn();
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    let call = peer.request::<Value>("work", &()).send();
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
    find("span 1 request", &["id=1", "method=work"]);
    find("record 1", &["cause=\"caller\""]);
    find("record 1", &["outcome=\"cancelled\""]);
    find("INFO", &["a cancel was sent", "id=1", "method=work", "initiator=\"caller\"", "stop\u{fffd}[2Jit"]);
    find("INFO", &["a cancel was received", "id=\"1\"", "in_flight="]);
    find("", &["follows 1"]);
    assert!(
        lines.iter().all(|line| !line.contains('\u{1b}') && !line.starts_with("ERROR") && !line.starts_with("WARN"))
    );
}
