//! What has a type where the protocol has JSON: questions and their answers, structured results, hints, errors.

use std::{fmt, num::ParseIntError, sync::Arc, time::Duration};

use rescind::{
    mcp::{
        Client, CreateMessageRequest, CreateMessageResult, ElicitAction, ElicitMode, ElicitRequest, ElicitResult,
        Elicited, NoArguments, Revision, SamplingMessage, Server, Structured, Tool, ToolAnnotations, ToolResult,
    },
    peer::{AnyError, CallError, Context, ErrorObject, Params, Peer, dialect::acp, error_code, transport::memory},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Branch {
    /// The branch to delete
    name: String,
    force: Option<bool>,
}

/// The name of a branch that the person names, if any.
async fn ask_for_branch(_: NoArguments, cx: Context) -> Result<String, CallError> {
    Ok(match cx.elicit::<Branch>("Which branch?").await? {
        Elicited::Accepted(branch) => branch.name,
        Elicited::Declined => "declined".to_owned(),
        Elicited::Dismissed => "dismissed".to_owned(),
    })
}

async fn ask_model(_: NoArguments, cx: Context) -> Result<String, CallError> {
    let question = CreateMessageRequest::new(vec![SamplingMessage::user("A word?")], 10);
    let answer = cx.sample(&question).await?;
    Ok(format!("{} says {}", answer.model, answer.message.text()))
}

/// A client and a server that speaks this revision alone.
async fn connected(
    revision: Revision,
    server: Server,
    answer: impl Fn() -> ElicitResult + Send + Sync + 'static,
) -> Client {
    let (near, far) = memory();
    tokio::spawn(server.revisions(&[revision]).serve(far));
    let answer = Arc::new(answer);
    Client::builder("test", "1")
        .on_elicitation(move |Params(asked): Params<ElicitRequest>| {
            let answer = Arc::clone(&answer);
            async move {
                assert_eq!((&*asked.message, asked.mode), ("Which branch?", ElicitMode::Form));
                let fields = &asked.requested_schema.unwrap()["properties"];
                assert_eq!(fields["name"], json!({ "type": "string", "description": "The branch to delete" }));
                assert_eq!(fields["force"], json!({ "type": "boolean" }));
                Ok::<_, ErrorObject>(answer())
            }
        })
        .on_sampling(|Params(asked): Params<CreateMessageRequest>| async move {
            assert_eq!((asked.messages[0].text(), asked.max_tokens), ("A word?".to_owned(), 10));
            Ok::<_, ErrorObject>(CreateMessageResult::new("model", "rescind"))
        })
        .connect(near)
        .await
        .unwrap()
}

fn asking() -> Server {
    Server::new("asking", "1").tool("branch", "Asks for one", ask_for_branch).tool("word", "Asks the model", ask_model)
}

#[tokio::test]
async fn a_typed_question_is_answered_in_every_revision_that_has_it() {
    for revision in Revision::ALL {
        let named = || ElicitResult::accepted(&Branch { name: "old".to_owned(), force: None }).unwrap();
        let client = connected(revision, asking(), named).await;
        assert_eq!(client.call_tool("branch", &()).await.unwrap().text(), "old", "{revision}");
        assert_eq!(client.call_tool("word", &()).await.unwrap().text(), "model says rescind", "{revision}");
    }
}

#[tokio::test]
async fn a_person_may_refuse_and_a_client_may_send_nonsense() {
    let answers = [(ElicitResult::declined(), "declined"), (ElicitResult::dismissed(), "dismissed")];
    for (answer, text) in answers {
        let client = connected(Revision::V2025_11_25, asking(), move || answer.clone()).await;
        assert_eq!(client.call_tool("branch", &()).await.unwrap().text(), text);
    }
    let nonsense = || ElicitResult::accepted(&json!({ "name": 5 })).unwrap();
    let client = connected(Revision::V2025_11_25, asking(), nonsense).await;
    let error = client.call_tool("branch", &()).await.unwrap_err();
    assert!(matches!(&error, CallError::Peer(error) if error.code == error_code::INTERNAL_ERROR), "{error}");
}

/// D26: the question is the call's child, and ends with it.
#[tokio::test]
async fn a_stop_ends_the_handler_of_a_typed_question() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let (asked, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (near, far) = memory();
        tokio::spawn(asking().revisions(&[revision]).serve(far));
        let (tell, witness) = (Arc::clone(&asked), Arc::clone(&closed));
        let client = Client::builder("test", "1").on_elicitation(move |cx: Context| {
            let (tell, witness) = (Arc::clone(&tell), Arc::clone(&witness));
            async move {
                tell.notify_one();
                cx.cancelled().await;
                witness.notify_one();
                Err::<ElicitResult, _>(ErrorObject::cancelled())
            }
        });
        let client = client.connect(near).await.unwrap();
        let call = client.call_tool("branch", &());
        let stop = call.handle();
        let caller = tokio::spawn(call);
        asked.notified().await;
        drop(stop.cancel("user pressed Stop"));
        closed.notified().await;
        assert!(caller.await.unwrap().unwrap_err().is_cancelled(), "{revision}");
    }
}

