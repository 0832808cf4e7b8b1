//! Marks of the first act: what happens to each piece of the work.

use std::{future::Future, pin::pin, sync::Arc};

use rescind::peer::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{marks::Marks, moment::Moment};

/// A piece of the work of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    /// The agent's turn.
    Prompt,
    /// A call of a tool that runs a process.
    Build,
    /// The process of that tool.
    Make,
    /// The child of that process.
    Compiler,
    /// A call of a tool that works by itself.
    Search,
    /// A question to the person at the editor.
    Permission,
}

impl Piece {
    /// Every piece, in the order of the picture.
    pub(crate) const ALL: [Self; 6] =
        [Self::Prompt, Self::Build, Self::Make, Self::Compiler, Self::Search, Self::Permission];

    /// Whether a process of its own does it, and nothing else.
    pub(crate) const fn is_process(self) -> bool {
        matches!(self, Self::Make | Self::Compiler)
    }

    /// Returns the piece that it is part of.
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

/// An event. The work itself marks the first four, its requester the others but `Ended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The work begins.
    Started,
    /// Another step of it is done.
    Step,
    /// The work was told to stop.
    Told,
    /// The work has ended.
    Stopped,
    /// The request is about to be written.
    Asked,
    /// A notification that cancels it is about to be written.
    Cancelling { method: String },
    /// This answer was received: the result or the error of the response.
    Answered { answer: Value },
    /// The final receipt of the cancel (D28).
    Receipt { outcome: String, after_ms: Option<f64> },
    /// The process has exited. A code of 128 + n also means signal n.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// The pipe of marks was closed by the end of the process.
    Ended,
}

impl Marks {
    /// Writes a mark, and returns whether it could be written.
    pub(crate) fn mark(&self, piece: Piece, event: Event) -> bool {
        self.write(&Mark { at: Moment::now(), piece, event }).is_ok()
    }

    /// Marks the start of a piece of work. Dropping the guard marks its end.
    pub(crate) fn begin(self: &Arc<Self>, piece: Piece) -> Work {
        self.mark(piece, Event::Started);
        Work { marks: Arc::clone(self), piece }
    }
}

/// A running piece of work.
#[must_use]
#[derive(Debug)]
pub(crate) struct Work {
    marks: Arc<Marks>,
    piece: Piece,
}

impl Work {
    /// Awaits `work` to its end. Marks the moment when its request is told to stop.
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
