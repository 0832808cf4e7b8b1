//! What is remembered of requests that are over, how much, and for how long (D8, invariants 6 and 8).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionConfig, ConnectionEvent, HandlerEnd, Limit, Reply},
    dialect::{Dialect, acp, lsp, mcp},
    id::RequestId,
    link::{LateKind, Verdict},
    side::Side,
};

use crate::endpoint_rig::*;

const NO_CLOCKS: CallOptions = CallOptions {
    response_timeout: Limit::Never,
    total_timeout: Limit::Never,
    reset_on_progress: false,
    parent: None,
    deadline: None,
    since: None,
    is_watched: false,
};

/// What is told, but for settlements, of a request in this dialect that is cancelled and answered late.
fn told_of_a_cancel(dialect: &'static Dialect, options: &CallOptions) -> (Vec<ConnectionEvent>, usize) {
    let mut rig = Rig::new(ConnectionConfig { reports_cancels: false, ..config(Side::Client, dialect) });
    let now = rig.now;
    let key = rig.conn.request(now, "work", b"", options).expect("it is open");
    rig.say();
    rig.conn.cancel(now, key, Cause::new(CauseCode::Caller));
    assert_eq!(rig.say().len(), 1, "the cancel is sent, whoever hears of it");
    let kept = rig.conn.remembered();
    rig.hear(&[&result("1")]);
    let told =
        core::iter::from_fn(|| rig.conn.poll_event()).filter(|event| !matches!(event, ConnectionEvent::Settled { .. }));
    let told = told.collect();
    assert_eq!(rig.conn.counters().late, 1, "the answer is known as late");
    rig.leaves_nothing();
    (told, kept)
}

#[test]
fn a_cancel_that_nobody_watches_is_forgotten_as_soon_as_it_is_written_where_no_answer_is_owed() {
    let late = || ConnectionEvent::Late { id: RequestId::integer(1), what: LateKind::Result };
    assert_eq!(told_of_a_cancel(&mcp::LATEST_LEGACY, &NO_CLOCKS), (vec![late()], 0));
    assert_eq!(told_of_a_cancel(&acp::V1, &NO_CLOCKS), (vec![late()], 1), "an answer is owed");
}

#[test]
fn the_receipts_of_a_watched_request_are_told_where_no_others_are() {
    let (told, kept) = told_of_a_cancel(&mcp::LATEST_LEGACY, &CallOptions { is_watched: true, ..NO_CLOCKS });
    let outcome = |event: &ConnectionEvent| {
        if let ConnectionEvent::Receipt(notice) = event { Some(notice.receipt.outcome) } else { None }
    };
    let outcomes: Vec<_> = told.iter().filter_map(outcome).map(|outcome| outcome.as_str()).collect();
    assert_eq!(outcomes, ["asked", "sent", "answered_after"]);
    assert_eq!(kept, 1);
}

#[test]
fn a_settled_id_is_remembered_for_ten_minutes_and_no_longer() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "work");
    rig.end(key, OK);
    rig.say();
    rig.pass(secs(599));
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
    rig.pass(secs(1));
    assert_eq!(rig.conn.remembered(), 0);
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.verdicts(), [Verdict::Held]);
    rig.leaves_nothing();
}

#[test]
fn beyond_the_bound_the_oldest_are_forgotten_after_five_seconds() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.remembered = 4;
    let mut rig = Rig::new(config);
    for id in 0..10 {
        let key = rig.serve(&id.to_string(), "work");
        rig.end(key, OK);
    }
    rig.say();
    assert_eq!(rig.conn.remembered(), 10, "the young are kept");
    rig.pass(secs(5));
    assert_eq!(rig.conn.remembered(), 4);
    rig.hear(&[&mcp_cancel("5"), &mcp_cancel("6")]);
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Completed]);
    rig.leaves_nothing();
}

// Invariant 8.
#[test]
fn a_flood_of_short_requests_is_remembered_within_bounds() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.remembered = 16;
    let mut rig = Rig::new(config);
    for id in 0..10_000 {
        rig.conn.handle_input(rig.now, format!("{}\n", call(&id.to_string(), "work")).as_bytes());
        let key = rig.start().remove(0).key;
        rig.conn.ended(rig.now, key, OK);
        let n = rig.conn.pending().len();
        rig.conn.handle_written(rig.now, n);
        assert!(rig.conn.remembered() <= 4 * 16);
    }
    rig.leaves_nothing();
}

