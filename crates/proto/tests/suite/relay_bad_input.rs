//! Bad input through a relay: a clear answer, and nothing lost (D13, D35, D36).

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, acp, mcp},
    link::Rejected,
    relay::{End, EndedBy, EndedServer, RelayConfig, RelayEvent},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn speaking(dialect: &'static Dialect, config: RelayConfig) -> RelayRig {
    RelayRig::new(RelayConfig { dialects: Sides { client: Some(dialect), server: Some(dialect) }, ..config })
}

fn mcp() -> RelayRig {
    speaking(&mcp::REVISION_2025_06_18, RelayConfig::default())
}

fn drops(rig: &RelayRig) -> Vec<Rejected> {
    rig.events.iter().filter_map(|e| if let RelayEvent::Rejected { why, .. } = e { Some(*why) } else { None }).collect()
}

#[test]
fn garbage_from_the_client_gets_one_parse_error_and_goes_no_further() {
    let mut rig = mcp();
    rig.bytes(Side::Client, b"not json\n{\"half\":\n");
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#;
    assert_eq!(rig.at_client(), [error, error], "one a line");
    assert_eq!(rig.at_server(), [""; 0]);
    rig.from_client(CALL);
    assert_eq!(rig.at_server(), [CALL]);
}

#[test]
fn a_bad_notification_or_answer_is_not_answered() {
    for body in [
        r#"{"jsonrpc":"2.0","method":"x","method":"y"}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":""}}"#,
    ] {
        let mut rig = mcp();
        rig.from_client(body);
        assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "{body}");
        assert_eq!(drops(&rig).len(), 1, "{body}");
    }
}

#[test]
fn half_a_message_is_one_that_has_begun() {
    let mut rig = mcp();
    assert!(rig.relay.is_between_messages(Side::Client));
    rig.bytes(Side::Client, b"{\"half\":");
    assert!(!rig.relay.is_between_messages(Side::Client) && rig.relay.is_between_messages(Side::Server));
}

#[test]
fn the_form_of_a_parse_error_is_that_of_the_revision() {
    let mut rig = speaking(&mcp::LATEST_LEGACY, RelayConfig::default());
    rig.bytes(Side::Client, b"\xff\xfe\n");
    assert_eq!(rig.at_client(), [r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not UTF-8"}}"#]);
}

#[test]
fn a_line_of_the_server_that_is_no_json_goes_to_the_log() {
    let mut rig = mcp();
    rig.bytes(Side::Server, b"Starting server...\n");
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]));
    assert_eq!(drops(&rig), [Rejected::NotJson]);
}

#[test]
fn a_repeated_or_escaped_envelope_member_is_refused() {
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}"#,
        r#"{"jsonrpc":"2.0","\u0069d":1,"method":"x"}"#,
    ] {
        let mut rig = mcp();
        rig.from_client(body);
        assert_eq!(rig.at_server(), [""; 0]);
        assert!(rig.at_client()[0].contains("-32600"));
    }
}

#[test]
fn an_answer_that_cannot_be_read_does_not_leave_its_requester_hanging() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":1}"#);
    let answers = rig.at_client();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains("-32603"), "{answers:?}");
    rig.from_server(RESULT);
    assert_eq!(rig.at_client(), [""; 0], "one answer is enough");
}

#[test]
fn an_overlong_request_is_answered_alone() {
    let mut rig = speaking(&mcp::REVISION_2025_06_18, RelayConfig { max_message: 1000, ..RelayConfig::default() });
    let big =
        format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"x":"{}"}},"id":"big"}}"#, "y".repeat(5000));
    rig.from_client(&big);
    rig.from_client(CALL);
    assert_eq!(rig.at_server(), [CALL]);
    let answers = rig.at_client();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains(r#""id":"big""#) && answers[0].contains("-31005"), "{answers:?}");
}

