//! An answer that takes time to find out, and is repeated for a while.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

use super::answer::{self, AnswerBody};

/// A document, and when it was read. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Repeated {
    fresh: Duration,
    last: Arc<Mutex<Last>>,
    /// Held by the one who reads; others wait for its answer.
    reading: Arc<AsyncMutex<()>>,
}

#[derive(Debug, Default)]
struct Last {
    answer: Option<(Instant, Bytes)>,
    /// How often it was outdated. What was read across such a moment is not repeated.
    outdated: u64,
}

impl Repeated {
    /// One that is repeated for this long instead of being read again.
    pub(super) fn new(fresh: Duration) -> Self {
        Self { fresh, last: Arc::default(), reading: Arc::default() }
    }

    /// The last answer, or what `read` finds. It may block.
    pub(super) async fn answer<T: Serialize>(&self, read: impl FnOnce() -> T + Send + 'static) -> Response<AnswerBody> {
        let reading = Arc::clone(&self.reading).lock_owned().await;
        let outdated = {
            let last = lock(&self.last);
            if let Some((_, known)) = last.answer.as_ref().filter(|(read, _)| read.elapsed() < self.fresh) {
                return answer::of_type("application/json", known.clone());
            }
            last.outdated
        };
        let kept = Arc::clone(&self.last);
        let read = spawn_blocking(move || {
            let text = serde_json::to_vec(&read()).map(Bytes::from).ok()?;
            let mut last = lock(&kept);
            if last.outdated == outdated {
                last.answer = Some((Instant::now(), text.clone()));
            }
            drop(reading);
            Some(text)
        });
        match read.await.ok().flatten() {
            Some(text) => answer::of_type("application/json", text),
            None => answer::text(StatusCode::INTERNAL_SERVER_ERROR, "This cannot be read.\n"),
        }
    }

    /// From now on it is read again.
    pub(super) fn outdate(&self) {
        let mut last = lock(&self.last);
        *last = Last { answer: None, outdated: last.outdated + 1 };
    }
}

fn lock(last: &Mutex<Last>) -> MutexGuard<'_, Last> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}
