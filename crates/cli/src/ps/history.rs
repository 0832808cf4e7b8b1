//! `rescind ps --history`: what has ended, also in sessions that have.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use rescind_feed::{Request, Session, Settled, SettledHow, duration};
use rescind_ledger::history::past::{History, PastSession, ended_at};

use super::{Arguments, document, row, table::lay_out, write_lines};
use crate::{
    failure::Failure,
    fleet::report,
    folders,
    screen::{Screen, Tone, clean},
    session_name,
};

const COLUMNS: [&str; 9] = ["ENDED", "ID", "CLIENT", "SERVER", "OWNER", "METHOD", "TOOK", "HOW", "CANCEL"];

/// Columns that may be narrowed, and their least width.
const FLEXIBLE: [(usize, usize); 7] = [(1, 10), (2, 6), (3, 6), (4, 5), (5, 12), (7, 8), (8, 12)];

const DAY: u64 = 24 * 3600 * 1_000_000;

/// Lists what has ended, that which ended last at the end.
pub(super) fn list(arguments: &Arguments) -> Result<(), Failure> {
    let folder = folders::history()?;
    let hint = "check that you may read it; what was kept before can be deleted";
    let history = History::read(&folder).map_err(|error| Failure::new(folder.display(), error, hint))?;
    let History { mut sessions, torn, damaged } = history;
    if let Some(wanted) = &arguments.selection.session {
        // All of this name: nothing is asked of one of them.
        sessions.retain(|past| past.session.name == *wanted || past.session.is_called(wanted));
        if sessions.is_empty() {
            let hint = "`rescind ps --history` lists what is kept of all sessions";
            return Err(Failure::new(clean(wanted), "no history of such a session", hint));
        }
    }
    for past in &mut sessions {
        past.requests.retain(|request| arguments.shows(request) && arguments.selection.names(request));
    }
    let left_out = keep_last(&mut sessions, arguments.limit.unwrap_or(LIMIT));
    let is_empty = sessions.iter().all(|past| past.requests.is_empty());
    if arguments.json {
        let _ = write_lines(&[document::history(&sessions)]);
    } else if is_empty {
        report(&nothing(&folder));
    } else {
        let _ = write_lines(&lines(&sessions, now(), Screen::now()));
    }
    notes(&sessions, left_out, torn, damaged).iter().for_each(|note| report(note));
    Ok(())
}

/// How many are listed by default.
const LIMIT: usize = 100;

/// Leaves out all but those that ended last; how many there were.
fn keep_last(sessions: &mut [PastSession], most: usize) -> usize {
    let mut moments: Vec<u64> = Vec::new();
    for past in &*sessions {
        moments.extend(past.requests.iter().map(|request| moment(&past.session, request)));
    }
    let left_out = moments.len().saturating_sub(most);
    moments.sort_unstable();
    let Some(last) = left_out.checked_sub(1).map(|last| moments[last]) else { return 0 };
    // Of those that ended in the same moment as the last that goes, as many as it takes.
    let mut ties = left_out - moments.partition_point(|moment| *moment < last);
    for PastSession { session, requests, .. } in sessions {
        requests.retain(|request| {
            let at = moment(session, request);
            let goes = at < last || at == last && ties > 0;
            ties -= usize::from(goes && at == last);
            !goes
        });
    }
    left_out
}

/// When a request ended, in microseconds since 1970, by the clock that its session began with.
const fn since_1970(started: u64, at: u64) -> u64 {
    started.saturating_add(at)
}

