//! What a server writes to its stderr through `rescind run` (D63): all of it is passed on, and a client that does not read
//! it stops no server.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::fd::OwnedFd,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::shim::{PROGRAM, error_of, process, terminal::Terminal};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// Far more than anything on the way holds.
const LINES: usize = 1_300_000;

/// A shim with a shell as its server, which is sent one call.
struct Session {
    shim: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Session {
    fn start(server: &str, stderr: impl Into<Stdio>) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--unlisted", "sh", "-c", server]);
        let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let (mut stdin, stdout) = (shim.stdin.take().unwrap(), shim.stdout.take().unwrap());
        writeln!(stdin, "{CALL}").unwrap();
        let (line, lines) = mpsc::channel();
        thread::spawn(move || BufReader::new(stdout).lines().for_each(|read| line.send(read.unwrap()).unwrap_or(())));
        Self { shim, stdin: Some(stdin), lines }
    }

    /// The next line for the client.
    fn receive(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("the server was stopped"))
    }

    /// The client has closed its end, and the server ends.
    fn end(&mut self) -> Option<i32> {
        self.stdin = None;
        self.shim.wait().unwrap().code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

/// A pipe whose reader is the test.
fn pipe() -> (File, OwnedFd) {
    let (reader, writer) = io::pipe().unwrap();
    (OwnedFd::from(reader).into(), writer.into())
}

/// What `seq` writes.
fn numbers(last: usize) -> String {
    (1..=last).map(|number| format!("{number}\n")).collect()
}

#[test]
fn a_server_that_writes_400_kb_before_its_answer_goes_on_though_nobody_reads() {
    let (_unread, stderr) = pipe();
    let server = format!("head -c 400000 /dev/zero >&2; read -r call; echo '{ANSWER}'; exec cat >&2");
    let mut session = Session::start(&server, stderr);
    assert_eq!(session.receive(), ANSWER);
    assert_eq!(session.end(), Some(0));
}

#[test]
fn of_a_flood_that_nobody_reads_the_oldest_is_dropped_with_a_word_and_memory_is_bounded() {
    let (mut unread, stderr) = pipe();
    let server = format!("seq 1 {LINES} >&2; read -r call; echo '{ANSWER}'; exec cat >&2");
    let mut session = Session::start(&server, stderr);
    assert_eq!(session.receive(), ANSWER);
    let peak = process::peak_memory(session.shim.id().cast_signed());
    assert!(peak < 48 << 20, "{peak} bytes");
    // From now on it is read.
    session.stdin = None;
    let mut read = String::new();
    unread.read_to_string(&mut read).unwrap();
    assert_eq!(session.end(), Some(0));
    let all = numbers(LINES);
    let (before, rest) = read.split_once("warning: ").unwrap();
    let (count, after) = rest.split_once(" bytes of stderr were dropped here, because it was not read\n").unwrap();
    let count: usize = count.parse().unwrap();
    let line_break = before.len() - usize::from(!all.starts_with(before));
    assert!(before.len() >= 4096 && all.starts_with(&before[..line_break]), "what was written first");
    assert_eq!(after, &all[line_break + count..], "{count}");
    assert!(after.len() > 16 * 1024);
}

#[test]
fn a_client_that_reads_gets_every_byte_of_a_flood_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written");
    let (mut reader, stderr) = pipe();
    let server = format!(
        "head -c 10000000 /dev/urandom | tee {} >&2; printf 'no line end' >&2; read -r call; echo '{ANSWER}'; exec cat",
        file.display()
    );
    let mut session = Session::start(&server, stderr);
    let reading = thread::spawn(move || {
        let mut read = vec![0; 10_000_011];
        reader.read_exact(&mut read).map(|()| (read, reader))
    });
    assert_eq!(session.receive(), ANSWER);
    let (read, mut reader) = reading.join().unwrap().unwrap();
    assert_eq!((session.end(), reader.read(&mut [0]).unwrap()), (Some(0), 0));
    let mut written = fs::read(file).unwrap();
    written.extend_from_slice(b"no line end");
    assert!(read == written);
}

#[test]
fn a_stderr_that_the_client_has_closed_stops_no_server_and_ends_none() {
    let (reader, stderr) = pipe();
    drop(reader);
    let server = format!("seq 1 {LINES} >&2; read -r call; echo '{ANSWER}'; exec cat >&2");
    let mut session = Session::start(&server, stderr);
    assert_eq!(session.receive(), ANSWER);
    assert_eq!(session.end(), Some(0));
}

/// While the shim waits for it to be read.
#[test]
fn a_stderr_that_is_closed_in_the_middle_of_a_flood_stops_no_server() {
    let (mut reader, stderr) = pipe();
    let server = format!("seq 1 {LINES} >&2; read -r call; seq 1 {LINES} >&2; echo '{ANSWER}'; exec cat >&2");
    let mut session = Session::start(&server, stderr);
    reader.read_exact(&mut vec![0; 200_000]).unwrap();
    drop(reader);
    assert_eq!(session.receive(), ANSWER);
    assert_eq!(session.end(), Some(0));
}

/// Also where something else has it open, which is not waited for.
#[test]
fn what_a_server_writes_before_its_end_is_passed_on_and_stands_in_the_error() {
    for left_behind in ["", "sleep 1000 >&- <&- & "] {
        let (mut reader, stderr) = pipe();
        let server =
            format!(r"{left_behind}read -r call; seq 1 20000 >&2; printf '\033[31mlast\377\033[0m' >&2; kill -9 $$");
        let mut session = Session::start(&server, stderr);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == [numbers(20_000).as_bytes(), b"\x1b[31mlast\xff\x1b[0m"].concat());
        let error = error_of(&session.receive(), "1");
        let message = error["message"].as_str().unwrap();
        let ended = "the server (sh) was ended by signal 9 (SIGKILL) before it answered; neither its client nor rescind had \
                     sent that signal; the end of its stderr:\n";
        let lines = message.strip_prefix(ended).unwrap_or_else(|| panic!("{message}"));
        assert!(lines.ends_with("\n19999\n20000\nlast\u{fffd}") && lines.lines().count() == 20, "{lines}");
        assert!(!message.contains("slow"), "not the params: {message}");
        session.end();
    }
}

/// Nobody ever reads: the error has the end of it all the same.
#[test]
fn the_end_of_a_flood_that_nobody_reads_stands_in_the_error() {
    let (_unread, stderr) = pipe();
    let mut session = Session::start(&format!("seq 1 {LINES} >&2; exit 3"), stderr);
    let error = error_of(&session.receive(), "1");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the server (sh) exited with code 3 before it answered; "), "{message}");
    assert!(message.ends_with(&format!("\n{}\n{LINES}", LINES - 1)), "{message}");
    assert_eq!(session.end(), Some(3));
}

#[test]
fn a_stderr_that_is_a_terminal_is_the_servers_own() {
    let terminal = Terminal::open();
    let server = format!("read -r call; [ -t 2 ] && echo '{ANSWER}'; echo seen >&2; exec cat");
    let mut session = Session::start(&server, terminal.end());
    assert_eq!(session.receive(), ANSWER);
    terminal.shows_until("seen");
    assert_eq!(session.end(), Some(0));
}
