//! Several clients on one connection: what each may have of its handlers, and what waits (D12).

use rescind_proto::{
    connection::{CallOptions, ConnectionConfig, HandlerEnd, IncomingKey, Reply},
    dialect::mcp,
    holder::Holder,
    link::{Attachment, Rejected, Verdict},
    side::Side,
};
use serde_json::Value;

use crate::endpoint_rig::*;

fn bounded(running: usize, queued: usize) -> Rig {
    let mut config =
        ConnectionConfig { max_running: running, max_queued: queued, ..config(Side::Server, &mcp::LATEST) };
    config.max_wait = secs(30);
    Rig::new(config)
}

/// Two clients of each kind that can be told apart.
fn pairs() -> [[Holder; 2]; 5] {
    let at = |address: &str| Holder::at(address.parse().expect("an address"));
    [
        [at("10.0.0.1"), at("10.0.0.2")],
        [at("2001:db8::1"), at("2001:db8:0:1::1")],
        [Holder::Owner("ann".into()), Holder::Owner("bob".into())],
        [Holder::Connection(1), Holder::Connection(2)],
        [Holder::Name("an editor".into()), Holder::Session(1)],
    ]
}

impl Rig {
    /// A client sends this.
    fn hear_from(&mut self, client: &Holder, message: &str) {
        let attachment = Attachment::new(()).counted_for(client.clone());
        self.conn.handle_message_with(self.now, message.as_bytes(), attachment);
        self.check();
    }

    /// A client calls, with ids from `first` on.
    fn call_from(&mut self, client: &Holder, first: usize, calls: usize) {
        (first..first + calls).for_each(|id| self.hear_from(client, &call(&id.to_string(), "work")));
    }

    /// The ids of requests whose handlers start.
    fn started(&mut self) -> Vec<(String, IncomingKey)> {
        self.start().into_iter().map(|request| (request.id.0.to_string(), request.key)).collect()
    }

    fn started_ids(&mut self) -> Vec<String> {
        self.started().into_iter().map(|(id, _)| id).collect()
    }

    /// The ids and texts of errors of this code.
    fn errors(&mut self, code: i64) -> Vec<(i64, String)> {
        let said = self.say();
        let read = said.iter().map(|line| serde_json::from_str::<Value>(line).expect("a message"));
        read.map(|error| {
            assert_eq!(error["error"]["code"], code, "{error}");
            (error["id"].as_i64().expect("an id"), error["error"]["message"].as_str().expect("a text").to_owned())
        })
        .collect()
    }
}

fn ids(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|id| id.to_string()).collect()
}

#[test]
fn however_many_slow_requests_one_client_sends_another_is_served_and_stopped() {
    for [greedy, other] in pairs() {
        let mut rig = bounded(256, 4096);
        rig.call_from(&greedy, 1, 300);
        assert_eq!(rig.started_ids(), ids(1, 128), "half of them, and no more");
        rig.hear_from(&other, &call("1000", "work"));
        let started = rig.started();
        assert_eq!(started.len(), 1, "{other:?} beside {greedy:?}");
        rig.hear_from(&other, &mcp_cancel("1000"));
        assert_eq!(rig.verdicts(), [Verdict::Accepted]);
        assert_eq!(rig.fired().len(), 1);
        rig.end(started[0].1, HandlerEnd::Cancelled);
        rig.call_from(&other, 2000, 100);
        assert_eq!(rig.started_ids().len(), 64, "half of what is left");
        rig.conn.check_invariants();
    }
}

