//! Owners: whose sessions, requests and links are whose.

use std::time::Duration;

use http::Method;
use rescind_http::server::{Access, Bearers, HttpServerConfig, ReplyKey, Sessions, Stateless};
use serde_json::json;

use crate::rig::*;

/// Ann has two tokens.
const LIST: &str = "ann token-of-ann\nann renewed\nbob token-of-bob\ncas token-of-cas";

pub(crate) fn owned() -> HttpServerConfig {
    HttpServerConfig { access: Access::Owners(Bearers::read(LIST).unwrap()), ..config() }
}

pub(crate) fn shared() -> HttpServerConfig {
    HttpServerConfig { sessions: Sessions::SharedLink, stateless: Stateless::Joined, ..owned() }
}

impl Rig {
    /// The next requests are of the person with this token.
    pub(crate) fn becomes(&mut self, token: &str) -> &mut Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// What is said to every method that names this session, and behind this event, but for what stops or ends something.
    fn statuses(&mut self, client: &Client, last: &str) -> Vec<(u16, Option<String>)> {
        let keys = [
            self.post_to(client, &call("1")),
            self.post_to(client, &cancel("1")),
            self.post_to(client, &result_of("1", "x")),
            self.post_to(client, &format!("[{}]", call("1"))),
            self.listen(client),
            self.come_back(client, last),
            self.delete(client),
        ];
        keys.into_iter()
            .map(|key| {
                let answer = self.read(key);
                (answer.status, answer.body)
            })
            .collect()
    }
}

/// Opens a session of the person who has last become, where sessions share a link.
pub(crate) fn join(rig: &mut Rig) -> Client {
    let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let key = rig.post(&[], &asks.to_string());
    let link = rig.shared();
    for asked in rig.at(link) {
        let asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
        if asked["method"] == "initialize" {
            let result =
                json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            rig.say(link, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string());
        }
    }
    let id = rig.read(key).header("mcp-session-id").unwrap().to_owned();
    rig.at(link);
    Client { id, link }
}