#[test]
fn an_overlong_answer_ends_the_one_request_it_answers() {
    let mut rig = speaking(&mcp::REVISION_2025_06_18, RelayConfig { max_message: 1000, ..RelayConfig::default() });
    rig.from_client(CALL);
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":2"));
    rig.at_server();
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":"{}"}}}}"#, "y".repeat(5000)));
    let answers = rig.at_client();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains(r#""id":1"#) && answers[0].contains("-31005"), "{answers:?}");
    assert_eq!(rig.relay.in_flight(Side::Client), 1);
}

#[test]
fn a_stray_error_is_forwarded_only_in_the_form_its_reader_knows() {
    let error = r#"{"code":-32601,"message":"no"}"#;
    let bare = format!(r#"{{"jsonrpc":"2.0","error":{error}}}"#);
    let null = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#);
    for stray in [&bare, &null] {
        for (dialect, form) in
            [(&mcp::REVISION_2025_06_18, None), (&mcp::REVISION_2025_11_25, Some(&bare)), (&acp::V1, Some(&null))]
        {
            let mut rig = speaking(dialect, RelayConfig::default());
            rig.from_server(stray);
            assert_eq!(rig.at_client(), Vec::from_iter(form.cloned()), "{}", dialect.name);
        }
    }
}

#[test]
fn one_request_more_than_the_limit_is_refused() {
    let mut rig = speaking(&mcp::REVISION_2025_06_18, RelayConfig { max_in_flight: 2, ..RelayConfig::default() });
    for id in 1..=3 {
        rig.from_client(&CALL.replace("\"id\":1", &format!("\"id\":{id}")));
    }
    assert_eq!(rig.at_server().len(), 2);
    assert!(rig.at_client()[0].contains("-31004"));
    rig.from_server(RESULT);
    rig.at_client();
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":4"));
    assert_eq!(rig.at_server().len(), 1);
}

#[test]
fn a_server_that_dies_leaves_nobody_hanging() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":2"));
    rig.at_server();
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":3"));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    let ask = r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}"#;
    rig.from_server(ask);
    assert_eq!(rig.at_client(), [ask]);
    rig.end(Side::Server, &End::Exited(3));
    let gone = |id| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-31002,"message":"the server exited with code 3 before it answered","data":{{"exitCode":3,"endedBy":"server"}}}}}}"#
        )
    };
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s","reason":"connection ended"}}"#;
    assert_eq!(rig.at_client(), [cancel.to_owned(), gone(1), gone(3)], "2 was cancelled: silence");
    assert!(rig.relay.pending(Side::Server).is_empty());
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":4"));
    assert_eq!(rig.at_client(), [gone(4)], "later ones are told too");
}