#[test]
fn a_request_that_waits_for_a_handler_is_refused_in_time_and_in_words() {
    for [greedy, _] in pairs() {
        let mut rig = bounded(256, 4096);
        rig.call_from(&greedy, 1, 300);
        let running = rig.started();
        rig.pass(secs(30) - millis(1));
        assert_eq!(rig.say(), [""; 0]);
        rig.pass(millis(1));
        let errors = rig.errors(-31004);
        assert_eq!(errors.iter().map(|(id, _)| *id).collect::<Vec<_>>(), (129..=300).collect::<Vec<_>>());
        let text = &errors[171].1;
        assert!(text.contains("30 s") && text.contains("256") && text.contains("try again"), "{text}");
        assert_eq!(rig.refusals(), [Rejected::Overloaded; 172]);
        assert_eq!(rig.fired(), [], "what runs goes on");
        rig.pass(secs(600));
        assert_eq!((rig.say(), rig.fired()), (Vec::new(), Vec::new()), "what runs has no such limit");
        running.into_iter().for_each(|(_, key)| rig.end(key, OK));
        assert_eq!(rig.say().len(), 128);
        rig.leaves_nothing();
    }
}

#[test]
fn clients_that_are_not_told_apart_share_the_whole_and_are_told_in_time_that_it_is_taken() {
    let mut rig = bounded(8, 100);
    rig.call_from(&Holder::Anyone, 1, 9);
    assert_eq!(rig.started_ids(), ids(1, 8));
    rig.pass(secs(30));
    assert_eq!(rig.errors(-31004).len(), 1);
}

#[test]
fn a_request_of_a_connections_only_client_waits_as_long_as_it_likes() {
    let mut rig = bounded(8, 100);
    (1..=9).for_each(|id: u8| rig.hear(&[&call(&id.to_string(), "work")]));
    let first = rig.started();
    assert_eq!(first.len(), 8, "all of them are for it");
    rig.pass(secs(3600));
    assert_eq!(rig.say(), [""; 0]);
    rig.end(first[0].1, OK);
    assert_eq!(rig.started_ids(), ["9"]);
}

#[test]
fn what_waits_starts_in_its_clients_order_and_has_its_time_to_itself() {
    for [one, other] in pairs() {
        let mut rig = bounded(8, 100);
        rig.call_from(&one, 1, 6);
        let first = rig.started();
        assert_eq!(first.len(), 4);
        rig.call_from(&other, 10, 3);
        assert_eq!(rig.started_ids(), ["10", "11"]);
        rig.pass(secs(29));
        rig.end(first[0].1, OK);
        assert_eq!(rig.started_ids(), ["12"], "it has fewer, so it goes first, though it came later");
        rig.end(first[1].1, OK);
        assert_eq!(rig.started_ids(), ["5"]);
        assert_eq!(rig.say().len(), 2);
        rig.pass(secs(1));
        assert_eq!(rig.errors(-31004).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [6]);
        rig.pass(secs(60));
        assert_eq!((rig.fired(), rig.say()), (Vec::new(), Vec::new()), "what has started is not timed");
    }
}

#[test]
fn of_those_that_wait_the_client_with_fewest_handlers_goes_first() {
    for [one, other] in pairs() {
        let mut rig = bounded(6, 100);
        rig.call_from(&one, 1, 3);
        let first = rig.started();
        rig.call_from(&other, 10, 3);
        assert_eq!((first.len(), rig.started_ids()), (3, ids(10, 2)));
        rig.end(first[0].1, OK);
        assert_eq!(rig.started_ids(), [""; 0], "two are at work for each, and two are free");
        rig.call_from(&one, 4, 1);
        assert_eq!(rig.started_ids(), [""; 0]);
        rig.end(first[1].1, OK);
        assert_eq!(rig.started_ids(), ["4"], "the other has more, though it has waited longer");
    }
}

#[test]
fn places_in_line_and_their_bytes_are_shared_as_handlers_are() {
    for [greedy, other] in pairs() {
        let mut rig = bounded(4, 12);
        rig.call_from(&greedy, 1, 9);
        assert_eq!(rig.errors(-31004).len(), 1, "8 of 16 places are for one client");
        rig.call_from(&other, 20, 4);
        assert_eq!(rig.say(), [""; 0]);

        let mut rig =
            Rig::new(ConnectionConfig { max_queued_bytes: 1000, max_running: 1, ..config(Side::Server, &mcp::LATEST) });
        let text = "y".repeat(300);
        let long = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work","params":{{"x":"{text}"}}}}"#);
        for id in 1..=3 {
            rig.hear_from(&greedy, &long(id));
        }
        rig.start();
        rig.hear_from(&greedy, &long(4));
        assert!(rig.errors(-31004)[0].1.contains("bytes"), "600 of 1000 wait");
        rig.hear_from(&other, &long(5));
        assert_eq!(rig.say(), [""; 0]);
    }
}

