//! The modules of `suite` that go through millions of states: built by themselves they are optimised sooner.

#[path = "suite/explore.rs"]
mod explore;
#[path = "suite/world/mod.rs"]
mod world;
