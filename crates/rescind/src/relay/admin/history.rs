//! What has ended, for the history on disk: events of the feed, without any payload.
//!
//! A record is written when its request ends, and again, under the same key, when more is learnt of its cancel. A busy
//! link has more ends than a person can read: then uneventful ones are only counted, so that the history of a day is not
//! lost to a minute.

use std::{
    io::Write as _,
    path::PathBuf,
    task::{Context, Poll},
    time::Duration,
};

use rescind_feed::{Cancel, Ended, Event, Request, Session, Snapshot};
use rescind_ledger::history::journal::Journal;
use rescind_proto::{
    cause::cut,
    relay::Relay,
    side::{Side, Sides},
    time::Instant,
};

use super::{change_tracker::child_record, record, session_facts::SessionFacts};

/// Ends that may come at once, and how many more in a second. The first half is for uneventful ones, too.
const BURST: u64 = 400;
const PER_SECOND: u64 = 40;

/// Bytes after which records are written even if the link is busy.
const BATCH: usize = 8 << 10;

/// Text that a peer chose is cut at this many bytes.
const MAX_TEXT: usize = 256;

/// Causes whose reason is not a peer's: it is a person's who runs `rescind`, or names a limit.
const OWN_CAUSES: [&str; 2] = ["operator", "policy"];

/// The history of a link.
pub(super) struct History {
    journal: Journal,
    /// The number of the last event.
    seq: u64,
    /// Records not yet written, with a comma after each, and how many they are.
    records: Vec<u8>,
    ends: u64,
    /// Ends that are only counted.
    brief: u64,
    allowance: Allowance,
    /// What was known of the two sides when the session was written last.
    known: Option<Sides<(&'static str, bool)>>,
}

debug_fields!(History, seq, ends, brief);

impl History {
    pub(super) fn new(folder: PathBuf, facts: &SessionFacts) -> Self {
        Self {
            journal: Journal::new(folder, &facts.name, facts.started),
            seq: 0,
            records: Vec::new(),
            ends: 0,
            brief: 0,
            allowance: Allowance { left: BURST, counted_until: Instant::ORIGIN },
            known: None,
        }
    }

    /// Takes what has ended, before the relay forgets it.
    pub(super) fn note_ends(&mut self, now: Instant, relay: &mut Relay, facts: &SessionFacts) {
        self.brief += relay.poll_unkept_ends();
        while let Some(key) = relay.poll_ended() {
            let is_uneventful = relay.is_uneventful(key) == Some(true);
            // A busy link has many ends that are only counted: nothing more is read of them.
            let view = if self.allowance.allows(now, is_uneventful) { relay.view(key) } else { None };
            match view {
                Some(view) => self.note(record::request(&view)),
                None => self.brief += 1,
            }
            if self.records.len() > BATCH {
                self.write(now, relay, facts);
            }
        }
        while let Some(key) = relay.poll_ended_child() {
            if let Some(view) = relay.child(key) {
                self.note(child_record(relay, &view));
            }
        }
    }

    fn note(&mut self, request: Request) {
        let length = self.records.len();
        match serde_json::to_writer(&mut self.records, &without_payload(request)) {
            Ok(()) => {
                self.records.push(b',');
                self.ends += 1;
            }
            Err(_) => self.records.truncate(length),
        }
    }

    /// Hands records over to be written, if there are any.
    pub(super) fn write(&mut self, now: Instant, relay: &Relay, facts: &SessionFacts) {
        if self.records.pop().is_none() {
            return;
        }
        self.write_changes(now, relay, facts);
    }

    fn write_changes(&mut self, now: Instant, relay: &Relay, facts: &SessionFacts) {
        self.describe(now, relay, facts);
        self.seq += 1;
        let brief = std::mem::take(&mut self.brief) + self.journal.left_out();
        let mut line = Vec::with_capacity(self.records.len() + 128);
        let head = (self.seq, record::micros(now), brief);
        // A vector takes all.
        let _ = write!(
            line,
            r#"{{"event":"changes","seq":{},"now":{},"brief":{},"inFlight":0,"requests":["#,
            head.0, head.1, head.2
        );
        line.append(&mut self.records);
        line.extend_from_slice(b"]}\n");
        self.journal.append(line, std::mem::take(&mut self.ends) + brief);
    }

