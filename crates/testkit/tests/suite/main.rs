//! What holds of the whole workspace: its layers, circles, sizes and words, the engine's purity, and the pages of `docs/` that speak of tests.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod circles;
mod growing_enums;
mod layers;
mod names;
mod packed;
mod pages;
mod purity;
mod sizes;
mod source;
mod words;
