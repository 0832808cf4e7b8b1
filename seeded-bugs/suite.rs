//! The suite of the engine in the copy: only the modules that find its bugs, so that it is built sooner.

#![expect(dead_code, reason = "the rest of these modules' tools serves modules that are left out")]

mod endpoint_rig;
mod endpoint_storm;
mod explore;
mod floods;
mod seeded_bugs;
mod spoilt;
