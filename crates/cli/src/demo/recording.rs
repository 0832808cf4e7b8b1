//! What the shim's recording says of a call: its receipts, and what came late.

use serde::Serialize;
use serde_json::Value;

use crate::moment::Moment;

/// The lines of a recording that concern cancels.
#[derive(Debug, Default)]
pub(super) struct Recording {
    receipts: Vec<(u64, Receipt)>,
    late_answers: Vec<(u64, Moment)>,
    late_progress: Vec<String>,
    cancelled_here: Vec<(u64, Moment)>,
}

/// The last that is known of a cancel (D28).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    pub(super) cause: String,
    pub(super) outcome: String,
    pub(super) after_ms: Option<f64>,
    pub(super) answer: Option<String>,
}

impl Recording {
    pub(super) fn read(_lines: &[Value]) -> Self {
        Self::default()
    }

    pub(super) fn receipt(&self, id: u64) -> Option<&Receipt> {
        self.receipts.iter().rev().find(|(of, _)| *of == id).map(|(_, receipt)| receipt)
    }

    /// When the shim itself decided to cancel.
    pub(super) fn cancelled_by_shim(&self, id: u64) -> Option<Moment> {
        self.cancelled_here.iter().find(|(of, _)| *of == id).map(|(_, at)| *at)
    }

    /// When answers came for a call that was over.
    pub(super) fn late_answers(&self, id: u64) -> impl DoubleEndedIterator<Item = Moment> {
        self.late_answers.iter().filter(move |(of, _)| *of == id).map(|(_, at)| *at)
    }

    pub(super) fn late_progress(&self, token: &str) -> usize {
        self.late_progress.iter().filter(|of| *of == token).count()
    }
}
