//! The agent: it speaks ACP to the editor and calls the tools of an MCP server.

use std::{io, sync::Arc};

use rescind::{
    acp::{Agent, PermissionOption, StopReason, Turn},
    mcp,
    peer::{ErrorObject, Outcome, StopHandle, transport},
};
use serde_json::json;

use super::{
    BUILD_AND_SEARCH, Role, VERSION,
    mark::{Event, Piece},
    wire::Wire,
};
use crate::marks::Marks;

/// Serves the editor until stdin ends, and then ends the tool server in order.
pub(super) async fn serve(marks: &Arc<Marks>) -> io::Result<()> {
    let (transport, _child) = transport::child(super::command(Role::Tools)?)?;
    let (peer, driver) = Wire::new(marks).observe(mcp::Client::peer_builder()).connect(transport);
    let driver = driver.spawn();
    let tools = mcp::Client::new(peer, "rescind-sample-agent", VERSION);
    tools.open().await.map_err(io::Error::other)?;
    let marked = Arc::clone(marks);
    Agent::new("rescind-sample-agent", VERSION)
        .on_prompt(move |turn: Turn| take_turn(turn, tools.clone(), Arc::clone(&marked)))
        .with(|builder| Wire::new(marks).observe(builder))
        .serve(transport::stdio())
        .await?;
    driver.await.map_err(io::Error::other)?
}

async fn take_turn(turn: Turn, tools: mcp::Client, marks: Arc<Marks>) -> Result<StopReason, ErrorObject> {
    if turn.text() != BUILD_AND_SEARCH {
        tools.list_tools().await?;
        return Ok(StopReason::EndTurn);
    }
    let work = marks.begin(Piece::Prompt);
    let build = tools.call_tool("build", &json!({}));
    let search = tools.call_tool("search", &json!({}));
    let options =
        [PermissionOption::new("yes", "Do it", "allow_once"), PermissionOption::new("no", "No", "reject_once")];
    let permission = turn.request_permission(&json!({ "toolCallId": "1", "title": "deploy" }), &options);
    let stops =
        [(Piece::Build, build.handle()), (Piece::Search, search.handle()), (Piece::Permission, permission.handle())];
    let calls = async { tokio::join!(build, search, permission) };
    let (built, found, _) = work.until_end(turn.context(), calls).await;
    drop(work);
    for (piece, stop) in stops {
        // In its own task: the turn ends without waiting for receipts.
        tokio::spawn(mark_receipt(stop, piece, Arc::clone(&marks)));
    }
    built.and(found)?;
    Ok(StopReason::EndTurn)
}

/// Marks the final receipt of a cancel. The end of the turn has cancelled the request already.
async fn mark_receipt(stop: StopHandle, piece: Piece, marks: Arc<Marks>) {
    let receipt = stop.cancel("").await;
    marks.mark(piece, Event::of_receipt(&receipt.outcome));
}

impl Event {
    pub(crate) fn of_receipt(outcome: &Outcome) -> Self {
        let after = match outcome {
            Outcome::Confirmed { after } | Outcome::AnsweredAfter { after, .. } => Some(after.as_secs_f64() * 1e3),
            Outcome::Asked
            | Outcome::NeverSent
            | Outcome::NotSendable
            | Outcome::Sent
            | Outcome::CompletedFirst
            | Outcome::Unknown => None,
            _ => None,
        };
        Self::Receipt { outcome: outcome.as_str().to_owned(), after_ms: after }
    }
}
