//! One line of the table for each fault.

use std::{io::Write, sync::Once};

const FAULT: usize = 67;
const CELL: usize = 39;

/// Prints what was seen of one fault, without the relay and with it.
pub fn row(fault: &str, [without, with]: &[impl AsRef<str>; 2]) {
    static HEAD: Once = Once::new();
    HEAD.call_once(|| {
        line("fault", "without", "with relay::wrap");
        let rule = "-".repeat(FAULT);
        line(&rule, &rule[..CELL], &rule[..CELL]);
    });
    line(fault, without.as_ref(), with.as_ref());
}

/// At once and past the test harness: rows of tests that run beside each other must not mix.
fn line(fault: &str, without: &str, with: &str) {
    let line = format!("| {fault:FAULT$} | {without:CELL$} | {with:CELL$} |\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
