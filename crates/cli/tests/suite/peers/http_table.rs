//! What was seen of every client over HTTP, judged, and printed as one table.

use std::fmt::Write as _;

use super::http_client::{Behind, CANCELS_TWICE, COMES_BACK, Client, SMALL_EVENTS};
use super::http_run::{Run, Seen};

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// A cancel before the head of the response, or at least before any event.
    Silent,
    /// A cancel after progress was seen.
    Ticking,
    NotResumed,
    LateAnswer,
    Collision,
    HangUp,
    Closing,
    Progress,
    Large,
    LargeEvent,
    Question,
    Subscription,
    Quiet,
}

/// What was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    /// What the SDK does instead.
    Fault(&'static str),
    /// It has no such thing.
    Cannot,
    /// Not what it should be, in words.
    Wrong(String),
}

impl Behaviour {
    const ALL: [Self; 13] = [
        Self::Silent,
        Self::Ticking,
        Self::NotResumed,
        Self::LateAnswer,
        Self::Collision,
        Self::HangUp,
        Self::Closing,
        Self::Progress,
        Self::Large,
        Self::LargeEvent,
        Self::Question,
        Self::Subscription,
        Self::Quiet,
    ];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Silent => "its cancel before the response has begun stops the work",
            Self::Ticking => "its cancel after progress was seen stops the work",
            Self::NotResumed => "it leaves the stream of a cancelled call alone",
            Self::LateAnswer => "a late answer harms nobody",
            Self::Collision => "of two calls with one id only its own stops",
            Self::HangUp => "its death: 2026-07-28 stops the work, a session does not",
            Self::Closing => "its polite end stops the work",
            Self::Progress => "progress arrives, in order",
            Self::Large => "an answer of 1 MiB arrives",
            Self::LargeEvent => "an answer of 1 MiB arrives as an event",
            Self::Question => "the server's question is answered",
            Self::Subscription => "a subscription hears of a change, and ends",
            Self::Quiet => "it complains of nothing before its end",
        }
    }

    /// Judges a run.
    pub(crate) fn verdict(self, run: &Run) -> Verdict {
        let seen = match self {
            Self::Silent => silent(run),
            Self::Ticking => cancelled_whole(run, "ticking"),
            Self::NotResumed => return not_resumed(run),
            Self::LateAnswer => late_answer(&run.one),
            Self::Collision => collision(run),
            Self::HangUp => hang_up(run),
            Self::Closing => closing(run),
            Self::Progress => progress(&run.one),
            // Before `rescind serve` on a slow machine it may come as an event.
            Self::Large if run.client.takes_small_events() && run.behind == Behind::Serve => return Verdict::Cannot,
            Self::Large => outcome(&run.one, "large", LARGE),
            Self::LargeEvent => return large_event(&run.one),
            Self::Question if run.client.is_modern() && run.behind == Behind::Serve => return Verdict::Cannot,
            Self::Question => question(&run.one),
            Self::Subscription if !run.client.is_modern() => return Verdict::Cannot,
            Self::Subscription => {
                return subscription(run).map_or_else(Verdict::Wrong, |()| end_of_subscription(&run.one));
            }
            Self::Quiet => quiet(run),
        };
        seen.map_or_else(Verdict::Wrong, |()| Verdict::Ok)
    }
}

const LARGE: &str = "result 1048576 letters";

fn holds(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, wanted: T) -> Result<(), String> {
    if seen == wanted { Ok(()) } else { Err(format!("{what}: {seen:?} instead of {wanted:?}")) }
}

fn outcome(seen: &Seen, call: &str, wanted: &str) -> Result<(), String> {
    equal(call, seen.story.outcomes(call), vec![wanted.to_owned()])
}