#[test]
fn a_waiting_request_that_is_cancelled_leaves_its_line() {
    for [one, other] in pairs() {
        let mut rig = bounded(2, 100);
        rig.call_from(&one, 1, 3);
        let first = rig.started();
        rig.hear_from(&one, &mcp_cancel("2"));
        rig.hear_from(&other, &call("4", "work"));
        let second = rig.started();
        assert_eq!(second[0].0, "4");
        first.into_iter().chain(second).for_each(|(_, key)| rig.end(key, OK));
        let last = rig.started();
        assert_eq!(last[0].0, "3");
        rig.end(last[0].1, OK);
        rig.say();
        rig.leaves_nothing();
    }
}

#[test]
fn a_handler_that_waits_for_its_client_is_not_counted_for_it() {
    for [one, _] in pairs() {
        let mut config = config(Side::Server, &mcp::LATEST_LEGACY);
        config.max_running = 2;
        let mut rig = Rig::new(config);
        rig.call_from(&one, 1, 2);
        let first = rig.started();
        assert_eq!(first.len(), 1);
        let options = CallOptions { parent: Some(first[0].1), ..CallOptions::default() };
        rig.ask_with("ask", "", &options);
        let second = rig.started();
        assert_eq!(second.len(), 1, "the first waits for its client");
        rig.say();
        rig.hear_from(&one, &result("1"));
        rig.hear_from(&one, &call("3", "work"));
        assert_eq!(rig.started_ids(), [""; 0]);
        rig.end(first[0].1, OK);
        assert_eq!(rig.started_ids(), [""; 0], "the second is at work");
        rig.end(second[0].1, OK);
        assert_eq!(rig.started_ids(), ["3"]);
    }
}

/// Five hundred steps of four clients, in any order: what each has is counted right (the machine checks that itself), and
/// at the end nothing is left.
#[test]
fn what_clients_have_is_counted_right_whatever_they_do() {
    for seed in 1..=10 {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed);
        let mut below = |most: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 33).expect("31 bits") % most
        };
        let clients = [Holder::Anyone, Holder::Connection(1), Holder::Owner("ann".into()), Holder::Name("bob".into())];
        let mut config = config(Side::Server, &mcp::LATEST_LEGACY);
        (config.max_running, config.max_queued, config.max_wait) = (6, 10, secs(30));
        let mut rig = Rig::new(config);
        let mut running = Vec::new();
        for id in 1..=500 {
            match below(8) {
                0..=3 => rig.hear_from(&clients[below(4)], &call(&id.to_string(), "work")),
                4 => rig.hear_from(&clients[below(4)], &mcp_cancel(&(id - below(20).min(id)).to_string())),
                5 => rig.pass(secs(10)),
                6 if !running.is_empty() => {
                    let key = running[below(running.len())];
                    if below(2) == 0 {
                        rig.conn.suspend(rig.now, key, Reply::Result(b"{}"));
                    } else {
                        rig.conn.resume(key);
                    }
                    rig.check();
                }
                _ if !running.is_empty() => rig.end(running.swap_remove(below(running.len())), OK),
                _ => {}
            }
            running.extend(rig.start().into_iter().map(|request| request.key));
            rig.say();
        }
        while !running.is_empty() {
            running.drain(..).for_each(|key| rig.end(key, OK));
            running.extend(rig.start().into_iter().map(|request| request.key));
        }
        rig.say();
        rig.leaves_nothing();
    }
}