#[test]
fn questions_are_written_as_the_protocol_has_them() {
    let read = |value: Value| serde_json::from_value::<ElicitRequest>(value).unwrap();
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    assert_eq!(serde_json::to_value(read(form.clone())).unwrap(), form);
    let page = ElicitRequest::page("Sign in", "https://example.org/", "7");
    let written = json!({ "message": "Sign in", "mode": "url", "url": "https://example.org/", "elicitationId": "7" });
    assert_eq!(serde_json::to_value(&page).unwrap(), written);
    assert_eq!(read(written), page);
    let answer: ElicitResult = serde_json::from_value(json!({ "action": "cancel" })).unwrap();
    assert_eq!(answer, ElicitResult::dismissed());
    assert_eq!(answer.action, ElicitAction::Cancel);

    let one = json!({ "role": "user", "content": { "type": "text", "text": "a" } });
    let two =
        json!({ "role": "assistant", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] });
    for message in [one, two] {
        let read: SamplingMessage = serde_json::from_value(message.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), message);
    }
    let asked = json!({
        "messages": [], "maxTokens": 5, "modelPreferences": { "hints": [{ "name": "small" }], "costPriority": 0.5 },
        "includeContext": "none",
    });
    let read: CreateMessageRequest = serde_json::from_value(asked.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), asked);
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    /// Degrees Celsius
    temperature: f64,
}

async fn weather(_: NoArguments) -> Result<Structured<Weather>, ErrorObject> {
    Ok(Structured(Weather { temperature: 21.5 }))
}

async fn forecast(_: NoArguments) -> Result<Structured<Vec<u32>>, ErrorObject> {
    Ok(Structured(vec![1, 2]))
}

#[tokio::test]
async fn a_structured_result_has_the_schema_of_its_type_where_the_revision_has_a_place_for_it() {
    for revision in Revision::ALL {
        let server = Server::new("sky", "1").tool("weather", "Now", weather).tool("forecast", "Soon", forecast);
        let client = connected(revision, server, ElicitResult::declined).await;
        let tools = client.list_tools().await.unwrap();
        let schema = tools[0].output_schema();
        assert_eq!(schema.is_some(), revision >= Revision::V2025_06_18, "{revision}");
        if let Some(schema) = schema {
            assert_eq!(schema["type"], "object");
            assert_eq!(schema["properties"]["temperature"]["description"], "Degrees Celsius");
        }
        assert_eq!(tools[1].output_schema().is_some(), revision.is_stateless(), "{revision}");

        let now = client.call_tool("weather", &()).await.unwrap();
        assert_eq!(now.structured_content, Some(json!({ "temperature": 21.5 })));
        assert_eq!(now.text(), r#"{"temperature":21.5}"#);
        let soon = client.call_tool("forecast", &()).await.unwrap();
        assert_eq!(soon.structured_content, revision.is_stateless().then(|| json!([1, 2])), "{revision}");
        assert_eq!(soon.text(), "[1,2]");
    }
}

#[tokio::test]
async fn hints_are_declared_and_read() {
    let remove = Tool::new("remove", "Removes a branch", weather)
        .title("Remove")
        .read_only_hint(false)
        .destructive_hint(true)
        .idempotent_hint(true)
        .open_world_hint(false);
    let plain = Tool::new("plain", "Says nothing of itself", weather);
    let server = Server::new("hints", "1").with_tool(remove).with_tool(plain);
    let client = connected(Revision::V2025_11_25, server, ElicitResult::declined).await;
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools[0].title(), Some("Remove"));
    assert_eq!(
        serde_json::to_value(tools[0].annotations()).unwrap(),
        json!({
            "title": "Remove", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true,
            "openWorldHint": false,
        })
    );
    assert_eq!((tools[1].title(), tools[1].annotations()), (None, ToolAnnotations::default()));
}

/// An error of somebody else's library: it displays, and no more.
#[derive(Debug)]
struct Odd;

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("odd")
    }
}

async fn fails(Params(how): Params<String>) -> Result<(), AnyError> {
    match &*how {
        "display" => Err(Odd)?,
        "text" => Err("in words")?,
        "parse" => drop("x".parse::<u32>()?),
        "ours" => Err(ErrorObject::new(error_code::CONTENT_MODIFIED, "it changed"))?,
        "call" => Err(CallError::Overloaded)?,
        _ => Err(ErrorObject::cancelled())?,
    }
    Ok(())
}