/// D44.
#[test]
fn an_error_about_a_servers_end_says_who_ended_it() {
    let told = |by: Option<EndedBy>, how: &End| {
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        if let Some(by) = by {
            rig.relay.note_ended_by(by);
            // It hastened an end that was asked for before.
            rig.relay.note_ended_by(EndedBy { words: "later".to_owned(), members: String::new() });
        }
        rig.end(Side::Server, how);
        rig.at_client().concat()
    };
    let by = |words: &str, members: &str| Some(EndedBy { words: words.to_owned(), members: members.to_owned() });
    let error = |message: &str, data: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-31002,"message":"{message}","data":{data}}}}}"#)
    };
    assert_eq!(
        told(None, &End::Signalled(9)),
        error(
            "the server was ended by signal 9 (SIGKILL) before it answered; neither its client nor rescind had sent that signal",
            r#"{"signal":9,"endedBy":"server"}"#
        )
    );
    assert_eq!(
        told(by("its client had sent signal 15", r#""endedBy":"client","clientSignal":15"#), &End::Exited(0)),
        error(
            "the server exited with code 0 before it answered: its client had sent signal 15",
            r#"{"exitCode":0,"endedBy":"client","clientSignal":15}"#
        )
    );
    assert_eq!(
        told(by("rescind ended it", r#""endedBy":"shim","because":"unread""#), &End::Signalled(15)),
        error(
            "the server was ended by signal 15 (SIGTERM) before it answered: rescind ended it",
            r#"{"signal":15,"endedBy":"shim","because":"unread"}"#
        )
    );
    assert_eq!(told(None, &End::Closed), error("the server closed its output before it answered", "{}"));
}

/// D63.
#[test]
fn an_error_about_a_servers_end_names_the_program_and_its_last_lines_and_not_the_params() {
    let told = |server: EndedServer, how: &End| {
        let mut rig = mcp();
        rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"secret"}}"#);
        rig.at_server();
        rig.relay.note_ended_server(server);
        rig.end(Side::Server, how);
        rig.at_client().concat()
    };
    let error = |message: &str, data: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-31002,"message":"{message}","data":{data}}}}}"#)
    };
    let stderr = b"starting\n\x1b[31mError:\x1b[0m \"TOKEN\" is not set\n".to_vec();
    assert_eq!(
        told(EndedServer { program: "npx".to_owned(), unstarted: None, stderr: stderr.clone() }, &End::Exited(1)),
        error(
            r#"the server (npx) exited with code 1 before it answered; the end of its stderr:\nstarting\nError: \"TOKEN\" is not set"#,
            r#"{"exitCode":1,"endedBy":"server"}"#
        )
    );
    let unstarted = Some("Permission denied".to_owned());
    assert_eq!(
        told(EndedServer { program: "a\u{1b}b".to_owned(), unstarted, stderr: Vec::new() }, &End::Closed),
        error("the server (a\u{fffd}b) could not be started: Permission denied", "{}")
    );
}

