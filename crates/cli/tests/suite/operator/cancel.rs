//! `rescind cancel`.

use std::io::{BufRead, BufReader};

use rescind_feed::{Answer, Cancel, CancelOrder, Outcome, Request, Settled, SettledHow, Side, State};
use rescind_testkit::fake_shim::{FakeShim, asked, request};

use crate::{operator::Sockets, shim::terminal::Terminal};

/// What was ordered so far.
fn orders(shim: &FakeShim) -> Vec<CancelOrder> {
    shim.wait_for(|seen| Some(seen.orders.clone()))
}

fn from_server(id: u64) -> Request {
    Request { key: format!("s{id}"), from: Side::Server, ..request(id, "sampling/createMessage", None, 0) }
}

#[test]
fn a_receipt_is_told_as_it_becomes_known() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711");
    shim.put([request(17, "tools/call", Some("index"), 0), request(18, "tools/call", None, 0)]);
    let arguments = ["cancel", "4711/17", "--reason", "too slow", "--wait", "1h"];
    let mut child = sockets.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "4711/17: cancelling…");
    let become_known = |outcome, after: Option<u64>, late: u64| {
        shim.change("c17", |request| {
            let mut cancel = request.cancel.take().unwrap();
            (cancel.outcome, cancel.after, cancel.answer) = (outcome, after, after.map(|_| Answer::Result));
            request.late = (late > 0).then_some(rescind_feed::Late { at: 9, answers: 0, notices: late });
            request.cancel = Some(cancel.in_words(request.late.as_ref()));
        });
    };
    become_known(Outcome::Sent, None, 0);
    assert_eq!(lines.next().unwrap(), "4711/17: sent; MCP does not confirm");
    become_known(Outcome::Sent, None, 1);
    assert_eq!(lines.next().unwrap(), "4711/17: progress still arriving");
    become_known(Outcome::AnsweredAfter, Some(3_200_000), 1);
    assert_eq!(lines.next().unwrap(), "4711/17: answered after 3.2 s");
    // Nothing more can be learnt, so it does not wait for the hour to pass.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let expected = CancelOrder { requests: vec!["c17".into()], reason: Some("too slow".into()), turn_only: false };
    assert_eq!(orders(&shim), [expected]);
    assert!(shim.request("c18").is_some_and(|request| request.cancel.is_none()));
}

#[test]
fn the_session_may_be_left_out_where_only_one_fits() {
    let sockets = Sockets::new();
    let (one, two) = (sockets.shim("1"), sockets.shim("2"));
    one.put([request(17, "tools/call", None, 0), request(3, "tools/call", None, 0)]);
    two.put([request(3, "tools/call", Some("b"), 0), from_server(3)]);
    let said = sockets.say(&["cancel", "17", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "1/17: cancelling…\n"));
    let said = sockets.say(&["cancel", "3", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let lines: Vec<_> = said.stderr.lines().collect();
    assert_eq!(lines[0], "error: 3: matches 3 requests in flight");
    assert_eq!(lines[1], "  1/client:3  tools/call  0 µs");
    assert_eq!(lines[2], "  2/client:3  tools/call:b  0 µs");
    assert_eq!(lines[3], "  2/server:3  sampling/createMessage  0 µs");
    assert_eq!(sockets.say(&["cancel", "--session", "2", "3", "--no-wait"]).code, 1, "still two");
    assert_eq!(orders(&two), []);
    let said = sockets.say(&["cancel", "2/server:3", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "2/server:3: cancelling…\n"));
    assert_eq!(orders(&two)[0].requests, ["s3"]);
    // As `ps` lists it, a name has one meaning, whatever the other side calls its own.
    two.put([from_server(4), request(4, "tools/call", None, 0)]);
    let said = sockets.say(&["cancel", "2/4", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "2/4: cancelling…\n"));
    assert_eq!(orders(&two)[1].requests, ["c4"]);
    let said = sockets.say(&["cancel", "--session", "2", "client:3", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "2/3: cancelling…\n"));
}

#[test]
fn what_was_accepted_stays_so_when_its_shim_is_killed() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711");
    shim.put([request(17, "tools/call", None, 0)]);
    let arguments = ["cancel", "4711/17", "--wait", "500000000000y"];
    let mut child = sockets.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "4711/17: cancelling…");
    drop(shim);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), "note: 4711: its shim is gone\n"));
}

