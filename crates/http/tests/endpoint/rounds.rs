//! A tool that asks its client something, in a pool: each round comes on a connection of its own, and finds the work.

use rescind_http::server::{Access, Bearers, HttpServerConfig, Stateless};
use rescind_http::shell::ListenerConfig;
use rescind_testkit::puppet::Connection;
use serde_json::{Value, json};

use super::{PATIENCE, Rig};

fn pool(members: usize) -> Rig {
    of(members, Access::Open)
}

fn of(members: usize, access: Access) -> Rig {
    let config = HttpServerConfig { access, stateless: Stateless::Served, ..HttpServerConfig::default() };
    Rig::of(&config, members, Some(ListenerConfig::default()))
}

type Headers<'a> = &'a [(&'a str, &'a str)];

/// The headers of a call of this tool.
fn mirrors(tool: &str) -> [(&str, &str); 3] {
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)]
}

fn message_of(tool: &str, name: &str, more: &Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    let mut params = json!({ "name": tool, "arguments": { "name": name }, "_meta": meta });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

impl Rig {
    fn call_with(&self, who: Headers<'_>, tool: &str, name: &str, more: &Value) -> Connection {
        let mut connection = self.connect();
        connection.post(&[&mirrors(tool), who].concat(), &message_of(tool, name, more));
        connection
    }

    /// Occupies the members before this one, each by one call: the next is for it.
    fn occupy(&self, before: usize) -> Vec<Connection> {
        let name = |member| format!("load {member}");
        (0..before).map(|member| self.call_modern(&name(member))).collect()
    }

    /// From now on nothing is in flight for these.
    fn release(&self, occupied: Vec<Connection>) {
        let count = occupied.len();
        drop(occupied);
        for _ in 0..count {
            let mark = self.marks.recv_timeout(PATIENCE).unwrap();
            assert!(mark.starts_with("stopped load"), "{mark}");
        }
    }

    /// The first round of a call, by the member of this place; the state that its client is given.
    fn ask_at(&self, member: usize, who: Headers<'_>, name: &str) -> String {
        let occupied = self.occupy(member);
        let state = self.ask(who, name);
        self.release(occupied);
        state
    }

    fn ask(&self, who: Headers<'_>, name: &str) -> String {
        let asked = answer_of(self.call_with(who, "question", name, &json!({})));
        self.expect_mark(&format!("started {name}"));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned()
    }

    fn answer_question(&self, who: Headers<'_>, name: &str, state: &Value, waits: bool) -> Connection {
        self.call_with(who, "question", name, &answers(state, waits))
    }
}

fn answers(state: &Value, waits: bool) -> Value {
    let answer = json!({ "action": "accept", "content": { "waits": waits } });
    json!({ "requestState": state, "inputResponses": { "q1": answer } })
}

fn answer_of(mut connection: Connection) -> Value {
    serde_json::from_str(&super::answer(&mut connection)).unwrap()
}

#[test]
fn in_a_pool_each_round_finds_the_work_that_asked() {
    const CALLS: usize = 60;
    for members in [1, 2, 3, 5] {
        let rig = pool(members);
        let found = (0..CALLS).filter(|number| {
            let name = format!("call {number}");
            let state = rig.ask_at(number % members, &[], &name);
            let answer = answer_of(rig.answer_question(&[], &name, &state.into(), false));
            let is_found = answer["result"]["content"][0]["text"] == format!("{name} is done");
            if is_found {
                rig.expect_mark(&format!("answered {name}"));
                rig.expect_mark(&format!("finished {name}"));
            }
            is_found
        });
        assert_eq!(found.count(), CALLS, "of {CALLS} in a pool of {members}");
    }
}

/// The body comes in two parts, and so it is read before anybody knows which member it is for.
#[test]
fn a_round_whose_body_comes_late_finds_the_work_that_asked() {
    let rig = pool(2);
    let state = rig.ask_at(1, &[], "late");
    let mut second = rig.connect();
    let headers =
        [&mirrors("question")[..], &[("content-type", "application/json"), ("expect", "100-continue")]].concat();
    let headers = [&headers[..], &[("accept", "application/json, text/event-stream")]].concat();
    let body = message_of("question", "late", &answers(&state.into(), false));
    let text = Connection::request("POST", &headers, &body);
    second.send_bytes(&text.as_bytes()[..text.len() - body.len()]);
    assert_eq!(second.head().status, 100);
    second.send_bytes(body.as_bytes());
    rig.expect_mark("answered late");
    rig.expect_mark("finished late");
    assert_eq!(answer_of(second)["result"]["content"][0]["text"], "late is done");
}

#[test]
fn what_a_client_abandons_between_two_rounds_stops_where_it_is() {
    for members in [1, 2, 3, 5] {
        let rig = pool(members);
        for place in 0..members {
            let state = rig.ask_at(place, &[], "asked");
            let method = "notifications/dev.rescind/abandoned";
            let abandoned = json!({ "jsonrpc": "2.0", "method": method, "params": { "requestState": state } });
            let mut connection = rig.connect();
            connection.post(&[("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)], &abandoned.to_string());
            assert_eq!(connection.head().status, 202);
            rig.expect_mark("stopped asked");
            let late = answer_of(rig.answer_question(&[], "asked", &state.into(), false));
            assert_eq!(late["error"]["code"], -32602, "{late}");
        }
    }
}

#[test]
fn a_hang_up_in_the_second_round_stops_the_work_of_the_first() {
    for members in [1, 2, 3, 5] {
        let rig = pool(members);
        for place in 0..members {
            let state = rig.ask_at(place, &[], "asked");
            let second = rig.answer_question(&[], "asked", &state.into(), true);
            rig.expect_mark("answered asked");
            drop(second);
            rig.expect_mark("stopped asked");
        }
    }
}

/// What a client may write in place of the state that it was given.
fn forged(state: &str) -> Vec<(&'static str, Value)> {
    let (mark, own) = state
        .rsplit_once('.')
        .and_then(|(name, secret)| {
            let (mark, name) = name.rsplit_once('.')?;
            Some((mark.to_owned(), format!("{name}.{secret}")))
        })
        .unwrap();
    let (pool, place) = mark.rsplit_once('.').unwrap();
    let (most, last) = state.split_at(state.len() - 1);
    let other_digit = if last == "0" { "1" } else { "0" };
    let of_place = |place: &str| json!(format!("{pool}.{place}.{own}"));
    vec![
        ("of another member", of_place("0")),
        ("of a member that does not exist", of_place("7")),
        ("of the last that could exist", of_place("4294967295")),
        ("of one that could not", of_place("4294967296")),
        ("of one with a sign", of_place(&format!("+{place}"))),
        ("of one below all", of_place("-1")),
        ("with a zero before its member", of_place(&format!("0{place}"))),
        ("without a member", of_place("")),
        ("of a member in words", of_place("one")),
        ("of a member with a megabyte of digits", of_place(&"9".repeat(1 << 20))),
        ("of another pool", json!(format!("rescind.0123456789abcdef.{place}.{}x", own))),
        ("marked twice", json!(format!("{mark}.{state}"))),
        ("without what its program gave", json!(format!("{mark}."))),
        ("its mark alone", json!(mark)),
        ("cut off by a letter", json!(most)),
        ("half of it", json!(state[..state.len() / 2])),
        ("with a letter more", json!(format!("{state}0"))),
        ("with a blank before it", json!(format!(" {state}"))),
        ("with a line break behind it", json!(format!("{state}\n"))),
        ("with a NUL in it", json!(format!("{most}\0"))),
        ("in capitals", json!(state.to_uppercase())),
        ("one digit off", json!(format!("{most}{other_digit}"))),
        ("its end alone", json!(own.rsplit_once('.').unwrap().1)),
        ("twice", json!(state.repeat(2))),
        ("empty", json!("")),
        ("a megabyte of letters", json!("a".repeat(1 << 20))),
        ("a megabyte behind its mark", json!(format!("{mark}.{}", "é".repeat(1 << 19)))),
        ("null", json!(null)),
        ("a number", json!(1)),
        ("an object with it", json!({ "requestState": state })),
        ("a list with it", json!([state])),
    ]
}

fn refused(answer: &Value, how: &str) -> String {
    let words = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{how}: {answer}"));
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32602)), "{how}: {answer}");
    assert!(words.contains("send the call again"), "{how}: {words}");
    words.to_owned()
}

#[test]
fn a_forged_state_ends_in_words_and_leaves_the_work_alone() {
    let rig = pool(2);
    let state = rig.ask_at(1, &[], "asked");
    for (how, forged) in forged(&state) {
        refused(&answer_of(rig.answer_question(&[], "asked", &forged, false)), how);
    }
    refused(&answer_of(rig.call_with(&[], "work", "asked", &answers(&json!(state), false))), "of another tool");
    let answer = answer_of(rig.answer_question(&[], "asked", &json!(state), false));
    rig.expect_mark("answered asked");
    rig.expect_mark("finished asked");
    assert_eq!(answer["result"]["content"][0]["text"], "asked is done");
    refused(&answer_of(rig.answer_question(&[], "asked", &json!(state), false)), "used up");
}

/// Two that serve the same, as two processes behind a balancer do: each knows what it asked, and no other.
#[test]
fn a_state_of_another_replica_ends_in_words_that_say_so() {
    for (asks, answers) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 5)] {
        let replicas = [pool(asks), pool(answers)];
        for place in 0..asks {
            let state = replicas[0].ask_at(place, &[], "asked");
            let answer = answer_of(replicas[1].answer_question(&[], "asked", &json!(state), false));
            let words = refused(&answer, "of another replica");
            assert!(words.contains("another process"), "{asks} {answers}: {words}");
            let answer = answer_of(replicas[0].answer_question(&[], "asked", &json!(state), false));
            replicas[0].expect_mark("answered asked");
            replicas[0].expect_mark("finished asked");
            assert_eq!(answer["result"]["content"][0]["text"], "asked is done");
        }
    }
}

#[test]
fn a_state_is_of_no_use_to_another_owner() {
    let list = "ann token-of-ann\nbob token-of-bob";
    let rig = of(2, Access::Owners(Bearers::read(list).unwrap()));
    let [ann, bob] = ["Bearer token-of-ann", "Bearer token-of-bob"].map(|token| [("authorization", token)]);
    for name in ["first", "second", "third"] {
        let state = json!(rig.ask(&ann, name));
        refused(&answer_of(rig.answer_question(&bob, name, &state, false)), "of another owner");
        assert_eq!(rig.answer_question(&[], name, &state, false).head().status, 401);
        let answer = answer_of(rig.answer_question(&ann, name, &state, false));
        rig.expect_mark(&format!("answered {name}"));
        rig.expect_mark(&format!("finished {name}"));
        assert_eq!(answer["result"]["content"][0]["text"], format!("{name} is done"));
    }
}