/// D63.
#[test]
fn the_end_of_a_server_is_untold_until_a_request_is_answered_with_it() {
    let mut rig = mcp();
    assert!(!rig.relay.has_untold_end());
    rig.end(Side::Server, &End::Exited(1));
    assert!(rig.relay.has_untold_end());
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert!(rig.relay.has_untold_end(), "no answer is due to it");
    rig.from_client(CALL);
    assert_eq!(rig.at_client().len(), 1);
    assert!(!rig.relay.has_untold_end());

    for (calls, is_answered, is_untold) in [(1, true, true), (1, false, false), (2, true, false)] {
        let mut rig = mcp();
        for id in 1..=calls {
            rig.from_client(&CALL.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
            rig.at_server();
            if is_answered {
                rig.from_server(&RESULT.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
                rig.at_client();
            }
        }
        rig.end(Side::Server, &End::Exited(1));
        assert_eq!(rig.relay.has_untold_end(), is_untold, "{calls} {is_answered}");
    }
}

#[test]
fn the_clients_end_cancels_nothing() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.end(Side::Client, &End::Closed);
    assert_eq!(rig.at_server(), [""; 0]);
    rig.from_server(RESULT);
    assert_eq!(rig.at_client(), [RESULT]);
}

#[test]
fn a_last_line_without_its_end_is_a_message_if_it_can_be_read() {
    let mut rig = mcp();
    rig.bytes(Side::Client, CALL.as_bytes());
    assert_eq!(rig.at_server(), [""; 0]);
    rig.end(Side::Client, &End::Closed);
    assert_eq!(rig.at_server(), [CALL]);
    let mut rig = mcp();
    rig.bytes(Side::Client, &CALL.as_bytes()[..20]);
    rig.end(Side::Client, &End::Closed);
    assert_eq!(rig.at_server(), [""; 0]);
    assert!(rig.at_client()[0].contains("-32700"));
}

#[test]
fn a_side_that_does_not_read_pauses_the_other_and_is_given_up_after_the_limit() {
    let config = RelayConfig { max_backlog: 1000, stall_limit: Duration::from_secs(60), ..RelayConfig::default() };
    let mut rig = speaking(&mcp::REVISION_2025_06_18, config);
    let note = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{}"}}}}"#, "y".repeat(500));
    for _ in 0..2 {
        assert!(rig.relay.wants_input(Side::Client));
        assert_eq!(rig.relay.held_up_by(), None);
        rig.from_client(&note);
    }
    assert_eq!(rig.relay.held_up_by(), Some(Side::Server));
    assert!(!rig.relay.wants_input(Side::Client), "nothing more for a server that does not read");
    assert!(rig.relay.wants_input(Side::Server), "the other direction flows");
    rig.pass(Duration::from_secs(59));
    rig.write(Side::Server, 1);
    rig.pass(Duration::from_secs(59));
    assert!(!rig.events.iter().any(|event| matches!(event, RelayEvent::GivenUp { .. })), "it read a byte");
    rig.pass(Duration::from_secs(1));
    assert!(rig.events.iter().any(|event| matches!(event, RelayEvent::GivenUp { side: Side::Server, .. })));
    rig.write(Side::Server, usize::MAX);
    assert!(rig.relay.wants_input(Side::Client));
}

#[test]
fn a_flood_of_garbage_pauses_its_sender() {
    let mut rig = speaking(&mcp::REVISION_2025_06_18, RelayConfig { max_backlog: 1000, ..RelayConfig::default() });
    let mut lines = 0;
    while rig.relay.wants_input(Side::Client) {
        rig.bytes(Side::Client, b"x\n");
        lines += 1;
        assert!(lines < 100, "the debt of its own bad input pauses it");
    }
    assert!(rig.relay.wants_input(Side::Server));
    rig.at_client();
    assert!(rig.relay.wants_input(Side::Client));
}

#[test]
fn memory_of_the_settled_is_bounded_and_ends() {
    let mut rig = mcp();
    for id in 0..10_000 {
        rig.from_client(&CALL.replace("\"id\":1", &format!("\"id\":{id}")));
        rig.at_server();
        rig.from_server(&RESULT.replace("\"id\":1", &format!("\"id\":{id}")));
        rig.at_client();
    }
    let bound = RelayConfig::default().remembered;
    assert!((bound..=bound + 32).contains(&rig.relay.remembered(Side::Client)), "forgotten in batches");
    rig.pass(Duration::from_secs(600));
    assert_eq!(rig.relay.remembered(Side::Client), 0);
    assert_eq!(rig.relay.poll_timeout(), None, "nothing is left to do");
}

// Invariant 8.
#[test]
fn everything_that_a_relay_keeps_counts_as_held() {
    type Keep = fn(&mut RelayRig);
    let keeps: [(&str, usize, Keep); 5] = [
        ("half a message", 100_000, |rig| rig.bytes(Side::Client, &[b'x'; 100_000])),
        ("a message that waits to be written", 100_000, |rig| {
            rig.from_client(&CALL.replace("{}", &format!(r#"{{"x":"{}"}}"#, "x".repeat(100_000))));
        }),
        ("requests in flight", 100_000, |rig| {
            for id in 0..1000 {
                rig.from_client(&CALL.replace("\"id\":1", &format!("\"id\":{id}")));
                rig.at_server();
            }
        }),
        ("early cancels", 10_000, |rig| {
            for id in 10..20 {
                let id = id.to_string().repeat(500);
                let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"ID"}}"#;
                rig.from_client(&cancel.replace("ID", &id));
            }
        }),
        ("events", 1000 * size_of::<RelayEvent>(), |rig| {
            rig.relay.handle_input(rig.now, Side::Server, &b"garbage\n".repeat(1000));
        }),
    ];
    for (what, least, keep) in keeps {
        let mut rig = mcp();
        let idle = rig.relay.held();
        keep(&mut rig);
        assert!(rig.relay.held() >= idle + least, "{what}: {} bytes are held", rig.relay.held());
    }
}

// A batch is a sixty-fourth of the bound, and 32 at most.
#[test]
fn the_settled_exceed_their_bound_by_less_than_one_batch() {
    for (remembered, most) in [(0, 0), (63, 63), (64, 65), (640, 650), (2112, 2144)] {
        let config = RelayConfig { remembered, ..RelayConfig::default() };
        let mut rig = speaking(&mcp::REVISION_2025_06_18, config);
        let mut peak = 0;
        for id in 0..remembered + 100 {
            rig.from_client(&CALL.replace("\"id\":1", &format!("\"id\":{id}")));
            rig.at_server();
            rig.from_server(&RESULT.replace("\"id\":1", &format!("\"id\":{id}")));
            rig.at_client();
            peak = peak.max(rig.relay.remembered(Side::Client));
        }
        assert_eq!(peak, most, "{remembered} are to be remembered");
    }
}

/// An answer to request 1 whose text holds one byte that is not UTF-8, as programs write it that read files in Latin-1.
const LATIN_1: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"caf\xe9\"}}\n";

// D43: Node reads it with U+FFFD in it, and so must whoever sits behind the shim.
#[test]
fn an_answer_that_is_not_utf_8_reaches_its_requester_as_most_clients_would_have_read_it() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.bytes(Side::Server, LATIN_1);
    assert_eq!(rig.at_client(), [String::from_utf8_lossy(LATIN_1).trim_end()]);
    assert_eq!(rig.relay.in_flight(Side::Client), 0);
}

#[test]
fn an_answer_under_an_id_of_ours_is_mended_and_given_its_own_id_back() {
    let mut rig = mcp();
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":0"));
    let call = rig.at_server().remove(0);
    assert!(!call.contains("\"id\":0"), "{call}");
    let id = call.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("it has an id");
    let answer = String::from_utf8_lossy(LATIN_1).replace('\u{fffd}', "?").replace("\"id\":1", &format!("\"id\":{id}"));
    let answer: Vec<u8> = answer.bytes().map(|byte| if byte == b'?' { 0xe9 } else { byte }).collect();
    rig.bytes(Side::Server, &answer);
    let expected = String::from_utf8_lossy(LATIN_1).replace("\"id\":1", "\"id\":0");
    assert_eq!(rig.at_client(), [expected.trim_end()]);
}

