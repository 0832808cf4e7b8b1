//! Clients and servers of MCP, ACP and LSP whose requests can be cancelled, and a relay between those of others.
//!
//! ```toml
//! [dependencies]
//! rescind = "0.1"
//! schemars = "1.2"
//! serde = { version = "1", features = ["derive"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
//! ```
//!
//! A server with one tool, on stdin and stdout:
//!
#![cfg_attr(all(feature = "schemars", feature = "stdio"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "schemars", feature = "stdio")), doc = "```ignore")]
//! use rescind::{mcp, peer::{AnyError, Context, transport}};
//! use tokio::time::{Duration, sleep};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Wait { seconds: u64 }
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let wait = |Wait { seconds }, cx: Context| async move {
//!         cx.unless_cancelled(sleep(Duration::from_secs(seconds))).await?;
//!         Ok::<_, AnyError>("done")
//!     };
//!     mcp::Server::new("waiter", "1.0.0").tool("wait", "Waits", wait).serve(transport::stdio()).await
//! }
//! ```
//!
//! A client that gives up after five seconds. Dropping the call is what cancels it:
//!
#![cfg_attr(all(feature = "mcp", feature = "child", unix), doc = "```no_run")]
#![cfg_attr(not(all(feature = "mcp", feature = "child", unix)), doc = "```ignore")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # use rescind::{mcp, peer::transport};
//! # use std::{process::Command, time::Duration};
//! let (server, _child) = transport::child(Command::new("./waiter"))?;
//! let client = mcp::Client::connect(server, "my-client", "1.0.0").await?;
//! let call = client.call_tool("wait", &serde_json::json!({ "seconds": 60 }));
//! let waited = tokio::time::timeout(Duration::from_secs(5), call).await;
//! # Ok(())
//! # }
//! ```
//!
//! # What Stop does
//!
//! 1. The caller drops its call, fires its token, or uses its [stop handle](peer::StopHandle). It is told at once. The
//!    cancel follows the request on the wire; a request that has not left is taken back instead.
//! 2. At the other side the handler's token fires. Everything that the handler waits for in the request's name is stopped
//!    with it: calls to other servers, questions to people, child processes.
//! 3. The handler may clean up, for 5 s unless its [route](peer::Route) says otherwise. Then its future is dropped and
//!    its processes are killed.
//! 4. The request is answered as its protocol has it: MCP wants silence, ACP and LSP want one answer.
//! 5. The [receipt](peer::Receipt) says what was seen of all that, and claims no more.
//!
//! # Where to go on
//!
//! [`cancellation`] is the chapter on all of this: who cancels whom, what a handler sees, what a receipt claims. [`mcp`],
//! [`acp`] and [`lsp`] are the protocols, [`peer`] is a connection of any dialect, and [`relay`] stands between clients
//! and servers of others. The engine, [`rescind_proto`], decides; this crate reads, writes, waits and starts
//! processes.
//!
//! Three more crates stand on this one:
//!
//! | crate | what it adds |
//! | --- | --- |
//! | `rescind-http` | MCP over HTTP: a client, an endpoint, a listener, and a service for axum and hyper |
//! | `rescind-tasks` | MCP tasks: tools whose work outlives its request, and their store |
//! | `rescind-sign-in` | signing in to a server over HTTP: OAuth with a browser, a device code or a client's secret |
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `mcp`, `acp`, `lsp` | the protocols; on by default |
//! | `schemars` | schemas of tools, results and forms from types; on by default |
//! | `stdio`, `child`, `unix`, `tcp` | transports; on by default |
//! | `websocket` | one more transport |
//! | `peer` | connections of any dialect; the features above turn it on |
//! | `wrap` | the relay around a connection of this process; on by default |
//! | `admin` | the socket of a relay that lists what is in flight and takes cancels |
//! | `tracing`, `opentelemetry` | spans and log lines; spans in the traces of the peers |
//!
//! # Transports
//!
//! A [`Transport`](peer::Transport) carries the messages of a connection. Each kind below but `memory` and `Listener` is a
//! cargo feature of its name. Anything else that reads and writes can be a transport too. With every one: a caller waits no
//! longer than its own clock, however slowly the other side reads; everything that a turn has to write leaves together; a
//! frame that has begun is finished, even if its call is dropped.
//!
//! | transport | what bounds it | when the other side dies | what drop does |
//! | --- | --- | --- | --- |
//! | `memory` | 64 KiB each way | the input ends | the other end sees the end |
//! | `stdio` | what a pipe holds; two chunks of 64 KiB for a file or terminal | the input ends, `serve` returns | reading and writing end; descriptors 0 and 1 stay open until the process ends |
//! | `child` | what two pipes hold; an end takes at most 2.5 s | its last output is read, its group is killed, its status can be asked for | stdin is closed, 1.5 s later SIGTERM, 1 s later SIGKILL to its group; it is always collected |
//! | `unix`, `tcp` | what the kernel holds for a socket | the input ends; over `tcp`, only clocks notice a machine that vanishes | the socket is closed |
//! | `websocket` | the same; 10 s to open; a message over the limit closes it (1009); 64 KiB and one message gathered | the input ends; a close with an unusual code is the connection's error | the socket is closed without a goodbye; an ordered end says goodbye first |
//! | `Listener` | 1,024 connections at once | the others go on | the socket is closed; the path of a Unix socket is removed; the connections of `serve` are closed |
//!
//! The end of input cancels the peer's requests in flight (D27) and ends our calls. From a peer that leaves more than
//! 16 MiB unread nothing more is read (D13); after ten minutes the connection is given up. An ordered end waits for the
//! last bytes, and for the transport to close, as long as the builder's `linger`: 5 s.
//!
//! # Types of other crates
//!
//! Types that functions of this crate take and return are re-exported, but for those of tokio, which every program here
//! has: [`CancellationToken`], [`bytes`], [`serde_json`], `schemars`, and the engine as [`proto`]. A program that derives
//! `JsonSchema` without a dependency on `schemars` of its own writes `#[schemars(crate = "rescind::schemars")]` beside it.

#![warn(missing_docs)]

#[cfg(any(feature = "admin", feature = "peer", feature = "wrap"))]
#[macro_use]
mod debug_fields;

#[cfg(feature = "acp")]
pub mod acp;
#[cfg(all(feature = "acp", feature = "mcp"))]
pub mod cancellation;
#[cfg(feature = "dialect-file")]
pub mod dialect_file;
#[cfg(feature = "lsp")]
pub mod lsp;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "peer")]
pub mod peer;
mod process;
pub mod relay;

mod alarm;
mod message_stream;
mod stdio;

pub use bytes;
#[cfg(unix)]
pub use process::launch;
pub use rescind_proto as proto;
#[cfg(feature = "schemars")]
pub use schemars;
#[cfg(feature = "peer")]
pub use serde_json;
#[cfg(feature = "peer")]
pub use tokio_util::sync::CancellationToken;

/// Has the code of the page tested.
#[cfg(all(doctest, feature = "acp", feature = "schemars"))]
#[doc = include_str!("../../../docs/coming-from.md")]
mod coming_from {}
