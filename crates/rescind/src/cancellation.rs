//! Cancellation, from the button to the work: a chapter, without code.
//!
//! Numbers such as D14 are those of `docs/decisions.md`, numbers such as MCP-C06 those of the catalogue in
//! [`rescind_proto::rule`].
//!
//! # Who cancels whom
//!
//! Only the side that sent a request may cancel it. Both sides send requests, and so both sides cancel. A cancel is a
//! notification: it names the request, it is not answered, and it may come too late. Whether *the request* is still
//! answered depends on the protocol:
//!
//! | protocol | the cancel | the cancelled request |
//! | --- | --- | --- |
//! | MCP, all revisions | `notifications/cancelled {requestId, reason}` | nothing more is sent for it, not even progress (MCP-C06) |
//! | MCP 2026-07-28 | the same | the same; only the client may cancel. A server uses it to end a subscription (MCP-M01, MCP-M02) |
//! | ACP version 1 | `$/cancel_request {requestId}` | one answer: its result, the method's own "cancelled", or -32800 (ACP-01) |
//! | an ACP turn | `session/cancel {sessionId}` | `session/prompt` ends with `stopReason: "cancelled"` (ACP-08) |
//! | the ACP proposal of 2025-11-13 | `$/cancelRequest {id}`, to a side that declared it | one answer: its result, or -32800 |
//! | LSP | `$/cancelRequest {id}` | one answer: its result, partial ones included, or -32800 (LSP-01) |
//!
//! [A dialect](crate::peer::Dialect) is this table as a value. Handlers and callers are written once, for all of them.
//!
//! # Calling
//!
//! A request is a future, and dropping the future cancels the request: [dropping](crate::peer::Call) a call that is in
//! flight queues its cancel before `drop` returns, behind the request, once. If nothing of the request was written
//! yet, it is taken back and neither is sent (D14, D15). So `select!`, `timeout`, an aborted task and `?` all do the
//! right thing without any code for cancellation.
//!
//! ```no_run
//! # use rescind::{mcp::Client, peer::{CallError, Outcome}};
//! # use serde_json::json;
//! # use std::time::Duration;
//! # async fn example(client: Client, button: tokio_util::sync::CancellationToken) -> Result<(), CallError> {
//! let search = json!({ "query": "needle" });
//!
//! // Dropping the call stops the tool: here, when the button wins.
//! tokio::select! {
//!     found = client.call_tool("search", &search) => println!("{}", found?.text()),
//!     () = button.cancelled() => println!("stopped"),
//! }
//!
//! // The same with a reason for the server, and a token that many calls share.
//! let call = client.call_tool("search", &search).token(button.clone()).reason("user pressed Stop");
//! assert!(call.await.is_err_and(|error| error.is_cancelled()));
//!
//! // A handle stops a call while another task awaits it, and gives a receipt.
//! let call = client.call_tool("search", &search);
//! let stop = call.handle();
//! let caller = tokio::spawn(call);
//! let receipt = stop.cancel("user pressed Stop").await;
//! assert!(matches!(receipt.outcome, Outcome::Sent | Outcome::CompletedFirst | Outcome::NeverSent));
//! # drop(caller);
//!
//! // Work that must go on when its caller is gone.
//! drop(client.call_tool("reindex", &json!({})).detach());
//! # Ok(())
//! # }
//! ```
//!
//! The caller of a cancelled request gets its error at once, whatever the peer and the pipe do (D4).
//! [`cancel_and_wait`](crate::peer::StopHandle::cancel_and_wait) lets it wait for the peer's answer, up to a grace.
//!
//! # Receipts
//!
//! A cancel that was sent does not mean that anything stopped. Every cancel yields a
//! [receipt](crate::peer::Receipt) that claims only what was observed (D28):
//!
//! | outcome | what is known |
//! | --- | --- |
//! | `NeverSent` | the request was taken back; the peer never received it |
//! | `NotSendable` | the protocol has no way to send it: `initialize`, a side that declared no capability, a task, a server that waits between two rounds and takes no notice |
//! | `Sent` | it was written. In MCP a wire shows no more than that |
//! | `Confirmed` | the peer answered that the request was cancelled |
//! | `CompletedFirst` | the answer was there before the cancel was written; no cancel was sent |
//! | `AnsweredAfter` | the peer answered as if there had been no cancel |
//! | `Unknown` | the connection ended first |
//!
//! A timeout is not a cancellation, though it causes one; and a cancellation is not a rollback.
//!
//! # Handling
//!
//! A handler is an async function. It takes a [`Context`](crate::peer::Context), a plain
//! [`CancellationToken`](tokio_util::sync::CancellationToken), or neither.
//!
//! ```no_run
//! # use rescind::peer::{Context, ErrorObject, Params};
//! # use std::time::Duration;
//! # use tokio_util::sync::CancellationToken;
//! # async fn step(_: u32) {}
//! # fn hash(_: u32) -> u64 { 0 }
//! /// Stops where it waits.
//! async fn patient(Params(steps): Params<u32>, cx: Context) -> Result<(), ErrorObject> {
//!     for n in 0..steps {
//!         cx.unless_cancelled(step(n)).await?;
//!     }
//!     Ok(())
//! }
//!
//! /// The same with the token alone, for code that knows nothing of requests.
//! async fn plain(Params(steps): Params<u32>, stop: CancellationToken) -> Result<u32, ErrorObject> {
//!     let mut done = 0;
//!     while done < steps && stop.run_until_cancelled(step(done)).await.is_some() {
//!         done += 1;
//!     }
//!     Ok(done) // as far as it came: partial results, where the protocol wants an answer
//! }
//!
//! /// Stops between two pieces of what it computes, which the caller sees.
//! async fn chunked(Params(chunks): Params<u32>, cx: Context) -> Result<u64, ErrorObject> {
//!     let mut sum = 0;
//!     for n in 0..chunks {
//!         sum += hash(n);
//!         cx.progress(f64::from(n + 1), Some(f64::from(chunks)), None).await;
//!         cx.checkpoint().await?;
//!     }
//!     Ok(sum)
//! }
//!
//! /// Stops where it computes: on a thread of its own, which cannot be ended from outside.
//! async fn busy(Params(rounds): Params<u32>, cx: Context) -> Result<u64, ErrorObject> {
//!     let work = cx.spawn_blocking(move |stop| (0..rounds).take_while(|_| !stop.is_cancelled()).map(hash).sum());
//!     work.await.map_err(|_| ErrorObject::internal("the computation failed"))
//! }
//!
//! /// Stops a process, and everything that it started.
//! async fn build(cx: Context) -> Result<bool, ErrorObject> {
//!     let mut make = tokio::process::Command::new("make");
//!     make.stdout(std::process::Stdio::null());
//!     let mut make = cx.command(make).map_err(|error| ErrorObject::internal(error.to_string()))?;
//!     let status = make.wait().await.map_err(|error| ErrorObject::internal(error.to_string()))?;
//!     Ok(status.success())
//! }
//!
//! /// Does not stop in the middle of what must not be cut short.
//! async fn pay(cx: Context) -> Result<&'static str, ErrorObject> {
//!     let _shield = cx.shield().ok_or_else(ErrorObject::cancelled)?;
//!     step(1).await;
//!     Ok("paid")
//! }
//! ```
//!
//! ## The ladder
//!
//! A request is stopped by its peer's cancel, its own clock, an operator, or the end of its connection. Then (D22):
//!
//! 1. its token fires, calls made in its name are cancelled, its processes get SIGTERM;
//! 2. for the length of a grace it may clean up: 5 s, or 1 s at the end of a connection;
//! 3. its future is dropped, its linked tasks are aborted, its process groups get SIGKILL.
//!
//! A stopped request holds its slot until all of that is over, so that a flood of requests and cancels never runs more
//! handlers than the limit (D12). A [route](crate::peer::Route) sets the grace, or is never dropped, or is shielded from
//! cancels: it is then answered as if no cancel had come (MCP-C07), and since 2026-07-28 not at all (MCP-H04).
//!
//! ```no_run
//! # use rescind::peer::{Context, ErrorObject, Peer, Transport, dialect::mcp, route};
//! # use std::{io, time::Duration};
//! # async fn search(cx: Context) -> Result<(), ErrorObject> { Ok(()) }
//! # async fn commit(cx: Context) -> Result<(), ErrorObject> { Ok(()) }
//! # async fn crawl(cx: Context) -> Result<(), ErrorObject> { Ok(()) }
//! # async fn run(transport: Transport) -> io::Result<()> {
//! Peer::builder(&mcp::LATEST)
//!     .on_request("search", route(search).grace(Duration::ZERO)) // dropped as soon as it is cancelled
//!     .on_request("commit", route(commit).shielded()) // runs to its end, despite cancels (D22)
//!     .on_request("crawl", route(crawl).time_limit(Duration::from_secs(600))) // stopped after ten minutes (MCP-C14)
//!     .serve(transport)
//!     .await
//! # }
//! ```
//!
//! ## What is answered
//!
//! The handler does not need to know. After the *peer's* cancel its result, its error, or
//! [`ErrorObject::cancelled`](crate::peer::ErrorObject::cancelled) is withheld in MCP; in ACP and LSP it is the one
//! answer, and "cancelled" becomes the method's own cancellation result or -32800 (D23). A handler that ends as cancelled
//! without having been asked to is answered with an error in every protocol: silence is only for a requester that
//! cancelled (D24). The cause is recorded, never guessed from a token (D25).
//!
//! # Cascade
//!
//! A call made while a request is being handled is that request's child: on any connection of the process, awaited
//! in place or inside [`cx.spawn`](crate::peer::Context::spawn). When the request is cancelled, times out, or loses
//! its connection, its children are cancelled and their peers are sent the cancels; its siblings go on (D26). This agent
//! has no code for cancellation and needs none:
//!
//! ```no_run
//! # use rescind::{acp::{Agent, StopReason, Turn}, mcp, peer::{ErrorObject, Transport}};
//! # use serde_json::json;
//! # async fn run(editor: Transport, tools: mcp::Client) -> std::io::Result<()> {
//! Agent::new("searcher", "1.0.0")
//!     .on_prompt(move |turn: Turn| {
//!         let tools = tools.clone();
//!         async move {
//!             let found = tools.call_tool("search", &json!({ "query": turn.text() })).await?;
//!             turn.say(&found.text()).await;
//!             Ok::<_, ErrorObject>(StopReason::EndTurn)
//!         }
//!     })
//!     .serve(editor)
//!     .await
//! # }
//! ```
//!
//! Stop in the editor sends `session/cancel`. The turn's token fires, the call to the tool server is cancelled together
//! with the calls that this server made in turn, and the prompt is answered `cancelled` once the handler has ended.
//! `tokio::spawn` leaves the request: a call made there has no parent. [`detach`](crate::peer::Call::detach) does that on
//! purpose.
//!
//! # Clocks
//!
//! There are two, and both run from when the call was made, whatever the pipe does (D16):
//!
//! | clock | default | what extends it |
//! | --- | --- | --- |
//! | `response_timeout` | MCP 60 s, else none | progress, if the caller asked for [progress](crate::peer::Call::progress); an open question of the peer |
//! | `total_timeout` | MCP 30 min, else none | nothing |
//!
//! Each sends the peer a cancel and ends the call with [`CallError::TimedOut`](crate::peer::CallError::TimedOut), which
//! names the clock and is never mistaken for an answer.
//!
//! No clock runs for questions that people answer: permissions, elicitation, sampling. While the peer has such a question
//! open, the response clocks of our calls on that connection stand still, and so do the deadlines of the requests that it
//! works on (D49).
//!
//! The time left travels with the request (D17), as a duration rounded up, and a handler reads it from
//! [`Context::remaining`](crate::peer::Context::remaining). It is a safety net for a lost cancel, not a second clock: the
//! receiver stops the request one second later, so that a caller gets the timeout of its own clock and never an error
//! from the peer's. Calls that the request makes in turn have no more time than it, and end with it.
//!
//! # Asking in the middle
//!
//! A tool asks its client, or the person behind it, with [`Context::ask`](crate::peer::Context::ask), in every revision of
//! MCP. Up to 2025-11-25 that is a request of the server, and so a child of the call. Since 2026-07-28 it is a result that
//! asks for input, and the client calls again with the input: the handler waits meanwhile, and the client's
//! [`RoundTrips`](crate::mcp::RoundTrips) is one future with one stop handle over all rounds. A stop closes the question
//! and stops the tool, in whichever round it is. A handler whose client never calls again waits as long as
//! [`Server::suspended`](crate::mcp::Server::suspended) allows.
//!
//! # The end of a connection
//!
//! The end of input cancels every request that came on it, at once, with the short grace (D27);
//! [`drain_on_eof`](crate::peer::Builder::drain_on_eof) lets them finish first, for `printf … | server`. Our own
//! calls end as [`CallError::Closed`](crate::peer::CallError::Closed). Dropping the last handle of a client ends its
//! connection in order; dropping its [driver](crate::peer::Driver) ends it at once.
//!
//! # Watching
//!
//! [`on_cancelled`](crate::peer::Builder::on_cancelled) observes every cancel after it was handled, also of unknown ids,
//! and with its verdict; [`incoming`](crate::peer::Builder::incoming) and
//! [`outgoing`](crate::peer::Builder::outgoing) see every message before and may veto or rewrite it, the cancel
//! included; [`in_flight`](crate::peer::Peer::in_flight) lists what is open, both ways, and
//! [`counters`](crate::peer::Peer::counters) how much passed, how many cancels named nothing, and which rules the peer
//! broke how often. A reason that came from the peer is untrusted. A reason that is sent is only ever one that a caller
//! passed to `cancel` or `reason`; text of errors is never sent (D20).
//!
//! # Hazards
//!
//! Failures seen on the wire or in the source of the versions named, in October and November 2026. Each is easy to write,
//! and most were written by people who know this subject well. If your program stays with one of these libraries,
//! [`relay::wrap`](crate::relay) puts the relay around its connection.
//!
//! ## Ids
//!
//! | what happens | seen in | here |
//! | --- | --- | --- |
//! | an id is used again after a cancel, and the new call gets the old call's result | rmcp 3.9.0 | a cancelled id is remembered until its handler has ended (D8) |
//! | two requests in flight share an id: one answer is lost, or the wrong one is cancelled | rmcp 3.9.0; TypeScript SDK 1.32.2 and server 2.4.0; Python SDK 2.3; vscode-jsonrpc 10 | the second is refused, the first stays cancellable (D7) |
//! | a cancel hits a request of the other direction that has the same id, or its token is lost | rust-sdk #1251; the C# SDK's one table | ids of the two directions are types that cannot be compared (D5) |
//! | `5` and `"5"` are taken for one id | Python SDK 2.3 | ids compare by type and value (D6) |
//! | a cancel of id `0` is ignored | TypeScript SDK 1.32.2 | `0` and `""` are ids like any other |
//! | ids beyond 2^53 are rejected, or become their neighbour | TypeScript SDK 1.32.2 and 2.4.0; the Go SDK | integers of any size are compared exactly, and echoed byte for byte (D6) |
//!
//! ## Order and races
//!
//! | what happens | seen in | here |
//! | --- | --- | --- |
//! | the cancel is written before its request, and lost | rmcp 3.9.0: 57 to 98 of 8,000 under stress | one queue: after the request, or neither (D15); as a receiver, it is held for a quarter of a second (D9) |
//! | a cancel in the same read as its request is missed, and the work runs | TypeScript SDK 1.32.2; claude-agent-acp 0.100.0 | the request is registered before its handler is first polled (D21) |
//! | a cancel of `initialize` leaves it without an answer | TypeScript SDK 1.32.2 and server 2.4.0 | it is ignored, and never sent (MCP-C03) |
//! | a late answer is an error that hosts treat as fatal | TypeScript client 1.32.2 and 2.4.0 | counted, and quiet (D8) |
//!
//! ## Handlers
//!
//! | what happens | seen in | here |
//! | --- | --- | --- |
//! | the cancel waits behind busy handlers, or is never read | tower-lsp-server 0.24-rc (it waits); async-lsp 0.2.4 (limit 4, 5 requests: for ever) | reading never waits for a handler (D12) |
//! | a handler that awaits in line keeps its own cancel from being read | agent-client-protocol 5.0.0 | every handler runs in a task of its own (D50) |
//! | the token fires, and work that ignores it runs on for ever | most SDKs | the ladder: token, grace, drop (D22) |
//! | a cancelled request is answered though the protocol wants silence | Python SDK 1.30; rust-mcp-sdk 2.0; the Go SDK (#1235, #1259) | withheld, where the *peer* cancelled (D23, D25) |
//! | it is not answered though the protocol wants an answer | the Kotlin SDK of ACP | exactly one answer (D23) |
//! | the tool never looks | server-everything's `trigger-long-running-operation`; the Java SDK has no cancellation (#130) | its future is dropped when its grace is over; a thread can only be asked |
//!
//! ## Callers
//!
//! | what happens | seen in | here |
//! | --- | --- | --- |
//! | giving up tells the server nothing | Python client 1.30; async-lsp 0.2.4; tower-lsp-server 0.24-rc | dropping the call cancels it (D14) |
//! | the stop handle is consumed, and cannot be used while another task awaits | rmcp 3.9.0 | [`StopHandle`](crate::peer::StopHandle) is a clone beside the call |
//! | after a cancel the caller waits for the peer, for ever | agent-client-protocol 5.0.0 | the caller gets its error at once (D4) |
//! | a timeout is late because the pipe is full: 300 ms become 4.5 s | rmcp 3.9.0 | clocks wait for no pipe (D16) |
//! | the total timeout of 400 ms fires with the response timeout, at 1.5 s | TypeScript client 1.32.2 and 2.4.0 | each clock fires by itself |
//! | a timeout cannot be told from a cancel | TypeScript client 1.32.2 and 2.4.0 | two errors (D19) |
//! | a timeout of `initialize` sends a cancel | TypeScript client 1.32.2 | it ends here, and only here (D18) |
//! | the text of an error, with a secret in it, goes out as the reason | openscience #571 | only a caller's own words do (D20) |
//! | the reason is dropped | go-sdk #1254 | sent where the protocol has a place for it |
//!
//! ## Cascade and connections
//!
//! | what happens | seen in | here |
//! | --- | --- | --- |
//! | the nested request stays open when its parent is cancelled | TypeScript SDK 1.32.2 and 2.4.0; Python SDK 1.30; rmcp 3.9.0 | it is a child, and cancelled with its parent (D26) |
//! | the cascade ends at a spawned task | tarpc 0.38, through `tokio::spawn` | [`cx.spawn`](crate::peer::Context::spawn) and `spawn_blocking` keep it |
//! | a permission dialog outlives its turn | acpx #631, codecompanion #3011 | it is answered `cancelled` with the turn (D37) |
//! | at the end of input tokens fire seconds later, or never | rmcp 3.9.0 (after 5 s); agent-client-protocol 5.0.0 (never) | at once (D27) |
//! | processes that a tool started go on | jacobian #2661, dcc-mcp-core #241 | [`cx.command`](crate::peer::Context::command) owns the process group |
//! | queues grow without a bound | agent-client-protocol 5.0.0 | every bound is a setting, with a default |
//!
//! ## In between
//!
//! | what happens | seen in | here |
//! | --- | --- | --- |
//! | a proxy swallows the cancel, or has no code for it | tower-mcp 0.25; FastMCP's proxy (#4124), sparfenyuk/mcp-proxy | each hop cancels with an id of its own (D32) |
//! | a gateway forwards the client's id, or sends it to everybody | supergateway; agentgateway; mcp-context-forge | the same |
//! | an error without an id ends the link | elizacp sends it | logged and counted (D36) |
//! | telemetry shows a cancel as an error, or as a success | C# SDK; Python SDK | a cause and a receipt of its own |
