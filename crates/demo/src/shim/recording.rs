//! What the shim recorded about the calls: receipts, timeouts, and what came late (`docs/recording.md`).

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::{moment::Moment, ms::Ms};

/// The parts of a recording that concern the client's requests.
#[derive(Debug, Default)]
pub(super) struct Recording {
    receipts: Vec<(u64, Receipt)>,
    timeouts: Vec<(u64, Ms)>,
    late_answers: Vec<(u64, Ms)>,
    late_progress: Vec<String>,
    /// Lines about what must not happen in the demo.
    pub(super) anomalies: Vec<String>,
    /// Whether its last line is there.
    pub(super) is_complete: bool,
}

/// What the shim knows of a cancel (D28).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    pub(super) cause: String,
    pub(super) outcome: String,
    pub(super) asked_ms: Ms,
    /// When the cancel was written to the server.
    pub(super) written_ms: Option<Ms>,
    /// From the cancel to the answer.
    pub(super) after_ms: Option<Ms>,
    /// `result` or `error`.
    pub(super) answer: Option<String>,
}

impl Recording {
    /// Reads lines, with the times since `start`.
    pub(super) fn read(lines: &[Value], start: Moment) -> Self {
        let mut recording = Self::default();
        let Some((heading, lines)) = lines.split_first() else { return recording };
        let origin = Moment::from_nanos(heading["monotonicNs"].as_u64().unwrap_or_default());
        let time = |value: &Value| {
            let micros = value.as_f64()?;
            Some(Ms::of((origin + Duration::try_from_secs_f64(micros / 1e6).ok()?).since(start)))
        };
        for line in lines {
            recording.add(line, &time);
        }
        recording
    }

    fn add(&mut self, line: &Value, time: &dyn Fn(&Value) -> Option<Ms>) {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let id = line["id"].as_u64();
        match (line["kind"].as_str().unwrap_or_default(), id, time(&line["t"])) {
            ("receipt", Some(id), Some(at)) => {
                let receipt = Receipt {
                    cause: text("cause").unwrap_or_default(),
                    outcome: text("outcome").unwrap_or_default(),
                    asked_ms: time(&line["asked"]).unwrap_or(at),
                    written_ms: time(&line["written"]),
                    after_ms: line["afterMs"].as_f64().map(Ms),
                    answer: text("answer"),
                };
                self.receipts.push((id, receipt));
            }
            ("timed_out", Some(id), Some(at)) => self.timeouts.push((id, at)),
            ("late", _, _) if line["what"] == "progress" => self.late_progress.extend(text("id")),
            ("late", Some(id), Some(at)) => self.late_answers.push((id, at)),
            ("dropped" | "violation" | "stuck" | "given_up" | "late", _, _) => self.anomalies.push(line.to_string()),
            ("end", _, _) => self.is_complete = true,
            _ => {}
        }
    }

    /// Returns the last receipt of the cancel of this request.
    pub(super) fn receipt(&self, id: u64) -> Option<&Receipt> {
        self.receipts.iter().rev().find(|(of, _)| *of == id).map(|(_, receipt)| receipt)
    }

    /// Returns when the shim cancelled this request because of a timeout.
    pub(super) fn timed_out(&self, id: u64) -> Option<Ms> {
        self.timeouts.iter().find(|(of, _)| *of == id).map(|(_, at)| *at)
    }

    /// Returns when answers came after this request was over.
    pub(super) fn late_answers(&self, id: u64) -> impl DoubleEndedIterator<Item = Ms> {
        self.late_answers.iter().filter(move |(of, _)| *of == id).map(|(_, at)| *at)
    }

    /// Counts the progress reports that came after this request was over.
    pub(super) fn late_progress(&self, token: &str) -> usize {
        self.late_progress.iter().filter(|of| *of == token).count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_receipt_counts() {
        let heading = json!({"rescind": "recording", "monotonicNs": 1_000_000_000_u64});
        let receipt = |outcome: &str, answer: Option<&str>| {
            json!({"t": 5000, "kind": "receipt", "id": 2, "outcome": outcome, "cause": "caller",
                "asked": 4000.5, "written": null, "answer": answer})
        };
        let lines = [
            heading,
            receipt("sent", None),
            receipt("answered_after", Some("result")),
            json!({"t": 6000, "kind": "late", "from": "server", "id": 2, "what": "result"}),
            json!({"t": 6000, "kind": "late", "from": "server", "id": "token", "what": "progress"}),
            json!({"t": 7000, "kind": "dropped"}),
        ];
        let recording = Recording::read(&lines, Moment::from_nanos(1_001_000_000));
        let receipt = recording.receipt(2).unwrap();
        assert_eq!(receipt.outcome, "answered_after");
        assert_eq!(receipt.asked_ms, Ms(3.0005));
        assert_eq!(receipt.written_ms, None);
        assert_eq!(recording.late_answers(2).collect::<Vec<_>>(), [Ms(5.0)]);
        assert_eq!(recording.late_progress("token"), 1);
        assert_eq!(recording.anomalies.len(), 1);
        assert!(!recording.is_complete);
    }
}
