//! A server that asks a person, on the terminal of whoever started the shim.

use std::process::{Child, Command};

use crate::shim::{PROGRAM, terminal::Terminal};

/// Asks on the terminal, says to its client what it was told, and then echoes what its client says. As programs that
/// ask for a password do, it sets the terminal before it asks.
const ASKS: &str = r#"stty -echo </dev/tty; printf 'password? ' >/dev/tty; read -r told </dev/tty
    echo "{\"method\":\"told/$told\"}"; exec cat"#;

/// A session of its own on this terminal, with `script` run by its shell, to which `server` is given. Control-C works in
/// it also where these tests run in the background of a shell, which has its children ignore SIGINT.
fn session(terminal: &Terminal, flags: &[&str], script: &str, server: &str) -> Child {
    let mut command = Command::new("env");
    command
        .args(["--default-signal", "setsid", "--ctty", "--wait", "sh"])
        .args(flags)
        .args(["-c", script, PROGRAM, server]);
    command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end()).spawn().unwrap()
}

#[test]
fn a_server_that_asks_on_the_terminal_is_lent_it_where_a_shell_started_the_shim() {
    let terminal = Terminal::open();
    // With -m each job is a group that the shell puts into the foreground, as an interactive shell does.
    let mut shell = session(&terminal, &["-m"], r#""$0" run sh -c "$1"; echo "ended: $?""#, ASKS);
    terminal.shows_until("password?");
    terminal.type_in("secret\n");
    terminal.shows_until(r#"{"method":"told/secret"}"#);
    // What is typed from now on is the client's again.
    terminal.type_in("{\"method\":\"typed\"}\n");
    terminal.shows_until(r#"{"method":"typed"}"#);
    terminal.type_in("\x04");
    terminal.shows_until("ended: 0");
    assert!(shell.wait().unwrap().success());
}

#[test]
fn a_server_that_asks_can_be_interrupted_and_suspended_as_without_the_shim() {
    let terminal = Terminal::open();
    // The trap keeps the shell from dying with its job, as an interactive one does not.
    let script = r#"trap : INT; "$0" run sh -c "$1"; echo "suspended: $?"; fg; echo "ended: $?""#;
    let mut shell = session(&terminal, &["-m"], script, ASKS);
    terminal.shows_until("password?");
    let server = terminal.foreground();
    // Control-Z, then the shell's own `fg`, and, once the server asks again, Control-C.
    terminal.type_in("\x1a");
    terminal.shows_until("suspended: 148");
    terminal.waits_for_foreground(server);
    terminal.type_in("\x03");
    terminal.shows_until("ended: 130");
    assert!(shell.wait().unwrap().success());
}

/// An agent or an editor in the foreground would itself be stopped, were its terminal taken.
#[test]
fn a_terminal_that_is_the_clients_is_never_taken_and_the_stopped_server_is_reported() {
    let terminal = Terminal::open();
    // Without -m the shell is the client: the shim is in its group.
    let script = r#""$0" run --finish 1ms sh -c "$1"; echo "ended: $?""#;
    let mut client = session(&terminal, &[], script, "read -r told </dev/tty; echo told");
    let shown = terminal.shows_until("hint: ");
    assert!(shown.contains("error: the server was suspended by SIGTTIN: "), "{shown}");
    assert!(!shown.contains("told"), "{shown}");
    // It ends as a server that was never stopped would: by the SIGTERM that it is sent.
    terminal.type_in("\x04");
    terminal.shows_until("ended: 143");
    assert!(client.wait().unwrap().success());
}
