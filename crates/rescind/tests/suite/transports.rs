//! The transports, with real sockets and processes: each test observes the work itself.

mod child;
mod link;
mod stdio;
mod streams;
mod websocket;
