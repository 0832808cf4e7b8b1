//! What happened to each piece of the turn, put together from the marks. It says nothing that was not observed.

use serde::Serialize;
use serde_json::Value;

use super::editor::Seen;
use crate::{
    hops::mark::{Event, Piece},
    moment::Moment,
    ms::Ms,
};

/// The whole act. Times are milliseconds since the prompt was sent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Story {
    /// The revision of MCP that agent and tool server speak.
    pub(super) mcp: &'static str,
    /// When Stop was pressed; `null` if it did not come to that.
    pub(super) stop_ms: Option<Ms>,
    pub(super) rows: Vec<Row>,
    /// How long another prompt took after that, through all hops; `null` if it was not answered.
    pub(super) went_on_ms: Option<Ms>,
    pub(super) end: End,
    /// What should have been otherwise, in words; empty if all went as it should.
    pub(crate) unexpected: Vec<String>,
}

/// One piece of the work.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) piece: Piece,
    pub(super) parent: Option<Piece>,
    /// When it was asked for; `null` for what nobody asks for in a protocol.
    pub(super) asked_ms: Option<Ms>,
    pub(super) started_ms: Option<Ms>,
    /// When Stop had reached the work.
    pub(super) told_ms: Option<Ms>,
    pub(super) stopped_ms: Option<Ms>,
    /// Steps of the work, and how many of them after it was told.
    pub(super) steps: usize,
    pub(super) steps_after_told: usize,
    /// The notifications that cancelled it, as its requester wrote them.
    pub(super) cancels: Vec<Cancel>,
    /// What its requester was answered.
    pub(super) answers: Vec<Answer>,
    /// What its requester knew of the cancel in the end (D28).
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
    /// From asking to the answer.
    pub(super) after_ms: Option<Ms>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// How the session ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    /// Of the agent; `null` if it had to be killed or died of a signal.
    pub(super) exit_code: Option<i32>,
    /// Whether a process was left that held the pipe of the marks.
    pub(super) left_behind: bool,
}

impl Story {
    pub(super) fn new(seen: &Seen) -> Self {
        let asked = seen.of(Piece::Prompt).next().map(|mark| mark.at);
        let start = asked.unwrap_or_else(Moment::now);
        let time = |at: Moment| Ms(at.since(start).as_secs_f64() * 1e3);
        Self {
            mcp: rescind::mcp::LATEST.name.trim_start_matches("mcp-"),
            stop_ms: seen.stop.map(time),
            rows: Piece::ALL.into_iter().map(|piece| Row::new(piece, seen, &time)).collect(),
            went_on_ms: seen.went_on.map(|took| Ms(took.as_secs_f64() * 1e3)),
            end: End { exit_code: seen.exit_code, left_behind: !seen.is_alone },
            unexpected: Vec::new(),
        }
    }

    /// From Stop to then.
    pub(super) fn after_stop(&self, at: Option<Ms>) -> Option<Ms> {
        Some(Ms(at?.0 - self.stop_ms?.0))
    }
}

impl Row {
    /// A row of which nothing is known yet.
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
            }
        }
        row
    }

    /// What it is called.
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

    /// Whose work it is.
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
