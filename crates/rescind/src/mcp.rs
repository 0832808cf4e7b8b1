//! Model Context Protocol: the requests that every server and client answers, and no more.
//!
//! A [`Server`] answers the handshakes of all five revisions, `ping`, `tools/list` and `tools/call`; a [`Client`]
//! opens a session, lists tools and calls them. Everything else is a route on the [`Builder`](crate::peer::Builder)
//! beneath. Programs that want the whole protocol typed use an SDK of it.
//!
//! ```no_run
//! use rescind::{mcp, peer::{Context, ErrorObject}};
//! use tokio::time::{Duration, sleep};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct LongComputation {
//!     /// Number of iterations
//!     iterations: u32,
//! }
//!
//! async fn long_computation(work: LongComputation, cx: Context) -> Result<String, ErrorObject> {
//!     for _ in 0..work.iterations {
//!         cx.unless_cancelled(sleep(Duration::from_secs(1))).await?;
//!     }
//!     Ok(format!("Completed {} iterations.", work.iterations))
//! }
//!
//! # async fn run(transport: rescind::peer::Transport) -> std::io::Result<()> {
//! mcp::Server::new("computer", "1.0.0")
//!     .tool("long_computation", "A long-running computation", long_computation)
//!     .serve(transport)
//!     .await
//! # }
//! ```
//!
//! When the client presses Stop, the sleep is dropped, the tool ends, and nothing is answered, as MCP wants it.

mod ask;
mod client;
mod client_builder;
mod elicitation;
#[cfg(feature = "schemars")]
mod form;
mod input;
mod preparation;
mod revision;
mod round_trips;
mod rounds;
mod sampling;
#[cfg(feature = "schemars")]
mod schema;
mod server;
mod stop;
mod suspended;
mod tool;
mod tool_result;

use std::future::ready;

pub use ask::Ask;
pub use client::{Client, ServerInfo, ToolAnnotations, ToolInfo};
pub use client_builder::ClientBuilder;
pub use elicitation::{ElicitAction, ElicitMode, ElicitRequest, ElicitResult, Elicited};
pub use preparation::Preparation;
pub use rescind_proto::dialect::mcp::{
    LATEST, LATEST_LEGACY, LATEST_STATELESS, REVISION_2024_11_05, REVISION_2025_03_26, REVISION_2025_06_18,
    REVISION_2025_11_25, REVISION_2026_07_28,
};
pub use revision::Revision;
pub use round_trips::RoundTrips;
pub use sampling::{CreateMessageRequest, CreateMessageResult, ModelHint, ModelPreferences, Role, SamplingMessage};
pub use server::Server;
pub use tool::{NoArguments, Tool, ToolHandler};
#[cfg(feature = "schemars")]
pub use tool_result::Structured;
pub use tool_result::{Content, ToolOutput, ToolResult};

use rescind_proto::dialect::mcp::{ABANDONABLE, ABANDONED};

use crate::peer::{ErrorObject, Route, route};

/// The name and version of a side, as the handshakes have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Implementation {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

/// Answers `ping`.
fn ping() -> Route {
    route(|| ready(Ok::<_, ErrorObject>(serde_json::json!({})))).never_blocks()
}

/// The members of `_meta` in which a request of 2026-07-28 names its sender and the sender's capabilities, and a result
/// names its server.
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The code of a question whose capability the client did not declare (TASK-24).
const MISSING_CLIENT_CAPABILITY: i32 = -32021;
