//! The client's machine before scripted servers, beside the server's machine, and in its shell.

#![expect(clippy::unwrap_used, reason = "what a helper does not find is a failure of the test")]

mod bodies;
mod bounds;
mod cancel;
mod connections;
mod credentials;
mod departures;
mod faults;
mod issuer_keys;
mod joined;
mod lost_sessions;
mod mirrors;
mod raw_server;
mod reach;
mod receipts;
mod refusals;
mod rig;
mod sessions;
mod shell;
mod signing_in;
mod spoilt;
mod streams;
#[cfg(feature = "tls")]
mod tls;
mod together;
#[cfg(feature = "sign-in")]
mod tokens;
