//! An MCP client on rmcp over HTTP: `mcp_http_client [--legacy] SCENARIO… --url URL`. The scenarios are those of
//! `../../node/common/scenarios.mjs`; `--legacy` opens a session, and without it the newest era is asked for first.

#![expect(deprecated, reason = "sampling is how servers ask clients in the handshake era")]

use std::{
    env, process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rescind_peers::{mark, mark_of, marked, text};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceError, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
        CreateMessageRequestParams, CreateMessageResult, CustomRequest, Implementation, ProgressNotificationParam,
        ProtocolVersion, SamplingMessage, ServerResult, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestContext, RunningService,
    },
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};

const LARGE: usize = 1 << 20;

/// What the caller did and saw, one JSON line each.
#[derive(Clone)]
struct Log {
    begun: Instant,
    lines: Arc<AtomicUsize>,
}

impl Log {
    fn line(&self, kind: &str, what: &str, fields: Value) {
        let mut line = json!({
            "n": self.lines.fetch_add(1, Ordering::Relaxed),
            "ms": u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        line[kind] = what.into();
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        println!("{line}");
    }

    fn did(&self, what: &str, fields: Value) {
        self.line("did", what, fields);
    }

    fn saw(&self, what: &str, fields: Value) {
        self.line("saw", what, fields);
    }
}

/// The client's handler. The SDK asks for progress of every call; what it gets is of the last that wanted any.
#[derive(Clone)]
struct Host {
    log: Log,
    heard: Arc<Mutex<(String, watch::Sender<usize>)>>,
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_sampling().build();
        ClientConfig::new(capabilities, Implementation::new("rescind-peer", "1.0.0"))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _cx: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let question = serde_json::to_value(&params).unwrap_or_default();
        let content = &question["messages"][0]["content"];
        self.log.saw("asked", json!({ "question": text(content.get(0).unwrap_or(content), "text") }));
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("an answer"), "none".into()))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _cx: NotificationContext<RoleClient>) {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.log.saw("progress", json!({ "call": heard.0, "tick": params.progress }));
        heard.1.send_modify(|ticks| *ticks += 1);
    }
}

struct Player {
    log: Log,
    host: Host,
    client: RunningService<RoleClient, Host>,
    patience: Duration,
}

/// One call: started when made, its outcome printed when it settles.
struct Call {
    work: String,
    call: AbortHandle,
    settled: JoinHandle<()>,
    ticks: watch::Receiver<usize>,
}

impl Player {
    fn call(&self, work: &str, tool: &str, options: Value) -> Call {
        self.log.did("call", json!({ "call": work, "behaviour": tool }));
        let (sender, ticks) = watch::channel(0);
        if options["quiet"] != true {
            *self.host.heard.lock().unwrap_or_else(PoisonError::into_inner) = (work.to_owned(), sender);
        }
        let (peer, params) = (self.client.peer().clone(), params(work, tool, options));
        let call = tokio::spawn(async move { peer.call_tool(params).await });
        let abort = call.abort_handle();
        let (log, of) = (self.log.clone(), work.to_owned());
        let settled = tokio::spawn(async move {
            match call.await {
                Ok(outcome) => report(&log, &of, outcome),
                Err(_) => log.saw("cancelled", json!({ "call": of })),
            }
        });
        Call { work: work.to_owned(), call: abort, settled, ticks }
    }

    async fn within(&self, what: &str, event: impl Future) -> bool {
        let came = timeout(self.patience, event).await.is_ok();
        if !came {
            self.log.saw("nothing", json!({ "waiting_for": what }));
        }
        came
    }

    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let holds = async {
            while !condition() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        self.within(what, holds).await;
    }

    async fn started(&self, call: &Call) {
        self.until(&format!("{} to start", call.work), || marked(&call.work, "started")).await;
    }

    async fn ticked(&self, call: &mut Call, at: usize) {
        let what = format!("{} tick {at}", call.work);
        self.within(&what, call.ticks.wait_for(|ticks| *ticks >= at)).await;
    }

    fn cancel(&self, call: &Call) {
        self.log.did("cancel", json!({ "call": call.work }));
        call.call.abort();
    }

    async fn done(&self, call: Call) {
        self.within(&format!("{} to settle", call.work), call.settled).await;
    }

