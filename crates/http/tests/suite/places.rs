//! Which session makes room for the next, and which never does.

use std::time::Duration;

use http::Method;
use rescind_http::server::{Access, Bearers, HttpServerConfig, Sessions};

use crate::{
    owner::owned,
    rig::*,
    shared::{id_of, initialize, shared},
};

/// A link for each session; one for all; a link for each where clients sign in at the server behind; and owners.
fn servers() -> [(&'static str, HttpServerConfig); 4] {
    let list = "ann token-of-ann\nbob token-of-bob";
    let owners = Access::Owners(Bearers::read(list).unwrap());
    [
        ("own link", config()),
        ("shared link", shared()),
        ("signing in behind", HttpServerConfig { passes_authorization: true, ..config() }),
        ("owners, shared link", HttpServerConfig { access: owners, ..shared() }),
    ]
}

/// Opens a session of this revision, if there is a place; else the status of the refusal.
fn open(rig: &mut Rig, revision: &str) -> Result<Client, u16> {
    let key = rig.post(&[], &initialize("1", revision));
    if let Some((link, _)) = rig.opened.last().cloned() {
        for asked in rig.at(link).iter().filter(|message| message.contains(r#""method":"initialize""#)) {
            let result = format!(r#"{{"protocolVersion":"{revision}","capabilities":{{}}}}"#);
            rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id_of(asked)));
        }
    }
    let answer = rig.read(key);
    match answer.status {
        200 => {
            let link = rig.opened.last().unwrap().0;
            rig.at(link);
            Ok(Client { id: answer.header("mcp-session-id").unwrap().to_owned(), link })
        }
        refused => {
            assert_eq!((refused, answer.code(), answer.header("retry-after")), (503, -31004, Some("1")));
            Err(refused)
        }
    }
}

/// Whether its client may go on with this session. Asking counts as a word of the client.
fn lives(rig: &mut Rig, client: &Client) -> bool {
    let key = rig.post_to(client, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    match rig.read(key).status {
        202 => true,
        404 => false,
        other => panic!("{other}"),
    }
}

/// What the only session is at, its client silent for ten seconds since, and whether it makes room.
type Form = (&'static str, fn(&mut Rig, &Client), bool);

fn last_id(rig: &mut Rig, client: &Client) -> String {
    id_of(rig.at(client.link).last().unwrap())
}

const FORMS: [Form; 11] = [
    ("nothing", |_, _| {}, true),
    (
        "said something a moment ago",
        |rig, client| {
            rig.pass(Duration::from_secs(1));
            assert!(lives(rig, client));
        },
        false,
    ),
    ("a call in flight", |rig, client| _ = rig.post_to(client, &call("1")), false),
    (
        "a call in flight whose client is away",
        |rig, client| {
            let key = rig.post_to(client, &call("1"));
            rig.pass_millis(200);
            rig.read(key);
            rig.hang_up(key);
        },
        false,
    ),
    (
        "a call in flight that was cancelled and goes on",
        |rig, client| {
            rig.post_to(client, &call("1"));
            rig.post_to(client, &cancel("1"));
            rig.at(client.link);
        },
        false,
    ),
    (
        "a call that was cancelled and has ended",
        |rig, client| {
            let key = rig.post_to(client, &call("1"));
            let known = last_id(rig, client);
            let told = rig.post_to(client, &cancel("1"));
            rig.at(client.link);
            rig.settle(client.link, &known);
            rig.read(key);
            rig.read(told);
        },
        true,
    ),
    (
        "a call that was answered",
        |rig, client| {
            let key = rig.post_to(client, &call("1"));
            let known = last_id(rig, client);
            rig.answer(client.link, &known, "done");
            assert_eq!(rig.whole(key, 200), result_of("1", "done"));
        },
        true,
    ),
    (
        "an answer that is not read yet",
        |rig, client| {
            rig.post_to(client, &call("1"));
            let known = last_id(rig, client);
            rig.answer(client.link, &known, "done");
        },
        false,
    ),
    ("a stream that listens", |rig, client| _ = rig.listen(client), false),
    (
        "a stream that was closed",
        |rig, client| {
            let key = rig.listen(client);
            rig.read(key);
            rig.hang_up(key);
        },
        true,
    ),
    (
        "a batch, half of it answered",
        |rig, client| {
            rig.post_to(client, &format!("[{},{}]", call("1"), call("2")));
            let known = last_id(rig, client);
            rig.answer(client.link, &known, "done");
        },
        false,
    ),
];

#[test]
fn an_idle_session_makes_room_and_one_with_something_in_flight_or_a_stream_never_does() {
    for (server, settings) in servers() {
        for (form, prepare, makes_room) in FORMS {
            let mut rig = Rig::with(HttpServerConfig { max_sessions: 2, ..settings.clone() });
            if matches!(settings.access, Access::Owners(_)) {
                rig.becomes("token-of-ann");
            }
            let first = open(&mut rig, "2025-03-26").unwrap();
            if !matches!(settings.access, Access::Owners(_)) {
                // Another takes the other place, and listens.
                let other = open(&mut rig, LEGACY).unwrap();
                rig.listen(&other);
            }
            rig.pass(Duration::from_secs(9));
            prepare(&mut rig, &first);
            // The client is silent for ten seconds, unless its form is that it was not.
            let silence = if form.starts_with("said") { 9 } else { 10 };
            rig.pass(Duration::from_secs(silence));
            let in_flight = rig.server.in_flight();
            let next = open(&mut rig, LEGACY);
            assert_eq!(next.is_ok(), makes_room, "{server}, {form}");
            assert!(rig.server.in_flight() >= in_flight, "{server}, {form}: work has ended");
            let is_own = settings.sessions == Sessions::OwnLink;
            let received = rig.at(first.link);
            assert_eq!(received.last().is_some_and(|last| last == "end"), makes_room && is_own, "{server}, {form}");
            assert_eq!(lives(&mut rig, &first), !makes_room, "{server}, {form}");
            if let Ok(next) = next {
                assert!(lives(&mut rig, &next), "{server}, {form}");
            }
            rig.end();
        }
    }
}

#[test]
fn of_several_idle_sessions_the_one_that_was_silent_for_longest_makes_room() {
    for (server, settings) in servers().into_iter().filter(|(_, settings)| matches!(settings.access, Access::Open)) {
        let mut rig = Rig::with(HttpServerConfig { max_sessions: 3, ..settings });
        let clients = [(); 3].map(|()| {
            rig.pass(Duration::from_secs(1));
            open(&mut rig, LEGACY).unwrap()
        });
        assert!(lives(&mut rig, &clients[0]), "it was opened first, and its client has just spoken");
        rig.pass(Duration::from_secs(60));
        let next = open(&mut rig, LEGACY).unwrap();
        assert_eq!([0, 1, 2].map(|at| lives(&mut rig, &clients[at])), [true, false, true], "{server}");
        assert!(lives(&mut rig, &next));
        assert_eq!(open(&mut rig, LEGACY).err(), Some(503), "all have just spoken");
        rig.end();
    }
}

/// A session whose client has not yet been given its id is one with a request in flight.
#[test]
fn a_handshake_in_flight_never_makes_room() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 1, ..config() });
    let first = rig.post(&[], &initialize("1", LEGACY));
    rig.pass(Duration::from_secs(60));
    let second = rig.post(&[], &initialize("1", LEGACY));
    assert_eq!(rig.read(second).status, 503);
    let link = rig.opened[0].0;
    rig.at(link);
    rig.answer(link, "1", "x");
    assert_eq!(rig.read(first).status, 200);
    rig.end();
}

