//! The server that the official conformance suite of MCP calls for, on our library: `conformance_server CATALOGUE`, at
//! the address that it prints, or `conformance_server CATALOGUE --stdio`.
//!
//! What it offers stands in `peers/conformance/catalogue.json`.

use std::{
    env,
    error::Error,
    fs,
    future::{Future, pending, poll_fn},
    io::{Write, stderr},
    pin::Pin,
    sync::{Arc, LazyLock},
    task::Poll,
    time::Duration,
};

use rescind::{
    mcp::{Ask, NoArguments, Preparation, Revision, Server, Tool, ToolResult},
    peer::{
        AnyError, Builder, CallError, Context, ErrorObject, Params,
        extract::{OnRequest, Scope},
        transport,
    },
};
use rescind_http::{
    server::{HttpServerConfig, Stateless},
    shell::{Endpoint, Listener, ListenerConfig},
};
use rescind_tasks::{AsTask, MemoryStore, TaskSupport, Tasks};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, sync::broadcast, time::sleep};

const PAUSE: Duration = Duration::from_millis(50);
/// So long that every response has become a stream, also one whose status waits for the server behind.
const LONG: Duration = Duration::from_millis(1500);
const RESOURCE_NOT_FOUND: i32 = -32002;

/// The lists that have changed: `tools`, `prompts`.
static CHANGES: LazyLock<broadcast::Sender<String>> = LazyLock::new(|| broadcast::channel(16).0);

type Rounds = Vec<Map<String, Value>>;

#[derive(Deserialize)]
struct Catalogue {
    tools: Map<String, Value>,
    resources: Vec<Map<String, Value>>,
    templates: Vec<Value>,
    prompts: Vec<Prompt>,
}

/// A tool: how it is declared, and one of the others.
#[derive(Clone, Deserialize)]
struct Declared {
    about: String,
    #[serde(default)]
    schema: Value,
    result: Option<Value>,
    error: Option<String>,
    does: Option<String>,
    #[serde(default)]
    of: String,
    asks: Option<String>,
    rounds: Option<Rounds>,
    #[serde(default)]
    only_declared: bool,
}

#[derive(Clone, Deserialize)]
struct Prompt {
    name: String,
    description: String,
    #[serde(default)]
    arguments: Vec<String>,
    messages: Value,
    #[serde(default)]
    rounds: Rounds,
}

/// A result that is whole, in the words of the request's revision. Lists and resources may be kept for no time.
fn complete(cx: &Context, mut result: Value, is_cached: bool) -> Value {
    if Revision::of(cx.dialect()).is_stateless() {
        result["resultType"] = "complete".into();
        if is_cached {
            (result["ttlMs"], result["cacheScope"]) = (0.into(), "private".into());
        }
    }
    result
}

/// Asks each round of questions, those of one round at once.
async fn ask(rounds: &Rounds, cx: &Context) -> Result<String, AnyError> {
    let mut answers = Vec::new();
    for round in rounds {
        let questions = round.values().map(|question| {
            let method = question["method"].as_str().unwrap_or_default();
            cx.ask::<Value>(method, &question["params"])
        });
        answers.extend(all(questions.collect()).await?);
    }
    Ok(json!(answers).to_string())
}