#[test]
fn ids_that_are_strings_can_be_named() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    let of_id = |key: &str, id: &str| Request { key: key.into(), id: id.into(), ..request(1, "m", None, 0) };
    shim.put([of_id("a", "17"), of_id("b", "\"17\""), of_id("c", "\"req-1\""), of_id("d", "\"a b/c\"")]);
    let cancelled = |name: &str| {
        let said = sockets.say(&["cancel", name, "--no-wait"]);
        assert_eq!(said.code, 0, "{name}: {said:?}");
        orders(&shim).pop().unwrap().requests
    };
    assert_eq!(cancelled("1/17"), ["a"]);
    assert_eq!(cancelled("1/\"17\""), ["b"]);
    assert_eq!(cancelled("req-1"), ["c"]);
    assert_eq!(cancelled("1/a b/c"), ["d"]);
}

#[test]
fn what_is_over_is_not_cancelled_and_it_says_why() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    let settled = Some(Settled { at: 1_000_000, how: SettledHow::Error, code: Some(-32_603) });
    shim.put([Request { state: State::Ended, settled, ..request(1, "m", None, 0) }]);
    shim.set_now(4_000_000);
    let said = sockets.say(&["cancel", "1/1"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert_eq!(said.stderr, "1/1: no longer in flight: error -32603, 3.0 s ago\n");
    let said = sockets.say(&["cancel", "1/99"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.starts_with("error: 1/99: no such request\nhint: "), "{}", said.stderr);
    // The name of a session alone.
    let _other = sockets.shim("2");
    let said = sockets.say(&["cancel", "2"]);
    let words = "error: 2: is a session, and no request has this id\n\
                 hint: name a request as `rescind ps` lists it, or use --session 2 --all\n";
    assert_eq!((said.code, said.stderr.as_str()), (1, words));
    // However the session is named.
    for unknown in [&["7/1"][..], &["1", "--session", "7"], &["--all", "--session", "7"]] {
        let said = sockets.say(&[&["cancel"], unknown].concat());
        let words = "error: 7: no such session\nhint: `rescind ps --sessions` lists all sessions\n";
        assert_eq!((said.code, said.stderr.as_str()), (1, words), "{unknown:?}");
    }
    let said = sockets.say(&["cancel", "1/99", "1/99", "1/1", "1/1"]);
    assert_eq!((said.code, said.stderr.lines().count()), (1, 3), "each is said once: {said:?}");
    // It ends between the look and the order.
    shim.put([request(2, "m", None, 0)]);
    shim.on_cancel(|request, reason| request.cancel = Some(asked(0, reason)));
    assert_eq!(sockets.say(&["cancel", "1/2", "--no-wait"]).code, 0);
    let said = sockets.say(&["cancel", "1/2", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, "1/2: already cancelled: cancelling…\n"));
}

#[test]
fn more_than_one_is_asked_about_first() {
    let sockets = Sockets::new();
    let (one, two) = (sockets.shim("1"), sockets.shim("2"));
    one.put([request(1, "tools/call", Some("a"), 0), request(2, "tools/call", Some("b"), 50_000_000)]);
    two.put([request(3, "prompts/get", None, 0)]);
    one.set_now(60_000_000);
    two.set_now(60_000_000);
    let said = sockets.say(&["cancel", "--all"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr.contains("would cancel 3 requests, and cannot ask without a terminal\nhint: use --yes"),
        "{said:?}"
    );
    let answered = |answer: &str| {
        let terminal = Terminal::open();
        let mut child = sockets.command(&["cancel", "--all", "--no-wait"]).stdin(terminal.end()).spawn().unwrap();
        terminal.type_in(answer);
        child.wait().unwrap().code()
    };
    assert_eq!(answered("\n"), Some(1));
    assert_eq!((orders(&one).len(), orders(&two).len()), (0, 0));
    // One needs no question; a filter can leave one.
    let said = sockets.say(&["cancel", "--method", "tools/call", "--older-than", "30s", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "1/1: cancelling…\n"));
    assert_eq!(answered("yes\n"), Some(0));
    assert_eq!(
        (orders(&one)[1].requests.clone(), orders(&two)[0].requests.clone()),
        (vec!["c2".into()], vec!["c3".into()])
    );
    let said = sockets.say(&["cancel", "--all", "--yes"]);
    let words = "error: rescind cancel: nothing to cancel: no request in flight matches, or each that matches is cancelled already\n\
                 hint: `rescind ps` lists the requests in flight\n";
    assert_eq!((said.code, said.stderr.as_str()), (1, words), "all are cancelled");
}

#[test]
fn an_order_names_what_it_means() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(1, "m", None, 0), request(2, "m", None, 0)]);
    for (wrong, problem) in [
        (
            &["cancel"][..],
            "error: rescind cancel: no request was named\nhint: name requests as `rescind ps` lists them",
        ),
        (
            &["cancel", "--session", "1"],
            "error: rescind cancel: no request was named\nhint: add --all for every request",
        ),
        (&["cancel", "1/1", "--all"], "error: the argument '[SESSION/ID]...' cannot be used with '--all'"),
        (&["cancel", "/17"], "error: invalid value '/17' for '[SESSION/ID]...': has no session before the `/`; "),
        (&["cancel", "1/"], "error: invalid value '1/' for '[SESSION/ID]...': has no id; "),
        (
            &["cancel", "1/\"a"],
            "error: invalid value '1/\"a' for '[SESSION/ID]...': the id is not a whole JSON string; ",
        ),
        (&["cancel", "1/1", "--wait", "5"], "error: invalid value '5' for '--wait <DURATION>': has no unit; "),
    ] {
        let said = sockets.say(wrong);
        assert_eq!(said.code, 2, "{wrong:?}");
        assert!(said.stderr.starts_with(problem), "{wrong:?}: {}", said.stderr);
    }
    // The same request twice is one.
    let said = sockets.say(&["cancel", "1/1", "1", "client:1", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "1/1: cancelling…\n"));
    assert_eq!(orders(&shim).len(), 1);
}

