//! The suite of the HTTP machine in the copy: only the modules that find its bugs, so that it is built sooner.

#![expect(dead_code, reason = "the rest of these modules' tools serves modules that are left out")]

#[path = "../client/bodies.rs"]
mod bodies;
mod explore;
#[path = "../client/joined/mod.rs"]
mod joined;
#[path = "../client/rig.rs"]
mod rig;
mod seeded_bugs;
/// Cases of the server, with the tools that they are written with.
#[path = "."]
mod server {
    #[path = "batches.rs"]
    pub(crate) mod batches;
    #[path = "bounds.rs"]
    pub(crate) mod bounds;
    #[path = "look_alikes.rs"]
    pub(crate) mod look_alikes;
    #[path = "rig.rs"]
    mod rig;
    #[path = "shared.rs"]
    mod shared;
}
mod world;
