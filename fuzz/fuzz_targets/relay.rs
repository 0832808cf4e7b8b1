//! The relay machine before two parties, judged by the reference model and the invariants.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rescind_testkit::drive::relay(bytes));