    async fn echo(&self, work: &str) {
        self.done(self.call(work, "echo", json!({ "quiet": true }))).await;
    }

    async fn cancelled(&self, call: Call) {
        self.cancel(&call);
        self.until(&format!("{} to stop", call.work), || marked(&call.work, "stopped")).await;
        let after = format!("after {}", call.work);
        self.done(call).await;
        self.echo(&after).await;
    }

    fn waits(&self, work: &str) -> Call {
        self.call(work, "waits", json!({ "quiet": true }))
    }

    async fn play(&self, scenario: &str) {
        match scenario {
            "progress" => {
                let options = json!({ "ticks": 4, "every_ms": 10, "report": 3 });
                self.done(self.call("progress", "obeys", options)).await;
            }
            "silent" => {
                let call = self.waits("silent");
                self.started(&call).await;
                self.cancelled(call).await;
            }
            "ticking" => {
                let mut call = self.call("ticking", "obeys", json!({ "every_ms": 10, "report": 3 }));
                self.ticked(&mut call, 3).await;
                self.cancelled(call).await;
            }
            "late-answer" => {
                let call = self.call("late", "late", json!({ "quiet": true }));
                self.started(&call).await;
                self.cancel(&call);
                self.done(call).await;
                self.until("late to be told", || marked("late", "told")).await;
                self.done(self.call("release", "release", json!({ "of": "late", "quiet": true }))).await;
                self.echo("after late").await;
            }
            "timeout" => self.timeout().await,
            "task" => self.task().await,
            "large" => self.done(self.call("large", "fills", json!({ "size": LARGE, "quiet": true }))).await,
            "large-event" => self.done(self.call("large event", "fills", json!({ "size": LARGE, "report": 1 }))).await,
            "asks" => self.asks().await,
            "subscription" => self.subscription().await,
            "returns" => self.until("the refusal of a cancelled stream", || marked("wire", "refused")).await,
            "closing" => self.started(&self.waits("closing")).await,
            "death" => {
                let call = self.waits("death");
                self.started(&call).await;
                self.log.did("kill", Value::Null);
                let started = mark_of("death", "started").unwrap_or_default();
                if let Some(pid) = started["pid"].as_u64() {
                    kill(pid);
                }
                self.done(call).await;
            }
            "one" => {
                let call = self.waits("one");
                self.until("both to start", || marked("one", "started") && marked("other", "started")).await;
                self.cancelled(call).await;
            }
            "other" => {
                let call = self.waits("other");
                self.until("one to stop", || marked("one", "stopped")).await;
                self.echo("after one").await;
                mark("other", "released", Value::Null);
                self.done(call).await;
            }
            "hang-up" => {
                let mut ticking = self.call("hang-up ticking", "obeys", json!({ "every_ms": 10, "report": 3 }));
                self.started(&self.waits("hang-up")).await;
                self.ticked(&mut ticking, 3).await;
                kill_this_process();
            }
            _ => panic!("no scenario named {scenario}"),
        }
    }

    /// The client's own limit. One that was over before the work had started shows nothing: then again, with a longer one.
    async fn timeout(&self) {
        let mut limit = Duration::from_millis(400);
        while !marked("timeout", "started") {
            self.log.did("call", json!({ "call": "timeout", "behaviour": "waits" }));
            let params = params("timeout", "waits", json!({}));
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let options = PeerRequestOptions::with_timeout(limit);
            let outcome = match self.client.peer().send_cancellable_request(request, options).await {
                Ok(asked) => asked.await_response().await,
                Err(error) => Err(error),
            };
            self.report("timeout", outcome);
            limit *= 4;
        }
        self.until("timeout to stop", || marked("timeout", "stopped")).await;
        self.echo("after timeout").await;
    }

    /// The SDK has no tasks of sessions; a request of theirs is refused.
    async fn task(&self) {
        self.log.did("call", json!({ "call": "task refused", "behaviour": "tasks/get" }));
        let request = CustomRequest::new("tasks/get", Some(json!({ "taskId": "none" })));
        let outcome = self.client.peer().send_request(ClientRequest::CustomRequest(request)).await;
        self.report("task refused", outcome);
    }

