//! Recordings of `rescind run`, on real processes.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
};

use rescind_testkit::puppet::Rig;
use rustix::fs::Mode;
use serde_json::{Value, json};

use crate::shim::{
    self, PROGRAM,
    process::peak_memory,
    words::{cancelled, greet_mcp, notification, pass_to_client, pass_to_server, request, result},
};

fn rig(flags: &[&str]) -> Rig {
    Rig::builder(PROGRAM).flags(flags).start()
}

fn json_of(message: &str) -> Value {
    serde_json::from_str(message).unwrap()
}

/// The lines of a recording.
fn lines(file: &Path) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(json_of).collect()
}

#[test]
fn record_holds_every_frame_at_each_point_it_passed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.jsonl");
    let mut rig = rig(&["--record", file.to_str().unwrap()]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.server.send(&result("1", r#"{"é":"\u0000"}"#));
    rig.server.send_bytes(b"\xff\xfe\n");
    rig.expect_client_hears_nothing();
    rig.server.exit(3);
    rig.shim.expect_exit(3);

    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let lines = lines(&file);
    assert_eq!((&lines[0]["rescind"], &lines[0]["version"]), (&json!("recording"), &json!(1)));
    let frames = |hop: &str| -> Vec<&str> {
        lines.iter().filter(|line| line["hop"] == hop).filter_map(|line| line["frame"].as_str()).collect()
    };
    let call = format!("{}\n", request("1", "tools/call"));
    let late = format!("{}\n", result("1", r#"{"é":"\u0000"}"#));
    assert!(frames("from_client").contains(&call.as_str()) && frames("to_server").contains(&call.as_str()));
    assert!(frames("from_server").contains(&late.as_str()) && !frames("to_client").contains(&late.as_str()));
    assert!(lines.iter().any(|line| line["base64"] == "//4K"), "bytes that are no text: {lines:#?}");

    let times: Vec<u64> = lines[1..].iter().map(|line| line["t"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).cloned().collect::<Vec<_>>();
    let outcomes: Vec<Value> = of("receipt").iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["asked", "sent", "answered_after"]);
    assert_eq!(of("cancel")[0]["verdict"], "accepted");
    assert_eq!(of("late")[0]["what"], "result");
    assert_eq!(of("server_ended")[0]["exitCode"], 3);
    let last = lines.last().unwrap();
    assert_eq!((&last["kind"], &last["protocol"]["client"]), (&json!("end"), &json!("mcp-2025-11-25")));
}

#[test]
fn record_overwrites_a_recording_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |file: &str| shim::run_to_end(&["run", "--record", file, "--", "true"]);
    let recording = path("recording");
    for _ in 0..2 {
        let (said, code) = run(&recording);
        assert_eq!((said.as_str(), code), ("", 0));
        assert_eq!(lines(Path::new(&recording)).last().unwrap()["kind"], "end");
    }
    let notes = path("notes");
    fs::write(&notes, "do not lose this").unwrap();
    let (said, code) = run(&notes);
    assert_eq!(code, 125);
    assert_eq!(
        said,
        format!("error: {notes}: exists and is not a recording\nhint: name a new file, or remove this one\n")
    );
    assert_eq!(fs::read_to_string(&notes).unwrap(), "do not lose this");
    let link = path("link");
    std::os::unix::fs::symlink(&recording, &link).unwrap();
    let (said, code) = run(&link);
    assert_eq!(
        (said, code),
        (format!("error: {link}: is a symbolic link\nhint: give the path of the file itself\n"), 125)
    );
    let (said, code) = run(&path("no/such/folder"));
    assert_eq!(code, 125, "{said}");
}

#[test]
fn record_makes_an_earlier_recording_private() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (said, code) = shim::run_to_end(&["run", "--record", file.to_str().unwrap(), "--", "true"]);
    assert_eq!((said.as_str(), code), ("", 0));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn record_refuses_a_file_to_which_another_shim_records() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording").to_str().unwrap().to_owned();
    let _first = rig(&["--record", &file]);
    let (said, code) = shim::run_to_end(&["run", "--record", &file, "--", "true"]);
    assert_eq!(code, 125);
    let remedy = format!("hint: name a folder, in which each session gets a file of its own: --record {file}/\n");
    assert_eq!(said, format!("error: {file}: another session is recording to it\n{remedy}"));
}

#[test]
fn a_place_where_no_file_can_be_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, here) = (folder.path().join("missing"), folder.path().display());
    let file = missing.join("file");
    let said = |flags: &[&str]| shim::run_to_end(&[&["run"], flags, &["true"]].concat());
    for flags in [&["--record"][..], &["--log", "info", "--log-file"]] {
        let of = |path: &str| said(&[flags, &[path]].concat());
        let cause = format!("error: {}: No such file or directory (os error 2)\n", file.display());
        let hint = format!("hint: first create its directory: mkdir -p {}\n", missing.display());
        assert_eq!(of(file.to_str().unwrap()), (cause + &hint, 125));
    }
    let cause = format!("error: {here}: Is a directory (os error 21)\n");
    let hint = "hint: this is a directory: name a file in it\n";
    assert_eq!(said(&["--log", "info", "--log-file", &here.to_string()]), (cause + hint, 125));
    // The directory of this one exists.
    let dangling = folder.path().join("dangling");
    std::os::unix::fs::symlink(&file, &dangling).unwrap();
    let (said, _) = said(&["--log", "info", "--log-file", dangling.to_str().unwrap()]);
    assert!(said.ends_with("hint: name a file in a directory that you may write to\n"), "{said}");
}

