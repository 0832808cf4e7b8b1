//! What happened to each piece of the turn, according to the marks.

use serde::Serialize;
use serde_json::Value;

use super::editor::Seen;
use crate::{
    act::End,
    hops::mark::{Event, Piece},
    moment::Moment,
    ms::Ms,
};

/// The whole act. Times are milliseconds since the prompt was sent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Story {
    /// The MCP revision of agent and tool server.
    pub(super) mcp: &'static str,
    /// When Stop was pressed; `null` if the script did not get that far.
    pub(super) stop_ms: Option<Ms>,
    pub(super) rows: Vec<Row>,
    /// How long another prompt through all hops took afterwards; `null` if it was not answered.
    pub(super) went_on_ms: Option<Ms>,
    pub(super) end: End,
    /// Sentences about what was not expected.
    pub(crate) unexpected: Vec<String>,
}

/// One piece of the work.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) piece: Piece,
    pub(super) parent: Option<Piece>,
    /// When it was requested; `null` for processes, which no protocol requests.
    pub(super) asked_ms: Option<Ms>,
    pub(super) started_ms: Option<Ms>,
    /// When Stop reached the work.
    pub(super) told_ms: Option<Ms>,
    pub(super) stopped_ms: Option<Ms>,
    /// Steps of the work, and how many of them it took after it was told to stop.
    pub(super) steps: usize,
    pub(super) steps_after_told: usize,
    /// The notifications that cancelled it, as its requester wrote them.
    pub(super) cancels: Vec<Cancel>,
    /// The answers that its requester received.
    pub(super) answers: Vec<Answer>,
    /// What its requester knows of the cancel (D28).
    pub(super) receipt: Option<Receipt>,
    /// How the process ended.
    pub(super) exit: Option<Exit>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancel {
    pub(super) method: String,
    pub(super) at_ms: Ms,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) at_ms: Ms,
    pub(super) answer: Value,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    pub(super) outcome: String,
    /// From the cancel to the answer.
    pub(super) after_ms: Option<Ms>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

impl Story {
    pub(super) fn new(seen: &Seen) -> Self {
        let asked = seen.of(Piece::Prompt).next().map(|mark| mark.at);
        let start = asked.unwrap_or_else(Moment::now);
        let time = |at: Moment| Ms::of(at.since(start));
        Self {
            mcp: rescind::mcp::LATEST.name.trim_start_matches("mcp-"),
            stop_ms: seen.stop.map(time),
            rows: Piece::ALL.into_iter().map(|piece| Row::new(piece, seen, &time)).collect(),
            went_on_ms: seen.went_on.map(Ms::of),
            end: End { exit_code: seen.exit_code, left_behind: !seen.is_alone },
            unexpected: Vec::new(),
        }
    }

    /// Returns the time from Stop to `at`.
    pub(super) fn after_stop(&self, at: Option<Ms>) -> Option<Ms> {
        Some(Ms(at?.0 - self.stop_ms?.0))
    }
}

impl Row {
    /// A row about which nothing is known yet.
    pub(super) const fn empty(piece: Piece) -> Self {
        Self {
            piece,
            parent: piece.parent(),
            asked_ms: None,
            started_ms: None,
            told_ms: None,
            stopped_ms: None,
            steps: 0,
            steps_after_told: 0,
            cancels: Vec::new(),
            answers: Vec::new(),
            receipt: None,
            exit: None,
        }
    }

    fn new(piece: Piece, seen: &Seen, time: &dyn Fn(Moment) -> Ms) -> Self {
        let mut row = Self::empty(piece);
        for mark in seen.of(piece) {
            let at = time(mark.at);
            match mark.event.clone() {
                Event::Asked => row.asked_ms = Some(at),
                Event::Started => row.started_ms = Some(at),
                Event::Step => {
                    row.steps += 1;
                    row.steps_after_told += usize::from(row.told_ms.is_some());
                }
                Event::Told => row.told_ms = Some(at),
                Event::Stopped => row.stopped_ms = Some(at),
                Event::Cancelling { method } => row.cancels.push(Cancel { method, at_ms: at }),
                Event::Answered { answer } => row.answers.push(Answer { at_ms: at, answer }),
                Event::Receipt { outcome, after_ms } => {
                    row.receipt = Some(Receipt { outcome, after_ms: after_ms.map(Ms) });
                }
                Event::Exited { code, signal } => row.exit = Some(Exit { code, signal }),
                Event::Ended => row.stopped_ms = row.stopped_ms.or(Some(at)),
            }
        }
        row
    }

    /// Whether its process was ended without being asked to: on Windows, where there is no console to ask through.
    pub(super) const fn is_unasked(&self) -> bool {
        cfg!(windows) && self.piece.is_process() && self.told_ms.is_none()
    }

    /// Returns its name in the picture.
    pub(super) const fn name(&self) -> &'static str {
        match self.piece {
            Piece::Prompt => "prompt",
            Piece::Build => "tool build",
            Piece::Make => "make",
            Piece::Compiler => "compiler",
            Piece::Search => "tool search",
            Piece::Permission => "permission",
        }
    }

    /// Returns where it runs.
    pub(super) const fn place(&self) -> &'static str {
        match self.piece {
            Piece::Prompt => "agent",
            Piece::Build | Piece::Search => "tool server",
            Piece::Make => "process",
            Piece::Compiler => "its child",
            Piece::Permission => "editor",
        }
    }
}
