//! `rescind serve --shared`: one real process for all sessions.

use rescind_proto::json;
use rescind_testkit::puppet::{Connection, Server, Service};

use super::{LEGACY, MIRRORS, MODERN};
use crate::shim::{
    PROGRAM, error_of,
    words::{cancelled, notification, request, request_with, result},
};

fn serve() -> Service {
    Service::shared(PROGRAM, [] as [&str; 0])
}

pub(super) fn initialize(id: &str) -> String {
    let client = r#""capabilities":{},"clientInfo":{"name":"test","version":"1"}"#;
    request_with(id, "initialize", &format!(r#"{{"protocolVersion":"{LEGACY}",{client}}}"#))
}

fn greeting() -> String {
    format!(r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"serverInfo":{{"name":"test","version":"1"}}}}"#)
}

/// The id of a message, as JSON.
pub(super) fn id_of(message: &str) -> String {
    let id = json::member(message.as_bytes(), "id").unwrap();
    String::from_utf8(id.to_vec()).unwrap()
}

/// The process that the first client starts, once it has shaken hands.
pub(super) fn accept(service: &Service) -> Server {
    let mut server = service.accept();
    let asked = server.receive();
    assert!(asked.contains(r#""method":"initialize""#) && asked.contains(r#""name":"rescind""#), "{asked}");
    server.send(&result(&id_of(&asked), &greeting()));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server
}

/// A client of one more session.
pub(super) struct Client {
    id: String,
}

impl Client {
    pub(super) fn headers(&self) -> [(&str, &str); 1] {
        [("mcp-session-id", &self.id)]
    }

    /// Reads what its `initialize` got.
    pub(super) fn of(mut connection: Connection) -> Self {
        let head = connection.head();
        assert_eq!(connection.message(&head), result("1", &greeting()));
        Self { id: head.header("mcp-session-id").unwrap().to_owned() }
    }

    pub(super) fn tell(&self, service: &Service, message: &str) {
        let (_, head) = service.post(&self.headers(), message);
        assert_eq!(head.status, 202);
    }

    /// Asks for something, which is the next that the server receives of anybody.
    pub(super) fn mark(&self, service: &Service, server: &mut Server) {
        let mut connection = service.connect();
        connection.post(&self.headers(), &request("9", "marker"));
        let asked = server.receive();
        assert!(asked.contains(r#""method":"marker""#), "{asked}");
        server.send(&result(&id_of(&asked), "{}"));
        assert_eq!(connection.head().status, 200);
    }

    /// A call whose id is 1, as all are; and the id by which the server knows it.
    fn call(&self, service: &Service, server: &mut Server, who: usize) -> (Connection, String) {
        let params = format!(r#"{{"name":"slow","arguments":{{"who":{who}}}}}"#);
        let mut connection = service.connect();
        connection.post(&self.headers(), &request_with("1", "tools/call", &params));
        let asked = server.receive();
        let known = id_of(&asked);
        assert_eq!(asked, request_with(&known, "tools/call", &params));
        (connection, known)
    }
}

pub(super) fn open(service: &Service) -> Connection {
    let mut connection = service.connect();
    connection.post(&[], &initialize("1"));
    connection
}

#[test]
fn each_of_twenty_clients_cancels_its_own_call_and_no_other() {
    const CLIENTS: usize = 20;
    let service = serve();
    let opening: Vec<Connection> = (0..CLIENTS).map(|_| open(&service)).collect();
    let mut server = accept(&service);
    let clients: Vec<Client> = opening.into_iter().map(Client::of).collect();
    clients.iter().for_each(|client| client.tell(&service, &notification("notifications/initialized", "{}")));
    let calls = clients.iter().enumerate().map(|(who, client)| client.call(&service, &mut server, who));
    let mut calls: Vec<(Connection, String)> = calls.collect();
    // Every other one, from the last to the first: nothing else comes between.
    for who in (0..CLIENTS).rev().filter(|who| who % 2 == 0) {
        clients[who].tell(&service, &cancelled("1"));
        server.expect(&cancelled(&calls[who].1));
    }
    for (who, (call, known)) in calls.iter_mut().enumerate() {
        if who % 2 == 0 {
            assert_eq!(call.head().status, 200);
            call.expect_end();
            continue;
        }
        server.send(&result(known, &who.to_string()));
        let head = call.head();
        assert_eq!(call.message(&head), result("1", &who.to_string()));
    }
    // What was answered or cancelled cannot be cancelled any more.
    clients.iter().for_each(|client| client.tell(&service, &cancelled("1")));
    clients[7].mark(&service, &mut server);
}

/// One hangs up and never comes back; the server goes on for the other.
#[test]
fn the_work_of_a_client_that_never_comes_back_is_cancelled_and_nobody_elses() {
    let service = Service::shared(PROGRAM, ["--resume-within", "200ms"]);
    let opening = [open(&service), open(&service)];
    let mut server = accept(&service);
    let [stays, leaves] = opening.map(Client::of);
    let (mut call, known) = stays.call(&service, &mut server, 0);
    let (left, left_known) = leaves.call(&service, &mut server, 1);
    drop(left);
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(&left_known), "{cancel}");
    server.send(&result(&known, "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("1", "{}"));
    let (_, head) = service.post(&leaves.headers(), &request("2", "ping"));
    assert_eq!(head.status, 404);
}

#[test]
fn an_idle_session_makes_room_and_one_with_a_call_in_flight_is_still_stopped_by_its_client() {
    let service = Service::shared(PROGRAM, ["--max-sessions", "2", "--resume-within", "100ms"]);
    let opening = [open(&service), open(&service)];
    let mut server = accept(&service);
    let [busy, idle] = opening.map(Client::of);
    let (mut call, known) = busy.call(&service, &mut server, 0);
    let next = loop {
        let mut opening = open(&service);
        let head = opening.head();
        match head.status {
            503 => {}
            status => break (status, Client { id: head.header("mcp-session-id").unwrap().to_owned() }),
        }
    };
    assert_eq!(next.0, 200);
    let (_, head) = service.post(&idle.headers(), &request("9", "ping"));
    assert_eq!(head.status, 404);
    next.1.mark(&service, &mut server);
    busy.tell(&service, &cancelled("1"));
    server.expect(&cancelled(&known));
    assert_eq!(call.head().status, 200);
    call.expect_end();
}

#[test]
fn the_end_of_one_session_stops_its_work_and_nobody_elses() {
    let service = serve();
    let opening = [open(&service), open(&service)];
    let mut server = accept(&service);
    let [stays, leaves] = opening.map(Client::of);
    let (mut call, known) = stays.call(&service, &mut server, 0);
    let (mut first, first_known) = leaves.call(&service, &mut server, 1);
    let (mut second, second_known) = leaves.call(&service, &mut server, 2);
    let mut end = service.connect();
    end.send("DELETE", &leaves.headers(), "");
    assert_eq!(end.head().status, 204);
    for known in [first_known, second_known] {
        let told = server.receive();
        let names = format!(r#""requestId":{known}"#);
        assert!(told.contains("notifications/cancelled") && told.contains(&names), "{told} instead of {known}");
    }
    for call in [&mut first, &mut second] {
        call.head();
        call.expect_end();
    }
    let (_, head) = service.post(&leaves.headers(), &request("9", "ping"));
    assert_eq!(head.status, 404);
    stays.mark(&service, &mut server);
    server.send(&result(&known, "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("1", "{}"));
}

#[test]
fn after_the_death_of_the_server_sessions_go_on_with_another() {
    let service = serve();
    let opening = open(&service);
    let mut server = accept(&service);
    let client = Client::of(opening);
    let (mut call, _) = client.call(&service, &mut server, 0);
    server.exit(3);
    let head = call.head();
    let error = error_of(&call.message(&head), "1");
    assert_eq!(error["code"], -31002, "{error}");
    let mut server = accept(&service);
    let (mut call, known) = client.call(&service, &mut server, 0);
    server.send(&result(&known, "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("1", "{}"));
}

/// Started in vain: at once, then after a second, and no client has it started sooner.
#[test]
fn a_server_that_ends_at_once_is_not_started_for_every_client() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let script = format!("echo x >> {}; exit 3", starts.display());
    let service = Service::shared_command(PROGRAM, ["sh", "-c", &script]);
    for _ in 0..20 {
        let mut client = open(&service);
        let head = client.head();
        let said = client.message(&head);
        assert!(head.status == 503 || error_of(&said, "1")["code"] == -31002, "{} {said}", head.status);
    }
    let started = std::fs::read_to_string(&starts).unwrap().lines().count();
    assert!(started < 12, "{started} starts");
}

/// Of each method one warning, however often it comes.
#[test]
fn what_reaches_nobody_is_reported_once() {
    let mut service = serve();
    let opening = open(&service);
    let mut server = accept(&service);
    let client = Client::of(opening);
    for method in ["notifications/tasks/status", "notifications/tasks/status", "notifications/x"] {
        server.send(&notification(method, "{}"));
    }
    for method in ["notifications/tasks/status", "notifications/x"] {
        let line = service.shim.stderr.line();
        assert_eq!(line, format!("warning: {method} from the server was dropped (reported once)"));
        assert!(service.shim.stderr.line().starts_with("hint: "));
    }
    let (mut call, known) = client.call(&service, &mut server, 0);
    server.send(&result(&known, "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("1", "{}"));
}

#[test]
fn clients_of_both_eras_have_one_process_and_each_cancels_its_own_call() {
    let service = serve();
    let opening = open(&service);
    let mut server = accept(&service);
    let client = Client::of(opening);
    let (mut in_session, known) = client.call(&service, &mut server, 0);
    let modern = |service: &Service, server: &mut Server| {
        let mut call = service.connect();
        call.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
        let asked = server.receive();
        assert_eq!(asked, request_with(&id_of(&asked), "tools/list", "{}"));
        (call, id_of(&asked))
    };
    let (hung_up, hung_up_as) = modern(&service, &mut server);
    let (mut call, asked_as) = modern(&service, &mut server);
    drop(hung_up);
    let cancel = format!(r#"{{"requestId":{hung_up_as},"reason":"connection ended"}}"#);
    server.expect(&notification("notifications/cancelled", &cancel));
    server.send(&result(&asked_as, r#"{"tools":[]}"#));
    let head = call.head();
    let listed = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#;
    assert_eq!(call.message(&head), result("1", listed));
    client.tell(&service, &cancelled("1"));
    server.expect(&cancelled(&known));
    assert_eq!(in_session.head().status, 200);
    in_session.expect_end();
}

/// A server that reads as Go's `encoding/json` does: names are folded, and of two the last counts. It works on the calls of
/// all its clients at once, until each is answered or stopped.
struct Careless<'a> {
    server: &'a mut Server,
    /// The ids of calls that it works on.
    works_on: Vec<String>,
}

impl Careless<'_> {
    /// Reads one message, and does what it says.
    fn read(&mut self) -> String {
        let line = self.server.receive();
        let folded = |object: &str, name: &str| {
            let members = json::members(object.as_bytes())?.map_while(Result::ok);
            let is_it = |key: &str| key.to_uppercase().eq_ignore_ascii_case(name);
            let found = members.filter(|member| json::text(member.key).is_some_and(|key| is_it(&key))).last()?;
            Some(String::from_utf8(found.value.to_vec()).unwrap())
        };
        let (method, params) = (folded(&line, "method").unwrap(), folded(&line, "params").unwrap_or_default());
        match &*method {
            r#""notifications/cancelled""# => {
                let named = folded(&params, "requestId");
                self.works_on.retain(|id| Some(id) != named.as_ref());
            }
            _ => self.works_on.extend(folded(&line, "id")),
        }
        line
    }
}

/// Both ways to share a server: a session each, and none. A says what its call is known as, as a client could guess it.
#[test]
fn no_client_stops_anothers_work_at_a_server_that_folds_names() {
    let service = serve();
    let opening = [open(&service), open(&service)];
    let mut server = accept(&service);
    let [a, b] = opening.map(Client::of);
    let mut server = Careless { server: &mut server, works_on: Vec::new() };
    let mut call = service.connect();
    call.post(&a.headers(), &request("1", "tools/call"));
    let known = id_of(&server.read());
    assert_eq!(server.works_on, [&*known]);
    let refused = [
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/x","METHOD":"notifications/cancelled","params":{{"requestId":{known}}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{}},"PARAMS":{{"requestId":{known}}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":9,"Method":"notifications/cancelled","method":"ping","params":{{"REQUESTID":{known}}}}}"#
        ),
    ];
    for forgery in &refused {
        let (mut connection, head) = service.post(&b.headers(), forgery);
        assert_eq!(head.status, 400, "{forgery}: {}", connection.body());
        let (_, head) = service.post(&MIRRORS, forgery);
        assert_eq!(head.status, 400, "{forgery}");
    }
    // What B may say comes after all that it said.
    let mut marker = service.connect();
    marker.post(&b.headers(), &request("2", "ping"));
    server.read();
    assert_eq!(server.works_on.first(), Some(&known), "A's call was stopped by B");
    // A's own Stop works.
    a.tell(&service, &cancelled("1"));
    server.read();
    assert!(!server.works_on.contains(&known), "A could not stop its own");
}