#[test]
fn errors_and_notifications_are_mended_where_they_are_payload() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.bytes(
        Side::Server,
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"\xff\"}}\n",
    );
    rig.bytes(Side::Server, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":7,\"message\":\"na\xefve\"}}\n");
    let at_client = rig.at_client();
    assert_eq!(at_client.len(), 2, "{at_client:?}");
    assert!(at_client[0].ends_with("\"params\":{\"data\":\"\u{fffd}\"}}"), "{at_client:?}");
    assert!(at_client[1].contains("na\u{fffd}ve"), "{at_client:?}");
}

// D43: depth is no fault.
#[test]
fn an_answer_nested_deeper_than_any_stack_passes_byte_for_byte() {
    for depth in [1_023, 1_024, 100_000] {
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        let answer = RESULT.replace("{}", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        rig.from_server(&answer);
        assert_eq!(rig.at_client(), [answer]);
    }
}

#[test]
fn an_answer_that_is_not_json_and_plainly_names_a_request_ends_it() {
    for broken in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":]}}\n"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"cut\n",
        b"{\"id\":1,\"result\":tru}\n",
        b"{\"id\":1,\"res\xffult\":{},\"result\":{}}\n",
    ] {
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        rig.bytes(Side::Server, broken);
        let answers = rig.at_client();
        assert!(answers.len() == 1 && answers[0].contains("-32603"), "{}: {answers:?}", broken.escape_ascii());
        assert_eq!(drops(&rig), [Rejected::NotJson]);
    }
}

