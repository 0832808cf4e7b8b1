//! Reads the files, for programs that show what is in them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    time::SystemTime,
};

use rescind_feed::{Changes, End, Ended, Event, Request, Session, Snapshot};

use super::{
    SLOT_SIZE,
    file::is_live,
    folder::slots,
    journal::{FirstLine, VERSION},
};

/// The past of a user's sessions.
#[derive(Debug, Default)]
pub struct History {
    /// The sessions, that which began first first.
    pub sessions: Vec<PastSession>,
    /// How many files break off in the middle of a line: their sessions were killed, or the disk was full.
    pub torn: u64,
    /// How many whole lines cannot be read.
    pub damaged: u64,
}

/// What has ended in a session, and perhaps the session itself.
#[derive(Clone, Debug, PartialEq)]
pub struct PastSession {
    /// The session as it was last, without what is only of interest while it runs.
    pub session: Session,
    /// What has ended, in the order of the ends.
    pub requests: Vec<Request>,
    /// How many further ends were only counted.
    pub counted: u64,
    /// Its clock when it last wrote, in microseconds.
    pub now: u64,
    /// How it ended; `None` if that was not written.
    pub end: Option<End>,
    /// It writes still.
    pub is_live: bool,
}

impl History {
    /// Reads all files in `folder`. A folder that does not exist has none.
    ///
    /// It reads 8 MiB at most, and blocks.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read. A file that cannot be is left out.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut history = Self::default();
        let mut found: BTreeMap<(u64, String), Gathered> = BTreeMap::new();
        for slot in slots(folder, SystemTime::now())? {
            let Ok(text) = read(&slot.path) else { continue };
            let mut lines = text.split_inclusive(|byte| *byte == b'\n');
            let Some(FirstLine { session, started, .. }) = lines.next().and_then(first_line) else { continue };
            let gathered = found.entry((started, session)).or_default();
            let is_live = is_live(&slot.path);
            gathered.is_live |= is_live;
            for line in lines {
                match serde_json::from_slice(line) {
                    _ if !line.ends_with(b"\n") => history.torn += u64::from(!is_live),
                    Ok(event) => gathered.events.push(event),
                    Err(_) => history.damaged += 1,
                }
            }
        }
        history.sessions = found.into_values().filter_map(Gathered::session).collect();
        Ok(history)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(SLOT_SIZE).read_to_end(&mut text)?;
    Ok(text)
}

fn first_line(line: &[u8]) -> Option<FirstLine> {
    let line: FirstLine = serde_json::from_slice(line).ok()?;
    (line.rescind == FirstLine::KIND && line.version == VERSION).then_some(line)
}

/// The events in the files of one session.
#[derive(Debug, Default)]
struct Gathered {
    events: Vec<Event>,
    is_live: bool,
}

impl Gathered {
    fn session(mut self) -> Option<PastSession> {
        // Its files have no order of their own.
        self.events.sort_by_key(number);
        let mut session: Option<Session> = None;
        let mut requests: BTreeMap<String, Request> = BTreeMap::new();
        let (mut counted, mut now, mut end) = (0, 0, None);
        for event in self.events {
            match event {
                Event::Snapshot(Snapshot { session: known, .. }) => session = Some(known),
                Event::Changes(Changes { now: at, requests: ended, brief, .. }) => {
                    requests.extend(ended.into_iter().map(|request| (request.key.clone(), request)));
                    counted += brief;
                    now = now.max(at);
                }
                Event::Ended(Ended { now: at, how, .. }) => {
                    end = Some(how);
                    now = now.max(at);
                }
                // Of a later version.
                _ => {}
            }
        }
        let mut requests: Vec<Request> = requests.into_values().collect();
        // Keys are numbers after a letter.
        requests.sort_by_key(|request| (ended_at(request), request.since, request.key.len(), request.key.clone()));
        Some(PastSession { session: session?, requests, counted, now, end, is_live: self.is_live })
    }
}

/// When a request ended, on its session's clock.
#[must_use]
pub fn ended_at(request: &Request) -> u64 {
    request.settled.as_ref().map_or(request.since, |end| end.at)
}

