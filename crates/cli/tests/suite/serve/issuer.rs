//! `rescind serve --issuer`: signed tokens, their keys, and whose work is whose. The issuer is a small server on loopback.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::SystemTime,
};

use rescind_testkit::{
    puppet::Service,
    tokens::{SigningKey, key_set},
};
use serde_json::{Value, json};

use super::{
    LEGACY,
    shared::{Client, accept, initialize},
};
use crate::shim::{
    self, PROGRAM,
    words::{cancelled, notification, request, result},
};

const AUDIENCE: &str = "https://mcp.test/mcp";

/// The issuer. It ends with the test.
struct Issuer {
    address: SocketAddr,
    keys: Arc<Mutex<Value>>,
    /// Each fetch of the keys that has come.
    fetched: mpsc::Receiver<()>,
    /// Lets one of them go on.
    release: mpsc::Sender<()>,
}

impl Issuer {
    /// An issuer with these keys.
    fn start(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let keys = Arc::new(Mutex::new(key_set(keys)));
        let (came, fetched) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let issuer = Self { address, keys: Arc::clone(&keys), fetched, release };
        let page = json!({"issuer": issuer.url(), "jwks_uri": format!("http://{address}/keys")});
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let answer = match &*path(&stream) {
                    "/t/.well-known/openid-configuration" => Some(page.clone()),
                    "/keys" => {
                        let is_awaited = came.send(()).is_ok() && released.recv().is_ok();
                        is_awaited.then(|| keys.lock().unwrap().clone())
                    }
                    _ => None,
                };
                let status = if answer.is_some() { "200 OK" } else { "404 Not Found" };
                let body = answer.unwrap_or_default().to_string();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                // Who asked may be gone.
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        issuer
    }

    fn url(&self) -> String {
        format!("http://{}/t", self.address)
    }

    /// Waits until the keys are asked for, and gives them.
    fn give_keys(&self) {
        self.fetched.recv().unwrap();
        self.release.send(()).unwrap();
    }

    fn serve(&self, flags: &[&str]) -> Service {
        let url = self.url();
        Service::start(PROGRAM, [&["--issuer", &url, "--audience", AUDIENCE], flags].concat())
    }

    /// The header of a request of somebody.
    fn token(&self, key: &SigningKey, who: &str) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({"iss": self.url(), "aud": [AUDIENCE], "sub": who, "exp": now + 600, "scope": "mcp"});
        format!("Bearer {}", key.token(&claims))
    }
}

/// The path that a request asks for.
fn path(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

const MARKER: &str = r#"{"jsonrpc":"2.0","method":"marker"}"#;

#[test]
fn another_subject_can_do_nothing_to_the_work_in_a_session_and_its_own_stops_it() {
    let (key, other) = (SigningKey::p256("e"), SigningKey::rsa("r"));
    let issuer = Issuer::start(&[&key, &other]);
    let folder = tempfile::tempdir().unwrap();
    let mut service = issuer.serve(&["--record", folder.path().to_str().unwrap()]);
    issuer.give_keys();
    let tokens = [issuer.token(&key, "ann"), issuer.token(&other, "ann"), issuer.token(&other, "bob")];
    let [ann, ann_renewed, bob] = tokens.each_ref().map(|token| ("authorization", &**token));
    let mut session = service.open_session_with(LEGACY, &[ann]);
    let named = ("mcp-session-id", &*session.id.clone());
    let mut calls = ["1", "2"].map(|id| {
        let mut call = service.connect();
        call.post(&[named, ann], &request(id, "tools/call"));
        session.server.expect(&request(id, "tools/call"));
        call
    });

    for message in [&cancelled("1"), &request("9", "ping"), &result("1", "{}")] {
        assert_eq!(service.post(&[named, bob], message).1.status, 404);
    }
    let mut listens = service.connect();
    listens.get(&[named, bob]);
    assert_eq!(listens.head().status, 404);
    let mut ends = service.connect();
    ends.send("DELETE", &[named, bob], "");
    assert_eq!(ends.head().status, 404);

    assert_eq!(service.post(&[named, ann], MARKER).1.status, 202);
    session.server.expect(MARKER);
    session.server.send(&result("1", "{}"));
    let head = calls[0].head();
    assert_eq!(calls[0].message(&head), result("1", "{}"));

    let (_, head) = service.post(&[named, ann_renewed], &cancelled("2"));
    assert_eq!((head.status, head.header("rescind-cancel")), (202, Some("delivered")));
    session.server.expect(&cancelled("2"));
    calls[1].head();
    calls[1].expect_end();

    service.shim.kill(rustix::process::Signal::TERM);
    session.server.expect_end();
    session.server.exit(0);
    service.take_asked().exit(0);
    service.shim.expect_exit(0);
    let mut said = vec![String::from_utf8(service.shim.stderr.rest()).unwrap()];
    for recording in fs::read_dir(folder.path()).unwrap() {
        said.push(fs::read_to_string(recording.unwrap().path()).unwrap());
    }
    assert!(said.len() >= 2);
    assert!(said.iter().all(|text| !text.contains("eyJ")), "{said:?}");
}

#[test]
fn a_request_that_comes_before_the_keys_waits_and_one_with_a_newer_key_has_them_fetched() {
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::p256("new"));
    let issuer = Issuer::start(&[&old]);
    let service = issuer.serve(&[]);
    let token = issuer.token(&old, "ann");
    let ann = ("authorization", &*token);
    let mut early = service.connect();
    early.post(&[("mcp-session-id", "x"), ann], &request("1", "ping"));
    issuer.give_keys();
    assert_eq!(early.head().status, 404, "it is judged, and there is no such session");

    *issuer.keys.lock().unwrap() = key_set(&[&new]);
    let token = issuer.token(&new, "ann");
    let mut newer = service.connect();
    newer.post(&[("mcp-session-id", "x"), ("authorization", &token)], &request("1", "ping"));
    issuer.give_keys();
    assert_eq!(newer.head().status, 404);
    let (_, head) = service.post(&[("mcp-session-id", "x"), ann], &request("1", "ping"));
    assert_eq!(head.status, 401, "its key was withdrawn");
}

