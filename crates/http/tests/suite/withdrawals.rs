//! Tokens that are withdrawn while their owner has something in flight.

use rescind_http::server::{Access, Bearers, HttpServerConfig, Stateless};

use crate::{
    owner::{join, owned, shared},
    rig::*,
};

const WITHOUT_ANN: &str = "bob token-of-bob\ncas token-of-cas";

impl Rig {
    /// The list of owners is another now.
    fn list(&mut self, text: &str) {
        self.server.handle_access(self.now, Access::Owners(Bearers::read(text).unwrap()));
        self.drain();
    }

    /// What a request with this token gets.
    fn status_of(&mut self, token: &str) -> u16 {
        let key = self.becomes(token).post(&[], "{}");
        self.read(key).status
    }
}

#[test]
fn the_sessions_of_an_owner_who_is_gone_end_and_those_of_others_go_on() {
    let mut rig = Rig::with(owned());
    let ann = rig.becomes("token-of-ann").session(LEGACY);
    let bob = rig.becomes("token-of-bob").session(LEGACY);
    let his = rig.post_to(&bob, &call("1"));
    rig.becomes("token-of-ann");
    let begun = rig.post_to(&ann, &call("1"));
    rig.pass_millis(100);
    let listens = rig.listen(&ann);
    rig.read(listens);
    let open = rig.post_to(&ann, &call("2"));
    assert!(!rig.read(begun).has_ended);
    rig.at(ann.link);
    rig.at(bob.link);

    rig.list(WITHOUT_ANN);
    assert_eq!(
        rig.at(ann.link),
        ["end"],
        "its program is told that its client has gone: what is in flight is cancelled"
    );
    assert!(rig.read(begun).has_ended && rig.read(listens).has_ended);
    let refused = rig.read(open);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some(r#"Bearer error="invalid_token""#)));
    assert_eq!([rig.status_of("token-of-ann"), rig.status_of("renewed")], [401, 401]);

    assert!(rig.at(bob.link).is_empty());
    rig.answer(bob.link, "1", "his");
    assert_eq!(rig.read(his).messages(), [result_of("1", "his")]);

    // She is back, and her session is not.
    rig.list("ann another\nbob token-of-bob");
    let key = rig.becomes("another").post_to(&ann, &call("3"));
    assert_eq!(rig.read(key).status, 404);
    rig.becomes("token-of-bob");
    rig.end();
}

#[test]
fn what_is_there_of_an_owner_who_has_another_token_goes_on() {
    let mut rig = Rig::with(owned());
    let ann = rig.becomes("token-of-ann").session(LEGACY);
    let asked = rig.post_to(&ann, &call("1"));
    rig.at(ann.link);
    rig.list("ann renewed");
    assert_eq!(rig.status_of("token-of-ann"), 401);
    assert!(rig.at(ann.link).is_empty());
    rig.answer(ann.link, "1", "hers");
    assert_eq!(rig.read(asked).json()["result"]["said"], "hers");
    rig.becomes("renewed");
    let asked = rig.post_to(&ann, &call("2"));
    assert_eq!(rig.at(ann.link).len(), 1);
    rig.hang_up(asked);
    rig.end();
}

#[test]
fn outside_a_session_the_program_of_an_owner_who_is_gone_ends() {
    let mut rig = Rig::with(owned());
    let hers = rig.becomes("token-of-ann").post_modern(&modern_call("1"));
    let his = rig.becomes("token-of-bob").post_modern(&modern_call("1"));
    let [ann, bob] = [rig.opened[0].0, rig.opened[1].0];
    rig.at(ann);
    rig.at(bob);
    rig.list(WITHOUT_ANN);
    assert_eq!(rig.at(ann), ["end"]);
    assert_eq!(rig.read(hers).status, 401);
    assert!(rig.at(bob).is_empty());
    rig.answer(bob, "1", "his");
    assert_eq!(rig.read(his).status, 200);
    rig.leaves_nothing();
}

#[test]
fn in_a_program_that_owners_share_his_requests_are_cancelled_and_no_others() {
    let mut rig = Rig::with(shared());
    let ann = join(rig.becomes("token-of-ann"));
    let bob = join(rig.becomes("token-of-bob"));
    let ids = |lines: Vec<String>| -> Vec<String> {
        let id = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string();
        lines.iter().map(id).collect()
    };
    rig.becomes("token-of-ann");
    let hers = [rig.post_to(&ann, &call("1")), rig.post_modern(&modern_call("1"))];
    let of_ann = ids(rig.at(ann.link));
    rig.becomes("token-of-bob");
    let his = [rig.post_to(&bob, &call("1")), rig.post_modern(&modern_call("1"))];
    let of_bob = ids(rig.at(ann.link));
    assert_eq!((of_ann.len(), of_bob.len()), (2, 2));

    rig.list(WITHOUT_ANN);
    let told = rig.at(ann.link);
    assert_eq!(told.len(), 2, "{told:?}");
    for (told, id) in told.iter().zip(&of_ann) {
        assert!(told == &format!("closed {id}") || told.contains(&format!(r#""requestId":{id}"#)), "{told} {id}");
    }
    assert_eq!(hers.map(|key| rig.read(key).status), [401, 401]);
    for (key, id) in his.into_iter().zip(&of_bob) {
        rig.answer(ann.link, id, "his");
        assert_eq!(rig.read(key).json()["result"]["said"], "his");
    }
    rig.end();
}

#[test]
fn what_waits_for_the_era_of_the_server_waits_no_more() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..owned() });
    rig.server.prepare(rig.now);
    rig.drain();
    let asked = rig.opened[0].0;
    rig.at(asked);
    let hers = rig.becomes("token-of-ann").post_modern(&modern_call("1"));
    let his = rig.becomes("token-of-bob").post_modern(&modern_call("1"));
    rig.list(WITHOUT_ANN);
    assert_eq!(rig.read(hers).status, 401);
    rig.say(asked, r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#);
    assert_eq!(rig.owners, [None, Some("bob".to_owned())]);
    let bob = rig.opened[1].0;
    assert_eq!(rig.at(bob).len(), 1);
    rig.answer(bob, "1", "his");
    assert_eq!(rig.read(his).status, 200);
    rig.leaves_nothing();
}

#[test]
fn one_token_takes_the_place_of_another_and_ends_nothing() {
    let mut rig = Rig::with(HttpServerConfig { access: Access::token("old"), ..config() });
    let client = rig.becomes("old").session(LEGACY);
    let asked = rig.post_to(&client, &call("1"));
    rig.at(client.link);
    // Access of another kind is none that could be given here.
    rig.server.handle_access(rig.now, Access::Open);
    assert_eq!(rig.status_of(""), 401);
    rig.server.handle_access(rig.now, Access::token("new"));
    assert_eq!(rig.status_of("old"), 401);
    assert!(rig.at(client.link).is_empty());
    rig.answer(client.link, "1", "it goes on");
    assert_eq!(rig.read(asked).status, 200);
    rig.becomes("new");
    rig.end();
}

/// Nothing of hers is left in the queue of a program that has not shaken hands yet.
#[test]
fn what_waits_for_the_handshake_of_a_shared_program_waits_no_more() {
    let mut rig = Rig::with(shared());
    rig.server.prepare(rig.now);
    rig.drain();
    let link = rig.shared();
    let asked: serde_json::Value = serde_json::from_str(&rig.at(link)[0]).unwrap();
    assert_eq!(asked["method"], "initialize");
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{LEGACY}","capabilities":{{}}}}}}"#
    );
    rig.becomes("token-of-ann");
    let hers = [rig.post(&[], &hello), rig.post_modern(&modern_call("1"))];
    let his = rig.becomes("token-of-bob").post_modern(&modern_call("1"));
    rig.list(WITHOUT_ANN);
    assert_eq!(hers.map(|key| rig.read(key).status), [401, 401]);
    let greeting =
        format!(r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{greeting}}}"#, asked["id"]));
    let told = rig.at(link);
    let calls: Vec<_> = told.iter().filter(|line| line.contains("tools/call")).collect();
    assert_eq!(calls.len(), 1, "{told:?}");
    let known: serde_json::Value = serde_json::from_str(calls[0]).unwrap();
    rig.answer(link, &known["id"].to_string(), "his");
    assert_eq!(rig.read(his).json()["result"]["said"], "his");
    rig.end();
}