const fn number(event: &Event) -> u64 {
    match event {
        Event::Snapshot(snapshot) => snapshot.seq,
        Event::Changes(changes) => changes.seq,
        Event::Ended(ended) => ended.seq,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn snapshot(seq: u64, server: &str) -> Value {
        let side = |name: &str| json!({"protocol": "mcp-2025-11-25", "name": name});
        let session = json!({"version": 1, "name": "7", "program": "rescind 0.1.0", "pid": 7, "ancestors": [],
            "serverPid": null, "command": ["server"], "started": 5, "client": side("client"), "server": side(server)});
        json!({"event": "snapshot", "seq": seq, "now": 1, "session": session, "requests": [], "inFlight": 0})
    }

    fn changes(seq: u64, brief: u64, requests: &[(&str, u64, &str)]) -> Value {
        let request = |(key, at, how): &(&str, u64, &str)| {
            json!({"key": key, "from": "client", "id": "1", "method": "tools/call", "since": 1, "state": "ended",
                   "settled": {"at": at, "how": how}})
        };
        let requests: Vec<Value> = requests.iter().map(request).collect();
        json!({"event": "changes", "seq": seq, "now": 10 * seq, "requests": requests, "brief": brief, "inFlight": 0})
    }

    fn write(folder: &Path, number: u32, started: u64, lines: &[Value], rest: &str) {
        let first = json!({"rescind": "history", "version": 1, "session": "7", "started": started});
        let lines: String = [&first].into_iter().chain(lines).map(|line| format!("{line}\n")).collect();
        fs::write(folder.join(format!("{number:03}.jsonl")), lines + rest).unwrap();
    }

    fn keys(session: &PastSession) -> Vec<&str> {
        session.requests.iter().map(|request| &*request.key).collect()
    }

    #[test]
    fn a_folder_that_does_not_exist_has_no_past() {
        let folder = tempfile::tempdir().unwrap();
        assert!(History::read(&folder.path().join("nowhere")).unwrap().sessions.is_empty());
    }

    #[test]
    fn the_files_of_a_session_are_put_together_in_their_order_whatever_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let end = json!({"event": "ended", "seq": 9, "now": 70, "how": {"exitCode": 3}});
        write(
            folder.path(),
            4,
            5,
            &[snapshot(0, "early"), changes(1, 2, &[("c1", 30, "silent"), ("c2", 20, "result")])],
            "",
        );
        write(folder.path(), 2, 5, &[snapshot(5, "known"), changes(6, 3, &[("c1", 40, "error")]), end], "");
        write(folder.path(), 9, 4, &[snapshot(0, "other")], "");
        let history = History::read(folder.path()).unwrap();
        assert_eq!((history.sessions.len(), history.torn, history.damaged), (2, 0, 0));
        let past = &history.sessions[1];
        assert_eq!(past.session.server.name.as_deref(), Some("known"));
        assert_eq!((keys(past), past.counted, past.now), (vec!["c2", "c1"], 5, 70));
        assert_eq!(past.requests[1].settled.as_ref().unwrap().how, rescind_feed::SettledHow::Error);
        assert_eq!((past.end, past.is_live), (Some(End::ExitCode(3)), false));
    }

    #[test]
    fn a_line_that_breaks_off_is_left_out_and_told_and_nothing_before_it_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let last = changes(2, 0, &[("c2", 40, "result")]).to_string();
        for cut in 1..=last.len() {
            let lines = [snapshot(0, "server"), changes(1, 0, &[("c1", 30, "result")])];
            write(folder.path(), 0, 5, &lines, &last[..cut]);
            let history = History::read(folder.path()).unwrap();
            assert_eq!((history.torn, keys(&history.sessions[0])), (1, vec!["c1"]), "{cut}");
        }
    }

    #[test]
    fn a_session_that_writes_is_live_and_what_it_has_not_finished_writing_is_not_torn() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 5, &[snapshot(0, "server")], "{\"event\"");
        let file = File::open(folder.path().join("000.jsonl")).unwrap();
        file.lock().unwrap();
        let history = History::read(folder.path()).unwrap();
        assert_eq!((history.torn, history.sessions[0].is_live), (0, true));
    }

    #[test]
    fn what_is_not_of_the_history_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let put = |number: u32, text: &str| fs::write(folder.path().join(format!("{number:03}.jsonl")), text).unwrap();
        put(0, "");
        put(1, "{}\n");
        put(2, "{\"rescind\":\"recording\",\"version\":1,\"session\":\"7\",\"started\":5}\n");
        put(3, "{\"rescind\":\"history\",\"version\":2,\"session\":\"7\",\"started\":5}\n");
        write(folder.path(), 4, 5, &[snapshot(0, "server"), json!({"event": "later"}), json!(4)], "\u{0}\n");
        let history = History::read(folder.path()).unwrap();
        assert_eq!((history.sessions.len(), history.damaged), (1, 3));
    }
}
