//! The console's page from outside: its server byte by byte, and the page in a real Chromium.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod browser;
mod engine;
mod server;
mod worker;
