use core::time::Duration;

use rescind_testkit::tamper::{every_change_shows, every_check_can_fail};

use super::*;
use crate::{
    cause::{Cause, CauseCode},
    connection::{
        CallOptions, ConnectionConfig, ConnectionEvent, HandlerEnd, IncomingKey, Limit, OutgoingKey, Payload, Reply,
        batch::Batch,
        incoming::{Caused, Incoming, Stop},
        link::Tag,
        outgoing::Reported,
    },
    dialect::{acp, lsp, mcp},
    frame::Params,
    framing::Framing,
    hash::Seed,
    holder::Holder,
    id::{IncomingId, RequestId},
    outbox::Ticket,
    rule::Rule,
    side::Side,
    slab::Slab,
    timer_queue::TimerKey,
    tombstones::SettledAs,
    turns::Turns,
};

const SECOND: Duration = Duration::from_secs(1);

/// Requests of the client, by id: one that is served with a request of ours, a question to a person, one that was
/// cancelled and is stopping, one that waits for a slot, one whose answer waits, one that is over, one with the
/// last slot, one of a batch that waits, too, one that waits before that.
const SERVED: i64 = 1;
const QUESTION: i64 = 2;
const STOPPING: i64 = 3;
const WAITING: i64 = 4;
const ANSWERING: i64 = 5;
const OVER: i64 = 6;
const BUSY: i64 = 7;
const BATCHED: i64 = 8;
const NEXT: i64 = 9;

/// Requests of ours, by id: one in flight, with a token and clocks; one that serves a request of the client; one that
/// was cancelled; one that was cancelled and whose caller waits all the same; one that is not written yet.
const OPEN: i64 = 1;
const CHILD: i64 = 2;
const CANCELLED: i64 = 3;
const PATIENT: i64 = 4;
const UNSENT: i64 = 5;

