//! A server of tasks, on the wire: each client in the test's hands, each piece of work watched.
//!
//! A comment names the rules and cases that a test shows. Tests on every store run in real time, since a paused clock
//! would run away while a file is waited for; tests of clocks run on the store in memory.

mod call;
mod cancel;
mod conformance;
mod input;
mod life;
mod restart;
mod rig;
mod said;
