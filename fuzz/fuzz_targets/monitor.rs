//! The monitor, beside a relay that knows what it should see, and before noise.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rescind_testkit::drive::monitor(bytes));
