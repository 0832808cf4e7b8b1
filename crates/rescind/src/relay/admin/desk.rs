//! The one door between whoever asks over the socket and the link.
//!
//! A question is a function of the link, put to the desk by the task of a connection, and answered by the drive in
//! its turn, between two inputs: one each time, so that however many ask, the link waits for one answer at most. While
//! nobody asks, the drive looks at one flag.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use tokio::sync::oneshot;

use super::scene::Scene;

type Question = Box<dyn FnOnce(&mut Scene<'_>) + Send>;

/// Questions that wait: at most one of each connection, and one of the clock.
#[derive(Default)]
pub(super) struct Desk {
    waiting: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    questions: VecDeque<Question>,
    drive: Option<Waker>,
    closed: bool,
}

impl Desk {
    /// What the link answers; `None` when it is over.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Scene<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.state();
            if state.closed {
                return None;
            }
            state.questions.push_back(Box::new(move |scene| drop(sender.send(question(scene)))));
            self.waiting.store(true, Ordering::Relaxed);
            if let Some(drive) = &state.drive {
                drive.wake_by_ref();
            }
        }
        answer.await.ok()
    }

    /// Whom to wake from now on; at once, if somebody has been waiting.
    pub(super) fn attend(&self, drive: &Waker) {
        let mut state = self.state();
        state.drive = Some(drive.clone());
        if !state.questions.is_empty() {
            drive.wake_by_ref();
        }
    }

    /// Whether a question waits.
    #[inline]
    pub(super) fn is_waited_at(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The question that has waited longest.
    pub(super) fn take(&self) -> Option<Question> {
        let mut state = self.state();
        let question = state.questions.pop_front();
        self.waiting.store(!state.questions.is_empty(), Ordering::Relaxed);
        question
    }

    /// Nothing is answered any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.questions = VecDeque::new();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}
