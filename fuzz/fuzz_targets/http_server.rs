//! The HTTP machine between clients and programs, judged by the reference model and the invariants.

#![no_main]

#[path = "../../crates/http/tests/suite/drive.rs"]
mod drive;
#[path = "../../crates/http/tests/suite/world/mod.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::http_server(bytes));