/// The answers to questions that are asked at once.
async fn all(mut questions: Vec<Ask<Value>>) -> Result<Vec<Value>, CallError> {
    let mut answers = vec![None; questions.len()];
    poll_fn(|cx| {
        for (question, answer) in questions.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(given) = Pin::new(question).poll(cx) {
                *answer = Some(given?);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
    .map(|()| answers.into_iter().flatten().collect())
}

/// What the request says under `_meta`.
fn in_meta<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    params["_meta"].get(format!("io.modelcontextprotocol/{name}"))
}

async fn log(cx: &Context, words: &str) {
    cx.notify("notifications/message", &json!({ "level": "info", "data": words })).await;
}

/// Does what a tool of the catalogue is there for.
async fn perform(tool: Arc<Declared>, params: Value, cx: Context) -> Result<ToolResult, AnyError> {
    if let Some(error) = &tool.error {
        return Ok(ToolResult::failed(error.as_str()));
    }
    if let Some(result) = &tool.result {
        return Ok(serde_json::from_value(json!({ "content": result }))?);
    }
    let arguments = &params["arguments"];
    let said = match (tool.does.as_deref(), tool.asks.as_deref()) {
        (Some("logs"), _) => {
            if in_meta(&params, "logLevel").is_some() {
                log(&cx, "it runs").await;
            }
            "logged".to_owned()
        }
        (Some("logs_thrice"), _) => {
            for words in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                log(&cx, words).await;
                cx.unless_cancelled(sleep(PAUSE)).await?;
            }
            "logged".to_owned()
        }
        (Some("progresses"), _) => {
            for done in [0.0, 50.0, 100.0] {
                cx.progress(done, Some(100.0), None).await;
                cx.unless_cancelled(sleep(PAUSE)).await?;
            }
            "finished".to_owned()
        }
        // A stream of ours goes on until it has said everything.
        (Some("reconnects"), _) => {
            cx.unless_cancelled(sleep(LONG)).await?;
            "finished".to_owned()
        }
        (Some("changes"), _) => {
            let _ = CHANGES.send(tool.of.clone());
            "told".to_owned()
        }
        (_, Some("sampling")) => {
            let content = json!({ "type": "text", "text": arguments["prompt"] });
            let asked = json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 100 });
            cx.ask::<Value>("sampling/createMessage", &asked).await?.to_string()
        }
        (_, Some("elicitation")) => {
            let properties = json!({ "username": { "type": "string" }, "email": { "type": "string" } });
            let schema = json!({ "type": "object", "properties": properties, "required": ["username", "email"] });
            let asked = json!({ "message": arguments["message"], "requestedSchema": schema });
            cx.ask::<Value>("elicitation/create", &asked).await?.to_string()
        }
        _ => {
            let mut rounds = tool.rounds.clone().unwrap_or_default();
            if tool.only_declared {
                let declared = in_meta(&params, "clientCapabilities").cloned().unwrap_or_default();
                let capability = |question: &Value| question["method"].as_str()?.split('/').next().map(str::to_owned);
                let may = |question: &Value| capability(question).is_some_and(|name| declared.get(name).is_some());
                rounds.iter_mut().for_each(|round| round.retain(|_, question| may(question)));
            }
            ask(&rounds, &cx).await?
        }
    };
    Ok(said.into())
}

/// Answers a call of 2026-07-28 without keeping anything between its rounds: the questions have the names of the
/// catalogue, and the answers come without a state.
fn by_name(round: &Map<String, Value>, request: &OnRequest) -> Option<Value> {
    if !Revision::of(request.context().dialect()).is_stateless() {
        return None;
    }
    let params: Value = serde_json::from_slice(request.params()?).ok()?;
    let given = |name: &String| params["inputResponses"][name]["action"] == "accept";
    Some(if round.keys().all(given) {
        let words = params["inputResponses"].to_string();
        json!({ "resultType": "complete", "content": [{ "type": "text", "text": words }] })
    } else {
        json!({ "resultType": "input_required", "inputRequests": round })
    })
}

fn tool(name: &str, declared: Declared) -> Tool {
    let declared = Arc::new(declared);
    let performed = Arc::clone(&declared);
    let handler =
        move |_: Value, Params(params): Params<Value>, cx: Context| perform(Arc::clone(&performed), params, cx);
    let tool = Tool::with_schema(name, &declared.about, declared.schema.clone(), handler);
    // The library names its questions itself, and the suite this one.
    match declared.rounds.as_deref() {
        Some([round]) if name == "test_input_required_result_elicitation" => {
            let round = round.clone();
            tool.intercepted(move |request| {
                Ok(by_name(&round, request).map(|result| async move { Ok::<_, ErrorObject>(result) }))
            })
        }
        _ => tool,
    }
}

