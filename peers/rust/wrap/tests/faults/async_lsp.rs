//! async-lsp as a server with its concurrency layer, and both its ends over a small pipe.

use std::{
    num::NonZeroUsize,
    ops::ControlFlow,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use async_lsp::{
    AnyEvent, AnyNotification, AnyRequest, LspService, MainLoop, ResponseError,
    concurrency::ConcurrencyLayer,
    lsp_types::{
        InitializeParams,
        request::{Initialize, Request},
    },
};
use rescind_peers_wrap::{Fate, Way, Work, both, connection, eventually, notification, request, row, seconds, settled};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tower::{Layer, Service};

/// Answers `initialize` and `echo` at once; `work` works until it is released or dropped.
struct Server(Work);

impl Service<AnyRequest> for Server {
    type Response = Value;
    type Error = ResponseError;
    type Future = Pin<Box<dyn Future<Output = Result<Value, ResponseError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: AnyRequest) -> Self::Future {
        let work = self.0.clone();
        Box::pin(async move {
            match &*request.method {
                "work" => Ok(work.run(request.params["work"].as_str().unwrap_or_default()).await.into()),
                "initialize" => Ok(json!({"capabilities": {}})),
                _ => Ok(request.params),
            }
        })
    }
}

impl LspService for Server {
    fn notify(&mut self, _: AnyNotification) -> ControlFlow<async_lsp::Result<()>> {
        ControlFlow::Continue(())
    }

