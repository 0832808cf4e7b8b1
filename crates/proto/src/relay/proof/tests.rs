use rescind_testkit::tamper::{every_change_shows, every_check_can_fail};

use super::*;
use crate::{
    cause::{Cause, CauseCode},
    child::ChildState,
    children::{ChildCancel, NewsTaken},
    dialect::{CancelForm, ChildNews, acp, lsp},
    framing::Framing,
    hash::Seed,
    id::RequestId,
    link::Clock,
    outbox::Ticket,
    receipt::{Answer, Receipt},
    relay::{
        ClockRule, End, Link, RelayConfig, Settled, Tag,
        early_welcome::EarlyWelcome,
        exchange::{Cancelling, Exchange, HeldPrompt, Rare, RequestClocks, Running},
        task_work::{TaskAsk, TaskSeen},
    },
    side::Sides,
    slab::{Key, Slab},
    standstill::Standstill,
    table::Ring,
    task::{TaskEnd, TaskStatus},
    timer_queue::{TimerKey, TimerQueue},
    turns::Turns,
    welcome::Welcomes,
};

const SECOND: core::time::Duration = core::time::Duration::from_secs(1);

/// A relay at work: between them its requests show every state that the checks and the hash know.
///
/// Of the client: 1, the turn of session "s", with both clocks; 2, cancelled, whose answer is owed; 3, over; 4, whose
/// answer waits; 5, not written yet. Of the server: a question. And a cancel that is held.
fn at_work() -> Relay {
    let clock = |clock| ClockRule { clock, method: None, name: None, limit: 600 * SECOND };
    let clocks = vec![clock(Clock::Response), clock(Clock::Total)];
    let dialects = Sides { client: Some(&acp::V1), server: Some(&acp::V1) };
    let mut relay = Relay::new(RelayConfig { dialects, clocks, ..RelayConfig::default() });
    let prompt = r#""id":1,"method":"session/prompt","params":{"sessionId":"s"}"#;
    receive(&mut relay, Side::Client, prompt);
    for id in 2..=4 {
        receive(&mut relay, Side::Client, &format!(r#""id":{id},"method":"work""#));
    }
    write(&mut relay, Side::Server);
    receive(&mut relay, Side::Client, r#""method":"$/cancel_request","params":{"requestId":2}"#);
    receive(&mut relay, Side::Client, r#""method":"$/cancel_request","params":{"requestId":99}"#);
    receive(&mut relay, Side::Server, r#""id":7,"method":"session/request_permission","params":{"sessionId":"s"}"#);
    receive(&mut relay, Side::Server, r#""id":3,"result":{}"#);
    write(&mut relay, Side::Server);
    write(&mut relay, Side::Client);
    receive(&mut relay, Side::Server, r#""id":4,"result":{}"#);
    receive(&mut relay, Side::Client, r#""id":5,"method":"work""#);
    relay
}

fn now() -> Instant {
    Instant::ORIGIN + 10 * SECOND
}

fn receive(relay: &mut Relay, from: Side, members: &str) {
    relay.handle_input(now(), from, format!("{{\"jsonrpc\":\"2.0\",{members}}}\n").as_bytes());
    while relay.poll_event().is_some() {}
}

fn write(relay: &mut Relay, to: Side) {
    while !relay.pending(to).is_empty() {
        relay.handle_written(now(), to, relay.pending(to).len());
    }
}

fn key(relay: &Relay, id: i64) -> Key {
    relay.tables[Side::Client].by_requester(&RequestId::integer(id)).expect("it is in flight or remembered")
}

/// The client's request of this id.
fn request(relay: &mut Relay, id: i64) -> &mut Exchange {
    let key = key(relay, id);
    relay.tables[Side::Client].get_mut(key).expect("it is in flight or remembered")
}

fn question_key(relay: &Relay) -> Key {
    relay.tables[Side::Server].by_requester(&RequestId::integer(7)).expect("it is in flight")
}

fn question(relay: &mut Relay) -> &mut Exchange {
    let key = question_key(relay);
    relay.tables[Side::Server].get_mut(key).expect("it is in flight")
}

fn each(relay: &mut Relay, change: impl Fn(&mut Exchange)) {
    for side in Side::BOTH {
        let keys: Vec<_> = relay.tables[side].iter().map(|(key, _)| key).collect();
        for key in keys {
            relay.tables[side].get_mut(key).into_iter().for_each(&change);
        }
    }
}

fn cancelled(relay: &mut Relay) -> &mut Cancelling {
    request(relay, 2).cancel.as_deref_mut().expect("it was cancelled")
}

/// Settles a request of the client, and does nothing else that belongs to its end.
fn retire(relay: &mut Relay, key: Key, at: Instant) {
    let (exchange, rings) = relay.tables[Side::Client].entry_mut(key).expect("it is in flight");
    exchange.down = Down::Done(Settled::Silent, at);
    rings.retire(key, exchange, at, if exchange.is_open_upstream() { Ring::Abandoned } else { Ring::Over });
}

/// A cancel that was asked for.
fn asked() -> Cancelling {
    let cause = Cause::new(CauseCode::Caller);
    let receipt = Receipt { cause, asked: now(), written: None, outcome: Outcome::Asked };
    Cancelling { receipt, frame: None, grace: TimerKey::NOT, stuck: false, works_on: false, is_ordered: false }
}

/// The key of a timer that is due then.
fn due(at: Instant) -> TimerKey {
    TimerQueue::new().arm(at, ())
}

/// A ticket of no frame that waits.
fn void(relay: &Relay) -> Ticket {
    relay.core.links[Side::Client].outbox.clone().push(Tag::Plain.into(), |_| ())
}

#[test]
fn every_check_of_the_relay_can_fail() {
    every_check_can_fail(
        &at_work(),
        Relay::check_invariants,
        include_str!("../proof.rs"),
        &[
            ("arguments are kept of what is over", |relay| {
                let over = RequestKey { from: Side::Client, key: key(relay, 3) };
                relay.core.arguments.get_or_insert_default().keep(over, b"{}");
            }),
            ("which was withdrawn", |relay| cancelled(relay).receipt.outcome = Outcome::NeverSent),
            ("which was withdrawn", |relay| {
                let ticket = void(relay);
                let cancel = cancelled(relay);
                (cancel.receipt.outcome, cancel.receipt.written, cancel.frame) =
                    (Outcome::NeverSent, None, Some(ticket));
            }),
            ("left before the request", |relay| request(relay, 2).up = Up::Queued(Some(void(relay)))),
            ("left before the request", |relay| request(relay, 2).up = Up::Assembling),
            ("waits for an answer that is not queued", |relay| {
                request(relay, 4).down = Down::Answering(Some(void(relay)), Settled::Answered);
            }),
            ("a clock runs for", |relay| request(relay, 1).down = Down::Answering(None, Settled::Answered)),
            ("a turn, load or card is known while it is in flight", |relay| {
                let key = key(relay, 1);
                relay.core.turns.remove(b"\"s\"", key);
            }),
            ("a turn, load or card is known while it is in flight", |relay| {
                let key = key(relay, 1);
                request(relay, 1).clocks = None;
                retire(relay, key, now());
            }),
            ("a turn, load or card is known while it is in flight", |relay| {
                let key = key(relay, 4);
                request(relay, 4).rare().session = Some(b"\"s\"".as_slice().into());
                relay.core.turns.insert(b"\"s\"", key);
            }),
            ("a turn, load or card is known while it is in flight", |relay| {
                relay.core.cards = Turns::new(Seed::new(0))
            }),
            ("a clock runs for", |relay| {
                question(relay).rare().card = due(now() + SECOND);
                question(relay).down = Down::Answering(None, Settled::Answered);
            }),
            ("a prompt waits and is not known to, or is lost", |relay| request(relay, 1).up = Up::Held),
            ("a prompt waits and is not known to, or is lost", |relay| {
                let key = key(relay, 1);
                relay.core.held.insert(b"\"s\"", key);
            }),
            ("a cancel waits for the child", |relay| {
                let running = Some(ChildState::Running);
                let news = ChildNews { session: b"\"c\"", title: None, can_cancel: None, state: running };
                let taken = relay.core.children.take(now(), b"\"s\"", &news, false);
                let NewsTaken::Announced(key) = taken else { panic!("{taken:?}") };
                let frame = Some(relay.core.links[Side::Server].outbox.push(Tag::Plain.into(), |_| ()));
                let cancel = ChildCancel { receipt: asked().receipt, frame };
                relay.core.children.get_mut(key).expect("it is known").cancel = Some(Box::new(cancel));
            }),
            ("a turn or command is known while it is at work", |relay| {
                let key = key(relay, 1);
                relay.core.threads().begin_turn(b"\"t\"", b"\"u\"", key);
            }),
            ("what is at work in a thread or a session is known", |relay| {
                request(relay, 2).rare().thread = Some(Box::new(turn()));
            }),
            ("a task is known while it is at work", |relay| request(relay, 2).rare().task = Some(task())),
            ("a task is known while it is at work", |relay| {
                let key = key(relay, 1);
                relay.core.tasks[Side::Client].insert(b"\"t\"", key);
            }),
            ("the count of our own requests is off", |relay| relay.core.unsent_own[Side::Client] = 1),
            ("a clock stands still for nothing", |relay| relay.core.questions[Side::Client].hold(now())),
            ("a clock stands still for nothing", |relay| question(relay).rare = None),
            ("too many early cancels", |relay| relay.core.config.early_cancels[Side::Client].most = 0),
            ("bytes are held for a backlog", |relay| {
                let outbox = &mut relay.core.links[Side::Server].outbox;
                outbox.push(Tag::Plain.into(), |out| out.resize(4 << 20, 0));
                outbox.leak();
            }),
        ],
    );
}

/// The same with something of everything that the hash knows, whether or not that can be at one time; two requests of
/// the client settled in this order, at these times.
fn with_everything(settled: [(i64, Instant); 2]) -> Relay {
    let mut relay = at_work();
    receive(&mut relay, Side::Server, r#""method":"$/cancel_request","params":{"requestId":99}"#);
    relay.core.negotiation.saw_initialize(Framing::Line, Some(br#"{"protocolVersion":"2026-07-28"}"#));
    relay.core.negotiation.saw_initialize_result(b"{}");
    for side in Side::BOTH {
        relay.core.negotiation.saw_cancel(side, Framing::Line, lsp::LSP.cancel);
        relay.core.links[side].stalled = due(now() + SECOND);
        relay.core.links[side].outbox.push(Tag::Plain.into(), |out| out.extend_from_slice(b"{}"));
        relay.core.questions[side].hold(now());
    }
    let of = RequestKey { from: Side::Client, key: key(&relay, 1) };
    each(&mut relay, |exchange| {
        exchange.renamed = Some(RequestId::integer(1000));
        exchange.token = Some(RequestId::integer(1));
        let rare = exchange.rare.get_or_insert_default();
        rare.partial = Some(RequestId::integer(2));
        rare.card = due(now() + 2 * SECOND);
        rare.held = Some(Box::new(HeldPrompt { body: Box::new([]), splice: None, due: due(now() + SECOND) }));
        rare.task = Some(TaskPart::Became(b"\"t\"".as_slice().into()));
        let cancel = exchange.cancel.get_or_insert_with(|| Box::new(asked()));
        (cancel.grace, cancel.works_on) = (due(now() + 5 * SECOND), true);
        let running = Running { limit: SECOND, until: now() + SECOND };
        exchange.clocks =
            Some(Box::new(RequestClocks { response: Some(running), total: Some(running), timer: due(now() + SECOND) }));
    });
    request(&mut relay, 5).rare.as_mut().expect("each has it").task =
        Some(TaskPart::Cancels(of, b"\"u\"".as_slice().into()));
    question(&mut relay).rare().session = Some(b"\"s\"".as_slice().into());
    relay.core.muted.push((b"\"s\"".as_slice().into(), key(&relay, 1)));
    relay.bundles.insert(Box::new([Tag::Plain]));
    relay.tombstones_due = due(now() + 5 * SECOND);
    request(&mut relay, 3).rare = None;
    for (id, at) in settled {
        let key = key(&relay, id);
        retire(&mut relay, key, at);
    }
    relay
}

#[test]
fn every_change_of_the_relay_shows_in_its_hash() {
    every_change_shows(
        &with_everything([(1, now()), (2, now())]),
        |relay, digest| relay.hash_state(now(), digest),
        &[
            ("which revision was settled", |relay| {
                relay.core.negotiation.saw_initialize_result(br#"{"protocolVersion":"2024-11-05"}"#);
            }),
            ("how far the handshake is", |relay| relay.core.negotiation.saw_initialize(Framing::Line, None)),
            ("what the client declared of cancels", |relay| {
                let gate = br#"{"clientCapabilities":{"cancellation":{"request":true}}}"#;
                relay.core.negotiation.saw_initialize(Framing::Line, Some(gate));
                relay.core.negotiation.saw_initialize_result(b"{}");
            }),
            ("what the server declared of cancels", |relay| {
                relay
                    .core
                    .negotiation
                    .saw_initialize_result(br#"{"agentCapabilities":{"cancellation":{"request":true}}}"#);
            }),
            ("what the client declared of tasks", |relay| {
                relay.core.negotiation.saw_initialize(Framing::Line, Some(br#"{"capabilities":{"tasks":{}}}"#));
                relay.core.negotiation.saw_initialize_result(b"{}");
            }),
            ("what the server declared of tasks", |relay| {
                relay.core.negotiation.saw_initialize_result(br#"{"capabilities":{"tasks":{}}}"#);
            }),
            ("the last request", |relay| relay.core.negotiation.saw_last_request()),
            ("the method in which a side spelled its cancels", |relay| {
                for side in Side::BOTH {
                    let mixed = CancelForm { method: "$/cancel_request", ..lsp::LSP.cancel };
                    relay.core.negotiation.saw_cancel(side, Framing::Line, mixed);
                }
            }),
            ("the member in which a side spelled its cancels", |relay| {
                for side in Side::BOTH {
                    let kotlin = CancelForm { id: "requestId", ..lsp::LSP.cancel };
                    relay.core.negotiation.saw_cancel(side, Framing::Line, kotlin);
                }
            }),
            ("the reason in which a side spelled its cancels", |relay| {
                for side in Side::BOTH {
                    let worded = CancelForm { reason: Some("reason"), ..lsp::LSP.cancel };
                    relay.core.negotiation.saw_cancel(side, Framing::Line, worded);
                }
            }),
            ("a spelling that was taken back", |relay| {
                for side in Side::BOTH {
                    relay.core.negotiation.saw_cancel(side, Framing::Line, acp::V1.cancel);
                }
            }),
            ("what a side's bad input costs", |relay| both(relay, |link| link.own_backlog = 9)),
            ("the end of a side's output", |relay| both(relay, |link| link.ended = true)),
            ("a side that cannot be written to", |relay| both(relay, |link| link.write_closed = true)),
            ("when a side is given up", |relay| both(relay, |link| link.stalled = due(now() + 2 * SECOND))),
            ("that a side is given up", |relay| both(relay, |link| link.stalled = TimerKey::NOT)),
            ("half a message", |relay| {
                both(relay, |link| {
                    assert!(link.decoder.as_mut().is_some_and(|it| it.decode(&mut &b"{"[..]).is_none()))
                });
            }),
            ("a frame that waits", |relay| {
                both(relay, |link| _ = link.outbox.push(Tag::Refusal.into(), |out| out.push(0)))
            }),
            ("a frame that has begun to leave", |relay| {
                both(relay, |link| link.outbox.written(1, |_, _| ()));
            }),
            ("what waits", |relay| both(relay, |link| link.outbox.clear(|_| ()))),
            ("the id of a request", |relay| each(relay, |exchange| exchange.id = RequestId::integer(1001))),
            ("its id on the other side", |relay| {
                each(relay, |exchange| exchange.renamed = Some(RequestId::integer(1001)))
            }),
            ("that its id is another there", |relay| each(relay, |exchange| exchange.renamed = None)),
            ("its token", |relay| each(relay, |exchange| exchange.token = Some(RequestId::integer(1001)))),
            ("that it has a token", |relay| each(relay, |exchange| exchange.token = None)),
            ("its token of partial results", |relay| rare(relay, |rare| rare.partial = Some(RequestId::integer(1001)))),
            ("that it has one", |relay| rare(relay, |rare| rare.partial = None)),
            ("that a later turn has begun", |relay| rare(relay, |rare| rare.is_followed = true)),
            ("its session", |relay| question(relay).rare().session = Some(b"\"t\"".as_slice().into())),
            ("its method", |relay| {
                let method = relay.core.methods.intern("other");
                each(relay, |exchange| exchange.method = method);
            }),
            ("its dialect", |relay| each(relay, |exchange| exchange.dialect = &lsp::LSP)),
            ("the dialect of the other side", |relay| each(relay, |exchange| exchange.upstream_dialect = &lsp::LSP)),
            ("that it opens the session", |relay| each(relay, |exchange| exchange.rare().is_handshake = true)),
            ("that it is a task", |relay| each(relay, |exchange| exchange.is_task = true)),
            ("that its id was used again", |relay| each(relay, |exchange| exchange.replaced = true)),
            ("the order of a session's turns", |relay| {
                let (key, other) = (key(relay, 1), key(relay, 2));
                relay.core.turns.remove(b"\"s\"", key);
                [other, key].into_iter().for_each(|key| relay.core.turns.insert(b"\"s\"", key));
            }),
            ("the order of a session's cards", |relay| {
                let (own, other) = (question_key(relay), key(relay, 2));
                relay.core.cards.remove(b"\"s\"", own);
                [other, own].into_iter().for_each(|key| relay.core.cards.insert(b"\"s\"", key));
            }),
            ("when its card is closed", |relay| rare(relay, |rare| rare.card = due(now() + SECOND))),
            ("that its card is closed some time", |relay| rare(relay, |rare| rare.card = TimerKey::NOT)),
            ("how long a prompt waits for the turn before it", |relay| {
                rare(relay, |rare| rare.held.as_mut().expect("each has it").due = due(now() + 2 * SECOND));
            }),
            ("that it waits", |relay| rare(relay, |rare| rare.held = None)),
            ("the task that it became", |relay| {
                question(relay).rare.get_or_insert_default().task = Some(TaskPart::Became(b"\"v\"".as_slice().into()));
            }),
            ("that it became a task", |relay| rare(relay, |rare| rare.task = None)),
            ("the task that it cancels", |relay| {
                let of = RequestKey { from: Side::Client, key: key(relay, 1) };
                own(relay).task = Some(TaskPart::Cancels(of, b"\"v\"".as_slice().into()));
            }),
            ("the request whose task it cancels", |relay| {
                let of = RequestKey { from: Side::Client, key: key(relay, 2) };
                own(relay).task = Some(TaskPart::Cancels(of, b"\"u\"".as_slice().into()));
            }),
            ("whose request became the task", |relay| {
                let of = RequestKey { from: Side::Server, key: key(relay, 1) };
                own(relay).task = Some(TaskPart::Cancels(of, b"\"u\"".as_slice().into()));
            }),
            ("that it cancels a task", |relay| own(relay).task = None),
            ("that it asks for the status of a task", |relay| {
                let of = RequestKey { from: Side::Client, key: key(relay, 1) };
                own(relay).task = Some(TaskPart::Gets(of));
            }),
            ("that it is about a task", |relay| {
                let of = key(relay, 1);
                own(relay).task = Some(TaskPart::About(of, TaskAsk::Status));
            }),
            ("that it is a task", |relay| own(relay).task = Some(task())),
            ("that tasks are known", |relay| {
                let of = key(relay, 1);
                relay.core.tasks[Side::Client].insert(b"\"t\"", of);
            }),
            ("which answer waits", |relay| {
                request(relay, 4).down = Down::Answering(Some(void(relay)), Settled::Answered)
            }),
            ("what the answer that waits is", |relay| {
                let Down::Answering(_, how) = &mut request(relay, 4).down else { panic!("its answer waits") };
                *how = Settled::AnsweredHere { code: Some(1) };
            }),
            ("what its requester was told", |relay| {
                each(relay, |exchange| {
                    if exchange.down == Down::Waiting {
                        exchange.down = Down::Answering(None, Settled::Answered);
                    }
                });
            }),
            ("how it was settled", |relay| request(relay, 3).down = Down::Done(Settled::Gone, now())),
            ("that it was settled", |relay| request(relay, 3).down = Down::Waiting),
            ("whose it is", |relay| request(relay, 3).down = Down::Ours),
            ("which request waits to be written", |relay| {
                let ticket = relay.core.links[Side::Server].outbox.clone().push(Tag::Plain.into(), |_| ());
                request(relay, 5).up = Up::Queued(Some(ticket));
            }),
            ("what the other side knows of it", |relay| {
                each(relay, |exchange| {
                    if !matches!(exchange.up, Up::Queued(_)) {
                        exchange.up = Up::Lost;
                    }
                });
            }),
            ("who cancelled it", |relay| cancels(relay, |cancel| cancel.receipt.cause.code = CauseCode::Policy)),
            ("what came of the cancel", |relay| cancels(relay, |cancel| cancel.receipt.outcome = Outcome::Unknown)),
            ("whether the cancel was written", |relay| {
                cancels(relay, |cancel| cancel.receipt.written = cancel.receipt.written.xor(Some(now())));
            }),
            ("whether the cancel waits", |relay| {
                let ticket = void(relay);
                cancels(relay, |cancel| cancel.frame = cancel.frame.xor(Some(ticket)));
            }),
            ("that it is stuck", |relay| cancels(relay, |cancel| cancel.stuck ^= true)),
            ("that the operator has ordered it", |relay| cancels(relay, |cancel| cancel.is_ordered ^= true)),
            ("that its work goes on", |relay| {
                request(relay, 3).cancel.as_mut().expect("each was cancelled").works_on = false;
            }),
            ("when something of its work last came", |relay| rare(relay, |rare| rare.late.at = now())),
            ("when the grace ends", |relay| cancels(relay, |cancel| cancel.grace = due(now() + SECOND))),
            ("whether the grace goes on", |relay| cancels(relay, |cancel| cancel.grace = TimerKey::NOT)),
            ("that it was cancelled", |relay| each(relay, |exchange| exchange.cancel = None)),
            ("when its response clock ends", |relay| clock(relay, |clocks| &mut clocks.response)),
            ("when its total clock ends", |relay| clock(relay, |clocks| &mut clocks.total)),
            ("when the timer of its clocks is due", |relay| clocks(relay, |clocks| clocks.timer = due(now()))),
            ("whether that timer is armed", |relay| clocks(relay, |clocks| clocks.timer = TimerKey::NOT)),
            ("whether a response clock runs", |relay| clocks(relay, |clocks| clocks.response = None)),
            ("whether a total clock runs", |relay| clocks(relay, |clocks| clocks.total = None)),
            ("how long a clock has stood still", |relay| {
                for side in Side::BOTH {
                    relay.core.questions[side] = Standstill::new();
                    relay.core.questions[side].hold(Instant::ORIGIN);
                    (0..if side == Side::Client { 1 } else { 0 }).for_each(|_| relay.core.questions[side].hold(now()));
                }
            }),
            ("who holds a clock", |relay| {
                Side::BOTH.into_iter().for_each(|side| relay.core.questions[side].hold(now()))
            }),
            ("which cancels are held", |relay| {
                for side in Side::BOTH {
                    relay.early_cancels[side].claim(&RequestId::integer(99));
                    relay.early_cancels[side].hold(now(), RequestId::integer(98), None);
                }
            }),
            ("how long they are held", |relay| {
                for side in Side::BOTH {
                    relay.early_cancels[side].claim(&RequestId::integer(99));
                    relay.early_cancels[side].hold(now() + SECOND, RequestId::integer(99), None);
                }
            }),
            ("since when a request is remembered", |relay| {
                *relay = with_everything([(1, Instant::ORIGIN), (2, now())]);
            }),
            ("which request is remembered", |relay| *relay = with_everything([(2, now()), (1, now())])),
            ("the next id of ours", |relay| {
                Side::BOTH.into_iter().for_each(|side| drop(relay.tables[side].own_id(&RequestId::integer(1))));
            }),
            ("what a batch holds", |relay| {
                relay.bundles = Slab::new();
                relay.bundles.insert(Box::new([Tag::Refusal]));
            }),
            ("that a batch waits", |relay| _ = relay.bundles.insert(Box::new([]))),
            ("what a request has to do with a thread", |relay| own(relay).thread = Some(Box::new(turn()))),
            ("what is known of threads", |relay| {
                relay.core.threads().note_child(b"\"t\"", b"\"u\"");
            }),
            ("which session is muted", |relay| relay.core.muted[0].0 = b"\"t\"".as_slice().into()),
            ("whose turn is muted", |relay| relay.core.muted[0].1 = key(relay, 2)),
            ("when something is forgotten", |relay| relay.tombstones_due = due(now() + SECOND)),
            ("that something will be forgotten", |relay| relay.tombstones_due = TimerKey::NOT),
            ("that what waits for a server is held back", |relay| relay.core.links.server.gated = true),
            ("what a client is welcomed with", |relay| {
                relay.core.welcome = Some(Box::new(EarlyWelcome::new(Welcomes::default())));
            }),
            ("what a new server has to be told", |relay| relay.core.restart = Some(Box::default())),
            ("that the server has ended", |relay| relay.core.server_end = Some(End::Closed)),
        ],
    );
}

fn turn() -> ThreadPart {
    ThreadPart::Turn {
        thread: b"\"t\"".as_slice().into(),
        turn: b"\"u\"".as_slice().into(),
        parent: None,
        is_alone: false,
    }
}

fn both(relay: &mut Relay, change: impl Fn(&mut Link)) {
    Side::BOTH.into_iter().for_each(|side| change(&mut relay.core.links[side]));
}

fn rare(relay: &mut Relay, change: impl Fn(&mut Rare)) {
    each(relay, |exchange| exchange.rare.iter_mut().for_each(|rare| change(rare)));
}

fn own(relay: &mut Relay) -> &mut Rare {
    request(relay, 5).rare.as_mut().expect("it has it")
}

fn cancels(relay: &mut Relay, change: impl Fn(&mut Cancelling)) {
    each(relay, |exchange| change(exchange.cancel.as_mut().expect("each was cancelled")));
}

fn clocks(relay: &mut Relay, change: impl Fn(&mut RequestClocks)) {
    each(relay, |exchange| change(exchange.clocks.as_mut().expect("each has clocks")));
}

fn clock(relay: &mut Relay, which: impl Fn(&mut RequestClocks) -> &mut Option<Running>) {
    clocks(relay, |clocks| which(clocks).as_mut().expect("both run").until = now() + 2 * SECOND);
}

/// A request in flight. Behind another, it got its place while that one was still remembered.
fn alone(is_behind: bool, end: Instant) -> Relay {
    let mut relay = Relay::new(RelayConfig::default());
    if is_behind {
        relay.handle_input(Instant::ORIGIN, Side::Client, b"{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"work\"}\n");
        relay.handle_written(Instant::ORIGIN, Side::Server, relay.pending(Side::Server).len());
        relay.handle_input(Instant::ORIGIN, Side::Server, b"{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":{}}\n");
        relay.handle_written(Instant::ORIGIN, Side::Client, relay.pending(Side::Client).len());
    }
    receive(&mut relay, Side::Client, r#""id":1,"method":"work""#);
    write(&mut relay, Side::Server);
    relay.handle_timeout(end);
    assert_eq!((relay.in_flight(Side::Client), relay.remembered(Side::Client)), (1, 0));
    relay
}

fn task() -> TaskPart {
    let opened_by = Slab::new().insert(());
    let seen = TaskSeen { status: TaskStatus::Working, look_after: None };
    let like = RequestId::integer(0);
    TaskPart::Work(Box::new(TaskWork::new(b"\"t\"".as_slice().into(), opened_by, seen, now(), like)))
}

#[test]
fn every_change_of_a_task_shows_in_the_hash_of_the_relay() {
    fn work(relay: &mut Relay) -> &mut TaskWork {
        match &mut own(relay).task {
            Some(TaskPart::Work(work)) => work,
            _ => panic!("it is a task at work"),
        }
    }
    let mut start = with_everything([(1, now()), (2, now())]);
    own(&mut start).task = Some(task());
    every_change_shows(
        &start,
        |relay, digest| relay.hash_state(now(), digest),
        &[
            ("its id", |relay| work(relay).task = b"\"u\"".as_slice().into()),
            ("its status", |relay| work(relay).status = TaskStatus::InputRequired),
            ("whose cancel it tells of", |relay| work(relay).origin = Some(key(relay, 1))),
            ("what it led to", |relay| work(relay).delivered = Some(Answer::Error)),
            ("how its server wants to be asked", |relay| work(relay).look_after = Some(SECOND)),
            ("how often it was asked for", |relay| work(relay).looks = 1),
            ("when it is asked for next", |relay| work(relay).next_look = due(now() + SECOND)),
            ("that it was asked for the last time", |relay| work(relay).is_last_look = true),
            ("that its session is lost", |relay| work(relay).is_of_lost_session = true),
            ("who waited for it", |relay| work(relay).waits = vec![key(relay, 1)]),
            ("how it ended", |relay| work(relay).ended = Some(TaskEnd::Cancelled)),
        ],
    );
}

// The hash names by that place what is settled, what is muted, and whose task is being cancelled.
#[test]
fn where_a_request_lies_shows_in_the_hash_of_the_relay() {
    const END: Instant = Instant::after_origin(core::time::Duration::from_secs(600));
    every_change_shows(
        &alone(false, END),
        |relay, digest| relay.hash_state(END, digest),
        &[("its place", |relay| {
            *relay = alone(true, END);
        })],
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "too many early cancels")]
fn a_debug_build_checks_a_relay_after_every_input() {
    let mut relay = at_work();
    relay.core.config.early_cancels[Side::Client].most = 0;
    relay.handle_timeout(now());
}
