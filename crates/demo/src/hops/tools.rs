//! The tool server: one tool runs processes, the other works in the server.

use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use rescind::{
    mcp::{self, NoArguments, Tool},
    peer::{Context, ErrorObject, transport},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Role, STEP, VERSION,
    mark::{Event, Piece},
};
use crate::marks::Marks;

pub(super) async fn serve(marks: &Arc<Marks>) -> io::Result<()> {
    let (for_build, for_search) = (Arc::clone(marks), Arc::clone(marks));
    let build = move |_: NoArguments, cx: Context| build(cx, Arc::clone(&for_build));
    let search = move |_: NoArguments, cx: Context| search(cx, Arc::clone(&for_search));
    mcp::Server::new("rescind-sample-tools", VERSION)
        .with_tool(Tool::with_schema("build", "Runs a process that runs another.", json!({}), build))
        .with_tool(Tool::with_schema("search", "Searches until it is cancelled.", json!({}), search))
        .serve(transport::stdio())
        .await
}

async fn build(cx: Context, marks: Arc<Marks>) -> Result<String, ErrorObject> {
    let work = marks.begin(Piece::Build);
    let mut command = super::command(Role::Make).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut make = cx.command(command.into()).map_err(failed)?;
    let status = work.until_end(&cx, make.wait()).await.map_err(failed)?;
    marks.mark(Piece::Make, Event::Exited { code: status.code(), signal: signal(status) });
    Ok("built".to_owned())
}

async fn search(cx: Context, marks: Arc<Marks>) -> Result<String, ErrorObject> {
    let work = marks.begin(Piece::Search);
    let steps = async {
        loop {
            cx.unless_cancelled(sleep(STEP)).await?;
            // The end of a step and the cancel may come at once.
            if cx.is_cancelled() {
                return Err(ErrorObject::cancelled());
            }
            marks.mark(Piece::Search, Event::Step);
        }
    };
    work.until_end(&cx, steps).await
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(windows)]
const fn signal(_: ExitStatus) -> Option<i32> {
    None
}

fn failed(error: io::Error) -> ErrorObject {
    ErrorObject::internal(error.to_string())
}