/// MCP-C03. The client is answered all the same.
#[test]
fn a_cancel_that_cannot_be_sent_is_not_a_success() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(0, "initialize", None, 0)]);
    shim.on_cancel(|request, reason| {
        let cancel = Cancel { outcome: Outcome::NotSendable, ..asked(0, reason) };
        (request.state, request.cancel) = (State::Answering, Some(cancel.in_words(None)));
    });
    let said = sockets.say(&["cancel", "1/0"]);
    let words = "1/0: not sent: MCP does not allow this request to be cancelled; the server was not told, and the client \
                 gets an error\n";
    assert_eq!((said.code, said.stdout.as_str()), (1, words));
}

#[test]
fn a_long_reason_is_cut_and_a_harmful_one_is_only_text() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(1, "m", None, 0), request(2, "m", None, 0)]);
    let said = sockets.say(&["cancel", "1/1", "--no-wait", "--reason", &"é".repeat(50_000)]);
    assert_eq!((said.code, said.stderr.as_str()), (0, "note: the reason is cut at 1 KiB\n"));
    assert_eq!(orders(&shim)[0].reason.as_deref().map(str::len), Some(1024));
    shim.on_cancel(|request, reason| {
        let mut cancel = asked(0, reason);
        cancel.words = format!("sent {}", reason.unwrap_or_default());
        request.cancel = Some(cancel);
    });
    let said = sockets.say(&["cancel", "1/2", "--no-wait", "--reason", "\u{1b}[2J\u{202e}why"]);
    assert_eq!(said.stdout, "1/2: sent \u{fffd}[2J\u{fffd}why\n");
    assert_eq!(orders(&shim)[1].reason.as_deref(), Some("\u{1b}[2J\u{202e}why"));
}

#[test]
fn a_stopped_shim_is_a_failure_that_is_said() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(1, "m", None, 0)]);
    shim.freeze();
    let said = sockets.say(&["cancel", "1/1"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.starts_with("error: 1: not answering\n"), "{}", said.stderr);
}

#[test]
fn thousands_are_cancelled_in_orders_of_a_thousand() {
    let sockets = Sockets::new();
    let shims: Vec<FakeShim> = ["1", "2", "3"].map(|name| sockets.shim(name)).into();
    for shim in &shims {
        shim.set_now(10);
        shim.put((0..2_500).map(|id| request(id, "tools/call", None, id / 700)));
        shim.on_cancel(|request, reason| {
            request.cancel = Some(asked(0, reason));
            request.state = State::Cancelling;
        });
    }
    let said = sockets.say(&["cancel", "--all", "--yes", "--no-wait"]);
    assert_eq!((said.code, said.stdout.lines().count()), (0, 7_500), "{}", said.stderr);
    for shim in &shims {
        assert_eq!(orders(shim).iter().map(|order| order.requests.len()).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    }
}