#[test]
fn a_request_that_cannot_be_read_is_answered_under_its_id() {
    let mut rig = mcp();
    rig.bytes(Side::Client, b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"m\",\"params\":{\"text\":\"\xe9\"}}\n");
    let answer = r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32700,"message":"not UTF-8"}}"#;
    assert_eq!((rig.at_client(), rig.at_server()), (vec![answer.to_owned()], vec![]));
    // The same from a server, which waits as well.
    rig.bytes(Side::Server, b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"m\",\"params\":{\"text\":\"\xe9\"}}\n");
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![answer.to_owned()]));
}

#[test]
fn an_unreadable_request_under_the_id_of_one_in_flight_ends_neither() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.bytes(Side::Client, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"text\":\"\xe9\"}}\n");
    rig.bytes(Side::Client, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}\n");
    let refusals = rig.at_client();
    assert!(refusals.iter().all(|refusal| refusal.contains("\"id\":null")), "{refusals:?}");
    rig.from_server(RESULT);
    assert_eq!(rig.at_client(), [RESULT]);
}

#[test]
fn an_unreadable_request_under_the_id_of_the_other_sides_request_answers_nothing() {
    for (broken, code) in [
        (&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"text\":\"\xe9\"}}\n"[..], "-32700"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}\n", "-32600"),
    ] {
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        rig.bytes(Side::Server, broken);
        assert_eq!(rig.at_client(), [""; 0], "the client's request is still open");
        let refusals = rig.at_server();
        assert!(refusals.len() == 1 && refusals[0].contains(code), "{refusals:?}");
        rig.from_server(RESULT);
        assert_eq!(rig.at_client(), [RESULT]);
    }
}

#[test]
fn a_mended_message_counts_in_its_mended_size() {
    let config = RelayConfig { max_message: LATIN_1.len(), ..RelayConfig::default() };
    let mut rig = speaking(&mcp::REVISION_2025_06_18, config);
    rig.from_client(CALL);
    rig.at_server();
    rig.bytes(Side::Server, LATIN_1);
    let answers = rig.at_client();
    assert!(answers.len() == 1 && answers[0].contains("-31005"), "{answers:?}");
}

// D12, invariant 8: the peer chooses how long its ids are.
#[test]
fn ids_as_long_as_messages_are_bounded_in_all() {
    let mut rig = speaking(&mcp::REVISION_2025_06_18, RelayConfig { max_kept: 10_000, ..RelayConfig::default() });
    for number in 0..100 {
        rig.from_client(&CALL.replace("\"id\":1", &format!("\"id\":\"{number}{}\"", "x".repeat(1000))));
    }
    assert_eq!(rig.at_server().len(), 10);
    assert!(rig.at_client().iter().all(|refusal| refusal.contains("-31004")));
    rig.from_client(CALL);
    assert!(rig.at_client()[0].contains("-31004"), "until some of them are forgotten");
}

/// Payloads that programs write for JSON and most clients cannot read.
const SPOILT: [&str; 24] = [
    r#"{"x":NaN}"#,
    r#"{"x":Infinity}"#,
    r#"{"x":-Infinity}"#,
    r#"{"x":nan}"#,
    r#"{"x":undefined}"#,
    r#"{"x":None}"#,
    r#"{"x":True}"#,
    "{\"x\":\"a\tb\"}",
    "{\"x\":\"a\u{1b}[0mb\"}",
    r#"{"x":1,}"#,
    r#"{"x":[1,2,]}"#,
    r#"{"x":[1,,2]}"#,
    r#"{'x':1}"#,
    r#"{"x":'a'}"#,
    r#"{x:1}"#,
    r#"{"x":01}"#,
    r#"{"x":+1}"#,
    r#"{"x":.5}"#,
    r#"{"x":5.}"#,
    r#"{"x":0x1F}"#,
    r#"{"x":"\x41"}"#,
    r#"{"x":"\u12"}"#,
    r#"{"x" "y"}"#,
    r#"{"x":1 /* one */}"#,
];

