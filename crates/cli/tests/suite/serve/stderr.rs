//! What servers behind `rescind serve` write to stderr (D63): passed on, never waited for, and for whom its last lines are.

use std::{
    fs::File,
    io::{self, Read as _},
    net::SocketAddr,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use rescind_testkit::puppet::{Connection, Transcript};

use super::{MIRRORS, MODERN};
use crate::shim::{PROGRAM, error_of, process, words::request_with};

const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"test","version":"1"}}}"#;

/// A service whose stderr the test reads, or does not.
struct Stage {
    service: Child,
    stderr: File,
    address: SocketAddr,
    _sockets: tempfile::TempDir,
}

impl Stage {
    /// `rescind serve` with these flags, and this as its server. No server is asked which era it speaks.
    fn start(flags: &[&str], command: &[&str]) -> Self {
        let sockets = tempfile::tempdir().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let mut service = Command::new(PROGRAM);
        service.args(["serve", "--bridge"]).args(flags).arg("--").args(command);
        service.env("RESCIND_RUNTIME_DIR", sockets.path().join("own"));
        let service = service.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).spawn().unwrap();
        let mut stderr = File::from(OwnedFd::from(reader));
        // Byte by byte: what follows is read later, or never.
        let (mut line, mut byte) = (String::new(), [0]);
        while !line.ends_with('\n') {
            stderr.read_exact(&mut byte).unwrap();
            line.push(char::from(byte[0]));
        }
        let port = line.trim_end().strip_suffix("/mcp").and_then(|url| url.rsplit(':').next());
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        Self { service, stderr, address: SocketAddr::from(([127, 0, 0, 1], port)), _sockets: sockets }
    }

    fn local(flags: &[&str], server: &str) -> Self {
        Self::start(&[&["--listen", "127.0.0.1:0"], flags].concat(), &["sh", "-c", server])
    }

    /// What a client that opens a session is answered.
    fn opened(&self, headers: &[(&str, &str)]) -> String {
        let mut connection = Connection::open(self.address, &Transcript::default());
        connection.post(headers, &request_with("1", "initialize", HELLO));
        let head = connection.head();
        connection.message(&head)
    }

    /// What the error says that such a client is answered with.
    fn refused(&self, headers: &[(&str, &str)]) -> String {
        let error = error_of(&self.opened(headers), "1");
        assert_eq!(error["code"], -31002, "{error}");
        error["message"].as_str().unwrap().to_owned()
    }

    /// All that the service and its servers write from now on.
    fn end(&mut self) -> Vec<u8> {
        let id = rustix::process::Pid::from_child(&self.service);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let mut rest = Vec::new();
        self.stderr.read_to_end(&mut rest).unwrap();
        assert_eq!(self.service.wait().unwrap().code(), Some(0));
        rest
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// The bound of all servers, what is read at once, and what the process itself takes.
#[test]
fn servers_that_flood_a_stderr_that_is_not_read_go_on_and_their_memory_is_bounded_together() {
    let server = format!("seq 1 1300000 >&2; read -r first; echo '{WELCOME}'; exec cat >/dev/null");
    let stage = Stage::local(&[], &server);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(stage.opened(&[]), WELCOME));
        }
    });
    let peak = process::peak_memory(stage.service.id().cast_signed());
    assert!(peak < 72 << 20, "{peak} bytes");
}

#[test]
fn a_server_that_writes_400_kb_before_its_answer_goes_on_though_nobody_reads_the_service() {
    for flags in [&[][..], &["--shared"]] {
        let server = r#"head -c 400000 /dev/zero >&2; read -r first; id=${first#*\"id\":}; id=${id%%[,\}]*}; echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"test\",\"version\":\"1\"}}}"; exec cat >/dev/null"#;
        let opened = Stage::local(flags, server).opened(&[]);
        assert!(opened.contains(r#""name":"test""#), "{flags:?}: {opened}");
    }
}

#[test]
fn a_stderr_that_was_closed_stops_no_server_of_the_service() {
    let server = format!("seq 1 1300000 >&2; read -r first; echo '{WELCOME}'; exec cat >/dev/null");
    let mut stage = Stage::local(&[], &server);
    drop(std::mem::replace(&mut stage.stderr, File::open("/dev/null").unwrap()));
    for _ in 0..2 {
        assert_eq!(stage.opened(&[]), WELCOME);
    }
}

/// Nothing stands before them, and none is broken by another's.
#[test]
fn lines_of_several_servers_are_passed_on_byte_for_byte_and_not_mixed() {
    let line = r"x=$(printf '%3000s' '' | tr ' ' x); ";
    let write = r#"i=0; while [ $i -lt 200 ]; do printf '%s' "$$:" "$x" ":$$
" >&2; i=$((i + 1)); done; "#;
    let server =
        format!("{line}{write}printf '\\033[1mno end' >&2; read -r first; echo '{WELCOME}'; exec cat >/dev/null");
    let mut stage = Stage::local(&[], &server);
    let mut stderr = stage.stderr.try_clone().unwrap();
    let reading = thread::spawn(move || {
        let mut read = Vec::new();
        while read.windows(6).filter(|end| end == b"no end").count() < 3 {
            let mut piece = [0; 4096];
            let count = stderr.read(&mut piece).unwrap();
            read.extend_from_slice(&piece[..count]);
        }
        read
    });
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(stage.opened(&[]), WELCOME));
        }
    });
    let read = [reading.join().unwrap(), stage.end()].concat();
    let text = String::from_utf8(read).unwrap();
    let (ends, lines): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("\x1b[1mno end"));
    assert_eq!((ends.len(), lines.len()), (3, 600), "{text}");
    for line in lines {
        let (pid, rest) = line.split_once(':').unwrap();
        assert!(rest.strip_suffix(pid).is_some_and(|rest| rest.len() == 3001), "{line}");
    }
}

