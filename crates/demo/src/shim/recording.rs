//! What the shim recorded about the calls: receipts, timeouts, and what came late (`docs/recording.md`).

use std::time::Duration;

use serde_json::Value;

use crate::moment::Moment;

/// The parts of a recording that concern the client's requests.
#[derive(Debug, Default)]
pub(super) struct Recording {
    receipts: Vec<(u64, Receipt)>,
    timeouts: Vec<(u64, Moment)>,
    late_answers: Vec<(u64, Moment)>,
    late_progress: Vec<String>,
    /// Lines about what must not happen in the demo.
    pub(super) anomalies: Vec<String>,
    /// Whether its last line is there.
    pub(super) is_complete: bool,
}

/// What the shim knows of a cancel (D28).
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) cause: String,
    pub(super) outcome: String,
    pub(super) asked: Moment,
    pub(super) written: Option<Moment>,
    pub(super) after_ms: Option<f64>,
    pub(super) answer: Option<String>,
}

impl Recording {
    pub(super) fn read(lines: &[Value]) -> Self {
        let mut recording = Self::default();
        let Some((heading, lines)) = lines.split_first() else { return recording };
        let origin = Moment::from_nanos(heading["monotonicNs"].as_u64().unwrap_or_default());
        let time = |value: &Value| {
            let micros = value.as_f64()?;
            Some(origin + Duration::try_from_secs_f64(micros / 1e6).ok()?)
        };
        for line in lines {
            recording.add(line, &time);
        }
        recording
    }

    fn add(&mut self, line: &Value, time: &dyn Fn(&Value) -> Option<Moment>) {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let id = line["id"].as_u64();
        match (line["kind"].as_str().unwrap_or_default(), id, time(&line["t"])) {
            ("receipt", Some(id), Some(at)) => {
                let receipt = Receipt {
                    cause: text("cause").unwrap_or_default(),
                    outcome: text("outcome").unwrap_or_default(),
                    asked: time(&line["asked"]).unwrap_or(at),
                    written: time(&line["written"]),
                    after_ms: line["afterMs"].as_f64(),
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
    pub(super) fn timed_out(&self, id: u64) -> Option<Moment> {
        self.timeouts.iter().find(|(of, _)| *of == id).map(|(_, at)| *at)
    }

    /// Returns when answers came after this request was over.
    pub(super) fn late_answers(&self, id: u64) -> impl DoubleEndedIterator<Item = Moment> {
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
        let recording = Recording::read(&[
            heading,
            receipt("sent", None),
            receipt("answered_after", Some("result")),
            json!({"t": 6000, "kind": "late", "from": "server", "id": 2, "what": "result"}),
            json!({"t": 6000, "kind": "late", "from": "server", "id": "token", "what": "progress"}),
            json!({"t": 7000, "kind": "dropped"}),
        ]);
        let receipt = recording.receipt(2).unwrap();
        assert_eq!(receipt.outcome, "answered_after");
        assert_eq!(receipt.asked, Moment::from_nanos(1_004_000_500));
        assert_eq!(receipt.written, None);
        assert_eq!(recording.late_answers(2).collect::<Vec<_>>(), [Moment::from_nanos(1_006_000_000)]);
        assert_eq!(recording.late_progress("token"), 1);
        assert_eq!(recording.anomalies.len(), 1);
        assert!(!recording.is_complete);
    }
}
