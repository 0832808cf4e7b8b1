//! How the service, its sessions and their servers begin and end.

use std::fs;

use rescind_testkit::puppet::{Connection, Service, Shim, Transcript};
use rustix::process::Signal;

use super::{LEGACY, ask, ask_modern, open_modern, serve, tell};
use crate::shim::{
    self, PROGRAM, error_of,
    words::{request, result},
};

#[test]
fn a_service_that_is_killed_leaves_no_server() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let (mut shared, _call) = open_modern(&service);
    service.shim.kill(Signal::KILL);
    session.server.puppet.expect_death();
    shared.puppet.expect_death();
}

#[test]
fn a_service_that_is_asked_to_end_ends_its_servers_first() {
    let mut service = serve();
    let mut session = service.open_session(LEGACY);
    service.shim.kill(Signal::TERM);
    session.server.expect_end();
    session.server.exit(0);
    service.shim.expect_exit(0);
}

#[test]
fn what_is_in_flight_is_still_answered_and_nothing_new_is_taken() {
    let mut service = serve();
    let mut session = service.open_session(LEGACY);
    let mut other = service.connect();
    other.post(&session.headers(), &request("1", "ping"));
    session.server.expect(&request("1", "ping"));
    let mut call = ask(&service, &mut session, "2");
    session.server.send(&result("1", "{}"));
    let head = other.head();
    assert_eq!(other.message(&head), result("1", "{}"));
    service.shim.kill(Signal::TERM);
    session.server.send(&result("2", "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("2", "{}"));
    session.server.expect_end();
    session.server.exit(0);
    service.shim.expect_exit(0);
}

#[test]
fn a_second_signal_waits_for_nothing() {
    let mut service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "1");
    service.shim.kill(Signal::TERM);
    service.shim.kill(Signal::INT);
    let head = call.head();
    assert_eq!(error_of(&call.message(&head), "1")["code"], -31002);
    call.expect_end();
    while !session.server.receive().contains("notifications/cancelled") {}
    session.server.expect_end();
    session.server.exit(0);
    service.shim.expect_exit(0);
}

/// Its client learns how it ended, and has to open a new session.
#[test]
fn a_server_that_dies_answers_what_is_in_flight_and_its_session_is_over() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "1");
    session.server.exit(3);
    let head = call.head();
    let error = error_of(&call.message(&head), "1");
    assert_eq!(error["code"], -31002, "{error}");
    let (_, head) = service.post(&session.headers(), &request("2", "ping"));
    assert_eq!(head.status, 404);
}