// Invariant 8.
#[test]
fn everything_that_an_endpoint_keeps_counts_as_held() {
    type Keep<'a> = &'a dyn Fn(&mut Rig);
    let long = || "x".repeat(100_000);
    let batching = || server(&mcp::REVISION_2025_03_26);
    let keeps: [(&str, usize, Rig, Keep<'_>); 8] = [
        ("half a message", 100_000, batching(), &|rig| rig.conn.handle_input(rig.now, long().as_bytes())),
        ("the params of a request that waits", 100_000, batching(), &|rig| rig.hear(&[&call("1", &long())])),
        ("a message that waits to be written", 100_000, batching(), &|rig| _ = rig.ask(&long(), "")),
        ("requests of ours", 50_000, batching(), &|rig| (0..1000).for_each(|_| _ = rig.call("work"))),
        ("requests of the peer that are over", 10_000, batching(), &|rig| {
            for id in 0..1000 {
                let key = rig.serve(&id.to_string(), "work");
                rig.end(key, OK);
                rig.say();
            }
        }),
        ("early cancels", 10_000, batching(), &|rig| {
            (10..20).for_each(|id| rig.hear(&[&mcp_cancel(&format!("\"{}\"", id.to_string().repeat(500)))]));
            rig.poll();
        }),
        ("answers of a batch", 100_000, batching(), &|rig| {
            rig.hear(&[&format!("[{},{}]", call("1", "work"), call("2", "work"))]);
            let key = rig.start()[0].key;
            rig.end(key, HandlerEnd::Returned(Reply::Result(format!("\"{}\"", long()).as_bytes())));
        }),
        ("events", 1000 * size_of::<ConnectionEvent>(), client(&mcp::LATEST), &|rig| rig.hear(&["garbage"; 1000])),
    ];
    for (what, least, mut rig, keep) in keeps {
        let idle = rig.conn.held();
        keep(&mut rig);
        assert!(rig.conn.held() >= idle + least, "{what}: {} bytes are held", rig.conn.held());
    }
}

// D8: whatever the bounds.
#[test]
fn a_cancelled_id_is_known_until_its_handler_has_ended() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST] {
        let mut config = config(Side::Server, dialect);
        config.remembered = 0;
        config.grace = secs(100_000);
        let mut rig = Rig::new(config);
        let key = rig.serve("1", "work");
        rig.hear(&[&mcp_cancel("1")]);
        rig.verdicts();
        rig.pass(secs(50_000));
        rig.hear(&[&mcp_cancel("1")]);
        assert_eq!(rig.verdicts(), [Verdict::Repeated]);
        rig.end(key, HandlerEnd::Cancelled);
        assert_eq!(rig.say(), [""; 0]);
        rig.leaves_nothing();
    }
}

#[test]
fn cancelled_requests_of_ours_wait_for_their_answer_within_bounds() {
    let mut config = config(Side::Client, &mcp::LATEST);
    config.remembered = 4;
    let mut rig = Rig::new(config);
    let mut keys = Vec::new();
    for _ in 0..10 {
        let key = rig.ask_with("work", "", &NO_CLOCKS);
        rig.say();
        rig.cancel(key);
        rig.say();
        keys.push(key);
    }
    assert_eq!(rig.conn.outgoing().count(), 10);
    rig.pass(secs(5));
    assert_eq!(rig.conn.outgoing().count(), 4);
    rig.hear(&[&result("1"), &result("10")]);
    assert_eq!(rig.conn.counters().late, 2, "an id of ours is known even when its receipt is closed");
    assert_eq!(rig.refusals(), []);
    rig.leaves_nothing();
}

#[test]
fn a_request_without_a_clock_waits_for_ever_and_costs_no_timer() {
    for dialect in [&acp::V1, &lsp::LSP] {
        let mut rig = client(dialect);
        let key = rig.call("work");
        assert_eq!(rig.conn.poll_timeout(), None);
        rig.pass(secs(1_000_000));
        rig.hear(&[&result("1")]);
        assert_eq!(rig.settled()[0].0, key);
        rig.leaves_nothing();
    }
}

#[test]
fn equal_states_hash_alike_whatever_led_to_them() {
    use std::hash::{DefaultHasher, Hasher};
    let digest = |rig: &Rig| {
        let mut hasher = DefaultHasher::new();
        rig.conn.hash_state(rig.now, &mut hasher);
        hasher.finish()
    };
    let run = |detour: bool, late: u64| {
        let mut rig = server(&lsp::LSP);
        if detour {
            let (a, b) = (rig.serve("8", "work"), rig.serve("9", "work"));
            rig.end(b, OK);
            rig.end(a, OK);
            rig.say();
            rig.pass(secs(600));
        }
        rig.pass(secs(late));
        let one = rig.serve("1", "work");
        rig.serve("2", "work");
        rig.hear(&[&lsp_cancel("1")]);
        rig.poll();
        rig.pass(millis(10));
        (digest(&rig), one)
    };
    assert_eq!(run(false, 0).0, run(false, 77).0, "times are relative");
    assert_eq!(run(false, 0).0, run(true, 0).0, "places are not state");
    let mut other = server(&lsp::LSP);
    other.serve("1", "work");
    other.serve("2", "work");
    assert_ne!(digest(&other), run(false, 0).0);
}