    fn report(&self, work: &str, outcome: Result<ServerResult, ServiceError>) {
        match outcome {
            Ok(result) => {
                let result = serde_json::to_value(&result).unwrap_or_default();
                self.log.saw("result", json!({ "call": work, "value": text(&result["content"][0], "text") }));
            }
            Err(error) => report(&self.log, work, Err(error)),
        }
    }

    /// Not as the others, since only the whole client goes through the rounds of a call.
    async fn asks(&self) {
        self.log.did("call", json!({ "call": "asks", "behaviour": "asks" }));
        let call = self.client.call_tool(params("asks", "asks", json!({ "question": "name?" })));
        match timeout(self.patience, call).await {
            Ok(outcome) => report(&self.log, "asks", outcome),
            Err(_) => self.log.saw("nothing", json!({ "waiting_for": "asks to settle" })),
        }
    }

    async fn subscription(&self) {
        self.log.did("call", json!({ "call": "subscription" }));
        let opened = self.client.listen(SubscriptionFilter::builder().tools_list_changed().build());
        let mut subscription = match timeout(self.patience, opened).await {
            Ok(Ok(subscription)) => subscription,
            Ok(Err(error)) => {
                self.log.saw("error", json!({ "call": "subscription", "message": error.to_string() }));
                return;
            }
            Err(_) => return self.log.saw("nothing", json!({ "waiting_for": "the subscription" })),
        };
        self.done(self.call("changes", "changes", json!({ "quiet": true }))).await;
        if self.within("a change", subscription.next()).await {
            self.log.saw("result", json!({ "call": "subscription", "value": "changed" }));
        }
        self.log.did("cancel", json!({ "call": "subscription" }));
        self.within("the end of the subscription", subscription.cancel()).await;
        self.echo("after subscription").await;
    }
}

fn params(work: &str, tool: &str, mut arguments: Value) -> CallToolRequestParams {
    arguments["work"] = work.into();
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.as_object().cloned().unwrap_or_default())
}

/// Prints what a call came to.
fn report(log: &Log, work: &str, outcome: Result<CallToolResult, ServiceError>) {
    match outcome {
        Ok(result) => {
            let result = serde_json::to_value(&result).unwrap_or_default();
            let words = text(&result["content"][0], "text");
            let value = if words.len() < LARGE { words.to_owned() } else { format!("{} letters", words.len()) };
            log.saw("result", json!({ "call": work, "value": value }));
        }
        Err(ServiceError::McpError(error)) => {
            log.saw("error", json!({ "call": work, "code": error.code.0, "message": error.message }));
        }
        Err(error) => log.saw("error", json!({ "call": work, "message": error.to_string() })),
    }
}

fn kill(pid: u64) {
    let _ = process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
}

/// As whoever kills a client does.
fn kill_this_process() -> ! {
    kill(process::id().into());
    unreachable!("a process outlived its SIGKILL")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let [scenarios @ .., flag, url] = &words[..] else { panic!("usage: mcp_http_client SCENARIO… --url URL") };
    assert_eq!(flag, "--url", "usage: mcp_http_client SCENARIO… --url URL");
    let (is_legacy, scenarios) = match scenarios {
        [first, rest @ ..] if first == "--legacy" => (true, rest),
        scenarios => (false, scenarios),
    };
    let log = Log { begun: Instant::now(), lines: Arc::default() };
    let host = Host { log: log.clone(), heard: Arc::new(Mutex::new((String::new(), watch::Sender::new(0)))) };
    let transport = StreamableHttpClientTransport::from_uri(url.as_str());
    let client = if is_legacy {
        host.clone().serve(transport).await
    } else {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let mode = ClientLifecycleMode::Auto { preferred_versions, legacy_version: None };
        host.clone().serve_with_lifecycle(transport, mode).await
    };
    let client = client.expect("a handshake");
    let revision = client.peer_info().map(|info| info.protocol_version.to_string());
    log.did("connected", json!({ "revision": revision }));
    let patience = env::var("RESCIND_PATIENCE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let player = Player { log, host, client, patience: Duration::from_millis(patience) };
    for scenario in scenarios {
        player.play(scenario).await;
    }
    player.log.did("close", Value::Null);
    let Player { log, client, .. } = player;
    let _ = client.cancel().await;
    log.did("end", Value::Null);
    process::exit(0);
}