#[test]
fn after_the_death_of_the_shared_server_the_next_request_starts_another() {
    let service = serve();
    let (mut server, mut call) = open_modern(&service);
    server.exit(3);
    let head = call.head();
    let error = error_of(&call.message(&head), "1");
    assert_eq!(error["code"], -31002, "{error}");
    let mut call = service.connect();
    call.post(&super::MIRRORS, &crate::shim::words::request_with("7", "tools/list", super::MODERN));
    // It is known by now which era it speaks.
    let mut server = service.accept();
    server.expect(&crate::shim::words::request_with("1", "tools/list", super::MODERN));
    server.send(&result("1", "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("7", "{}"));
    let mut call = ask_modern(&service, &mut server, "7", "2");
    server.send(&result("2", "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("7", "{}"));
}

/// Its client hangs up and never comes back (2025-11-25): its server is told to stop, and ends.
#[test]
fn the_work_of_a_client_that_never_comes_back_is_cancelled_and_its_session_is_over() {
    let service = Service::start(PROGRAM, ["--resume-within", "200ms"]);
    let mut session = service.open_session(LEGACY);
    drop(ask(&service, &mut session, "1"));
    let cancel = session.server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":1"#), "{cancel}");
    session.server.expect_end();
    session.server.exit(0);
    let (_, head) = service.post(&session.headers(), &request("2", "ping"));
    assert_eq!(head.status, 404);
}

/// It may be there again later, and clients are told what is wrong meanwhile.
#[test]
fn a_command_that_is_gone_later_is_named_and_the_service_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "server", "#!/bin/sh\n");
    let name = file.to_str().unwrap();
    // With this flag no server is started before a client comes.
    let transcript = Transcript::default();
    let (mut shim, address) = listening(&transcript, &["--bridge", name], &[]);
    fs::remove_file(&file).unwrap();
    let mut client = Connection::open(address, &transcript);
    client.post(&[], &request("1", "initialize"));
    let head = client.head();
    assert_eq!(error_of(&client.message(&head), "1")["code"], -31002);
    let named = shim.stderr.line();
    assert!(named.starts_with(&format!("error: {name}: ")), "{named}");
    assert!(shim.stderr.line().starts_with("hint: "));
    shim.kill(Signal::TERM);
    shim.expect_exit(0);
}

/// Whatever the service is for, and in the words of `run`.
#[test]
fn a_command_that_cannot_be_started_is_refused_before_the_service_listens() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let plain = folder.join("notes.txt");
    fs::write(&plain, "not a program").unwrap();
    let link = folder.join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let missing = "command not found";
    let commands = [
        ("missing-command".to_owned(), missing),
        ("/no/such/server".to_owned(), missing),
        ("./no-such-server".to_owned(), missing),
        (String::new(), missing),
        ("npx -y some-mcp-server".to_owned(), missing),
        ("-weird".to_owned(), missing),
        (text(link), missing),
        (text(plain.join("server")), "Not a directory"),
        (text(script(folder, "lost", "#!/no/such/interpreter -x\n")), missing),
        (text(folder.to_owned()), "is a directory"),
        (text(plain), "Permission denied"),
        (text(script(folder, "odd", "#! /etc/passwd\n")), "Permission denied"),
    ];
    for flags in [&[][..], &["--shared"], &["--bridge"], &["--pool", "2"]] {
        for (command, cause) in &commands {
            let arguments = [&["serve", "--listen", "127.0.0.1:0"], flags, &["--", command, "argument"]].concat();
            let (said, code) = shim::run_to_end(&arguments);
            assert_eq!(code, 2, "{arguments:?}: {said}");
            assert!(said.starts_with("error: ") && said.contains(cause) && said.contains("\nhint: "), "{said}");
            assert!(!said.contains("listening"), "{said}");
            if !flags.is_empty() && command != "missing-command" {
                continue;
            }
            let (run, _) = shim::run_to_end(&["run", "--", command, "argument"]);
            assert_eq!(said, run, "{command}");
        }
    }
}

/// A script that can be executed.
fn script(folder: &std::path::Path, name: &str, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// A service with these flags and its command, started by `starter` if there is one; it listens.
fn listening(transcript: &Transcript, flags: &[&str], starter: &[&str]) -> (Shim, std::net::SocketAddr) {
    let words = [starter, &[PROGRAM, "serve", "--listen", "127.0.0.1:0"], flags].concat();
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).env("RESCIND_RUNTIME_DIR", std::env::temp_dir().join("rescind-none"));
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut shim = Shim::start(command, transcript);
    let line = shim.stderr.line();
    let address = line.strip_prefix("listening on http://").and_then(|url| url.split('/').next()).unwrap();
    (shim, address.parse().unwrap())
}

/// As under `nohup`.
#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let transcript = Transcript::default();
    let starter = ["sh", "-c", r#"trap "" HUP; exec "$0" "$@""#];
    let (mut shim, address) = listening(&transcript, &["--unlisted", "cat"], &starter);
    for _ in 0..3 {
        shim.kill(Signal::HUP);
        let mut client = Connection::open(address, &transcript);
        client.post(&[], &request("1", "ping"));
        assert_eq!(client.head().status, 400, "it names no session");
    }
    shim.kill(Signal::TERM);
    shim.expect_exit(0);
}

/// And one that was not is heeded.
#[test]
fn a_hangup_ends_the_service_in_order() {
    let transcript = Transcript::default();
    let starter = ["env", "--default-signal=HUP"];
    let (mut shim, _) = listening(&transcript, &["--unlisted", "cat"], &starter);
    shim.kill(Signal::HUP);
    shim.expect_exit(0);
}

/// Nobody is left with an empty stream: neither in a session nor outside one, neither when the time is over nor after a
/// second signal.
#[test]
fn what_is_in_flight_when_the_service_ends_is_answered_with_an_error() {
    for is_asked_twice in [false, true] {
        let drain = if is_asked_twice { "1h" } else { "20ms" };
        let mut service = Service::start(PROGRAM, ["--drain", drain]);
        let mut session = service.open_session(LEGACY);
        let mut calls = vec![("7", ask(&service, &mut session, "7")), ("\"s\"", ask(&service, &mut session, "\"s\""))];
        let (mut shared, first) = open_modern(&service);
        calls.push(("1", first));
        calls.push(("9", ask_modern(&service, &mut shared, "9", "3")));
        service.shim.kill(Signal::TERM);
        if is_asked_twice {
            service.shim.kill(Signal::INT);
        }
        for (id, call) in &mut calls {
            let head = call.head();
            assert_eq!(error_of(&call.message(&head), id)["code"], -31002);
            call.expect_end();
        }
        for server in [&mut session.server, &mut shared] {
            while !server.receive().contains("notifications/cancelled") {}
            server.receive();
            server.expect_end();
            server.exit(0);
        }
        service.shim.expect_exit(0);
    }
}

#[test]
fn a_service_with_a_token_serves_those_who_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "open-sesame\n").unwrap();
    let service = Service::start(PROGRAM, ["--token-file", file.to_str().unwrap()]);
    let greeting = request("1", "initialize");
    for (headers, challenge) in [
        (&[][..], "Bearer"),
        (&[("authorization", "Bearer open-says-me")], r#"Bearer error="invalid_token""#),
        (&[("authorization", "Basic open-sesame")], "Bearer"),
    ] {
        let (_, head) = service.post(headers, &greeting);
        assert_eq!((head.status, head.header("www-authenticate")), (401, Some(challenge)));
    }
    let mut call = service.connect();
    call.post(&[("authorization", "Bearer open-sesame")], &greeting);
    let mut server = service.accept();
    // The token is for the service alone.
    server.expect(&greeting);
}

