//! Newline framing: however the stream is cut, the same comes out.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rescind_testkit::drive::line_codec(bytes));