    /// Writes what the session is, if that has changed.
    fn describe(&mut self, now: Instant, relay: &Relay, facts: &SessionFacts) {
        let known = Sides::from_fn(|side: Side| (relay.dialect(side).name, relay.implementation(side).is_some()));
        if self.known.replace(known) == Some(known) {
            return;
        }
        self.seq += 1;
        let session = in_short(facts.session_on_disk(relay));
        self.journal.begin(line(&Event::Snapshot(Snapshot {
            seq: self.seq,
            now: record::micros(now),
            session,
            requests: Vec::new(),
            in_flight: 0,
        })));
    }

    /// Writes the rest, and how the session ended; nothing, if nothing has ended in it.
    pub(super) fn end(&mut self, now: Instant, relay: &mut Relay, facts: &SessionFacts, how: rescind_feed::End) {
        self.note_ends(now, relay, facts);
        self.write(now, relay, facts);
        self.brief += self.journal.left_out();
        if self.brief > 0 {
            self.write_changes(now, relay, facts);
        }
        if self.seq > 0 {
            self.seq += 1;
            self.journal.append(line(&Event::Ended(Ended { seq: self.seq, now: record::micros(now), how })), 0);
        }
    }

    /// Why nothing can be written, once.
    pub(super) fn poll_failure(&self, cx: &Context<'_>) -> Poll<String> {
        self.journal.poll_failure(cx)
    }

    /// The same, if that is known already.
    pub(super) fn failure(&self) -> Option<String> {
        self.journal.failure()
    }

    /// Ready once all is on disk, or cannot be.
    pub(super) fn poll_written(&self, cx: &Context<'_>) -> Poll<()> {
        self.journal.poll_written(cx)
    }
}

fn line(event: &Event) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line
}

/// How many ends are written, so that a busy link does not fill the history.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: u64,
    /// Until when it has grown.
    counted_until: Instant,
}

impl Allowance {
    fn allows(&mut self, now: Instant, is_uneventful: bool) -> bool {
        let grown = now.since(self.counted_until).as_millis() as u64 * PER_SECOND / 1000;
        if grown > 0 {
            self.counted_until = self.counted_until + Duration::from_millis(grown * 1000 / PER_SECOND);
            self.left = (self.left + grown).min(BURST);
        }
        let reserve = if is_uneventful { BURST / 2 } else { 0 };
        let is_allowed = self.left > reserve;
        self.left -= u64::from(is_allowed);
        is_allowed
    }
}

/// A record without anything that was in params or results: progress, the title of a subagent, the reason of a
/// client. Each member is named here, so that none comes in unseen.
fn without_payload(request: Request) -> Request {
    let Request {
        key,
        from,
        id,
        upstream,
        method,
        name,
        parent,
        opened_by,
        since,
        held_until,
        state,
        waits_for_turn: _,
        may_be_released: _,
        deadline: _,
        progress: _,
        task,
        cancel,
        settled,
        late,
        child,
        at_work,
    } = request;
    let cancel = cancel.map(|cancel| {
        let reason = cancel.reason.filter(|_| OWN_CAUSES.contains(&&*cancel.cause));
        Cancel { reason: reason.map(short), ..cancel }
    });
    Request {
        key,
        from,
        id: short(id),
        upstream: upstream.map(short),
        method: short(method),
        name: name.filter(|_| child.is_none()).map(short),
        parent,
        opened_by,
        since,
        held_until,
        state,
        waits_for_turn: false,
        may_be_released: false,
        deadline: None,
        progress: None,
        task: task.map(short),
        cancel,
        settled,
        late,
        child: child.map(|child| rescind_feed::Child { parent_session: short(child.parent_session), ..child }),
        at_work,
    }
}

/// What a session is, without what is of interest only while it runs, and without the arguments of its server, which may
/// hold secrets.
fn in_short(session: Session) -> Session {
    let side = |side: rescind_feed::Implementation| rescind_feed::Implementation {
        name: side.name.map(short),
        version: side.version.map(short),
        ..side
    };
    Session {
        ancestors: Vec::new(),
        server_pid: None,
        command: session.command.into_iter().take(1).map(|word| short(program(&word).to_owned())).collect(),
        client: side(session.client),
        server: side(session.server),
        owner: session.owner.map(short),
        connected: None,
        signing_in: false,
        limits: std::collections::BTreeMap::new(),
        held_up_by: None,
        process_clock: None,
        turn_processes: Vec::new(),
        ending_turns: None,
        restarts: None,
        restarting: false,
        starting: None,
        ..session
    }
}