/// A page of a browser that reaches loopback under a name of its own (DNS rebinding), or from an origin of its own.
#[test]
fn pages_of_others_are_turned_away() {
    let service = serve();
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let mut connection = service.connect();
        let host = if name == "host" { String::new() } else { "host: localhost\r\n".into() };
        let body = request("1", "initialize");
        connection.send_bytes(
            format!(
                "POST /mcp HTTP/1.1\r\n{host}{name}: {value}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        assert_eq!(connection.head().status, 403, "{name}");
    }
}

/// What nginx sends with the configuration of the page: the value that is set for `Host`, or else where it passes to.
#[test]
fn the_configuration_of_the_page_about_proxies_lets_requests_through() {
    let page = include_str!("../../../../../docs/proxies.md");
    let set = |name: &str| {
        let line = page.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(|value| value.trim().trim_end_matches(';'))
    };
    let command = set("rescind serve ").expect("the page has the command");
    let (flags, _) = command.split_once(" -- ").unwrap();
    let flags = flags.split(' ').skip_while(|word| *word != "--listen").skip(2);
    let host = match set("proxy_set_header Host ") {
        Some("$host") => set("server_name ").expect("the page has the name"),
        Some(host) => host,
        None => set("proxy_pass http://").expect("the page says where to"),
    };
    for (flags, status) in [(flags.collect(), 400), (Vec::new(), 403)] {
        let transcript = Transcript::default();
        let (_shim, address) = listening(&transcript, &[&flags[..], &["--unlisted", "cat"]].concat(), &[]);
        let mut nginx = Connection::open(address, &transcript);
        let request = Connection::request("POST", &[("content-type", "application/json")], &request("1", "ping"));
        nginx.send_bytes(request.replace("host: localhost", &format!("host: {host}")).as_bytes());
        assert_eq!(nginx.head().status, status, "{host} {flags:?}");
    }
}

#[test]
fn what_cannot_be_listened_on_is_said_at_once() {
    let service = serve();
    let (said, code) = shim::run_to_end(&["serve", "--listen", &service.address.to_string(), "cat"]);
    assert_eq!(code, 2);
    assert!(said.starts_with(&format!("error: --listen {}: ", service.address)), "{said}");
}

#[test]
fn a_service_beyond_loopback_without_a_token_says_so() {
    let mut command = std::process::Command::new(PROGRAM);
    let sockets = tempfile::tempdir().unwrap();
    command.args(["serve", "--listen", "0.0.0.0:0", "cat"]).env("RESCIND_RUNTIME_DIR", sockets.path().join("own"));
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut shim = Shim::start(command, &Transcript::default());
    assert!(shim.stderr.line().starts_with("listening on http://0.0.0.0:"));
    assert!(shim.stderr.line().starts_with("warning: everyone who can reach this address"));
    shim.kill(Signal::TERM);
    shim.expect_exit(0);
}

/// `ps` lists what is in flight of each session, and an operator can cancel it.
#[test]
fn an_operator_cancels_a_call_of_a_session() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "5");
    let operator = |arguments: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        let output = command.args(arguments).env("RESCIND_RUNTIME_DIR", &service.sockets).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = operator(&["ps"]);
    // The first process is the one that is asked which era it speaks.
    let handle = format!("{}-2/5", service.shim.id);
    assert!(listed.contains(&handle), "{listed}");
    operator(&["cancel", &handle]);
    let cancel = session.server.receive();
    assert!(cancel.contains("notifications/cancelled"), "{cancel}");
    let head = call.head();
    assert_eq!(error_of(&call.message(&head), "5")["code"], -31003);
    tell(&service, &session, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
}
