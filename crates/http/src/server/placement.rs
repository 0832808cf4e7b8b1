//! Which of several machines a request is for, where each has a server process of its own.
//!
//! A request is for the machine that has its session, that made the task which its head names, or that asked for the input
//! which it brings; else for the least busy. A foreign mark is not refused: a server may keep everything in its state, and
//! then any replica can go on.

use http::{HeaderMap, request::Parts};

use super::{
    HttpServer, PoolMember,
    door::{METHOD, NAME, SESSION, VERSION},
};
use rescind_proto::dialect::mcp;

/// How busy a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Its process has ended again and again, and is not started yet.
    pub is_resting: bool,
    /// Requests in flight.
    pub in_flight: usize,
    /// Open sessions.
    pub sessions: usize,
}

/// What one machine has of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// It has the session that the request names.
    pub has_session: bool,
    /// It has made the task that the request is about, by its headers (TASK-26).
    pub has_task: bool,
    /// It asked for the input that the request brings, by its `requestState` (MCP-M03).
    pub has_asked: bool,
    /// How busy it is.
    pub load: Load,
}

impl HttpServer {
    /// Returns what this machine has of a request, for [`place`]. The request brings input that `asked_by` has asked for.
    #[must_use]
    pub fn candidate(&self, head: &Parts, asked_by: Option<PoolMember>) -> Candidate {
        let has_session = text(&head.headers, &SESSION).is_some_and(|id| self.streams.session_ids.contains_key(id));
        let is_about_task = text(&head.headers, &METHOD).is_some_and(|method| method.starts_with("tasks/"));
        let task = text(&head.headers, &NAME).filter(|_| is_about_task);
        let owner = || self.config.access.check(&head.headers, &self.keyring).ok().flatten();
        let has_task = task.is_some_and(|id| self.task_owners.has(id, owner));
        let has_asked = asked_by.is_some() && asked_by == self.config.pool_member;
        let (in_flight, sessions) = (self.in_flight(), self.streams.sessions.len());
        let load = Load {
            is_resting: self.programs.links.values().any(|link| link.rests_until.is_some()),
            in_flight,
            sessions,
        };
        Candidate { has_session, has_task, has_asked, load }
    }
}

/// The place of the machine that a request is for: the one that has its session, or its task, or that asked for the input
/// which it brings; else the one that is least busy, by sessions for a client that begins one, and by requests for one that
/// has none. Of several the first. Costs time in proportion to their number.
#[must_use]
pub fn place(head: &Parts, candidates: &[Candidate]) -> usize {
    let has_it = candidates.iter().position(|candidate| candidate.has_session);
    let has_it = has_it.or_else(|| candidates.iter().position(|candidate| candidate.has_task));
    if let Some(at) = has_it.or_else(|| candidates.iter().position(|candidate| candidate.has_asked)) {
        return at;
    }
    let busy = |load: &Load| match names_stateless(head) {
        true => (load.is_resting, load.in_flight, load.sessions),
        false => (load.is_resting, load.sessions, load.in_flight),
    };
    let least = candidates.iter().enumerate().min_by_key(|(_, candidate)| busy(&candidate.load));
    least.map_or(0, |(at, _)| at)
}

/// Whether a request names a revision without sessions.
pub(crate) fn names_stateless(head: &Parts) -> bool {
    text(&head.headers, &VERSION).and_then(mcp::stateless_by_version).is_some()
}

fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::post("/mcp"), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn candidate(in_flight: usize, sessions: usize) -> Candidate {
        let load = Load { is_resting: false, in_flight, sessions };
        Candidate { has_session: false, has_task: false, has_asked: false, load }
    }

    #[test]
    fn a_session_stays_where_it_is() {
        let mut all = [candidate(0, 0), candidate(9, 9)];
        all[1].has_session = true;
        assert_eq!(place(&head(&[("mcp-session-id", "s")]), &all), 1);
        all[1].load.is_resting = true;
        assert_eq!(place(&head(&[("mcp-session-id", "s")]), &all), 1);
    }

    #[test]
    fn a_task_is_asked_about_where_it_was_made() {
        let mut all = [candidate(0, 0), candidate(9, 9)];
        all[1].has_task = true;
        assert_eq!(place(&head(&[("mcp-protocol-version", "2026-07-28")]), &all), 1);
        all[0].has_session = true;
        assert_eq!(place(&head(&[("mcp-session-id", "s")]), &all), 0);
    }

    #[test]
    fn input_goes_where_it_was_asked_for() {
        let mut all = [candidate(0, 0), candidate(9, 9), candidate(1, 1)];
        let request = head(&[("mcp-protocol-version", "2026-07-28")]);
        all[1].has_asked = true;
        assert_eq!(place(&request, &all), 1);
        all[1].load.is_resting = true;
        assert_eq!(place(&request, &all), 1, "nobody else knows of it");
        all[2].has_task = true;
        assert_eq!(place(&request, &all), 2);
    }

    #[test]
    fn who_comes_goes_where_least_is_going_on() {
        let all = [candidate(1, 3), candidate(2, 1), candidate(2, 1)];
        assert_eq!(place(&head(&[]), &all), 1, "a session");
        assert_eq!(place(&head(&[("mcp-protocol-version", "2026-07-28")]), &all), 0, "a request");
        assert_eq!(place(&head(&[("mcp-protocol-version", "2025-06-18")]), &all), 1);
        let mut all = all;
        all[1].load.is_resting = true;
        assert_eq!(place(&head(&[]), &all), 2, "its process is not there");
        assert_eq!(place(&head(&[]), &[]), 0);
    }
}