/// The program of a server, or the scheme and host of its URL: the rest of one may hold secrets.
fn program(word: &str) -> &str {
    let Some((scheme, rest)) = word.split_once("://") else { return word };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        // Whoever it is for, it is not for the disk.
        Some((_, host)) => host,
        None => &word[..scheme.len() + 3 + authority.len()],
    }
}

fn short(text: String) -> String {
    if text.len() <= MAX_TEXT { text } else { format!("{}…", cut(&text, MAX_TEXT)) }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        sync::Arc,
        sync::mpsc,
        task::{Wake, Waker},
    };

    use rescind_feed::{SettledHow, State};
    use rescind_ledger::history::past;
    use rescind_proto::relay::{Emit, RelayConfig};

    use super::*;
    use crate::relay::ends::{EntryName, StreamFacts};

    struct Alarm(mpsc::Sender<()>);

    impl Wake for Alarm {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    /// A relay with a history, whose two sides read and write at once.
    struct TestLink {
        relay: Relay,
        history: History,
        facts: SessionFacts,
        now: Instant,
        folder: tempfile::TempDir,
    }

    impl TestLink {
        fn new() -> Self {
            let facts = SessionFacts {
                name: "7".into(),
                ancestors: vec![1],
                server_pid: Some(2),
                command: vec!["server".into(), "--token=SECRET".into()],
                entry: EntryName::default(),
                folder: None,
                started: 5,
                origin: std::time::Instant::now(),
                turn_processes: VecDeque::new(),
                ending_turns: None,
                restarts: None,
                told: StreamFacts::default(),
            };
            let folder = tempfile::tempdir().unwrap();
            let emit = Emit { ends: true, ..Emit::default() };
            let relay = Relay::new(RelayConfig { emit, ..RelayConfig::default() });
            let history = History::new(folder.path().into(), &facts);
            Self { relay, history, facts, now: Instant::ORIGIN, folder }
        }

        fn send(&mut self, side: Side, message: &str) {
            self.relay.handle_input(self.now, side, format!("{message}\n").as_bytes());
            for side in Side::BOTH {
                let length = self.relay.pending(side).len();
                self.relay.handle_written(self.now, side, length);
            }
            while self.relay.poll_event().is_some() {}
            self.history.note_ends(self.now, &mut self.relay, &self.facts);
        }

        fn call(&mut self, id: u32) {
            let params = r#"{"name":"fetch","arguments":{"url":"SECRET"},"_meta":{"progressToken":1}}"#;
            self.send(
                Side::Client,
                &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#),
            );
        }

        fn answer(&mut self, id: u32) {
            self.send(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":"SECRET"}}}}"#));
        }

        /// What is on disk once all is written.
        fn read(&mut self) -> past::PastSession {
            self.history.write(self.now, &self.relay, &self.facts);
            let (rings, rung) = mpsc::channel();
            let waker = Waker::from(Arc::new(Alarm(rings)));
            while self.history.poll_written(&Context::from_waker(&waker)).is_pending() {
                rung.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            assert_eq!(self.history.failure(), None);
            let mut read = past::History::read(self.folder.path()).unwrap();
            assert_eq!((read.sessions.len(), read.torn, read.damaged), (1, 0, 0));
            read.sessions.pop().unwrap()
        }

        fn text(&self) -> String {
            let files = std::fs::read_dir(self.folder.path()).unwrap();
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
        }
    }

    #[test]
    fn what_has_ended_is_written_and_nothing_that_was_said() {
        let mut link = TestLink::new();
        let of = |name: &str| format!(r#"{{"name":"{name}","version":"1"}}"#);
        let (version, client, server) =
            (r#""protocolVersion":"2025-11-25","capabilities":{}"#, of("a client"), of("a server"));
        link.send(
            Side::Client,
            &format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{{version},"clientInfo":{client}}}}}"#
            ),
        );
        link.send(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{{version},"serverInfo":{server}}}}}"#));
        link.call(1);
        link.now = link.now + Duration::from_millis(1500);
        link.send(Side::Server, r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"SECRET"}}"#);
        link.answer(1);
        link.call(2);
        link.send(
            Side::Client,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"SECRET"}}"#,
        );
        link.call(3);
        link.send(Side::Server, r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"SECRET"}}"#);
        let past = link.read();
        let session = &past.session;
        assert_eq!((session.name.as_str(), session.command.clone()), ("7", vec!["server".to_owned()]));
        assert_eq!(
            (session.client.name.as_deref(), session.server.name.as_deref()),
            (Some("a client"), Some("a server"))
        );
        let rows: Vec<_> = past
            .requests
            .iter()
            .map(|request| {
                let settled = request.settled.as_ref().unwrap();
                (&*request.id, request.name.as_deref(), settled.at - request.since, settled.how, settled.code)
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("0", None, 0, SettledHow::Result, None),
                ("1", Some("fetch"), 1_500_000, SettledHow::Result, None),
                ("2", Some("fetch"), 0, SettledHow::Silent, None),
                ("3", Some("fetch"), 0, SettledHow::Error, Some(-32000)),
            ]
        );
        let cancel = past.requests[2].cancel.as_ref().unwrap();
        assert_eq!((&*cancel.cause, &*cancel.words), ("caller", "sent; MCP does not confirm"));
        assert!(!link.text().contains("SECRET"), "{}", link.text());
    }

    #[test]
    fn what_a_cancel_learns_later_replaces_what_was_written() {
        let mut link = TestLink::new();
        link.call(1);
        link.send(Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        let before = link.read();
        assert_eq!(before.requests[0].state, State::Released);
        link.now = link.now + Duration::from_secs(3);
        link.answer(1);
        let after = link.read();
        assert_eq!(after.requests.len(), 1);
        assert_eq!(after.requests[0].cancel.as_ref().unwrap().words, "answered after 3.0 s");
    }

    #[test]
    fn the_reason_of_an_operator_is_kept() {
        let mut link = TestLink::new();
        link.call(1);
        let key = link.relay.requests(Side::Client).next().unwrap().key;
        assert!(link.relay.stop(link.now, key, Some("wrong file")));
        link.answer(2);
        assert_eq!(link.read().requests[0].cancel.as_ref().unwrap().reason.as_deref(), Some("wrong file"));
    }

    #[test]
    fn of_many_uneventful_ends_most_are_counted_and_errors_still_have_room() {
        let mut link = TestLink::new();
        for id in 1..=1000 {
            link.call(id);
            link.answer(id);
        }
        link.call(1001);
        link.send(Side::Server, r#"{"jsonrpc":"2.0","id":1001,"error":{"code":-32000,"message":"no"}}"#);
        let past = link.read();
        assert_eq!((past.requests.len() as u64, past.counted), (BURST / 2 + 1, 1000 - BURST / 2));
        assert_eq!(past.requests.last().unwrap().id, "1001");
        link.now = link.now + Duration::from_secs(2);
        for id in 2000..2100 {
            link.call(id);
            link.answer(id);
        }
        assert_eq!(link.read().requests.len() as u64, BURST / 2 + 2 * PER_SECOND);
    }

    #[test]
    fn the_end_of_a_session_is_written_and_none_of_one_in_which_nothing_has_ended() {
        let mut link = TestLink::new();
        link.call(1);
        link.answer(1);
        link.history.end(link.now, &mut link.relay, &link.facts, rescind_feed::End::Signal(9));
        assert_eq!(link.read().end, Some(rescind_feed::End::Signal(9)));
        let mut idle = TestLink::new();
        idle.history.end(idle.now, &mut idle.relay, &idle.facts, rescind_feed::End::ExitCode(0));
        assert_eq!(std::fs::read_dir(idle.folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_a_url_its_host_is_kept() {
        assert_eq!(program("/usr/bin/server"), "/usr/bin/server");
        assert_eq!(program("https://mcp.example.com:8443/s/SECRET?key=SECRET"), "https://mcp.example.com:8443");
        assert_eq!(program("https://me:SECRET@example.com/mcp"), "example.com");
        assert_eq!(program("https://example.com?SECRET"), "https://example.com");
    }

    #[test]
    fn an_allowance_grows_again_and_a_clock_that_stands_does_not_take_from_it() {
        let mut allowance = Allowance { left: 0, counted_until: Instant::ORIGIN };
        let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
        assert!(
            !allowance.allows(at(24), false) && allowance.allows(at(25), false) && !allowance.allows(at(25), false)
        );
        assert!(allowance.allows(at(60_000), true));
        assert_eq!(allowance.left, BURST - 1);
    }
}
