//! Scripted sessions on a directory of sockets, to look at with `rescind ps`, `rescind cancel` and `rescind console`:
//!
//! ```text
//! cargo run -p rescind-console --example scripted -- DIRECTORY
//! RESCIND_RUNTIME_DIR=DIRECTORY rescind console
//! ```
//!
//! A polite server, one that ignores cancels, an agent that confirms them, one whose answers cross them, one that dies,
//! a busy one, and one that sends text meant to do harm. Every thirty seconds it begins again.

use std::{path::PathBuf, thread, time::Duration};

use rescind_feed::{Answer, Cancel, End, FrameView, Late, Outcome, Request, Settled, SettledHow, Side, State};
use rescind_testkit::fake_shim::{FakeShim, asked, percent, request, session};

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000;
const STEP: u64 = 100 * MILLISECOND;
const ROUND: u64 = 30 * SECOND;

/// The code of an operator's stop.
const STOPPED: i64 = -31_003;

fn main() {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("a directory for the sockets"));
    let actors = [
        Actor::new(&directory, "4711", &["npx", "polite-server"], Manner::Polite),
        Actor::new(&directory, "4712", &["npx", "-y", "@modelcontextprotocol/server-everything"], Manner::Ignores),
        Actor::new(&directory, "4713", &["some-agent", "--acp"], Manner::Confirms),
        Actor::new(&directory, "4714", &["crossing-server"], Manner::Crosses),
        Actor::new(&directory, "4715", &["busy-server"], Manner::Busy),
        Actor::new(&directory, "4716", &["<script>alert(1)</script>", "\u{1b}[2Jcleared"], Manner::Harmful),
    ];
    let mut dying = Some(Actor::new(&directory, "4717", &["fragile-server"], Manner::Polite));
    let mut now = 0;
    loop {
        actors.iter().for_each(|actor| actor.step(now));
        if let Some(actor) = dying.as_ref() {
            actor.step(now);
            if now == ROUND {
                actor.shim.end(End::Signal(9));
            }
            if now == ROUND + SECOND {
                dying = None;
            }
        }
        thread::sleep(Duration::from_micros(STEP));
        now += STEP;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Polite,
    Ignores,
    Confirms,
    Crosses,
    Busy,
    Harmful,
}

struct Actor {
    shim: FakeShim,
    manner: Manner,
}

impl Actor {
    fn new(directory: &std::path::Path, name: &str, command: &[&str], manner: Manner) -> Self {
        let mut facts = session(name, command);
        if manner == Manner::Confirms {
            facts.client.protocol = "acp-v1".into();
            facts.server.protocol = "acp-v1".into();
        }
        facts.client.name = Some("scripted-client".into());
        facts.server.name = Some(command[0].into());
        let shim = FakeShim::open(directory, facts);
        shim.on_cancel(move |request, reason| obey(manner, request, reason));
        Self { shim, manner }
    }

    fn step(&self, now: u64) {
        self.shim.set_now(now);
        let (round, at) = (now / ROUND, now % ROUND);
        if at == 0 {
            self.shim.put((0..3).map(|n| self.begun(round * 10 + n, n, now)));
            if self.manner == Manner::Confirms {
                self.shim.put([permission(round * 10 + 2, now)]);
            }
        }
        if self.manner == Manner::Busy {
            self.shim.put((0..20).map(|n| brief(1_000_000 + now / STEP * 20 + n, now)));
        }
        let mine = (0..round + 1).rev().take(2).flat_map(|round| (0..3).map(move |n| format!("c{}", round * 10 + n)));
        let changed = mine.filter_map(|key| self.shim.request(&key)).filter_map(|before| {
            let mut after = before.clone();
            self.age(&mut after, now);
            (after != before).then_some(after)
        });
        let changed: Vec<Request> = changed.collect();
        if !changed.is_empty() {
            self.shim.put(changed);
        }
    }