/// The work stopped, its caller was told once and heard nothing more, and its next call was served.
fn cancelled(run: &Run, seen: &Seen, work: &str) -> Result<(), String> {
    equal(work, seen.story.events(work), vec!["started", "stopped"])?;
    let outcomes = seen.story.outcomes(work);
    let is_told = matches!(&outcomes[..], [one] if one.starts_with("cancelled") || one.starts_with("error"));
    holds(is_told, &format!("the caller was told {outcomes:?}"))?;
    equal("late progress", seen.story.late_progress(work), 0)?;
    outcome(seen, &format!("after {work}"), "result echo")?;
    match (seen.cancel(work), run.client.is_modern()) {
        (Some(cancel), false) => equal("the cancel's status", cancel.status(), Some(202)),
        (None, false) => Err("no cancel was sent".to_owned()),
        (Some(_), true) => Err("a cancel was sent, where closing the stream is one (MCP-H05)".to_owned()),
        (None, true) => Ok(()),
    }
}

/// The same; and in a session the response ended, without an answer. That rmcp closes the stream itself is its right.
fn cancelled_whole(run: &Run, work: &str) -> Result<(), String> {
    cancelled(run, &run.one, work)?;
    let has_ended = run.one.call(work).is_some_and(|call| call.is_answered);
    holds(has_ended || run.client.is_modern() || run.client == Client::Rmcp, "the response did not end")
}

fn silent(run: &Run) -> Result<(), String> {
    cancelled_whole(run, "silent")?;
    // A server of ours had begun no response; `rescind serve` may have, on a slow machine.
    let call = run.one.call("silent").ok_or("no call")?;
    let Some((_, answered)) = call.answer.filter(|_| run.behind == Behind::Library) else { return Ok(()) };
    let cancel = run.one.cancel("silent").ok_or("a response began")?;
    holds(answered > cancel.sent_at, "the response began before the cancel")
}

/// Whoever asks for the stream of a cancelled call is told that it cannot be resumed, and lives on.
fn not_resumed(run: &Run) -> Verdict {
    let mut fault = Verdict::Ok;
    for seen in [&run.one, &run.other] {
        let end = seen.wire.iter().find(|exchange| exchange.verb == "DELETE").map(|exchange| exchange.sent_at);
        for exchange in seen.wire.iter().filter(|exchange| exchange.last_event.is_some()) {
            fault = Verdict::Fault(COMES_BACK);
            match exchange.status() {
                // Without an answer: whoever asked was killed.
                Some(405) | None => {}
                // It asks on after the end of its session.
                Some(404) if end.is_some_and(|end| end < exchange.sent_at) => {}
                Some(status) => return Verdict::Wrong(format!("it was answered {status}")),
            }
        }
    }
    fault
}

fn late_answer(seen: &Seen) -> Result<(), String> {
    equal("late", seen.story.events("late"), vec!["started", "told", "answered"])?;
    equal("outcomes", seen.story.outcomes("late").len(), 1)?;
    outcome(seen, "release", "result released")?;
    outcome(seen, "after late", "result echo")
}

fn collision(run: &Run) -> Result<(), String> {
    let [one, other] = [(&run.one, "one"), (&run.other, "other")].map(|(seen, work)| seen.call(work));
    let ids = one.zip(other).map(|(one, other)| (&one.message["id"], &other.message["id"]));
    holds(ids.is_some_and(|(one, other)| one == other), &format!("the ids are {ids:?}"))?;
    cancelled(run, &run.one, "one")?;
    equal("other", run.other.story.events("other"), vec!["started", "released", "finished"])?;
    outcome(&run.other, "other", "result finished")
}

fn hang_up(run: &Run) -> Result<(), String> {
    equal("its end", &*run.other.exit, "signal 9")?;
    let [silent, ticking] = ["hang-up", "hang-up ticking"].map(|work| run.other.story.events(work));
    if run.client.is_modern() {
        equal("hang-up", silent, vec!["started", "stopped"])?;
        equal("hang-up ticking", ticking, vec!["started", "stopped"])
    } else {
        equal("hang-up", silent, vec!["started", "released", "finished"])?;
        holds(!ticking.contains(&"stopped"), "the work of a client in a session stopped with it")
    }
}

fn closing(run: &Run) -> Result<(), String> {
    equal("closing", run.one.story.events("closing"), vec!["started", "stopped"])?;
    let ends = run.one.wire.iter().filter(|exchange| exchange.verb == "DELETE").map(|exchange| exchange.status());
    let wanted = if run.client.is_modern() { Vec::new() } else { vec![Some(204)] };
    equal("DELETE", ends.collect(), wanted)?;
    equal("its end", &*run.one.exit, "code 0")
}