#[test]
fn the_log_and_the_recording_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both");
    let path = file.to_str().unwrap();
    let said = shim::run_to_end(&["run", "--record", path, "--log", "info", "--log-file", path, "true"]);
    assert_eq!(said, (format!("error: {path}: named by --record and by --log-file\nhint: name two files\n"), 125));
    assert!(!file.exists());
    let said = shim::run_to_end(&["run", "--record", "/dev/null", "--log", "info", "--log-file", "/dev/null", "true"]);
    assert_eq!(said, (String::new(), 0));
}

/// Said when a recording breaks off.
const HINT: &str =
    "hint: the rest of the session is not recorded; to record again, fix the cause and restart the session";

#[test]
fn a_recording_that_cannot_be_written_any_more_does_not_end_the_link() {
    let mut rig = rig(&["--record", "/dev/full"]);
    greet_mcp(&mut rig, "2025-11-25");
    assert_eq!(rig.shim.stderr.line(), "error: /dev/full: No space left on device (os error 28)");
    assert_eq!(rig.shim.stderr.line(), HINT);
    pass_to_server(&mut rig, &request("1", "tools/call"));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

/// The kernel sends SIGXFSZ for it, whose default is death.
#[test]
fn a_limit_on_file_sizes_ends_the_recording_and_not_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let limited = ["sh", "-c", r#"ulimit -f 8; exec "$0" "$@""#];
    let flags = ["--record", file.to_str().unwrap()];
    let mut rig = Rig::builder(PROGRAM).under(limited).flags(flags).start();
    let long = notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(20_000)));
    pass_to_server(&mut rig, &long);
    pass_to_client(&mut rig, &long);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let said = String::from_utf8(rig.shim.stderr.rest()).unwrap();
    assert_eq!(said, format!("error: {}: File too large (os error 27)\n{HINT}\n", file.display()));
}

/// A recording that leaves something out would lie, so the link waits for a slow one, in bounded memory.
#[test]
fn a_link_waits_for_its_recording() {
    const MESSAGES: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut rig = rig(&["--record", fifo.to_str().unwrap()]);
    let long = notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000)));
    let (mut client, line) = (rig.client.take_blocking_output(), format!("{long}\n"));
    let client = thread::spawn(move || {
        for _ in 0..MESSAGES {
            client.write_all(line.as_bytes()).unwrap();
        }
        client
    });
    for _ in 0..10 {
        rig.server.expect(&long);
    }
    // Only now does anybody read the recording.
    let recording = thread::spawn(move || {
        let lines = BufReader::new(fs::File::open(&fifo).unwrap()).lines();
        let lines = lines.map(|line| json_of(&line.unwrap()));
        let frames = lines.take_while(|line| line["kind"] != "end").filter(|line| line["kind"] == "frame");
        frames.filter(|line| line["frame"].as_str().unwrap().len() > 100_000).count()
    });
    for _ in 10..MESSAGES {
        rig.server.expect(&long);
    }
    let peak = peak_memory(rig.shim.id);
    assert!(peak < 32 << 20, "the shim took {peak} bytes");
    rig.server.exit(0);
    assert_eq!(recording.join().unwrap(), 2 * MESSAGES, "each where it came from and where it went");
    rig.shim.expect_exit(0);
    client.join().unwrap();
}

#[test]
fn what_was_recorded_before_a_kill_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let mut rig = rig(&["--record", file.to_str().unwrap()]);
    pass_to_server(&mut rig, &request("1", "tools/call"));
    // A round trip later the shim has been idle, and its thread has had the first line at least.
    pass_to_client(&mut rig, &result("1", "{}"));
    while lines(&file).len() < 3 {
        std::thread::yield_now();
    }
    rig.shim.kill(rustix::process::Signal::KILL);
    rig.shim.wait();
    let lines = lines(&file);
    assert_eq!(lines[0]["rescind"], "recording");
    assert_ne!(lines.last().unwrap()["kind"], "end", "incomplete, and says so");
}
