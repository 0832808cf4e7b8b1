//! The suite of the HTTP machine in the copy: only the modules that find its bugs, so that it is built sooner.

#![expect(dead_code, reason = "the rest of these modules' tools serves modules that are left out")]

mod explore;
#[path = "../client/joined/mod.rs"]
mod joined;
#[path = "../client/rig.rs"]
mod rig;
mod seeded_bugs;
mod world;
