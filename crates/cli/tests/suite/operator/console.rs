//! `rescind console`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Child, ChildStdout},
};

use rescind_testkit::fake_shim::request;
use rustix::process::{Pid, Signal, kill_process};

use super::{Sockets, say};

/// Its link, with everything after it on stdout.
fn start(sockets: &Sockets, arguments: &[&str]) -> (Child, String, BufReader<ChildStdout>) {
    let mut child = sockets.command(&[&["console"], arguments].concat()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut link = String::new();
    stdout.read_line(&mut link).unwrap();
    (child, link.trim_end().to_owned(), stdout)
}

fn get(port: &str, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{header}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_link_on_stdout_opens_the_page_until_the_command_ends() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711");
    shim.put([request(1, "tools/call", None, 0)]);
    let key_file = sockets.path.parent().unwrap().join("key");
    let (mut child, link, mut stdout) = start(&sockets, &["--key-file", key_file.to_str().unwrap()]);
    let (port, token) = link.strip_prefix("http://127.0.0.1:").unwrap().split_once("/?token=").unwrap();
    let moved = get(port, &format!("/?token={token}"), "");
    let key = fs::read_to_string(&key_file).unwrap();
    assert_eq!(fs::metadata(&key_file).unwrap().permissions().mode() & 0o777, 0o600);
    let page = format!("/{}/", key.trim_end());
    assert!(moved.starts_with("HTTP/1.1 303") && moved.contains(&format!("location: {page}\r\n")), "{moved}");
    assert!(get(port, &page, "").contains("<!doctype html>"));
    let bearer = format!("Authorization: Bearer {}\r\n", key.trim_end());
    assert!(get(port, "/metrics", &bearer).contains("\nrescind_shims 1\n"));
    let said = sockets.say(&["console", "--no-open", "--port", port]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with(&format!("error: --port {port}: ")), "{}", said.stderr);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "nothing but the link is data");
}

#[test]
fn a_key_that_others_can_read_and_a_file_that_is_no_recording_are_refused() {
    let sockets = Sockets::new();
    let file = sockets.path.parent().unwrap().join("key");
    fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let said = say(&sockets.path, &["console", "--no-open", "--key-file", file.to_str().unwrap()]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr.contains("is open to other users (mode 644)\nhint: if it holds a key, others may have read that"),
        "{}",
        said.stderr
    );
    let said = say(&sockets.path, &["console", "--no-open", file.to_str().unwrap()]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.starts_with("error: ") && said.stderr.contains("\nhint: "), "{}", said.stderr);
}

#[test]
fn a_folder_of_recordings_is_shown_without_what_is_none() {
    let sockets = Sockets::new();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let here = folder.path().to_str().unwrap();
    let said = say(&sockets.path, &["console", "--no-open", here]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("has no recordings (*.jsonl)\nhint: name a folder"), "{}", said.stderr);
    for number in 0..52 {
        let name = at(&format!("session-{number:02}.jsonl"));
        fs::write(name, "{\"rescind\":\"recording\",\"version\":1}\n{\"t\":1,\"kind\":\"end\"}\n").unwrap();
    }
    fs::write(at("session-51.jsonl"), "shopping list\n").unwrap();
    fs::write(at("notes.txt"), "shopping list\n").unwrap();
    let key_file = at("key");
    let mut command = sockets.command(&["console", "--no-open", "--key-file", key_file.to_str().unwrap(), here]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut link = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
    let port = link.strip_prefix("http://127.0.0.1:").unwrap().split('/').next().unwrap().to_owned();
    let key = fs::read_to_string(&key_file).unwrap();
    let ask = |session: &str| get(&port, &format!("/{}/sessions/{session}/requests/c1", key.trim_end()), "");
    assert!(ask("session-50").contains("no longer remembered") && ask("session-02").contains("no longer remembered"));
    assert!(ask("session-51").contains("no such session") && ask("session-01").contains("no such session"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("only the newest 50 recordings are opened"), "{said}");
    assert!(said.contains("session-51.jsonl: is not a recording; left out"), "{said}");
}
