//! Sessions that have ended, as the history on disk has them, for a page that is opened after that.

use std::{collections::BTreeSet, path::Path};

use rescind_feed::{Changes, End, Ended, Event, Snapshot};
use rescind_ledger::history::past::{History, PastSession};

/// The most sessions, of 50 that the page keeps, and the most requests.
const MAX_SESSIONS: usize = 20;
const MAX_REQUESTS: usize = 5_000;

/// The sessions in this folder that ended last, each as its events under a name of its own; the last of them at the end.
///
/// One that is `running` has the name that it has there. It blocks.
pub(super) fn sessions(folder: &Path, running: BTreeSet<String>) -> Vec<(String, Vec<Event>)> {
    let mut past = History::read(folder).map(|history| history.sessions).unwrap_or_default();
    past.retain(|past| !past.is_live);
    past.sort_by_key(|past| past.session.started.saturating_add(past.now));
    let (mut taken, mut left) = (running, MAX_REQUESTS);
    let mut last = Vec::new();
    for past in past.into_iter().rev().take(MAX_SESSIONS) {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(past.requests.len());
        let name = &past.session.name;
        // A number is used again.
        let names = std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}-{n}")));
        let name = names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default();
        taken.insert(name.clone());
        last.push((name, events(past)));
    }
    last.reverse();
    last
}

fn events(past: PastSession) -> Vec<Event> {
    let PastSession { session, requests, counted, now, end, is_live: _ } = past;
    let changes = Changes { seq: 1, now, requests: Vec::new(), brief: counted, in_flight: 0, session: None };
    vec![
        Event::Snapshot(Snapshot { seq: 0, now, session, requests, in_flight: 0 }),
        Event::Changes(changes),
        Event::Ended(Ended { seq: 2, now, how: end.unwrap_or(End::Unknown) }),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A session that began then, with as many requests.
    fn write(folder: &Path, number: usize, name: &str, started: u64, requests: u64) {
        let side = json!({"protocol": "mcp-2025-11-25"});
        let session = json!({"version": 1, "name": name, "program": "rescind", "pid": 1, "ancestors": [], "serverPid": null,
            "command": [], "started": started, "client": side, "server": side});
        let request = |n| {
            json!({"key": format!("c{n}"), "from": "client", "id": "1", "method": "ping", "since": 1, "state": "ended",
                   "settled": {"at": n, "how": "result"}})
        };
        let requests: Vec<_> = (1..=requests).map(request).collect();
        let lines = [
            json!({"rescind": "history", "version": 1, "session": name, "started": started}),
            json!({"event": "snapshot", "seq": 1, "now": 1, "session": session, "requests": [], "inFlight": 0}),
            json!({"event": "changes", "seq": 2, "now": 5, "requests": requests, "brief": 3, "inFlight": 0}),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(folder.join(format!("{number:03}.jsonl")), text).unwrap();
    }

    fn names(all: &[(String, Vec<Event>)]) -> Vec<&str> {
        all.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn a_number_that_is_used_again_names_two_sessions() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, "7", 100, 1);
        write(folder.path(), 1, "7", 200, 1);
        write(folder.path(), 2, "8", 150, 1);
        let all = sessions(folder.path(), BTreeSet::from(["8".to_owned()]));
        assert_eq!(names(&all), ["7-2", "8-2", "7"]);
        let kinds: Vec<_> = all[0].1.iter().map(Event::kind).collect();
        assert_eq!(kinds, ["snapshot", "changes", "ended"]);
    }

    #[test]
    fn no_more_are_shown_than_the_page_keeps_and_those_are_the_last() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..60 {
            write(folder.path(), n, &n.to_string(), 1000 * n as u64, 1);
        }
        let all = sessions(folder.path(), BTreeSet::new());
        assert_eq!((all.len(), names(&all)[0], names(&all)[19]), (MAX_SESSIONS, "40", "59"));
    }

    #[test]
    fn a_session_that_writes_still_is_not_shown_as_one_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, "7", 100, 1);
        let file = std::fs::File::open(folder.path().join("000.jsonl")).unwrap();
        file.lock().unwrap();
        assert!(sessions(folder.path(), BTreeSet::new()).is_empty());
    }
}