fn moment(session: &Session, request: &Request) -> u64 {
    since_1970(session.started, ended_at(request))
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

fn lines(sessions: &[PastSession], now: u64, screen: Screen) -> Vec<String> {
    let of = |past: &PastSession| {
        let row =
            |request: &Request| (moment(&past.session, request), cells(&past.session, request, now), tone(request));
        past.requests.iter().map(row).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = sessions.iter().flat_map(of).collect();
    rows.sort_by_key(|(moment, ..)| *moment);
    let rows: Vec<_> = rows.iter().map(|(_, cells, tone)| (cells, *tone)).collect();
    lay_out(COLUMNS, &FLEXIBLE, &rows, screen)
}

fn cells(session: &Session, request: &Request, now: u64) -> [String; COLUMNS.len()] {
    [
        ago(moment(session, request), now),
        format!("{}/{}", clean(&session.name), clean(&request.label())),
        session_name::client(session).or_else(|| session.client.name.as_deref().map(clean)).unwrap_or_default(),
        row::server(session),
        row::owner(session),
        row::method(request),
        duration(ended_at(request).saturating_sub(request.since)),
        how(request),
        request.cancel.as_ref().map(|cancel| clean(&cancel.words)).unwrap_or_default(),
    ]
}

/// How long ago that was. A clock that was set back since makes it now.
fn ago(moment: u64, now: u64) -> String {
    match now.saturating_sub(moment) {
        0..1_000_000 => "just now".into(),
        passed if passed < 2 * DAY => format!("{} ago", duration(passed)),
        passed => format!("{} days ago", passed / DAY),
    }
}

/// How it ended, in the words of lists.
fn how(request: &Request) -> String {
    if let Some(child) = &request.child {
        return child.state.as_str().into();
    }
    if let Some(task) = &request.at_work {
        return task.status.as_str().into();
    }
    match &request.settled {
        Some(Settled { how: SettledHow::Error, code: Some(code), .. }) => format!("error {code}"),
        Some(settled) => settled.how.as_str().into(),
        None => request.state.as_str().into(),
    }
}

fn tone(request: &Request) -> Tone {
    match (&request.cancel, request.settled.as_ref().map(|settled| settled.how)) {
        (Some(_), _) => Tone::Notice,
        (None, Some(SettledHow::Result)) => Tone::Plain,
        (None, _) => Tone::Notice,
    }
}

/// The message if nothing is listed. It claims no more than was searched.
fn nothing(folder: &Path) -> String {
    format!("nothing that has ended is kept in {}, or nothing matches", clean(&folder.display().to_string()))
}

fn notes(sessions: &[PastSession], left_out: usize, torn: u64, damaged: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("note: {left_out} earlier ones are not listed: --limit N lists more"));
    }
    for past in sessions.iter().filter(|past| past.counted > 0) {
        let (name, counted) = (clean(&past.session.name), past.counted);
        notes.push(format!("note: {name}: {counted} more ended than were kept, and are only counted"));
    }
    if torn > 0 {
        let files = if torn == 1 { "1 file breaks".to_owned() } else { format!("{torn} files break") };
        notes.push(format!("note: {files} off in the middle of a line: a session was killed, or the disk was full"));
    }
    if damaged > 0 {
        notes.push(format!("note: {damaged} damaged lines are left out"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START: u64 = 1_800_000_000_000_000;

    fn past(name: &str, started: u64, ends: &[u64]) -> PastSession {
        let side = json!({"protocol": "mcp-2025-11-25", "name": "editor"});
        let session = json!({"version": 1, "name": name, "program": "rescind", "pid": 1, "ancestors": [], "serverPid": null,
            "command": ["/bin/index"], "started": started, "client": side, "server": {"protocol": "mcp-2025-11-25"}});
        let request = |at: &u64| {
            json!({"key": format!("c{at}"), "from": "client", "id": at.to_string(), "method": "tools/call", "name": "read",
                   "since": 0, "state": "ended", "settled": {"at": at, "how": "result"}})
        };
        let requests = ends.iter().map(|at| serde_json::from_value(request(at)).unwrap()).collect();
        let session = serde_json::from_value(session).unwrap();
        PastSession { session, requests, counted: 0, now: 0, end: None, is_live: false }
    }

    fn ids(sessions: &[PastSession]) -> Vec<Vec<&str>> {
        sessions.iter().map(|past| past.requests.iter().map(|request| &*request.id).collect()).collect()
    }

    #[test]
    fn those_that_ended_last_are_kept_whatever_session_they_are_of() {
        let all = || vec![past("1", START, &[10, 40, 60]), past("2", START + 20, &[10, 20, 30])];
        let mut sessions = all();
        assert_eq!(keep_last(&mut sessions, 3), 3);
        // The second began 20 later: two ended at 40.
        assert_eq!(ids(&sessions), [vec!["60"], vec!["20", "30"]]);
        let mut sessions = all();
        assert_eq!((keep_last(&mut sessions, 6), ids(&sessions)[0].len()), (0, 3));
        assert_eq!(keep_last(&mut sessions, 1), 5);
    }

    #[test]
    fn the_last_end_is_the_last_line() {
        let sessions = [past("1", START, &[70_000_000]), past("2", START, &[5_000_000])];
        let lines = lines(&sessions, START + 75_000_000, Screen { size: None, colour: false });
        assert_eq!(
            lines,
            [
                "ENDED           ID          CLIENT  SERVER  METHOD           TOOK        HOW",
                "1 min 10 s ago  2/5000000   editor  index   tools/call:read  5.0 s       result",
                "5.0 s ago       1/70000000  editor  index   tools/call:read  1 min 10 s  result",
            ]
        );
    }

    #[test]
    fn ages_are_never_negative() {
        assert_eq!(ago(START + 5 * DAY, START), "just now");
        assert_eq!(ago(START, START + 90_000_000), "1 min 30 s ago");
        assert_eq!(ago(START, START + 9 * DAY + 1), "9 days ago");
        assert_eq!(ago(u64::MAX, 0), "just now");
    }

    #[test]
    fn what_is_not_listed_is_told() {
        let mut counted = past("1", START, &[]);
        counted.counted = 7;
        let notes = notes(&[counted], 3, 1, 2);
        assert_eq!(
            notes,
            [
                "note: 3 earlier ones are not listed: --limit N lists more",
                "note: 1: 7 more ended than were kept, and are only counted",
                "note: 1 file breaks off in the middle of a line: a session was killed, or the disk was full",
                "note: 2 damaged lines are left out",
            ]
        );
    }
}
