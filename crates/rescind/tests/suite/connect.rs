//! Connecting in one step, in each protocol: what is ready afterwards, and what an error or a drop leaves behind.

use std::{
    future::pending,
    io,
    path::Path,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use rescind::{
    acp, lsp, mcp,
    peer::{Builder, CallError, ConnectError, ErrorObject, Params, Peer, transport::memory},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    runtime::Handle,
};

fn greeter() -> mcp::Server {
    let greet = |mcp::NoArguments {}| async { Ok::<_, ErrorObject>("hello") };
    mcp::Server::new("greeter", "1.0.0").with_tool(mcp::Tool::with_schema("greet", "Greets", json!({}), greet))
}

/// A server that hears `initialize` and never answers it.
fn mute() -> Builder {
    Peer::builder(None).on_request("initialize", pending::<Result<(), ErrorObject>>)
}

#[tokio::test]
async fn an_mcp_client_is_ready_and_ends_with_its_last_clone() {
    let (near, far) = memory();
    let served = tokio::spawn(greeter().serve(far));
    let client = mcp::Client::connect(near, "test", "1").await.unwrap();
    let server = client.server().unwrap();
    assert_eq!((&*server.name, server.revision), ("greeter", mcp::Revision::V2026_07_28));
    let clone = client.clone();
    drop(client);
    assert_eq!(clone.call_tool("greet", &()).await.unwrap().text(), "hello");
    drop(clone);
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_acp_client_is_ready_with_its_handlers_and_capabilities() {
    let (near, far) = memory();
    let agent = acp::Agent::new("agent", "1.0.0").on_prompt(|turn: acp::Turn| async move {
        let options = [acp::PermissionOption::new("yes", "Yes", "allow_once")];
        let answer = turn.request_permission(&json!({ "toolCallId": "1" }), &options).await?;
        Ok::<_, ErrorObject>(if answer.is_selected("yes") {
            acp::StopReason::EndTurn
        } else {
            acp::StopReason::Refusal
        })
    });
    let served = tokio::spawn(agent.serve(far));
    let client = acp::Client::builder("editor", "1")
        .declare_cancellation()
        .on_update(|| ())
        .on_permission(|Params(asked): Params<acp::PermissionRequest>| async move {
            Ok::<_, ErrorObject>(acp::Permission::selected(&asked.options[0].option_id))
        })
        .connect(near)
        .await
        .unwrap();
    let agent = client.agent().unwrap();
    assert_eq!((&*agent.name, agent.declares_cancellation), ("agent", true));
    let session = client.new_session(Path::new("/")).await.unwrap();
    assert_eq!(client.prompt(&session, "go on").await.unwrap(), acp::StopReason::EndTurn);
    client.close().await;
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_lsp_client_is_ready_and_closes_its_session_in_order() {
    let (near, far) = memory();
    let initialize = |Params(params): Params<Value>| async move {
        Ok::<_, ErrorObject>(json!({ "capabilities": { "hoverProvider": true }, "heard": params }))
    };
    let server = lsp::Server::new("server", "1").on_request("initialize", initialize);
    let served = tokio::spawn(server.serve(far));
    let client = lsp::Client::builder("editor", "1")
        .param("rootUri", "file:///project")
        .capability("window", json!({ "workDoneProgress": true }))
        .connect(near)
        .await
        .unwrap();
    let heard = &client.server().unwrap()["heard"];
    assert_eq!(heard["clientInfo"], json!({ "name": "editor", "version": "1" }));
    assert_eq!(heard["rootUri"], "file:///project");
    assert_eq!(heard["capabilities"], json!({ "window": { "workDoneProgress": true } }));
    client.close().await.unwrap();
    assert_eq!(served.await.unwrap().unwrap(), lsp::Exit::Clean);
}

#[tokio::test]
async fn an_error_in_the_handshake_closes_the_connection() {
    let (near, far) = memory();
    let old = |Params(_): Params<Value>| async { Ok::<_, ErrorObject>(json!({ "protocolVersion": 7 })) };
    let served = tokio::spawn(Peer::builder(None).on_request("initialize", old).serve(far));
    let error = acp::Client::connect(near, "test", "1").await.unwrap_err();
    assert!(matches!(&error, ConnectError::Version(version) if version == "7"), "{error}");
    served.await.unwrap().unwrap();
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_never_answered_ends_by_its_clock() {
    let (near, far) = memory();
    let served = tokio::spawn(mute().serve(far));
    let error = mcp::Client::connect(near, "test", "1").await.unwrap_err();
    assert!(matches!(&error, ConnectError::Call(CallError::TimedOut { .. })), "{error}");
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_ends_in_the_handshake_is_said_to_have_ended() {
    let (near, far) = tokio::io::duplex(1024);
    let server = tokio::spawn(async move {
        let mut far = far;
        far.read_u8().await.unwrap();
    });
    let error = lsp::Client::connect(near, "test", "1").await.unwrap_err();
    assert!(matches!(&error, ConnectError::Call(CallError::Closed)), "{error}");
    server.await.unwrap();
}

/// A link whose input fails.
struct Cut;

impl AsyncRead for Cut {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }
}

#[tokio::test]
async fn a_link_that_breaks_in_the_handshake_gives_its_own_error() {
    let error = mcp::Client::connect((Cut, tokio::io::sink()), "test", "1").await.unwrap_err();
    assert!(matches!(&error, ConnectError::Link(error) if error.kind() == io::ErrorKind::ConnectionReset), "{error}");
}

#[test]
fn a_connect_outside_of_a_runtime_is_an_error() {
    let (near, _far) = memory();
    let mut connecting = pin!(mcp::Client::connect(near, "test", "1"));
    let Poll::Ready(connected) = connecting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) else {
        panic!("it waits for nothing");
    };
    assert!(matches!(connected, Err(ConnectError::Link(_))));
}