fn progress(seen: &Seen) -> Result<(), String> {
    equal("ticks", seen.story.heard("progress"), vec![1.0, 2.0, 3.0])?;
    equal("late progress", seen.story.late_progress("progress"), 0)?;
    outcome(seen, "progress", "result finished")
}

fn large_event(seen: &Seen) -> Verdict {
    let outcomes = seen.story.outcomes("large event");
    match &outcomes[..] {
        [one] if one == LARGE => Verdict::Ok,
        [one] if one.contains("exceeded the 1048576 byte limit") => Verdict::Fault(SMALL_EVENTS),
        _ => Verdict::Wrong(format!("{outcomes:?}")),
    }
}

fn question(seen: &Seen) -> Result<(), String> {
    equal("questions", seen.story.questions(), vec!["name?"])?;
    equal("asks", seen.story.events("asks"), vec!["started", "finished"])?;
    outcome(seen, "asks", "result finished")
}

fn subscription(run: &Run) -> Result<(), String> {
    outcome(&run.one, "subscription", "result changed")?;
    outcome(&run.one, "after subscription", "result echo")?;
    // There the SDK serves subscriptions itself, and its server sees none.
    if (run.client, run.behind) == (Client::TypeScript2Modern, Behind::Serve) {
        return Ok(());
    }
    equal("subscription", run.one.story.events("subscription"), vec!["started", "stopped"])
}

/// Closing its stream is the end of it.
fn end_of_subscription(seen: &Seen) -> Verdict {
    let is_cancelled = seen.wire.iter().any(|exchange| exchange.method() == "notifications/cancelled");
    if is_cancelled { Verdict::Fault(CANCELS_TWICE) } else { Verdict::Ok }
}

fn quiet(run: &Run) -> Result<(), String> {
    for seen in [&run.one, &run.other] {
        equal("complaints", seen.story.callbacks_before("close"), Vec::new())?;
        equal("what never came", seen.story.missed(), Vec::new())?;
    }
    Ok(())
}

const COLUMN: usize = 14;
const LABEL: usize = 60;

/// What all runs showed; a cell is of both servers, or of `rescind serve` and a server of ours where they differ.
pub(crate) fn table(runs: &[Run]) -> String {
    let mut text = format!("\nover HTTP{:width$}", "", width = LABEL - 9);
    for (number, _) in Client::ALL.iter().enumerate() {
        let _ = write!(text, "{:COLUMN$}", letter(number));
    }
    text.push('\n');
    let mut faults: Vec<&str> = Vec::new();
    for behaviour in Behaviour::ALL {
        let _ = write!(text, "{:LABEL$}", behaviour.words());
        for client in Client::ALL {
            let mut cells: Vec<String> = runs
                .iter()
                .filter(|run| run.client == client)
                .map(|run| cell(behaviour.verdict(run), &mut faults))
                .collect();
            cells.dedup();
            if cells.is_empty() {
                cells.push("not run".to_owned());
            }
            let _ = write!(text, "{:COLUMN$}", cells.join(" / "));
        }
        text.push('\n');
    }
    for (number, client) in Client::ALL.iter().enumerate() {
        let _ = writeln!(text, "  {} {}", letter(number), client.name());
    }
    for (number, fault) in faults.iter().enumerate() {
        let _ = writeln!(text, "  fault {}: it {fault}", number + 1);
    }
    text
}

fn letter(number: usize) -> char {
    char::from(b'A' + u8::try_from(number).unwrap())
}

fn cell(verdict: Verdict, faults: &mut Vec<&'static str>) -> String {
    match verdict {
        Verdict::Ok => "ok".to_owned(),
        Verdict::Cannot => "-".to_owned(),
        Verdict::Wrong(_) => "WRONG".to_owned(),
        Verdict::Fault(fault) => {
            let number = faults.iter().position(|known| *known == fault).unwrap_or_else(|| {
                faults.push(fault);
                faults.len() - 1
            });
            format!("fault {}", number + 1)
        }
    }
}
