//! Tasks of a server: calls of its tools, as work that outlives their request.
//!
//! A call becomes a task in [`routes`]: the task is stored, then its handle is answered, then its work begins
//! ([`work`]), on a connection of its own. A cancel is recorded in the store, by any process, and reaches the work
//! through its [`Run`](crate::Run).

mod request;
mod routes;
mod running;
mod tool;
mod upkeep;
mod wire;
mod work;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use rescind::peer::{Builder, Context, Peer};
use tokio::sync::{Notify, watch};

pub use self::tool::{AsTask, TaskSupport, TaskTool};
use crate::{id::TaskId, owner::Owner, store::TaskStore, task::Task};

/// The tasks of a server, shared by all of its connections: their store, their tools, their work.
///
/// Built with [`builder`](Self::builder) and added to a server with [`serve_on`](Self::serve_on). Clones share the same
/// tasks.
///
/// Both dialects are served at once (D38): 2025-11-25 to clients that agreed on that revision, the extension
/// `io.modelcontextprotocol/tasks` to clients that declare it with a request of 2026-07-28.
///
/// # The work
///
/// It begins once the handle of its task was written, and goes on when the connection ends. Its [`Context`] is that of a
/// request, except that the requester's deadline does not apply, and that [`peer`](Context::peer) is the task's client,
/// on its present connection:
///
/// - It is stopped by `tasks/cancel`, from any connection or process on the same store, and when its ttl expires: token,
///   grace, drop (D22).
/// - Its elicitation, sampling and roots requests make the task `input_required`. In 2025-11-25 they are sent to the
///   client that made the task, or to a later one that waits for its result. In the extension they stay in the task for
///   `tasks/update`.
/// - Its [`progress`](Context::progress) goes to the client that asked for it (2025-11-25). The progress message becomes
///   the task's status message.
///
/// # Dropping it
///
/// The work goes on as long as the runtime does. [`shutdown`](Self::shutdown) stops it in order.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
    owner: Option<OwnerOf>,
}

type OwnerOf = Arc<dyn Fn(&Context) -> Owner + Send + Sync>;

struct Shared {
    store: Arc<dyn TaskStore>,
    tools: HashMap<Box<str>, TaskTool>,
    poll_interval: Option<Duration>,
    upkeep: Duration,
    change: Arc<dyn Fn(Builder) -> Builder + Send + Sync>,
    /// The client of each task whose work runs here. An entry is removed by its [`running::RunningTask`].
    clients: Mutex<HashMap<TaskId, watch::Sender<Option<Peer>>>>,
    running: watch::Sender<usize>,
    closing: watch::Sender<bool>,
    /// Notified when upkeep may have something to do.
    activity: Arc<Notify>,
}

/// The settings of [`Tasks`].
#[must_use = "no call becomes a task before `start`"]
pub struct TasksBuilder {
    shared: Shared,
    owner: Option<OwnerOf>,
}

impl Tasks {
    /// Starts to configure the tasks of that store.
    pub fn builder(store: Arc<dyn TaskStore>) -> TasksBuilder {
        let shared = Shared {
            store,
            tools: HashMap::new(),
            poll_interval: Some(Duration::from_secs(1)),
            upkeep: Duration::from_secs(5),
            change: Arc::new(|builder| builder),
            clients: Mutex::default(),
            running: watch::Sender::new(0),
            closing: watch::Sender::new(false),
            activity: Arc::new(Notify::new()),
        };
        TasksBuilder { shared, owner: None }
    }

    /// Returns the same tasks for a server that can tell its clients apart: `owner` names the owner of a request
    /// (TASK-08), and clients may list their tasks. Without it tasks have no owner, an id is their only protection, and
    /// there is no list.
    #[must_use]
    pub fn owned_by(&self, owner: impl Fn(&Context) -> Owner + Send + Sync + 'static) -> Self {
        Self { shared: Arc::clone(&self.shared), owner: Some(Arc::new(owner)) }
    }

    /// Returns the number of tasks whose work runs in this process.
    #[must_use]
    pub fn running(&self) -> usize {
        *self.shared.running.borrow()
    }

    /// Waits until no work runs in this process.
    pub async fn idle(&self) {
        // The sender is in `self`.
        let _ = self.shared.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Stops all work in order. Work that does not end by itself within its grace is released: the next process that
    /// opens the store resumes or fails it.
    pub async fn shutdown(&self) {
        self.shared.closing.send_replace(true);
        self.idle().await;
    }
}

impl TasksBuilder {
    /// Adds a tool whose calls are tasks. It replaces an earlier one of the same name.
    pub fn tool(mut self, tool: TaskTool) -> Self {
        self.shared.tools.insert(tool.tool.name().into(), tool);
        self
    }

    /// Sets the owner of each request; see [`Tasks::owned_by`].
    pub fn owned_by(mut self, owner: impl Fn(&Context) -> Owner + Send + Sync + 'static) -> Self {
        self.owner = Some(Arc::new(owner));
        self
    }

    /// Sets the poll interval that clients are told. Default 1 s.
    pub const fn poll_interval(mut self, every: Duration) -> Self {
        self.shared.poll_interval = Some(every);
        self
    }

    /// Sets the interval at which interrupted work is resumed and expired tasks are removed, while the store has tasks
    /// that may need it. Default 5 s.
    pub const fn upkeep(mut self, every: Duration) -> Self {
        self.shared.upkeep = every;
        self
    }

    /// Configures the connection that handles the work: its grace, observers, filters.
    pub fn with(mut self, change: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.shared.change = Arc::new(change);
        self
    }

    /// Resumes interrupted work, and starts the upkeep of the store. Call it inside a tokio runtime.
    #[must_use]
    pub fn start(self) -> Tasks {
        let shared = Arc::new(self.shared);
        tokio::spawn(upkeep::run(Arc::downgrade(&shared)));
        Tasks { shared, owner: self.owner }
    }
}

impl Shared {
    /// Waits for the shutdown.
    fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.closing.subscribe();
        async move {
            let is_closing = closing.wait_for(|is_closing| *is_closing).await.is_ok();
            if !is_closing {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the tool that the task calls.
    fn tool_of(&self, task: &Task) -> Option<&TaskTool> {
        let params = task.request.params.as_ref()?.as_str().as_bytes();
        let name = rescind_proto::json::member(params, "name").and_then(rescind_proto::json::text)?;
        self.tools.get(&*name)
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("running", &self.running()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TasksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TasksBuilder").field("tools", &self.shared.tools.keys()).finish_non_exhaustive()
    }
}