#[derive(Deserialize)]
struct Seconds {
    seconds: f64,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// The tools whose calls are tasks in the extension.
fn tasks() -> Tasks {
    let schema = || json!({ "type": "object", "properties": {} });
    let slow = |Seconds { seconds }: Seconds, cx: Context| async move {
        cx.unless_cancelled(sleep(Duration::from_secs_f64(seconds))).await?;
        Ok::<_, ErrorObject>("computed")
    };
    let failing = |_: NoArguments| async { Ok::<_, ErrorObject>(ToolResult::failed("the job failed")) };
    let broken = |_: NoArguments| async { Err::<(), _>(ErrorObject::internal("the job broke")) };
    let form = |message: &str| {
        let schema = json!({ "type": "object", "properties": { "confirm": { "type": "boolean" } } });
        Map::from_iter([(
            "form".to_owned(),
            json!({
                "method": "elicitation/create",
                "params": { "mode": "form", "message": message, "requestedSchema": schema },
            }),
        )])
    };
    let mut two = form("Go on?");
    two.insert("other".to_owned(), form("Really?")["form"].clone());
    let asking = |round: Map<String, Value>| {
        let rounds = Arc::new(vec![round]);
        move |_: Value, cx: Context| {
            let rounds = Arc::clone(&rounds);
            async move { ask(&rounds, &cx).await }
        }
    };
    let asks_name = |_: NoArguments, cx: Context| async move {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let question = json!({ "mode": "form", "message": "Who are you?", "requestedSchema": schema });
        let answer: Value = cx.ask("elicitation/create", &question).await?;
        Ok::<_, CallError>(answer["content"].clone())
    };
    let greeting = |Named { name }: Named| async move { Ok::<_, ErrorObject>(format!("Hello, {name}!")) };
    let tools = [
        Tool::with_schema("test_tool_with_task", "greets", schema(), greeting)
            .task(TaskSupport::Required)
            .prepared_by(Preparation::new(asks_name)),
        Tool::with_schema("slow_compute", "sleeps, and stops at a cancel", schema(), slow).task(TaskSupport::Optional),
        Tool::with_schema("failing_job", "fails", schema(), failing).task(TaskSupport::Required),
        Tool::with_schema("protocol_error_job", "breaks", schema(), broken).task(TaskSupport::Optional),
        Tool::with_schema("confirm_delete", "asks", schema(), asking(form("Delete it?"))).task(TaskSupport::Optional),
        Tool::with_schema("multi_input", "asks twice at once", schema(), asking(two)).task(TaskSupport::Optional),
    ];
    let builder = Tasks::builder(Arc::new(MemoryStore::default()));
    tools.into_iter().fold(builder, rescind_tasks::TasksBuilder::tool).start()
}

fn read(catalogue: &Catalogue, params: &Value, cx: &Context) -> Result<Value, ErrorObject> {
    let uri = params["uri"].as_str().unwrap_or_default();
    let contents = match catalogue.resources.iter().find(|resource| resource["uri"] == uri) {
        Some(resource) => {
            let mut contents = resource.clone();
            contents.remove("name");
            contents.into()
        }
        None => {
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let code = if Revision::of(cx.dialect()).is_stateless() { -32602 } else { RESOURCE_NOT_FOUND };
            let unknown = || ErrorObject::new(code, "there is no such resource").with_data(&json!({ "uri": uri }));
            let id = id.ok_or_else(unknown)?;
            json!({ "uri": uri, "mimeType": "application/json", "text": json!({ "id": id }).to_string() })
        }
    };
    Ok(complete(cx, json!({ "contents": [contents] }), true))
}

async fn prompt(catalogue: &Catalogue, params: &Value, cx: &Context) -> Result<Value, AnyError> {
    let found = catalogue.prompts.iter().find(|prompt| prompt.name == params["name"]);
    let prompt = found.ok_or_else(|| ErrorObject::invalid_params("there is no such prompt"))?;
    ask(&prompt.rounds, cx).await?;
    let mut messages = prompt.messages.to_string();
    for name in &prompt.arguments {
        messages = messages.replace(&format!("{{{name}}}"), params["arguments"][name].as_str().unwrap_or_default());
    }
    let contents: Vec<Value> = serde_json::from_str(&messages)?;
    let messages: Vec<_> = contents.iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Ok(complete(cx, json!({ "messages": messages }), false))
}

/// `subscriptions/listen` to changes of lists (2026-07-28).
async fn listen(Params(params): Params<Value>, cx: Context) -> Result<Value, ErrorObject> {
    const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

    let id: Value = serde_json::from_str(&cx.id().to_string()).unwrap_or_default();
    let mut changes = CHANGES.subscribe();
    let wanted = &params["notifications"];
    let accepted = json!({ "_meta": { SUBSCRIPTION: id }, "notifications": wanted });
    cx.notify("notifications/subscriptions/acknowledged", &accepted).await;
    while let Ok(of) = cx.unless_cancelled(changes.recv()).await?.or_else(|error| match error {
        broadcast::error::RecvError::Lagged(_) => Ok(String::new()),
        broadcast::error::RecvError::Closed => Err(error),
    }) {
        if wanted[format!("{of}ListChanged")] == true {
            let method = format!("notifications/{of}/list_changed");
            cx.notify(&method, &json!({ "_meta": { SUBSCRIPTION: id } })).await;
        }
    }
    Ok(json!({ "resultType": "complete" }))
}

/// A method of sessions, which 2026-07-28 has no longer.
fn in_sessions(builder: Builder, method: &'static str) -> Builder {
    builder.on_request(method, move |cx: Context| async move {
        if Revision::of(cx.dialect()).is_stateless() {
            Err(ErrorObject::method_not_found(method))
        } else {
            Ok(json!({}))
        }
    })
}

fn routes(builder: Builder, catalogue: &Arc<Catalogue>) -> Builder {
    let list = |builder: Builder, method: &'static str, result: Value| {
        builder.on_request(method, move |cx: Context| {
            let result = complete(&cx, result.clone(), true);
            async move { Ok::<_, ErrorObject>(result) }
        })
    };
    let resources = catalogue.resources.iter().map(|resource| {
        let mut listed = resource.clone();
        listed.retain(|member, _| !["text", "blob"].contains(&member.as_str()));
        listed
    });
    let prompts = catalogue.prompts.iter().map(|Prompt { name, description, arguments, .. }| {
        let arguments = arguments.iter().map(|name| json!({ "name": name, "required": true }));
        json!({ "name": name, "description": description, "arguments": arguments.collect::<Vec<_>>() })
    });
    let builder = list(builder, "resources/list", json!({ "resources": resources.collect::<Vec<_>>() }));
    let builder = list(builder, "resources/templates/list", json!({ "resourceTemplates": catalogue.templates }));
    let builder = list(builder, "prompts/list", json!({ "prompts": prompts.collect::<Vec<_>>() }));
    let builder =
        ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"].into_iter().fold(builder, in_sessions);
    let (of_resources, of_prompts) = (Arc::clone(catalogue), Arc::clone(catalogue));
    builder
        .on_request("subscriptions/listen", listen)
        .on_request("completion/complete", |cx: Context| async move {
            let none = json!({ "completion": { "values": [], "total": 0, "hasMore": false } });
            Ok::<_, ErrorObject>(complete(&cx, none, false))
        })
        .on_request("resources/read", move |Params(params): Params<Value>, cx: Context| {
            let read = read(&of_resources, &params, &cx);
            async move { read }
        })
        .on_request("prompts/get", move |Params(params): Params<Value>, cx: Context| {
            let catalogue = Arc::clone(&of_prompts);
            async move { prompt(&catalogue, &params, &cx).await }
        })
}