// D43.
#[test]
fn an_answer_whose_payload_is_not_json_ends_its_request_and_is_never_passed_on() {
    for spoilt in SPOILT {
        for answer in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{spoilt}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"m","data":{spoilt}}}}}"#),
            format!(r#"{{"result":[{spoilt}],"id":1,"jsonrpc":"2.0"}}"#),
        ] {
            let mut rig = mcp();
            rig.from_client(CALL);
            rig.at_server();
            rig.from_server(&answer);
            let answers = rig.at_client();
            assert!(
                answers.len() == 1 && answers[0].contains(r#""id":1,"error":{"code":-32603"#),
                "{answer}: {answers:?}"
            );
            assert_eq!(drops(&rig), [Rejected::NotJson], "{answer}");
            assert_eq!(rig.relay.in_flight(Side::Client), 0);
        }
    }
}

// D43.
#[test]
fn a_request_whose_params_are_not_json_is_answered_under_its_id() {
    for spoilt in SPOILT {
        let mut rig = mcp();
        rig.from_client(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{spoilt}}}}}"#
        ));
        let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"not JSON"}}"#;
        assert_eq!((rig.at_client(), rig.at_server()), (vec![answer.to_owned()], vec![]), "{spoilt}");
    }
}

const MARK: &str = "\u{feff}";

// D43.
#[test]
fn a_byte_order_mark_before_a_message_is_skipped_in_either_direction() {
    for mark in [MARK.to_owned(), format!(" {MARK}"), format!("{MARK} "), format!("{MARK}\t ")] {
        let mut rig = mcp();
        rig.from_client(&format!("{mark}{CALL}"));
        assert_eq!((rig.at_server(), rig.at_client()), (vec![CALL.to_owned()], vec![]), "{}", mark.escape_unicode());
        rig.from_server(&format!("{mark}{RESULT}"));
        assert_eq!(rig.at_client(), [RESULT]);
        assert_eq!(drops(&rig), []);
    }
}

/// What stands in front of a message on its line.
const NOISE: [&str; 22] = [
    "Loading… ",
    "\u{1b}[0m",
    "\u{1b}[32mready\u{1b}[0m ",
    "\u{1b}[2K\u{1b}[1G",
    "\u{7}",
    "\rLoading\r",
    "\u{8}\u{8}",
    ">>> ",
    "50%|█████     | ",
    "INFO: ",
    "[INFO] ",
    "[2026-11-27T10:00:00Z] ",
    "data: ",
    "{} ",
    "{\"level\":\"info\",\"msg\":\"up\"} ",
    "} ",
    "[] ",
    "null ",
    "\u{feff}Loading ",
    "(node:1) Warning: ",
    "a { b } c ",
    "\"quoted\" ",
];

// D43.
#[test]
fn a_message_behind_noise_on_its_line_is_read_and_the_noise_is_logged() {
    for noise in NOISE {
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        rig.from_server(&format!("{noise}{RESULT}"));
        assert_eq!(rig.at_client(), [RESULT], "{noise:?}");
        assert!(drops(&rig).iter().all(|why| *why == Rejected::NotJson));
        // One that cannot be read ends its request all the same.
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        rig.from_server(&format!(r#"{noise}{{"jsonrpc":"2.0","id":1,"result":{{"x":NaN}}}}"#));
        let answers = rig.at_client();
        assert!(answers.len() == 1 && answers[0].contains("-32603"), "{noise:?}: {answers:?}");
    }
}

// D43: what a broken payload holds was never sent as a message.
#[test]
fn a_message_inside_a_broken_one_is_not_read() {
    for broken in [
        r#"{"jsonrpc":"2.0","id":9,"result":{"x":NaN,"y":{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"x":{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[{"x":{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        let mut rig = mcp();
        rig.from_client(CALL);
        rig.at_server();
        rig.from_server(broken);
        assert_eq!(rig.at_client(), [""; 0], "{broken}");
        assert_eq!(rig.relay.in_flight(Side::Client), 1);
    }
}
