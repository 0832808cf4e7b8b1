//! A terminal that can only write (`TERM=dumb`, as in a shell of Emacs), and colours that nobody wants (`NO_COLOR`).

use std::process::{Child, Stdio};

use rescind_feed::{Outcome, Request, State};
use rescind_testkit::fake_shim::{FakeShim, asked, request};

use super::Sockets;
use crate::shim::terminal::Terminal;

/// A session with a request that stops at the first cancel.
fn session(sockets: &Sockets) -> FakeShim {
    let shim = sockets.shim("4711");
    shim.put([Request { state: State::Stuck, ..request(1, "tools/call", Some("index"), 0) }]);
    shim.on_cancel(|request, reason| {
        let mut cancel = asked(0, reason);
        (cancel.outcome, cancel.confirms, cancel.written) = (Outcome::Confirmed, true, Some(0));
        (request.cancel, request.state) = (Some(cancel.in_words(None)), State::Ended);
    });
    shim
}

/// Starts a command on a terminal of this kind.
fn start(sockets: &Sockets, words: &[&str], variable: (&str, &str), terminal: &Terminal) -> Child {
    let mut command = sockets.command(words);
    // Where this is set some programs colour everything.
    command
        .env("CI", "true")
        .env(variable.0, variable.1)
        .stdin(Stdio::null())
        .stdout(terminal.end())
        .stderr(terminal.end());
    command.spawn().unwrap()
}

#[test]
fn on_a_dumb_terminal_nothing_is_coloured_or_drawn_over() {
    let sockets = Sockets::new();
    let _shim = session(&sockets);
    for (words, shown) in [
        (&["ps"][..], "stuck"),
        (&["ps", "--watch"], "index"),
        (&["stop", "--dry-run"], "index"),
        (&["cancel", "4711/9"], "hint: "),
        (&["--help"], "doctor"),
        (&["rnu"], "did you mean"),
        (&["wrap", "--list"], "no file of"),
        (&["doctor"], "rescind "),
        (&["stop"], "1 stopped"),
    ] {
        let terminal = Terminal::open();
        let mut child = start(&sockets, words, ("TERM", "dumb"), &terminal);
        let shown = terminal.shows_until(shown);
        let _ = child.kill();
        child.wait().unwrap();
        assert!(!shown.contains('\u{1b}'), "{words:?}: {shown:?}");
    }
}

#[test]
fn without_colours_a_table_is_still_drawn_over() {
    let sockets = Sockets::new();
    let _shim = session(&sockets);
    let terminal = Terminal::open();
    let mut child = start(&sockets, &["ps", "--watch"], ("NO_COLOR", "1"), &terminal);
    let shown = terminal.shows_until("index") + &terminal.shows_until("index");
    let _ = child.kill();
    child.wait().unwrap();
    assert!(shown.contains("\u{1b}[J") && !shown.contains("\u{1b}[0m"), "{shown:?}");
}