/// Another's errors are not the place for what a server says to its operator, who reads it all the same.
#[test]
fn the_last_lines_of_a_server_are_for_clients_of_this_machine_and_its_end_is_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let (token, owners) = (file("token", "open\n"), file("owners", "ann open\n"));
    let server = "read -r first; echo 'no key: SECRET' >&2; exit 3";
    let how = "the server (sh) exited with code 3 before it answered";
    let bearer = [("authorization", "Bearer open")];
    let local = ["--listen", "127.0.0.1:0"];
    let cases: [(&[&str], bool, bool); 6] = [
        (&local, false, true),
        (&[&local[..], &["--token-file", &token]].concat(), true, false),
        (&[&local[..], &["--owners", &owners]].concat(), true, false),
        (&[&local[..], &["--host", "mcp.example.com"]].concat(), false, false),
        (&[&local[..], &["--behind-proxy"]].concat(), false, false),
        (&["--listen", "0.0.0.0:0"], false, false),
    ];
    for (flags, has_token, has_lines) in cases {
        let headers = if has_token { &bearer[..] } else { &[] };
        let mut stage = Stage::start(flags, &["sh", "-c", server]);
        let lines = if has_lines { "; the end of its stderr:\nno key: SECRET" } else { "" };
        assert_eq!(stage.refused(headers), format!("{how}{lines}"), "{flags:?}");
        let rest = String::from_utf8(stage.end()).unwrap();
        assert!(rest.lines().any(|line| line == "no key: SECRET"), "{flags:?}: {rest}");
    }
}

#[test]
fn a_server_that_does_not_start_is_named_to_the_client_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = script(folder.path());
    // What is missing altogether is refused before; here it goes after that.
    let stage = Stage::start(&["--listen", "127.0.0.1:0"], &[&nowhere]);
    std::fs::remove_file(&nowhere).unwrap();
    let message = stage.refused(&[]);
    let named = format!("the server ({nowhere}) exited with code 127 before it answered; the end of its stderr:\n");
    let cause = message.strip_prefix(&named).unwrap_or_else(|| panic!("{message}"));
    assert!(cause.starts_with(&format!("error: {nowhere}: command not found\nhint: ")), "{message}");
}

/// Also those who come while it waits for its next start.
#[test]
fn every_client_of_a_shared_server_that_never_starts_is_told_why() {
    let stage = Stage::local(&["--shared"], "read -r first; echo 'no token' >&2; exit 3");
    let how = "the server (sh) exited with code 3 before it answered; the end of its stderr:\nno token";
    let (mut answered, mut refused) = (0, 0);
    while answered == 0 || refused == 0 {
        let mut connection = Connection::open(stage.address, &Transcript::default());
        connection.post(&[], &request_with("1", "initialize", HELLO));
        let head = connection.head();
        let error = connection.message(&head);
        match head.status {
            503 => refused += 1,
            _ => answered += 1,
        }
        let error: serde_json::Value = serde_json::from_str(&error).unwrap();
        let message = error["error"]["message"].as_str().unwrap_or_else(|| panic!("{error}"));
        assert!(message.ends_with(how), "{message}");
    }
}

/// The same status and code as ever, by which clients of both eras go on with `initialize`.
#[test]
fn a_server_that_ends_when_it_is_asked_for_its_era_is_told_to_the_client_without_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--", "sh", "-c", "read -r x; echo 'no token' >&2; exit 3"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).env("RESCIND_RUNTIME_DIR", sockets);
    let transcript = Transcript::default();
    let mut shim = rescind_testkit::puppet::Shim::start(command, &transcript);
    let line = shim.stderr.line();
    let address = line.strip_prefix("listening on http://").and_then(|url| url.split('/').next()).unwrap();
    let mut connection = Connection::open(address.parse().unwrap(), &transcript);
    connection.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
    let head = connection.head();
    let answer: serde_json::Value = serde_json::from_str(&connection.message(&head)).unwrap();
    assert_eq!((head.status, &answer["error"]["code"]), (400, &(-32600).into()), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("no session, and the server could not be asked which revision it speaks: "),
        "{answer}"
    );
    assert!(message.ends_with("exited with code 3 before it answered; the end of its stderr:\nno token"), "{answer}");
}

/// A script that can be executed.
fn script(folder: &Path) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let file = folder.join("server");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}