    fn emit(&mut self, _: AnyEvent) -> ControlFlow<async_lsp::Result<()>> {
        ControlFlow::Continue(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_read_although_every_slot_is_busy() {
    const SLOTS: usize = 4;
    let seen = both(async |way| {
        let work = Work::default();
        let (io, client) = connection(64 * 1024);
        let mut client = client.headers();
        let slots = NonZeroUsize::new(SLOTS).expect("not zero");
        let server = ConcurrencyLayer::new(slots).layer(Server(work.clone()));
        let (server, _socket) = MainLoop::new_server(|_| server);
        let (reader, writer) = way.server(io, |wrap| wrap.max_in_flight(SLOTS));
        tokio::spawn(server.run_buffered(reader.compat(), writer.compat_write()));
        client.send(request("hello", "initialize", json!({}))).await;
        client.answer_to("hello").await;
        for id in 1..=SLOTS + 1 {
            client.send(request(id, "work", json!({"work": id.to_string()}))).await;
        }
        for id in 1..=SLOTS {
            work.comes_to(&id.to_string(), Fate::Running).await;
        }
        settled().await;
        client.send(notification("$/cancelRequest", json!({"id": 1}))).await;
        let stopped = eventually(work.comes_to("1", Fate::Stopped)).await;
        match stopped {
            None => "is never read; the work goes on",
            Some(()) => "stops the work; the fifth is refused",
        }
    })
    .await;
    row("async-lsp server: 4 slots, 5 requests; a cancel", &seen);
    assert_eq!(seen[0], "is never read; the work goes on");
    assert_eq!(seen[1], "stops the work; the fifth is refused");
}

enum Long {}

impl Request for Long {
    type Params = Value;
    type Result = Value;
    const METHOD: &'static str = "work";
}

enum Echo {}

impl Request for Echo {
    type Params = Value;
    type Result = Value;
    const METHOD: &'static str = "echo";
}

/// No relay makes a server read that does not: the second request is read already, and the cancel cannot pass it.
#[tokio::test(start_paused = true)]
async fn without_a_limit_the_caller_of_a_busy_server_is_answered_and_the_work_goes_on() {
    const GRACE: Duration = Duration::from_secs(2);
    let seen = both(async |way| {
        let work = Work::default();
        let (io, client) = connection(64 * 1024);
        let mut client = client.headers();
        let server = ConcurrencyLayer::new(NonZeroUsize::MIN).layer(Server(work.clone()));
        let (server, _socket) = MainLoop::new_server(|_| server);
        let (reader, writer) = way.server(io, |wrap| wrap.grace(GRACE));
        tokio::spawn(server.run_buffered(reader.compat(), writer.compat_write()));
        client.send(request("hello", "initialize", json!({}))).await;
        client.answer_to("hello").await;
        client.send(request(1, "work", json!({"work": "busy"}))).await;
        work.comes_to("busy", Fate::Running).await;
        client.send(request(2, "work", json!({"work": "waits"}))).await;
        settled().await;
        client.send(notification("$/cancelRequest", json!({"id": 1}))).await;
        let asked = Instant::now();
        let answered = match eventually(client.answer_to(1)).await {
            None => "no answer".into(),
            Some(answer) => format!("{} after {}", answer["error"]["code"], seconds(asked.elapsed())),
        };
        assert_eq!((work.fate("busy"), work.fate("waits")), (Some(Fate::Running), None));
        format!("{answered}; works on")
    })
    .await;
    row("async-lsp server: every slot busy and no limit set; a cancel", &seen);
    assert_eq!(seen[0], "no answer; works on");
    assert_eq!(seen[1], "-32800 after 2.0 s; works on");
}

/// A dropped future says nothing that a relay could hear; its clock is the only thing that ends the work.
#[tokio::test(start_paused = true)]
async fn what_a_dropped_call_left_running_ends_by_the_clock() {
    const CLOCK: Duration = Duration::from_secs(60);
    let seen = both(async |way| {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let work = Work::default();
        let (server, _socket) = MainLoop::new_server(|_| ConcurrencyLayer::default().layer(Server(work.clone())));
        let (reader, writer) = tokio::io::split(far);
        tokio::spawn(server.run_buffered(reader.compat(), writer.compat_write()));
        let (client, socket) = MainLoop::new_client(|_| Server(Work::default()));
        let (reader, writer) = way.client(near, |wrap| wrap.response_timeout(CLOCK));
        tokio::spawn(client.run_buffered(reader.compat(), writer.compat_write()));
        let _ = socket.request::<Initialize>(InitializeParams::default()).await;
        let caller = socket.clone();
        let call = tokio::spawn(async move { caller.request::<Long>(json!({"work": "long"})).await });
        work.comes_to("long", Fate::Running).await;
        let asked = Instant::now();
        call.abort();
        match eventually(work.comes_to("long", Fate::Stopped)).await {
            None => "the work goes on for ever".into(),
            Some(()) => format!("the work stops after {}", seconds(asked.elapsed())),
        }
    })
    .await;
    row("async-lsp client: the future of a call is dropped", &seen);
    assert_eq!(seen[0], "the work goes on for ever");
    assert_eq!(seen[1], "the work stops after 60.0 s");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_over_a_small_pipe_are_answered() {
    const REQUESTS: usize = 1024;
    let seen = both(async |way: Way| {
        let (near, far) = tokio::io::duplex(4096);
        let (server, _socket) = MainLoop::new_server(|_| Server(Work::default()));
        let (reader, writer) = way.server(far, |wrap| wrap);
        tokio::spawn(server.run_buffered(reader.compat(), writer.compat_write()));
        let (client, socket) = MainLoop::new_client(|_| Server(Work::default()));
        let (reader, writer) = tokio::io::split(near);
        tokio::spawn(client.run_buffered(reader.compat(), writer.compat_write()));
        let calls: Vec<_> = (0..REQUESTS)
            .map(|n| {
                let socket = socket.clone();
                let params = json!({"n": n, "text": "x".repeat(100)});
                tokio::spawn(async move { socket.request::<Echo>(params).await.is_ok() })
            })
            .collect();
        let all = async {
            let mut answered = 0;
            for call in calls {
                answered += usize::from(call.await.unwrap_or(false));
            }
            answered
        };
        match eventually(all).await {
            Some(answered) => format!("{answered} answered"),
            None => "wedged for ever".into(),
        }
    })
    .await;
    row("async-lsp, both ends: 1,024 requests over a 4 KiB pipe", &seen);
    assert_eq!(seen[0], "wedged for ever");
    assert_eq!(seen[1], "1024 answered");
}