fn server(catalogue: &Arc<Catalogue>, tasks: &Tasks) -> Server {
    let changing = || json!({ "listChanged": true });
    let server = Server::new("rescind-conformance", "1.0.0")
        .capability("tools", changing())
        .capability("prompts", changing())
        .capability("resources", json!({ "subscribe": true, "listChanged": true }))
        .capability("logging", json!({}))
        .capability("completions", json!({}))
        .with(|builder| routes(builder, catalogue));
    let greet = Tool::with_schema("greet", "answers at once", json!({}), |Named { name }: Named| async move {
        Ok::<_, ErrorObject>(format!("Hello, {name}!"))
    });
    let tools = catalogue.tools.iter().filter_map(|(name, declared)| {
        serde_json::from_value(declared.clone()).ok().map(|declared| tool(name, declared))
    });
    tasks.serve_on(tools.chain([greet]).fold(server, Server::with_tool))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let file = arguments.next().ok_or("usage: conformance_server CATALOGUE [--stdio]")?;
    let catalogue: Arc<Catalogue> = Arc::new(serde_json::from_str(&fs::read_to_string(file)?)?);
    let tasks = tasks();
    if arguments.next().is_some() {
        return Ok(server(&catalogue, &tasks).serve(transport::stdio()).await?);
    }
    let endpoint = Endpoint::new(HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() });
    let socket = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(stderr(), "listening on http://{}/mcp", socket.local_addr()?)?;
    tokio::spawn(Listener::new(socket, endpoint.clone(), ListenerConfig::default()).serve(pending()));
    match endpoint.serve(|| server(&catalogue, &tasks)).await {}
}
