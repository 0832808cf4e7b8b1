//! The transports, with real sockets and processes: each test observes the work itself.

#[cfg(unix)]
mod child;
mod descendants;
mod link;
mod stdio;
mod streams;
mod websocket;