/// A server at work, and a cancel that is held: between them its requests show what the checks look at.
fn at_work() -> Connection {
    let settings = ConnectionConfig::new(Side::Server);
    let mut connection =
        Connection::new(ConnectionConfig { dialect: Some(&mcp::REVISION_2025_03_26), max_running: 3, ..settings });
    let machine = &mut connection;
    let end = |machine: &mut Connection, id| {
        receive(machine, &format!(r#""id":{id},"method":"work""#));
        machine.ended(now(), IncomingKey(incoming(machine, id)), HandlerEnd::Returned(Reply::Result(b"{}")));
    };
    end(machine, OVER);
    write(machine);
    ask(machine, br#"{"_meta":{"progressToken":"t"}}"#, None);
    for id in [SERVED, STOPPING] {
        receive(machine, &format!(r#""id":{id},"method":"work""#));
    }
    receive(machine, &format!(r#""id":{QUESTION},"method":"elicitation/create""#));
    receive(machine, r#""method":"notifications/cancelled","params":{"requestId":3}"#);
    receive(machine, r#""method":"notifications/cancelled","params":{"requestId":99}"#);
    ask(machine, b"", Some(SERVED));
    let [cancelled, patient] = [(); 2].map(|()| ask(machine, b"", None));
    write(machine);
    machine.cancel(now(), cancelled, Cause::new(CauseCode::Caller));
    machine.cancel_and_wait(now(), patient, Cause::new(CauseCode::Caller), SECOND);
    write(machine);
    end(machine, ANSWERING);
    for id in [BUSY, WAITING, NEXT] {
        receive(machine, &format!(r#""id":{id},"method":"work""#));
    }
    let batch = format!("[{{\"jsonrpc\":\"2.0\",\"id\":{BATCHED},\"method\":\"work\"}}]\n");
    machine.handle_input(now(), batch.as_bytes());
    ask(machine, b"", None);
    take_part(machine, b"0", Part::Prompt);
    machine.link.offer(incoming(machine, SERVED));
    connection
}

fn now() -> Instant {
    Instant::ORIGIN + 10 * SECOND
}

fn receive(machine: &mut Connection, members: &str) {
    machine.handle_input(now(), format!("{{\"jsonrpc\":\"2.0\",{members}}}\n").as_bytes());
    while machine.poll_event().is_some() {}
}

fn write(machine: &mut Connection) {
    while !machine.pending().is_empty() {
        machine.handle_written(now(), machine.pending().len());
    }
}

fn ask(machine: &mut Connection, params: &[u8], parent: Option<i64>) -> OutgoingKey {
    let parent = parent.map(|id| IncomingKey(incoming(machine, id)));
    machine.request(now(), "ask", params, &CallOptions { parent, ..CallOptions::default() }).expect("it is made")
}

fn incoming(machine: &Connection, id: i64) -> Key {
    machine.incoming.by_id(&RequestId::integer(id)).expect("it is in flight")
}

fn outgoing(machine: &Connection, id: i64) -> Key {
    machine.outgoing.by_id(&id).expect("it is in flight")
}

/// The request of the client with this id.
fn theirs(machine: &mut Connection, id: i64) -> &mut Incoming {
    let key = incoming(machine, id);
    machine.incoming.get_mut(key).expect("it is in flight").request
}

/// The request of ours with this id.
fn ours(machine: &mut Connection, id: i64) -> &mut Outgoing {
    let key = outgoing(machine, id);
    machine.outgoing.get_mut(key).expect("it is in flight")
}

fn cancel(machine: &mut Connection, id: i64) -> &mut Cancelling {
    ours(machine, id).cancel.as_mut().expect("it was cancelled")
}

/// A ticket of no frame that waits.
fn void(machine: &Connection) -> Ticket {
    machine.link.outbox.clone().push(Tag::Plain, |_| ())
}

#[test]
fn every_check_of_a_connection_can_fail() {
    every_check_can_fail(
        &at_work(),
        Connection::check_invariants,
        concat!(include_str!("../proof.rs"), include_str!("../incoming/table.rs"), include_str!("../outgoing.rs")),
        &[
            ("was broken", |machine| machine.link.note_broken(3, true)),
            ("is ahead of the request", |machine| {
                ours(machine, CANCELLED).frame = void(machine);
            }),
            ("is ahead of the request", |machine| {
                let ticket = void(machine);
                ours(machine, CANCELLED).frame = ticket;
                let cancel = cancel(machine, CANCELLED);
                (cancel.frame, cancel.receipt.written) = (Some(ticket), None);
            }),
            ("which was withdrawn", |machine| cancel(machine, CANCELLED).receipt.outcome = Outcome::NeverSent),
            ("its receipt is final", |machine| cancel(machine, CANCELLED).receipt.outcome = Outcome::Unknown),
            ("is settled and still there", |machine| ours(machine, CANCELLED).cancel = None),
            ("which is settled", |machine| ours(machine, CANCELLED).timer = ours(machine, OPEN).timer),
            ("nothing is armed for", |machine| ours(machine, OPEN).timer = TimerKey::NOT),
            ("our request", |machine| ours(machine, OPEN).id = 77),
            ("outlives the request it serves", |machine| {
                let key = incoming(machine, SERVED);
                machine.incoming.get_mut(key).expect("it is in flight").set_work(Work::Dropping);
            }),
            ("the count of waiting callers", |machine| {
                let patient = ours(machine, PATIENT);
                (patient.standing, patient.timer) = (Standing::Settled, TimerKey::NOT);
            }),
            ("the count of tombstones", |machine| ours(machine, CANCELLED).standing = Standing::Settled),
            ("a token leads nowhere", |machine| rare(machine, OPEN).token = None),
            ("too many in flight", |machine| machine.link.config.max_in_flight = 0),
            ("the peer's deadlines stand still", |machine| machine.link.our_questions.hold(now())),
            ("the peer's deadlines stand still", |machine| ours(machine, OPEN).is_question = true),
            ("of the peer cannot be found", |machine| theirs(machine, SERVED).id = IncomingId(RequestId::integer(77))),
            ("is to be answered", |machine| theirs(machine, STOPPING).response = ResponseState::Nothing),
            ("is over and still there", |machine| {
                let key = incoming(machine, STOPPING);
                machine.incoming.get_mut(key).expect("it is in flight").set_work(Work::Ended);
            }),
            ("no timer ends the grace", |machine| theirs(machine, STOPPING).timer = TimerKey::NOT),
            ("nobody knows who stopped", |machine| theirs(machine, STOPPING).stop = None),
            ("no timer for the deadline", |machine| theirs(machine, SERVED).limit = now()),
            ("waits for an answer that is not queued", |machine| {
                theirs(machine, ANSWERING).response = ResponseState::Answering(void(machine));
            }),
            ("the count of what requests take", |machine| theirs(machine, QUESTION).work = Work::Ended),
            ("the count of what requests take", |machine| theirs(machine, WAITING).payload = None),
            ("is in no line, or in one for nothing", |machine| theirs(machine, WAITING).rare().turn = Some(0)),
            ("the count of what clients have", |machine| theirs(machine, BUSY).rare().holder = Some(Holder::Anyone)),
            ("an id leads nowhere", |machine| theirs(machine, SERVED).is_replaced = true),
            ("our clocks stand still", |machine| machine.link.their_questions.hold(now())),
            ("our clocks stand still", |machine| theirs(machine, QUESTION).is_open_question = false),
            ("the count of what requests take", |machine| theirs(machine, SERVED).rare().children.clear()),
            ("the count of what requests take", |machine| theirs(machine, QUESTION).suspension = Suspension::Waits),
            ("too many requests wait", |machine| {
                (machine.link.config.max_running, machine.link.config.max_queued) = (1, 0)
            }),
            ("too much is remembered", |machine| machine.link.config.remembered = 0),
            ("too much is remembered", |machine| {
                core::mem::swap(&mut machine.link.tombstones, &mut machine.link.spent_tokens);
                machine.link.config.remembered = 0;
            }),
            ("a tombstone is never forgotten", |machine| *alarm(machine, Alarm::Tombstones) = TimerKey::NOT),
            ("a tombstone is never forgotten", |machine| {
                core::mem::swap(&mut machine.link.tombstones, &mut machine.link.spent_tokens);
                *alarm(machine, Alarm::Tombstones) = TimerKey::NOT;
            }),
            ("a cancelled request of ours is never forgotten", |machine| {
                machine.link.tombstones = machine.link.spent_tokens.clone();
                *alarm(machine, Alarm::Tombstones) = TimerKey::NOT;
            }),
            ("too many early cancels", |machine| machine.link.config.early_cancels.most = 0),
            ("bytes are held for a backlog", |machine| {
                machine.link.outbox.push(Tag::Plain, |out| out.resize(4 << 20, 0));
                machine.link.outbox.leak();
            }),
            ("a cancel is held for ever", |machine| *alarm(machine, Alarm::EarlyCancels) = TimerKey::NOT),
            ("a turn outlives its request", |machine| {
                let key = incoming(machine, SERVED);
                (0..100).for_each(|session: i32| {
                    machine.turns.insert(session.to_string().as_bytes(), key);
                });
            }),
            ("a backlog is left of nothing", |machine| {
                let key = incoming(machine, ANSWERING);
                machine.incoming.remove(key);
                forget(machine, UNSENT);
                machine.link.batches = Slab::new();
                machine.link.outbox.clear(|_| ());
            }),
            ("a timer is armed for nothing", |machine| {
                machine.link.timers.arm(now(), Timer::Alarm(Alarm::Drain));
            }),
            ("is due at another time", |machine| {
                let (key, armed) = (outgoing(machine, OPEN), ours(machine, OPEN).timer);
                machine.link.timers.disarm(armed);
                machine.link.timers.arm(now(), Timer::Call(key));
            }),
            ("is due at another time", |machine| {
                let (key, armed) = (incoming(machine, STOPPING), theirs(machine, STOPPING).timer);
                machine.link.timers.disarm(armed);
                machine.link.timers.arm(now(), Timer::Request(key));
            }),
            ("is due at another time", |machine| move_alarm(machine, Alarm::EarlyCancels)),
            ("is due at another time", |machine| move_alarm(machine, Alarm::Tombstones)),
            ("is due at another time", |machine| {
                machine.link.arm_alarm(Alarm::Stall, Some(now()));
                move_alarm(machine, Alarm::Stall);
            }),
            ("is due at another time", |machine| {
                machine.link.arm_alarm(Alarm::Drain, Some(now()));
                move_alarm(machine, Alarm::Drain);
            }),
        ],
    );
}

/// Arms an alarm a second later than the machine believes.
fn move_alarm(machine: &mut Connection, which: Alarm) {
    let armed = *alarm(machine, which);
    assert!(armed.is_armed(), "there is one to move");
    machine.link.timers.disarm(armed);
    machine.link.timers.arm(armed.at + SECOND, Timer::Alarm(which));
}

fn alarm(machine: &mut Connection, which: Alarm) -> &mut TimerKey {
    &mut machine.link.alarms[which as usize]
}

/// Takes a request of ours out of the table.
fn forget(machine: &mut Connection, id: i64) {
    let key = outgoing(machine, id);
    machine.outgoing.settle(key);
    machine.outgoing.remove(key);
}

#[test]
fn every_change_of_a_connection_shows_in_its_hash() {
    every_change_shows(
        &at_work(),
        |machine, digest| machine.hash_state(now(), digest),
        &[
            ("how far the handshake is", |machine| machine.link.negotiation.saw_initialize(Framing::Line, None)),
            ("the end of the input", |machine| machine.link.phase.input_ended = true),
            ("that nothing can be written", |machine| machine.link.phase.write_closed = true),
            ("that it shuts down", |machine| machine.link.phase.shutting_down = true),
            ("that it has closed", |machine| machine.link.phase.closed = true),
            ("frames that are detached", |machine| machine.link.detached += 1),
            ("what the peer has caused", |machine| machine.link.backlog += 1),
            ("the next id", |machine| machine.outgoing.next_id += 1),
            ("events that wait", |machine| machine.link.emit(ConnectionEvent::Closed)),
            ("half a message", |machine| {
                assert!(machine.decoder.as_mut().is_some_and(|decoder| decoder.decode(&mut &b"{"[..]).is_none()));
            }),
            ("what waits to be written", |machine| _ = machine.link.outbox.push(Tag::Plain, |out| out.push(0))),
            ("that a frame has begun to leave", |machine| machine.link.outbox.written(1, |_, _| ())),
            ("when the peer is given up", |machine| *alarm(machine, Alarm::Stall) = ours(machine, OPEN).timer),
            ("when the time to finish ends", |machine| *alarm(machine, Alarm::Drain) = ours(machine, OPEN).timer),
            ("what is remembered", |machine| {
                machine.link.tombstones.remember(now(), RequestId::integer(77), SettledAs::Answered);
            }),
            ("how it was settled", |machine| {
                machine.link.tombstones.remember(now(), RequestId::integer(OVER), SettledAs::Silenced);
            }),
            ("since when it is remembered", |machine| {
                machine.link.tombstones = machine.link.spent_tokens.clone();
                machine.link.tombstones.remember(Instant::ORIGIN, RequestId::integer(OVER), SettledAs::Answered);
            }),
            ("a token that is spent", |machine| {
                machine.link.spent_tokens.remember(now(), RequestId::integer(77), SettledAs::Answered);
            }),
            ("which cancel is held", |machine| {
                machine.link.early_cancels.claim(&RequestId::integer(99));
                machine.link.early_cancels.hold(now(), RequestId::integer(98), None);
            }),
            ("how long it is held", |machine| {
                machine.link.early_cancels.claim(&RequestId::integer(99));
                machine.link.early_cancels.hold(now() + SECOND, RequestId::integer(99), None);
            }),
            ("that our clocks stand still", |machine| machine.link.their_questions.hold(now())),
            ("that the peer's deadlines stand still", |machine| machine.link.our_questions.hold(now())),
            ("the id of ours", |machine| ours(machine, UNSENT).id = 77),
            ("the dialect of ours", |machine| ours(machine, OPEN).dialect = &lsp::LSP),
            ("the method of ours", |machine| ours(machine, OPEN).method = machine.link.methods.intern("other")),
            ("what ours is to the machine", |machine| ours(machine, OPEN).part = Part::Handshake),
            ("that ours is settled", |machine| ours(machine, OPEN).standing = Standing::Settled),
            ("that ours cannot be cancelled", |machine| ours(machine, OPEN).is_uncancellable = true),
            ("that ours has begun to leave", |machine| ours(machine, OPEN).frame = void(machine)),
            ("the token of ours", |machine| rare(machine, OPEN).token = Some(RequestId::integer(77))),
            ("that ours has a token", |machine| rare(machine, OPEN).token = None),
            ("which request ours serves", |machine| {
                let parent = incoming(machine, STOPPING);
                rare(machine, CHILD).parent = Some(parent);
            }),
            ("that ours serves a request", |machine| rare(machine, CHILD).parent = None),
            ("the response clock of ours", |machine| ours(machine, OPEN).clocks.response = now()),
            ("whether ours has a response clock", |machine| ours(machine, OPEN).clocks.response = NEVER),
            ("the total clock of ours", |machine| ours(machine, OPEN).clocks.total = now()),
            ("whether ours has a total clock", |machine| ours(machine, OPEN).clocks.total = NEVER),
            ("the limit of its response clock", |machine| ours(machine, OPEN).clocks.limit = None),
            ("that progress restarts it", |machine| ours(machine, OPEN).is_reset = true),
            ("that it has left", |machine| ours(machine, OPEN).has_left = true),
            ("that ours is a task", |machine| ours(machine, OPEN).is_task = true),
            ("that a person answers ours", |machine| ours(machine, OPEN).is_question = true),
            ("the session of ours", |machine| {
                rare(machine, OPEN).session = Some(b"1".as_slice().into());
            }),
            ("what was reported of its work", |machine| rare(machine, OPEN).reported = Reported::Begun),
            ("that its cancel is that of its session", |machine| {
                ours(machine, OPEN).is_cancelled_with_session = true;
            }),
            ("which sessions work", |machine| assert!(machine.at_work.begin(b"\"s\""))),
            ("that the cancel of ours was written", |machine| cancel(machine, PATIENT).receipt.written = None),
            ("who cancelled ours", |machine| cancel(machine, PATIENT).receipt.cause.code = CauseCode::Policy),
            ("what came of the cancel of ours", |machine| cancel(machine, PATIENT).receipt.outcome = Outcome::Unknown),
            ("that the cancel of ours waits", |machine| cancel(machine, PATIENT).frame = Some(void(machine))),
            ("how long its caller waits", |machine| cancel(machine, PATIENT).wait = now()),
            ("that its caller waits", |machine| cancel(machine, PATIENT).wait = NEVER),
            ("that ours was cancelled", |machine| ours(machine, PATIENT).cancel = None),
            ("that ours is over", |machine| ours(machine, CANCELLED).standing = Standing::Settled),
            ("since when ours is over", |machine| {
                let over = machine.outgoing.expire(now() + 10_000 * SECOND).expect("it is over");
                let call = machine.outgoing.remove(over).expect("it is over");
                let key = machine.outgoing.insert(call);
                machine.outgoing.retire(Instant::ORIGIN, key);
            }),
            ("the id of theirs", |machine| theirs(machine, ANSWERING).id = IncomingId(RequestId::integer(55))),
            ("whether an id of theirs is a text", |machine| {
                theirs(machine, SERVED).id = IncomingId(RequestId::string("1"))
            }),
            ("the dialect of theirs", |machine| theirs(machine, SERVED).dialect = &lsp::LSP),
            ("the method of theirs", |machine| theirs(machine, SERVED).method = machine.link.methods.intern("other")),
            ("that the id of theirs was used again", |machine| theirs(machine, SERVED).is_replaced = true),
            ("the rule that forbids cancelling theirs", |machine| {
                theirs(machine, SERVED).uncancellable = Some(Rule::McpC03);
            }),
            ("that a person answers theirs", |machine| theirs(machine, SERVED).is_open_question = true),
            ("how theirs says that it was cancelled", |machine| {
                theirs(machine, SERVED).rare().cancel_result = acp::V1.cancel_results.first();
            }),
            ("the batch of theirs", |machine| theirs(machine, SERVED).rare().batch = Some(batch_key(machine))),
            ("that theirs is shielded", |machine| theirs(machine, SERVED).is_shielded = true),
            ("that theirs is suspended", |machine| theirs(machine, SERVED).suspension = Suspension::Waits),
            ("what its handler does", |machine| theirs(machine, SERVED).work = Work::Dropping),
            ("what theirs was told", |machine| theirs(machine, SERVED).response = ResponseState::Silence),
            ("how long its handler may take to stop", |machine| theirs(machine, SERVED).rare().grace = Limit::Never),
            ("a frame for theirs that waits", |machine| {
                let ResponseState::Answering(ticket) = theirs(machine, ANSWERING).response else {
                    panic!("it is answering")
                };
                theirs(machine, SERVED).rare().frames.push_back(Caused { ticket, is_void_once_answered: false });
            }),
            ("who wants to know of its answer", |machine| theirs(machine, SERVED).rare().is_watched = true),
            ("the message that it has inserted", |machine| {
                theirs(machine, SERVED).rare().message = Some("m".into());
            }),
            ("what it is in the list of background work", |machine| {
                let kind = acp::V2_DRAFT.turn.and_then(|turn| turn.work?.item("terminal"));
                theirs(machine, SERVED).rare().item = kind.map(|kind| (kind, b"\"t\"".as_slice().into()));
            }),
            ("the result that it keeps", |machine| {
                theirs(machine, SERVED).rare().kept_result = Some(b"{}".as_slice().into());
            }),
            ("when its handler is dropped", |machine| theirs(machine, STOPPING).timer.at = now()),
            ("whether its handler is dropped", |machine| theirs(machine, STOPPING).timer = TimerKey::NOT),
            ("the deadline of theirs", |machine| theirs(machine, SERVED).deadline = now()),
            ("our limit for theirs", |machine| theirs(machine, SERVED).limit = now()),
            ("who stopped theirs", |machine| stop(machine).cause.code = CauseCode::Policy),
            ("that the peer stopped it", |machine| stop(machine).by_peer = false),
            ("that its handler was shielded", |machine| stop(machine).is_refused = true),
            ("that theirs was stopped", |machine| theirs(machine, STOPPING).stop = None),
            ("the params of one that waits", |machine| {
                let params = Params { raw: Some(b"{}"), ..Params::default() };
                theirs(machine, WAITING).payload = Some(Payload::new("work", &params));
            }),
            ("the order of those that wait", |machine| {
                let (first, second) = (incoming(machine, WAITING), incoming(machine, NEXT));
                for (key, id) in [(first, NEXT), (second, WAITING)] {
                    machine.incoming.get_mut(key).expect("it waits").request.id = IncomingId(RequestId::integer(id));
                }
            }),
            ("the session of a turn", |machine| take_part(machine, b"1", Part::Prompt)),
            ("that a session has an older turn", |machine| {
                let (older, served) = (incoming(machine, WAITING), incoming(machine, SERVED));
                machine.turns = Turns::new(Seed::new(0));
                for key in [older, served] {
                    machine.turns.insert(&turn::name(Part::Prompt, b"0"), key);
                }
            }),
            ("what is in a turn", |machine| take_part(machine, b"0", Part::Card)),
            ("how many of a batch are open", |machine| batch(machine).open += 1),
            ("what a batch was answered", |machine| _ = batch(machine).add(|out| out.push(0))),
            ("how many refusals a batch may have", |machine| batch(machine).refusals -= 1),
            ("how many of a batch are reported", |machine| _ = batch(machine).may_report()),
            ("which request is to be offered", |machine| {
                machine.link.events.clear();
                machine.link.offer(incoming(machine, WAITING));
            }),
        ],
    );
}

fn stop(machine: &mut Connection) -> &mut Stop {
    theirs(machine, STOPPING).stop.as_mut().expect("it was stopped")
}

/// Makes a request of the client play this part in a session.
fn take_part(machine: &mut Connection, session: &[u8], part: Part) {
    let key = incoming(machine, SERVED);
    machine.turns = Turns::new(Seed::new(0));
    machine.turns.insert(&turn::name(part, session), key);
    let request = theirs(machine, SERVED);
    request.part = part;
    request.rare().session = Some(session.into());
}

fn rare(machine: &mut Connection, id: i64) -> &mut outgoing::Rare {
    ours(machine, id).rare.get_or_insert_default()
}

fn batch_key(machine: &mut Connection) -> Key {
    theirs(machine, BATCHED).rare().batch.expect("it is in a batch")
}

fn batch(machine: &mut Connection) -> &mut Batch {
    let key = batch_key(machine);
    machine.link.batches.get_mut(key).expect("it is being answered")
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant 3 was broken")]
fn a_debug_build_checks_a_connection_after_every_input() {
    let mut machine = at_work();
    machine.link.note_broken(3, true);
    machine.handle_timeout(now());
}
