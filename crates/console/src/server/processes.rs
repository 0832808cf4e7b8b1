//! What sessions have started, here and in containers, and the end of what ended sessions have left.

use std::{sync::Arc, time::Duration};

use hyper::{Response, StatusCode};
use rescind_ledger::{
    choice::{Choice, ChoiceError, SeenSession},
    container::{
        contained::Scope,
        seen::{SeenContainer, SeenError},
    },
    document::{ContainersDocument, Document, ReapedContainer, ReapedDocument},
    snapshot::Snapshot,
};
use serde::Deserialize;
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

use super::{
    answer::{self, AnswerBody},
    repeated::Repeated,
};
use rescind_operator::Directories;

/// How long an answer is repeated instead of reading the processes again.
const FRESH: Duration = Duration::from_secs(2);

/// How long an answer is repeated instead of asking the engines again.
const FRESH_CONTAINERS: Duration = Duration::from_secs(10);

/// Time for a process to end after SIGTERM, as `rescind reap` has it.
const GRACE: Duration = Duration::from_millis(2500);

/// The processes and containers of the sessions in some directories. An engine may need seconds for its answer, so
/// containers are asked for apart.
#[derive(Debug)]
pub(super) struct Processes {
    families: Repeated,
    containers: Repeated,
    /// Held while something is being ended, also if the browser has left.
    reaping: Arc<AsyncMutex<()>>,
}

/// An order to end processes and containers.
#[derive(Debug, Deserialize)]
pub(super) struct ReapOrder {
    sessions: Vec<SeenSession>,
    #[serde(default)]
    containers: Vec<SeenContainer>,
}

/// Why an order is not carried out.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error(transparent)]
    Process(#[from] ChoiceError),
    #[error(transparent)]
    Container(#[from] SeenError),
}

impl Default for Processes {
    fn default() -> Self {
        Self { families: Repeated::new(FRESH), containers: Repeated::new(FRESH_CONTAINERS), reaping: Arc::default() }
    }
}

impl Processes {
    /// All processes.
    pub(super) async fn list(&self, directories: Option<&Directories>) -> Response<AnswerBody> {
        let directories = directories.cloned();
        let read = move || {
            let families = directories.map(|directories| directories.families(&Snapshot::take()));
            Document::of(&families.unwrap_or_default())
        };
        self.families.answer(read).await
    }

    /// All that is in containers, and which engines do not answer.
    pub(super) async fn list_containers(&self, directories: Option<&Directories>) -> Response<AnswerBody> {
        let directories = directories.cloned();
        let ask = move || {
            let scan = directories.map(|directories| directories.in_containers(Scope::Recorded(None)));
            ContainersDocument::of(&scan.unwrap_or_default())
        };
        self.containers.answer(ask).await
    }

    /// Ends what a person saw, and what the processes of it start meanwhile.
    pub(super) async fn reap(&self, directories: Option<&Directories>, order: ReapOrder) -> Response<AnswerBody> {
        let Some(directories) = directories.cloned() else {
            return answer::problem(StatusCode::CONFLICT, "a recording has no processes", "the session has ended");
        };
        let Ok(reaping) = Arc::clone(&self.reaping).try_lock_owned() else {
            return answer::problem(StatusCode::CONFLICT, "processes are already being ended", "wait twenty seconds");
        };
        let (families, containers) = (self.families.clone(), self.containers.clone());
        let reaped = spawn_blocking(move || {
            let reaped = carry_out(&directories, &order);
            families.outdate();
            containers.outdate();
            drop(reaping);
            reaped
        });
        match reaped.await {
            Ok(Ok(reaped)) => answer::json(StatusCode::OK, &reaped),
            Ok(Err(error)) => {
                answer::problem(StatusCode::CONFLICT, error.to_string(), "nothing was ended; look at the list again")
            }
            Err(_) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, "The processes cannot be ended.\n"),
        }
    }
}

/// Ends containers first, since a command such as `docker run` passes the signal on that it gets as a process.
fn carry_out(directories: &Directories, order: &ReapOrder) -> Result<ReapedDocument, OrderError> {
    // The engines may take seconds, so what is known of the processes is newer.
    let contained = directories.seen_in_containers(&order.containers)?;
    let snapshot = Snapshot::take();
    let choice = Choice::seen(&snapshot, &directories.families(&snapshot), &order.sessions)?;
    let end = |one| ReapedContainer::of(one, &directories.end_in_container(one));
    let containers = contained.iter().map(end).collect();
    Ok(ReapedDocument::of(directories.reap(GRACE, choice), containers))
}
