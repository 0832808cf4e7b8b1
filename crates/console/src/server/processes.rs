//! What sessions have started, and the end of what ended sessions have left.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::{Response, StatusCode};
use rescind_ledger::{
    choice::{Choice, ChoiceError, SeenSession},
    document::{Document, ReapedDocument},
    snapshot::Snapshot,
};
use serde::Deserialize;
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

use super::answer::{self, AnswerBody};
use crate::shims::Directories;

/// How long an answer is repeated instead of reading the processes again.
const FRESH: Duration = Duration::from_secs(2);

/// Time for a process to end after SIGTERM, as `rescind reap` has it.
const GRACE: Duration = Duration::from_millis(2500);

/// The processes of the sessions in some directories.
#[derive(Debug, Default)]
pub(super) struct Processes {
    last: Arc<Mutex<Option<(Instant, Bytes)>>>,
    /// Held by the one who reads; others wait for its answer.
    reading: Arc<AsyncMutex<()>>,
    /// Held while processes are being ended, also if the browser has left.
    reaping: Arc<AsyncMutex<()>>,
}

/// An order to end processes.
#[derive(Debug, Deserialize)]
pub(super) struct ReapOrder {
    sessions: Vec<SeenSession>,
}

impl Processes {
    /// All of them.
    pub(super) async fn list(&self, directories: Option<&Directories>) -> Response<AnswerBody> {
        let reading = Arc::clone(&self.reading).lock_owned().await;
        if let Some((_, known)) = lock(&self.last).as_ref().filter(|(read, _)| read.elapsed() < FRESH) {
            return answer::of_type("application/json", known.clone());
        }
        let (directories, last) = (directories.cloned(), Arc::clone(&self.last));
        let read = spawn_blocking(move || {
            let families = directories.map(|directories| directories.families(&Snapshot::take()));
            let text = serde_json::to_vec(&Document::of(&families.unwrap_or_default())).map(Bytes::from).ok()?;
            *lock(&last) = Some((Instant::now(), text.clone()));
            drop(reading);
            Some(text)
        });
        match read.await.ok().flatten() {
            Some(text) => answer::of_type("application/json", text),
            None => answer::text(StatusCode::INTERNAL_SERVER_ERROR, "The processes cannot be read.\n"),
        }
    }

    /// Ends those that a person saw, and what they start meanwhile.
    pub(super) async fn reap(&self, directories: Option<&Directories>, order: ReapOrder) -> Response<AnswerBody> {
        let Some(directories) = directories.cloned() else {
            return answer::problem(StatusCode::CONFLICT, "a recording has no processes", "the session has ended");
        };
        let Ok(reaping) = Arc::clone(&self.reaping).try_lock_owned() else {
            return answer::problem(StatusCode::CONFLICT, "processes are already being ended", "wait ten seconds");
        };
        let last = Arc::clone(&self.last);
        let reaped = spawn_blocking(move || {
            let snapshot = Snapshot::take();
            let choice = Choice::seen(&snapshot, &directories.families(&snapshot), &order.sessions)?;
            let reaped = directories.reap(GRACE, choice);
            *lock(&last) = None;
            drop(reaping);
            Ok::<_, ChoiceError>(reaped)
        });
        match reaped.await {
            Ok(Ok(reaped)) => answer::json(StatusCode::OK, &ReapedDocument::of(reaped)),
            Ok(Err(error)) => {
                answer::problem(StatusCode::CONFLICT, error.to_string(), "nothing was ended; look at the list again")
            }
            Err(_) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, "The processes cannot be ended.\n"),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