/// What is set for how long a client may be away from its work bounds the silence, too.
#[test]
fn a_session_need_not_be_silent_for_longer_than_its_client_may_be_away() {
    for (room_after, resume_within, silence) in [(10, 300, 10), (10, 3, 3), (0, 300, 0), (600, 300, 300)] {
        let seconds = Duration::from_secs;
        let times =
            HttpServerConfig { room_after: seconds(room_after), resume_within: seconds(resume_within), ..config() };
        let mut rig = Rig::with(HttpServerConfig { max_sessions: 1, ..times });
        open(&mut rig, LEGACY).unwrap();
        if silence > 0 {
            rig.pass(seconds(silence) - Duration::from_millis(1));
            assert_eq!(open(&mut rig, LEGACY).err(), Some(503));
            rig.pass_millis(1);
        }
        open(&mut rig, LEGACY).unwrap();
        rig.end();
    }
}

/// One that opens session after session and never says goodbye, idle or at once.
#[test]
fn a_flood_of_one_address_ends_its_own_sessions_and_shuts_nobody_out() {
    for pause in [0, 10] {
        let mut rig = Rig::with(HttpServerConfig { max_sessions: 10, ..config() });
        let from = |rig: &mut Rig, place: u8| {
            rig.from = place;
            open(rig, LEGACY)
        };
        let honest: Vec<_> = [1, 1, 2].map(|place| from(&mut rig, place).unwrap()).into();
        rig.pass(Duration::from_secs(60));
        for _ in 0..50 {
            from(&mut rig, 9).unwrap();
            rig.pass(Duration::from_secs(pause));
        }
        rig.pass(Duration::from_secs(60));
        assert!(honest.iter().all(|client| lives(&mut rig, client)), "they have been idle for longest");
        for _ in 0..10 {
            from(&mut rig, 9).unwrap();
        }
        let newcomer = from(&mut rig, 3).unwrap();
        for _ in 0..10 {
            from(&mut rig, 9).unwrap();
        }
        assert!(honest.iter().chain([&newcomer]).all(|client| lives(&mut rig, client)));
        rig.end();
    }
}