#[test]
fn keys_that_one_process_wants_are_fetched_once_for_all() {
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::p256("new"));
    let issuer = Issuer::start(&[&old]);
    let service = Service::unasked(PROGRAM, ["--pool", "2", "--issuer", &issuer.url(), "--audience", AUDIENCE]);
    let _servers = [accept(&service), accept(&service)];
    issuer.give_keys();
    let token = issuer.token(&old, "ann");
    let clients = [(); 2].map(|()| {
        let mut connection = service.connect();
        connection.post(&[("authorization", &token)], &initialize("1"));
        Client::of(connection)
    });

    *issuer.keys.lock().unwrap() = key_set(&[&new]);
    let token = issuer.token(&new, "ann");
    let mut told = clients.each_ref().map(|client| {
        let mut connection = service.connect();
        connection
            .post(&[client.headers()[0], ("authorization", &token)], &notification("notifications/initialized", "{}"));
        connection
    });
    issuer.give_keys();
    for told in &mut told {
        assert_eq!(told.head().status, 202);
    }
    assert!(issuer.fetched.try_recv().is_err());
}

#[test]
fn who_has_no_token_or_too_little_scope_is_told_where_to_get_one() {
    let key = SigningKey::p256("e");
    let issuer = Issuer::start(&[&key]);
    let service = issuer.serve(&["--scope", "mcp", "--scope", "more"]);
    issuer.give_keys();
    let hint = r#"resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp", scope="mcp more""#;
    let token = issuer.token(&key, "ann");
    for (headers, status, error) in [
        (&[][..], 401, ""),
        (&[("authorization", "Bearer x")], 401, r#"error="invalid_token", "#),
        (&[("authorization", &*token)], 403, r#"error="insufficient_scope", "#),
    ] {
        let (_, head) = service.post(headers, &request("1", "ping"));
        let challenge = format!("Bearer {error}{hint}");
        assert_eq!((head.status, head.header("www-authenticate")), (status, Some(&*challenge)));
    }
    let mut page = service.connect();
    page.send_bytes(b"GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(page.head().status, 200);
    let page: Value = serde_json::from_str(&page.body()).unwrap();
    assert_eq!(page["resource"], AUDIENCE);
    assert_eq!(page["authorization_servers"], json!([issuer.url()]));
    assert_eq!(page["scopes_supported"], json!(["mcp", "more"]));
}

#[test]
fn without_an_issuer_requests_may_come_again_and_stderr_says_why() {
    let key = SigningKey::p256("e");
    let mut issuer = Issuer::start(&[&key]);
    // Nobody listens there any more.
    issuer.address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut service = issuer.serve(&[]);
    let warning = service.shim.stderr.line();
    assert!(warning.starts_with("warning: --issuer: its keys cannot be fetched: "), "{warning}");
    let token = issuer.token(&key, "ann");
    let (_, head) = service.post(&[("authorization", &token)], &request("1", "ping"));
    assert_eq!((head.status, head.header("retry-after")), (503, Some("5")));
}

#[test]
fn flags_that_contradict_each_other_are_refused_in_words() {
    let serve = |flags: &[&str]| shim::run_to_end(&[&["serve", "--listen", "127.0.0.1:0"], flags, &["cat"]].concat());
    let issuer = ["--issuer", "https://as.test", "--audience", AUDIENCE];
    for flags in [["--token-file", "x"], ["--owners", "x"]] {
        let (said, code) = serve(&[&issuer[..], &flags].concat());
        assert!(code == 2 && said.contains("cannot be used with"), "{said}");
    }
    for flags in [&issuer[..2], &issuer[2..], &["--scope", "x"]] {
        let (said, code) = serve(flags);
        assert!(code == 2 && said.contains("required"), "{said}");
    }
    for (flags, error) in [
        (
            ["--issuer", "http://as.test", "--audience", AUDIENCE],
            "error: --issuer http://as.test: an issuer is asked over https only",
        ),
        (
            ["--issuer", "https://as.test", "--audience", "mcp"],
            "error: --issuer, --audience, --scope: the audience is not the URL of a server",
        ),
    ] {
        let (said, code) = serve(&flags);
        assert!(code == 2 && said.starts_with(error) && said.contains("\nhint: "), "{said}");
    }
}
