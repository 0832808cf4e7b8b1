//! What a client is answered by `rescind run` whose server does not start, or ends before it is of use (D63).

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Child, Command, Stdio},
};

use rescind::relay::{self, EntryName, Link, LinkClient, LinkError, LinkServer};
use rescind_proto::relay::RelayConfig;
use serde_json::Value;

use crate::shim::{PROGRAM, error_of};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":"first","result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"test","version":"1"}}}"#;

/// An exit code that is not 0.
const ANY: i32 = -1;

/// A shim in `folder`, whose client has not said anything.
fn start(folder: &Path, command: &[&str]) -> Child {
    let mut shim = Command::new(PROGRAM);
    shim.args(["run", "--unlisted"]).args(command).current_dir(folder);
    shim.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a client that keeps its end open is answered to this message by a shim that was just started, and the exit code, or
/// that of a shell for the signal.
fn answered(folder: &Path, command: &[&str], message: &str) -> (String, i32) {
    let mut shim = start(folder, command);
    let mut stdin = shim.stdin.take().unwrap();
    stdin.write_all(message.as_bytes()).unwrap();
    let mut answer = String::new();
    shim.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    let status = shim.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    (answer, status.code().unwrap_or_else(|| 128 + signal.unwrap()))
}

#[test]
fn a_client_is_answered_how_its_server_failed_whatever_the_failure() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, contents: &[u8], mode: u32| {
        fs::write(at(name), contents).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    // The head of a program for a processor that this one is not.
    let mut foreign = b"\x7fELF\x02\x01\x01".to_vec();
    foreign.resize(16, 0);
    foreign.extend_from_slice(&[2, 0, 0xf3 ^ if cfg!(target_arch = "riscv64") { 0xff } else { 0 }, 0, 1, 0, 0, 0]);
    foreign.resize(120, 0);
    write("foreign", &foreign, 0o755);
    write("empty", b"", 0o755);
    write("forbidden", b"#!/bin/sh\n", 0o644);
    write("nowhere", b"#!/no/such/interpreter\n", 0o755);
    write("token", b"#!/bin/sh\necho 'Error: EXAMPLE_TOKEN is not set' >&2\nexit 1\n", 0o755);
    write(
        "trace",
        b"#!/bin/sh\nprintf 'Traceback (most recent call last):\\n  File \"x\"\\nImportError: no mcp\\n' >&2\nexit 1\n",
        0o755,
    );
    fs::create_dir(at("directory")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let sh = |script: &'static str| vec!["sh", "-c", script];
    let table: [(Vec<&str>, i32, &str, &str); 17] = [
        (vec!["no-such-program"], 127, "exited with code 127", "error: no-such-program: command not found"),
        (vec!["/no/such/path"], 127, "exited with code 127", "error: /no/such/path: command not found"),
        (vec![""], 127, "exited with code 127", "command not found"),
        (vec!["./nowhere"], 127, "exited with code 127", "the interpreter in its first line (#!) does not"),
        (vec!["./forbidden"], 126, "exited with code 126", "error: ./forbidden: Permission denied"),
        (vec!["./directory"], 126, "exited with code 126", "error: ./directory: is a directory"),
        (vec!["./loop"], 126, "exited with code 126", "error: ./loop: Too many levels of symbolic links"),
        (vec!["./token/x"], 126, "exited with code 126", "error: ./token/x: Not a directory"),
        // The C library has a shell read what the system cannot start, and which code that gives is the shell's affair.
        (vec!["./foreign"], ANY, "exited with code ", "foreign: "),
        (vec!["./empty"], 0, "exited with code 0", ""),
        (vec!["./token"], 1, "exited with code 1", "Error: EXAMPLE_TOKEN is not set"),
        (vec!["./trace"], 1, "exited with code 1", "ImportError: no mcp"),
        (vec!["true"], 0, "exited with code 0", ""),
        (sh("read -r first; exit 5"), 5, "exited with code 5", ""),
        (sh("echo usage: x; exit 2"), 2, "exited with code 2", ""),
        (sh("echo oops >&2; kill -SEGV $$"), 139, "was ended by signal 11 (SIGSEGV)", "oops"),
        (sh("read -r first; kill -9 $$"), 137, "was ended by signal 9 (SIGKILL)", ""),
    ];
    for (command, code, how, shown) in table {
        let (answer, exited) = answered(folder.path(), &command, &format!("{INITIALIZE}\n"));
        let error = error_of(&answer, "\"first\"");
        let message = error["message"].as_str().unwrap_or_else(|| panic!("{command:?}: {answer}"));
        let code = if code == ANY && exited != 0 { exited } else { code };
        assert_eq!((&error["code"], exited), (&Value::from(-31002), code), "{command:?}: {answer}");
        let program =
            if command[0].is_empty() { "the server ".to_owned() } else { format!("the server ({}) ", command[0]) };
        assert!(message.starts_with(&format!("{program}{how}")), "{command:?}: {message}");
        assert!(message.contains(" before it answered"), "{command:?}: {message}");
        assert!(message.contains(shown), "{command:?}: {message}");
        assert_eq!(message.contains("stderr"), !shown.is_empty(), "{command:?}: {message}");
    }
}

/// It is answered in the framing in which it asked, and in no more than that.
#[test]
fn the_first_request_is_answered_whatever_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let acp = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    let (answer, code) = answered(folder.path(), &["no-such-agent"], &format!("{acp}\n"));
    assert_eq!((answer.lines().count(), &error_of(&answer, "0")["data"]["exitCode"], code), (1, &127.into(), 127));

    let lsp = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"capabilities":{}}}"#;
    let framed = format!("Content-Length: {}\r\n\r\n{lsp}", lsp.len());
    let (answer, code) = answered(folder.path(), &["no-such-language-server"], &framed);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(head, format!("Content-Length: {}", body.len()));
    let error = error_of(body, "7");
    assert!(error["message"].as_str().unwrap().starts_with("the server (no-such-language-server) "), "{error}");
    assert_eq!(code, 127);

    let modern = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let (answer, _) = answered(folder.path(), &["no-such-server"], &format!("{modern}\n"));
    assert_eq!(error_of(&answer, "3")["code"], -31002, "{answer}");
}