    fn begun(&self, id: u64, n: u64, now: u64) -> Request {
        let (method, name) = match (self.manner, n) {
            (Manner::Confirms, 2) => ("session/prompt", None),
            (Manner::Confirms, _) => ("session/load", None),
            (Manner::Harmful, 0) => ("<img src=x onerror=alert(1)>", Some("\u{1b}]0;owned\u{7}\u{202e}gnp.exe")),
            (Manner::Harmful, _) => ("tools/call", Some("</script><script>alert(2)</script>")),
            (_, 0) => ("tools/call", Some("index")),
            (_, 1) => ("tools/call", Some("search")),
            (..) => ("resources/read", None),
        };
        let mut begun = request(id, method, name, now);
        begun.deadline = (n == 0).then_some(now + 60 * SECOND);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"token":"hunter2"}}}}"#);
        let length = text.len() as u64;
        self.shim.put_frames(&begun.key, vec![FrameView { at: now, from: Side::Client, text, length, by_shim: false }]);
        begun
    }

    /// What a moment does to a request.
    fn age(&self, request: &mut Request, now: u64) {
        let age = now - request.since;
        let tells = request.state == State::Running || (self.manner == Manner::Ignores && request.settled.is_none());
        if tells && request.cancel.is_none() && age < ROUND - 5 * SECOND {
            let message = if self.manner == Manner::Harmful { "<b>bold</b>\u{1b}[31m" } else { "indexing" };
            request.progress = Some(percent(now, age as f64 / (ROUND - 5 * SECOND) as f64 * 100.0, message));
        }
        if request.is_open() && request.cancel.is_none() && age >= ROUND - 5 * SECOND {
            settle(request, now, SettledHow::Result, None);
        }
        let Some(mut cancel) = request.cancel.clone() else { return };
        let since = now.saturating_sub(cancel.asked);
        match self.manner {
            Manner::Confirms if cancel.outcome == Outcome::Sent && since >= 2 * SECOND => {
                confirm(&mut cancel, Outcome::Confirmed, since, Answer::Result);
                settle(request, now, SettledHow::Result, None);
            }
            Manner::Ignores if since < 8 * SECOND => {
                let notices = since / (500 * MILLISECOND);
                request.late = (notices > 0).then_some(Late { at: now, answers: 0, notices });
                if since >= 5 * SECOND {
                    request.state = State::Stuck;
                }
            }
            Manner::Ignores if cancel.outcome == Outcome::Sent => {
                confirm(&mut cancel, Outcome::AnsweredAfter, since, Answer::Result);
                request.late = Some(Late { at: now, answers: 1, notices: 16 });
                request.state = State::Ended;
            }
            Manner::Confirms | Manner::Ignores | Manner::Polite | Manner::Crosses | Manner::Busy | Manner::Harmful => {}
        }
        request.cancel = Some(cancel.in_words(request.late.as_ref()));
    }
}

/// What a cancel does at once.
fn obey(manner: Manner, request: &mut Request, reason: Option<&str>) {
    let at = request.progress.as_ref().map_or(request.since, |progress| progress.at);
    let mut cancel = asked(at, reason);
    cancel.written = Some(at);
    cancel.outcome = Outcome::Sent;
    match manner {
        Manner::Confirms => {
            cancel.confirms = true;
            cancel.protocol = "ACP".into();
            request.state = State::Cancelling;
        }
        Manner::Crosses => {
            confirm(&mut cancel, Outcome::CompletedFirst, 0, Answer::Result);
            settle(request, at, SettledHow::Result, None);
        }
        Manner::Polite | Manner::Ignores | Manner::Busy | Manner::Harmful => {
            settle(request, at, SettledHow::AnsweredHere, Some(STOPPED));
        }
    }
    request.cancel = Some(cancel.in_words(None));
}

const fn confirm(cancel: &mut Cancel, outcome: Outcome, after: u64, answer: Answer) {
    cancel.outcome = outcome;
    cancel.after = Some(after);
    cancel.answer = Some(answer);
}

const fn settle(request: &mut Request, at: u64, how: SettledHow, code: Option<i64>) {
    request.state = State::Ended;
    request.settled = Some(Settled { at, how, code });
}

/// What an agent asks during a prompt.
fn permission(prompt: u64, now: u64) -> Request {
    let mut asked = request(prompt, "session/request_permission", None, now);
    asked.key = format!("s{prompt}");
    asked.from = Side::Server;
    asked.parent = Some(format!("c{prompt}"));
    asked
}

fn brief(id: u64, now: u64) -> Request {
    let mut brief = request(id, "tools/call", Some("echo"), now);
    settle(&mut brief, now + 3 * MILLISECOND, SettledHow::Result, None);
    brief
}
