//! Endpoints before each other and before a lawless peer, judged by the reference model and the invariants.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rescind_testkit::drive::connection(bytes));