#[test]
fn nobody_without_a_token_of_an_owner_is_served() {
    let mut rig = Rig::with(owned());
    for (authorization, status, challenge) in [
        (None, 401, Some("Bearer")),
        (Some("Basic token-of-ann"), 401, Some("Bearer")),
        (Some("Bearer "), 401, Some("Bearer")),
        (Some("Bearer token-of-an"), 401, Some(r#"Bearer error="invalid_token""#)),
        (Some("Bearer ann"), 401, Some(r#"Bearer error="invalid_token""#)),
        (Some("Bearer token-of-ann"), 400, None),
        (Some("bearer token-of-bob"), 400, None),
    ] {
        rig.authorization = authorization.map(ToOwned::to_owned);
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let key = rig.send(&method, "/mcp", &[("accept", "text/event-stream")], &call("1"));
            let answer = rig.read(key);
            assert_eq!(answer.status, status, "{authorization:?}");
            assert_eq!(answer.header("www-authenticate"), challenge, "{authorization:?}");
        }
    }
    // Who reads the one would serve another than who reads the other.
    let twice = [("authorization", "Bearer token-of-ann"), ("authorization", "Bearer token-of-bob")];
    let key = rig.post(&twice, &call("1"));
    assert_eq!(rig.read(key).status, 400);
    assert!(rig.opened.is_empty());
    assert!(!format!("{:?}", rig.server).contains("token-of"), "it is shown");
    rig.leaves_nothing();
}

#[test]
fn the_session_of_another_is_as_one_that_there_never_was() {
    for config in [owned(), shared()] {
        let is_shared = config.sessions == Sessions::SharedLink;
        let mut rig = Rig::with(config);
        let open = |rig: &mut Rig| if is_shared { join(rig) } else { rig.session(LEGACY) };
        let ann = open(rig.becomes("token-of-ann"));
        let bob = open(rig.becomes("token-of-bob"));
        rig.becomes("token-of-ann");
        let asked = rig.post_to(&ann, &call("1"));
        let known = rig.at(ann.link);
        assert_eq!(known.len(), 1);
        rig.say(ann.link, &note("for ann"));
        rig.pass_millis(100);
        let begun = rig.read(asked);
        let last = begun.events.first().unwrap().id.clone().unwrap();
        rig.at(bob.link);

        rig.becomes("token-of-bob");
        let nobody = Client { id: "s99".to_owned(), link: ann.link };
        let missing = rig.statuses(&nobody, &last);
        assert!(missing.iter().all(|(status, _)| *status == 404), "{missing:?}");
        assert_eq!(rig.statuses(&ann, &last), missing);
        assert!(rig.at(ann.link).is_empty(), "the program was told of it");
        assert!(!rig.read(asked).has_ended, "the work of another was touched");

        // Her own cancel stops it, also under another token of hers.
        rig.becomes("renewed");
        let cancelled = rig.post_to(&ann, &cancel("1"));
        let told = rig.at(ann.link);
        assert!(told.len() == 1 && told[0].contains("notifications/cancelled"), "{told:?}");
        assert_eq!(rig.read(cancelled).header("rescind-cancel"), Some("delivered"));
        let resumed = rig.come_back(&ann, &last);
        assert_ne!(rig.read(resumed).status, 404);
        let ended = rig.delete(&ann);
        assert_eq!(rig.read(ended).status, 204);
        rig.becomes("token-of-bob");
        let goes_on = rig.post_to(&bob, &call("1"));
        assert_eq!(rig.at(bob.link).into_iter().filter(|line| line.contains("tools/call")).count(), 1);
        rig.hang_up(goes_on);
        rig.end();
    }
}

#[test]
fn owners_share_no_program_outside_a_session() {
    let mut rig = Rig::with(owned());
    let call_of = |rig: &mut Rig, token: &str| rig.becomes(token).post_modern(&modern_call("1"));
    for (token, links) in [("token-of-ann", 1), ("token-of-bob", 2), ("renewed", 2), ("token-of-ann", 2)] {
        call_of(&mut rig, token);
        assert_eq!(rig.opened.len(), links, "{token}");
    }
    assert_eq!(rig.owners, [Some("ann".to_owned()), Some("bob".to_owned())]);
    let [ann, bob] = [rig.opened[0].0, rig.opened[1].0];
    assert_eq!((rig.at(ann).len(), rig.at(bob).len()), (3, 1));
    // The end of one's program is not the other's.
    rig.close(ann);
    rig.answer(bob, "1", "bob's");
    call_of(&mut rig, "token-of-ann");
    assert_eq!(rig.opened.len(), 3);
    rig.leaves_nothing();
}

/// With one program for all, requests of owners are on one link, and each hears of his own only.
#[test]
fn with_one_program_for_all_each_hears_of_his_own_request_only() {
    let mut rig = Rig::with(shared());
    let ann = join(rig.becomes("token-of-ann"));
    let asked = rig.becomes("token-of-ann").post_modern(&modern_call("1"));
    let other = rig.becomes("token-of-bob").post_modern(&modern_call("1"));
    assert_eq!(rig.owners, [None]);
    let known: Vec<String> = rig
        .at(ann.link)
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string())
        .collect();
    assert_eq!(known.len(), 2);
    rig.hang_up(other);
    assert_eq!(rig.at(ann.link), [format!("closed {}", known[1])]);
    rig.answer(ann.link, &known[0], "ann's");
    assert_eq!(rig.read(asked).json()["result"]["said"], "ann's");
    rig.end();
}

/// The program that is asked which era the server speaks before anyone has come is nobody's.
#[test]
fn the_program_that_was_only_asked_serves_no_owner() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..owned() });
    rig.server.prepare(rig.now);
    rig.drain();
    let asked = rig.opened[0].0;
    let waits = rig.becomes("token-of-ann").post_modern(&modern_call("1"));
    assert_eq!((rig.opened.len(), rig.at(asked).len()), (1, 1));
    rig.say(asked, r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#);
    assert_eq!(rig.at(asked), ["end"]);
    assert_eq!(rig.owners, [None, Some("ann".to_owned())]);
    let ann = rig.opened[1].0;
    assert_eq!(rig.at(ann).len(), 1);
    rig.answer(ann, "1", "x");
    assert_eq!(rig.read(waits).status, 200);
    rig.leaves_nothing();
}

#[test]
fn no_owner_takes_every_session() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 7, ..owned() });
    let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": LEGACY}});
    let open = |rig: &mut Rig, token: &str| -> u16 {
        let before = rig.opened.len();
        let key: ReplyKey = rig.becomes(token).post(&[], &asks.to_string());
        if rig.opened.len() > before { 200 } else { rig.read(key).status }
    };
    // Half for one alone, half of the rest for the next, and a place for the third.
    for (token, statuses) in [
        ("token-of-ann", [200, 200, 200, 200, 503, 503]),
        ("token-of-bob", [200, 200, 503, 503, 503, 503]),
        ("token-of-cas", [200, 503, 503, 503, 503, 503]),
    ] {
        assert_eq!(statuses.map(|_| open(&mut rig, token)), statuses, "{token}");
    }
    rig.end();
}

/// A link outside a session takes a place, which another's makes free when it is idle.
#[test]
fn a_link_of_an_owner_counts_as_a_session_and_makes_room() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 2, ..owned() });
    let call_of = |rig: &mut Rig, token: &str| rig.becomes(token).post_modern(&modern_call("1"));
    call_of(&mut rig, "token-of-ann");
    call_of(&mut rig, "token-of-bob");
    let refused = call_of(&mut rig, "token-of-cas");
    assert_eq!(rig.read(refused).status, 503);
    let ann = rig.opened[0].0;
    rig.at(ann);
    rig.answer(ann, "1", "x");
    call_of(&mut rig, "token-of-cas");
    assert_eq!(rig.at(ann), ["end"]);
    assert_eq!(rig.owners.last().unwrap().as_deref(), Some("cas"));
    // What nobody uses for long ends.
    let cas = rig.opened[2].0;
    rig.at(cas);
    rig.answer(cas, "1", "x");
    rig.pass(Duration::from_secs(2 * 60 * 60));
    assert_eq!(rig.at(cas), ["end"]);
    rig.end();
}
