//! The suite of the HTTP machine in the copy: only the modules that find its bugs, so that it is built sooner.

mod explore;
mod seeded_bugs;
mod world;
