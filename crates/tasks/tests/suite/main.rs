//! Tasks from outside: their states, stores and files, a server and a client of them, several processes.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[cfg(feature = "client")]
mod client;
#[cfg(all(feature = "server", feature = "sqlite"))]
mod examples;
#[cfg(feature = "sqlite")]
mod file;
#[cfg(any(feature = "client", feature = "server"))]
#[path = "../../../rescind/tests/suite/in_time.rs"]
mod in_time;
mod machine;
#[cfg(feature = "sqlite")]
mod processes;
#[cfg(all(feature = "server", feature = "sqlite"))]
mod server;
#[cfg(feature = "sqlite")]
mod store;
#[cfg(all(feature = "client", feature = "server"))]
mod together;
