//! The envelope beside a full JSON parser.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rescind_testkit::drive::envelope(bytes));
