//! The result of `stop`.

use std::collections::BTreeMap;

use rescind_feed::WorkStatus;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    readable::Readable,
    row::{PLAIN, no_sessions_within_reach},
};
use crate::{
    ps::{row, table},
    screen::clean,
    stop::StoppedSessions,
};

/// What became of everything that was in flight within reach
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Stopped {
    requests: Vec<StoppedRequest>,
    /// How many requests stand how, for each word of `work`
    counts: BTreeMap<String, u64>,
    /// Requests that began meanwhile, and were not cancelled
    began: u64,
    /// Sessions within reach that did not answer: what is in flight in them is unknown, and not stopped
    unanswered: Vec<String>,
    /// What else went wrong
    notes: Vec<String>,
}

/// A request that was stopped, or not
#[derive(Debug, Serialize, JsonSchema)]
struct StoppedRequest {
    /// Its name: SESSION/ID
    request: String,
    /// The server of its session
    server: String,
    method: String,
    /// The tool or prompt that it names
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// Whether its work stopped: stopped, finished, ended (with its server), still_working, no_answer, not_delivered or
    /// unknown; of one that a server made of its client: withdrawn or with_its_client
    work: String,
    /// What is known, in words
    words: String,
}

impl Stopped {
    pub(super) fn of(stopped: StoppedSessions, mut unanswered: Vec<String>, has_sessions: bool) -> Readable<Self> {
        let StoppedSessions { board, silent, has_unseen, notices } = stopped;
        unanswered.extend(silent.into_iter().map(|(name, _)| name));
        let rows = board.rows();
        let mut lines = match rows.is_empty() {
            true if !has_sessions => vec![no_sessions_within_reach()],
            true if has_unseen || !unanswered.is_empty() => vec!["Nothing is seen in flight within reach.".to_owned()],
            true if !board.is_over() => vec!["Nothing else is known to be in flight within reach.".to_owned()],
            true => vec!["Nothing was in flight within reach.".to_owned()],
            false => [table::lines(&rows, PLAIN), vec![board.summary()]].concat(),
        };
        lines.extend(board.began());
        lines.extend(notices.iter().cloned());
        lines.extend(unanswered.iter().map(|name| format!("{name}: not answering; nothing of it was stopped")));
        let requests = board.each().map(|(name, session, request, work, words)| StoppedRequest {
            request: format!("{name}/{}", clean(&request.label())),
            server: row::server(session),
            method: clean(&request.method),
            tool: request.name.as_deref().map(clean),
            work: work.name(),
            words,
        });
        let counts = WorkStatus::ALL.into_iter().map(|work| (work.name(), board.count(work) as u64));
        let counts = counts.filter(|(_, count)| *count > 0).collect();
        let value = Self {
            requests: requests.collect(),
            counts,
            began: board.count_begun() as u64,
            unanswered,
            notes: notices,
        };
        Readable { value, text: lines.join("\n") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::receipt::Receipt;

    #[test]
    fn the_schemas_name_each_status_that_a_tool_can_return() {
        let schemas = [schemars::schema_for!(Stopped), schemars::schema_for!(Receipt)];
        let [stopped, receipt] = schemas.map(|schema| schema.to_value().to_string());
        for status in WorkStatus::ALL {
            let name = status.name();
            // A stop returns when nothing more is awaited.
            assert_eq!(stopped.contains(&name), status != WorkStatus::Stopping, "{name}: {stopped}");
            assert!(receipt.contains(&name), "{name}: {receipt}");
        }
    }
}