#[tokio::test]
async fn a_handler_may_fail_with_any_error_that_displays() {
    let (near, far) = memory();
    let builder = Peer::builder(&acp::V1)
        .on_request("fails", fails)
        .on_request("io", || async { Err::<(), _>(std::io::Error::other("no disk")) })
        .on_request("text", || async { Err::<(), _>("in words") })
        .on_request("owned", || async { Err::<(), _>("in words".to_owned()) })
        .on_request("boxed", || async { Err::<(), Box<dyn std::error::Error + Send + Sync>>(Box::from("in a box")) })
        .on_request("initialize", || async { Ok::<_, ErrorObject>(json!({ "protocolVersion": 1 })) });
    tokio::spawn(builder.serve(far));
    let (peer, driver) = Peer::builder(&acp::V1).connect(near);
    driver.spawn();
    let _: Value = peer.request("initialize", &json!({ "protocolVersion": 1 })).await.unwrap();
    let parse = "x".parse::<u32>().map_err(|error: ParseIntError| error.to_string()).unwrap_err();
    for (how, code, text) in [
        ("display", error_code::INTERNAL_ERROR, "odd"),
        ("text", error_code::INTERNAL_ERROR, "in words"),
        ("parse", error_code::INTERNAL_ERROR, &*parse),
        ("ours", error_code::CONTENT_MODIFIED, "it changed"),
        ("call", error_code::OVERLOADED, "too many requests are in flight"),
    ] {
        let error = peer.request::<()>("fails", &json!(how)).await.unwrap_err();
        let CallError::Peer(error) = error else { panic!("{how}: {error}") };
        assert_eq!((error.code, &*error.message), (code, text), "{how}");
    }
    let error = peer.request::<()>("fails", &json!("cancelled")).await.unwrap_err();
    assert!(matches!(&error, CallError::Peer(error) if error.code == error_code::REQUEST_CANCELLED), "{error}");
    for (method, text) in [("io", "no disk"), ("text", "in words"), ("owned", "in words"), ("boxed", "in a box")] {
        let error = peer.request::<()>(method, &()).await.unwrap_err();
        assert!(matches!(&error, CallError::Peer(error) if error.message == text), "{method}: {error}");
    }
}

#[tokio::test]
async fn the_model_reads_what_a_tool_failed_with() {
    async fn reads(_: NoArguments) -> Result<ToolResult, AnyError> {
        Err(Odd)?;
        Ok(ToolResult::default())
    }
    async fn refuses(_: NoArguments) -> Result<ToolResult, AnyError> {
        Err(ErrorObject::invalid_params("not these"))?;
        Ok(ToolResult::default())
    }
    let server = Server::new("failing", "1").tool("reads", "Fails", reads).tool("refuses", "Refuses", refuses);
    let client = connected(Revision::V2025_11_25, server, ElicitResult::declined).await;
    let failed = client.call_tool("reads", &()).await.unwrap();
    assert_eq!((failed.is_error, failed.text()), (true, "odd".to_owned()));
    let error = client.call_tool("refuses", &()).await.unwrap_err();
    assert!(matches!(&error, CallError::Peer(error) if error.code == error_code::INVALID_PARAMS), "{error}");
}

/// Others do not compile: the documentation of each function shows one.
#[test]
fn a_typed_handler_returns_the_result_of_its_method_json_or_a_type_that_says_it_is_one() {
    use rescind::{
        acp::{self, NewSession, Permission, Session, StopReason, Turn},
        peer::{ResultOf, route},
    };

    #[derive(serde::Serialize)]
    struct Counted {
        #[serde(flatten)]
        reason: StopReason,
        usage: u64,
    }
    impl ResultOf<Turn> for Counted {}

    fn takes<M, T: ResultOf<M>>() {}
    takes::<Turn, StopReason>();
    takes::<NewSession, Session>();
    takes::<acp::PermissionRequest, Permission>();
    takes::<ElicitRequest, ElicitResult>();
    takes::<CreateMessageRequest, CreateMessageResult>();
    let ended = || async { Ok::<_, ErrorObject>(StopReason::EndTurn) };
    let slow = route(ended).grace(Duration::from_secs(60));
    let json = || async { Ok::<_, ErrorObject>(json!({ "stopReason": "end_turn", "_meta": {} })) };
    let counted = || async { Ok::<_, ErrorObject>(Counted { reason: StopReason::EndTurn, usage: 1 }) };
    let agent = acp::Agent::new("agent", "1");
    drop(agent.on_prompt(ended).on_prompt(slow).on_prompt(json).on_prompt(counted));
}