/// As a slow client does: the process is gone by then.
#[test]
fn a_first_request_that_comes_after_the_servers_end_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut shim = start(folder.path(), &["sh", "-c", "echo $$ >&2; exit 3"]);
    let mut server = String::new();
    BufReader::new(shim.stderr.take().unwrap()).read_line(&mut server).unwrap();
    let stat = format!("/proc/{}/stat", server.trim_end());
    // It stays a zombie, or is gone.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
    let mut stdin = shim.stdin.take().unwrap();
    writeln!(stdin, r#"{{"jsonrpc":"2.0","method":"notifications/unasked"}}"#).unwrap();
    writeln!(stdin, "{INITIALIZE}").unwrap();
    let mut answer = String::new();
    shim.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(error_of(&answer, "\"first\"")["data"]["exitCode"], 3, "{answer}");
    assert_eq!(shim.wait().unwrap().code(), Some(3));
}

/// A server may look for its token late.
#[test]
fn the_request_after_the_handshake_is_answered_where_the_server_ended_behind_that() {
    let folder = tempfile::tempdir().unwrap();
    let server = format!("read -r first; echo '{WELCOME}'; read -r initialized; echo 'no token' >&2; exit 1");
    let mut shim = start(folder.path(), &["sh", "-c", &server]);
    let (mut stdin, mut stdout) = (shim.stdin.take().unwrap(), BufReader::new(shim.stdout.take().unwrap()));
    writeln!(stdin, "{INITIALIZE}").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), WELCOME);
    writeln!(stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
    writeln!(stdin, r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list"}}"#).unwrap();
    line.clear();
    stdout.read_line(&mut line).unwrap();
    let error = error_of(&line, "2");
    assert_eq!(
        error["message"],
        "the server (sh) exited with code 1 before it answered; the end of its stderr:\nno token"
    );
    assert_eq!(shim.wait().unwrap().code(), Some(1));
}

#[test]
fn a_client_that_asks_nothing_is_not_waited_for_once_it_has_ended_nor_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    for is_open in [false, true] {
        let mut shim = start(folder.path(), &["no-such-program"]);
        let stdin = shim.stdin.take().filter(|_| is_open);
        let mut answer = String::new();
        shim.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        assert_eq!((answer.as_str(), shim.wait().unwrap().code()), ("", Some(127)));
        drop(stdin);
    }
}

/// No process at all could be started for it.
#[test]
fn a_process_that_the_system_refuses_is_told_to_the_client() {
    let (client_input, mut to_link) = io::pipe().unwrap();
    let (mut from_link, client_output) = io::pipe().unwrap();
    writeln!(to_link, "{INITIALIZE}").unwrap();
    let link = Link {
        client: LinkClient::Descriptors { input: client_input.into(), output: client_output.into() },
        server: LinkServer::Command { command: vec!["npx".into()], launcher: "/no/such/launcher".into() },
        entry: EntryName::default(),
        config: RelayConfig::default(),
        finish: None,
        recording: None,
        log: None,
        on_stuck: None,
        on_stop: None,
        stderr_in_errors: true,
        admin: Vec::new(),
        history: None,
        welcome: None,
    };
    assert!(matches!(relay::run(link), Err(LinkError::Start(_))));
    let mut answer = String::new();
    from_link.read_to_string(&mut answer).unwrap();
    let error = error_of(&answer, "\"first\"");
    assert_eq!(error["message"], "the server (npx) could not be started: No such file or directory (os error 2)");
}
