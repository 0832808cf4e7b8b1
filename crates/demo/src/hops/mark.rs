//! What the work of a turn marks, piece by piece.

use std::{future::Future, pin::pin, sync::Arc};

use rescind::peer::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{marks::Marks, moment::Moment};

/// A piece of the work of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    /// The turn: the agent's.
    Prompt,
    /// A call of a tool that runs a process.
    Build,
    /// That process.
    Make,
    /// A process of that process.
    Compiler,
    /// A call of a tool that works by itself.
    Search,
    /// A question to the person at the editor.
    Permission,
}

impl Piece {
    /// As the tree has them, from above.
    pub(crate) const ALL: [Self; 6] =
        [Self::Prompt, Self::Build, Self::Make, Self::Compiler, Self::Search, Self::Permission];

    /// What it is a part of.
    pub(crate) const fn parent(self) -> Option<Self> {
        match self {
            Self::Prompt => None,
            Self::Build | Self::Search | Self::Permission => Some(Self::Prompt),
            Self::Make => Some(Self::Build),
            Self::Compiler => Some(Self::Make),
        }
    }
}

/// One line: something happened to a piece.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) at: Moment,
    pub(crate) piece: Piece,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// What happened. The first four are of the work itself, the others of whoever asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The work begins.
    Started,
    /// Another step of it is done.
    Step,
    /// It has been told to stop.
    Told,
    /// It has ended.
    Stopped,
    /// The request is about to be written.
    Asked,
    /// A notification that cancels it is about to be written.
    Cancelling { method: String },
    /// This answer has come: the result or error of the response.
    Answered { answer: Value },
    /// All that is known of the cancel in the end (D28).
    Receipt { outcome: String, after_ms: Option<f64> },
    /// The process was collected; of two exit codes 128 + n means signal n.
    Exited { code: Option<i32>, signal: Option<i32> },
}

impl Marks {
    /// Whether anybody takes it.
    pub(crate) fn mark(&self, piece: Piece, event: Event) -> bool {
        self.write(&Mark { at: Moment::now(), piece, event }).is_ok()
    }

    /// Begins a piece of work, which ends when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, piece: Piece) -> Work {
        self.mark(piece, Event::Started);
        Work { marks: Arc::clone(self), piece }
    }
}

/// A piece of work that goes on.
#[must_use]
#[derive(Debug)]
pub(crate) struct Work {
    marks: Arc<Marks>,
    piece: Piece,
}

impl Work {
    /// Awaits `work` to its end, and marks when its request is told to stop meanwhile.
    pub(crate) async fn until_end<F: Future>(&self, cx: &Context, work: F) -> F::Output {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            () = cx.cancelled() => {}
            output = &mut work => {
                if cx.is_cancelled() {
                    self.marks.mark(self.piece, Event::Told);
                }
                return output;
            }
        }
        self.marks.mark(self.piece, Event::Told);
        work.await
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.marks.mark(self.piece, Event::Stopped);
    }
}
