//! Pages in `docs/` that speak of tests: what they name exists, and what is generated is up to date.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod cases;
mod seeds;
mod sources;