/// The address has no more than the others, so that it cannot take theirs.
#[test]
fn a_session_makes_no_room_for_one_who_has_as_many() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 4, ..config() });
    let clients = [1, 1, 2, 2].map(|place| {
        rig.from = place;
        open(&mut rig, LEGACY).unwrap()
    });
    rig.pass(Duration::from_secs(60));
    clients[2..].iter().for_each(|client| _ = rig.listen(client));
    rig.from = 2;
    assert_eq!(open(&mut rig, LEGACY).err(), Some(503), "its own are in use");
    rig.from = 3;
    let next = open(&mut rig, LEGACY).unwrap();
    assert_eq!(clients.each_ref().map(|client| lives(&mut rig, client)), [false, true, true, true]);
    assert!(lives(&mut rig, &next));
    rig.end();
}

/// Clients of this machine are not told apart: there may be a proxy, and its clients are silent for a moment now and then.
#[test]
fn many_clients_behind_one_address_of_this_machine_have_their_moments_of_silence() {
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1"] {
        let mut rig = Rig::with(HttpServerConfig { max_sessions: 3, ..config() });
        let at = |rig: &mut Rig| {
            let request = http::Request::builder().method(Method::POST).uri("/mcp");
            let request = request.header("content-type", "application/json");
            let request = request.header("accept", "application/json, text/event-stream");
            let address: std::net::IpAddr = address.parse().unwrap();
            let request = request.extension(rescind_http::server::ClientAddress(address));
            let head = request.body(()).unwrap().into_parts().0;
            let key = rig.server.handle_request(rig.now, &head, initialize("1", LEGACY).as_bytes());
            rig.drain();
            let link = rig.opened.last().unwrap().0;
            rig.at(link);
            rig.answer(link, "1", "x");
            rig.read(key).status
        };
        assert_eq!([(); 3].map(|()| at(&mut rig)), [200; 3]);
        rig.pass_millis(1);
        assert_eq!(at(&mut rig), if address == "10.0.0.1" { 200 } else { 503 }, "{address}");
        rig.end();
    }
}

#[test]
fn a_flood_of_one_owner_ends_his_own_sessions_only() {
    for settings in [owned(), crate::owner::shared()] {
        let mut rig = Rig::with(HttpServerConfig { max_sessions: 6, ..settings });
        let of = |rig: &mut Rig, token: &str| open(rig.becomes(token), LEGACY);
        let bob = of(&mut rig, "token-of-bob").unwrap();
        let mut ann = Vec::new();
        rig.pass(Duration::from_secs(60));
        for _ in 0..20 {
            ann.push(of(&mut rig, "token-of-ann").unwrap());
            rig.pass(Duration::from_secs(10));
        }
        assert!(lives(rig.becomes("token-of-bob"), &bob), "idle for longest");
        let left = ann.iter().filter(|client| lives(rig.becomes("token-of-ann"), client)).count();
        assert_eq!(left, 3, "as many as one owner may have");
        assert_eq!(of(&mut rig, "token-of-ann").err(), Some(503), "all have just spoken");
        rig.end();
    }
}

/// When all places are taken, an idle session makes room for an owner who has none.
#[test]
fn owners_with_idle_sessions_leave_a_place_for_the_next_owner() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 2, ..owned() });
    let of = |rig: &mut Rig, token: &str| open(rig.becomes(token), LEGACY);
    let bob = of(&mut rig, "token-of-bob").unwrap();
    rig.pass_millis(1);
    let ann = of(&mut rig, "token-of-ann").unwrap();
    assert_eq!(of(&mut rig, "token-of-cas").err(), Some(503));
    rig.pass(Duration::from_secs(10));
    let cas = of(&mut rig, "token-of-cas").unwrap();
    let live = [("token-of-bob", &bob), ("renewed", &ann), ("token-of-cas", &cas)];
    assert_eq!(live.map(|(token, client)| lives(rig.becomes(token), client)), [false, true, true]);
    rig.end();
}

/// Their client loses nothing: its next request opens another link.
#[test]
fn an_idle_link_of_people_without_a_session_makes_room_before_a_session_does() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 2, passes_authorization: true, ..config() });
    let client = open(&mut rig, LEGACY).unwrap();
    let key = rig.post_modern(&modern_call("1"));
    let link = rig.opened.last().unwrap().0;
    rig.at(link);
    rig.answer(link, "1", "x");
    rig.read(key);
    rig.pass(Duration::from_secs(60));
    open(&mut rig, LEGACY).unwrap();
    assert_eq!(rig.at(link).last().unwrap(), "end");
    assert!(lives(&mut rig, &client));
    rig.pass(Duration::from_secs(60));
    let key = rig.post_modern(&modern_call("2"));
    assert_eq!(rig.read(key).status, 0, "a session makes room for such a link, too");
    assert!(!lives(&mut rig, &client));
    rig.end();
}

/// Where the new session is refused for another reason, nothing has made room.
#[test]
fn nothing_ends_for_a_session_that_is_not_opened() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 2, max_in_flight: 2, ..shared() });
    let [idle, busy] = [(); 2].map(|()| open(&mut rig, LEGACY).unwrap());
    rig.pass(Duration::from_secs(60));
    for id in ["1", "2"] {
        rig.post_to(&busy, &call(id));
    }
    assert_eq!(open(&mut rig, LEGACY).err(), Some(503), "no further request is taken by the link that they share");
    assert!(lives(&mut rig, &idle));
    rig.end();
}
