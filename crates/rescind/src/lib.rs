//! The library of Rescind: clients and servers whose requests can be cancelled, and a relay between those of others.
//!
//! [`cancellation`] is the chapter to begin with: who cancels whom, what a handler sees, what a receipt claims.
//!
//! The engine, [`rescind_proto`], decides; this crate reads, writes, waits and
//! starts processes.
//!
//! # Transports
//!
//! A `peer::Transport` carries the messages of a connection; each kind below but `memory` and `Listener` is a cargo
//! feature of its name, all on but `websocket`. Whatever else reads and writes can be one. Whichever it is: a caller waits no longer than its own
//! clock, however little the other side reads; what a turn has to write leaves together; a frame that has begun is
//! finished, whoever drops its call.
//!
//! | transport | what bounds it | when the other side dies | what drop does |
//! | --- | --- | --- | --- |
//! | `memory` | 64 KiB each way | the input ends | the other end sees the end |
//! | `stdio` | what a pipe holds; two chunks of 64 KiB for a file or terminal | the input ends, `serve` returns | reading and writing end; descriptors 0 and 1 stay open until the process ends |
//! | `child` | what two pipes hold; an end takes at most 2.5 s | its last words are read, its group is killed, its status is there for whoever asks | stdin is closed, 1.5 s later SIGTERM, 1 s later SIGKILL to its group; it is always collected |
//! | `unix`, `tcp` | what the kernel holds for a socket | the input ends; over `tcp`, a machine that vanishes without a word is noticed by clocks only | the socket is closed |
//! | `websocket` | the same; 10 s to open; a message over the limit closes it (1009); 64 KiB and one message gathered | the input ends; a close with an unusual code is the connection's error | the socket is closed without a goodbye, which an ordered end says first |
//! | `Listener` | 1,024 connections at once | the others go on | nobody can connect; the path of a Unix socket is removed; what `serve` serves is closed |
//!
//! The end of input cancels the peer's requests in flight (D27) and ends our calls. A peer that leaves more unread
//! than it may (D13: 16 MiB) is not read either, and after ten minutes given up. An ordered end waits for the last
//! bytes, and for the parting, as long as the builder's `linger`: 5 s.

#![warn(missing_docs)]

#[cfg(feature = "acp")]
pub mod acp;
#[cfg(all(feature = "acp", feature = "mcp"))]
pub mod cancellation;
pub mod launch;
#[cfg(feature = "lsp")]
pub mod lsp;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "peer")]
pub mod peer;
pub mod relay;

mod stdio;

/// Has the code of the page tested.
#[cfg(all(doctest, feature = "acp", feature = "schemars"))]
#[doc = include_str!("../../../docs/coming-from.md")]
mod coming_from {}
