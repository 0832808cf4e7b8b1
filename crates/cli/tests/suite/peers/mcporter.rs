//! mcporter, which prints the stderr of a server that exits with a code of failure into its own results.

use super::parts::{PROGRAMS, Server, programs};
use super::programs::{Bench, Program, Seen};

/// D45. It closes the server's input, and sends SIGTERM where that does not suffice.
#[test]
fn a_server_that_is_told_to_end_by_a_signal_is_not_taken_for_a_failed_one() {
    let program = program("mcporter call, a server that ends by SIGTERM");
    if let Some(seen) = program.same(|bench| call(bench, &["--stays"], &["echo"])) {
        assert_eq!((&*seen.exit, &seen.stdout[..]), ("code 0", &["echo".to_owned()][..]));
    }
}

#[test]
fn a_server_that_ends_with_its_input_is_as_without() {
    let program = program("mcporter call, a server that ends by itself");
    if let Some(seen) = program.same(|bench| call(bench, &[], &["echo"])) {
        assert_eq!((&*seen.exit, &seen.stdout[..]), ("code 0", &["echo".to_owned()][..]));
    }
}

#[test]
fn a_call_whose_time_is_up_stops_the_work() {
    let program = program("mcporter call --timeout");
    if let Some(seen) = program.same(|bench| call(bench, &["--stays"], &["obeys", "work=A", "--timeout", "10000"])) {
        assert_eq!(seen.exit, "code 1");
        assert_eq!(seen.marks, ["A started", "A stopped"]);
    }
}

fn program(title: &str) -> Program<'_> {
    Program { title, folders: &[PROGRAMS], commands: &[], shim: &["run", "--"] }
}

fn call(bench: &Bench, flags: &[&str], words: &[&str]) -> Seen {
    let mut command = bench.command(&programs("node_modules/mcporter/dist/cli.js"));
    let server = bench.server(Server::FastMcp.command());
    command.args(["call", "--name", "peer", "--stdio", &server[0]]);
    for word in server[1..].iter().map(String::as_str).chain(flags.iter().copied()) {
        command.args(["--stdio-arg", word]);
    }
    command.args(words);
    let ended = bench.run("mcporter", command);
    bench.seen(ended.exit, &ended.stdout, &ended.stderr)
}
