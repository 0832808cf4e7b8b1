//! Tasks of a server: its tools' calls, as work that outlives their request.
//!
//! A call becomes a task in [`routes`]: its task lasts, then its handle is answered, then its work begins ([`work`]),
//! on a connection of its own. Whoever cancels it does so in the store, from whatever process; the work hears of it
//! through its [`Run`](crate::Run).

mod asked;
mod line;
mod routes;
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
/// Made by [`builder`](Self::builder); [`serve_on`](Self::serve_on) gives them to a server. Clones are the same tasks.
///
/// Both dialects are served at once, each client by its own (D38): 2025-11-25 to whoever agreed on that revision, the
/// extension `io.modelcontextprotocol/tasks` to whoever declares it with a request of 2026-07-28.
///
/// # The work
///
/// begins once the handle of its task was written, and goes on whatever becomes of the connection. Its
/// [`Context`] is a request's, except that the requester's deadline does not count, and that
/// [`peer`](Context::peer) is the task's client, whichever connection that has at the moment:
///
/// - it is stopped by `tasks/cancel`, from any connection or process on the same store, and when its ttl is over: token,
///   grace, drop (D22);
/// - elicitation, sampling and roots asked of its peer make the task `input_required`. In 2025-11-25 they are asked of
///   the client that made the task, or waits for its result since; with the extension they wait in the task for
///   `tasks/update`;
/// - [`progress`](Context::progress) goes to the client that asked for it (2025-11-25), and its words are the status
///   in words.
///
/// # Dropping them
///
/// lets the work go on as long as the runtime does. [`shutdown`](Self::shutdown) stops it in order.
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
    /// The tasks whose work goes on here, and who follows each. An entry is removed by its [`line::Place`].
    lines: Mutex<HashMap<TaskId, watch::Sender<Option<Peer>>>>,
    running: watch::Sender<usize>,
    closing: watch::Sender<bool>,
    /// Something happened that may be looked after.
    stirred: Arc<Notify>,
}

/// Tasks in the making.
#[must_use = "nothing is a task until `start`"]
pub struct TasksBuilder {
    shared: Shared,
    owner: Option<OwnerOf>,
}

impl Tasks {
    /// Starts to describe the tasks in that store.
    pub fn builder(store: Arc<dyn TaskStore>) -> TasksBuilder {
        let shared = Shared {
            store,
            tools: HashMap::new(),
            poll_interval: Some(Duration::from_secs(1)),
            upkeep: Duration::from_secs(5),
            change: Arc::new(|builder| builder),
            lines: Mutex::default(),
            running: watch::Sender::new(0),
            closing: watch::Sender::new(false),
            stirred: Arc::new(Notify::new()),
        };
        TasksBuilder { shared, owner: None }
    }

    /// The same tasks, for servers whose clients are told apart: `owner` says whose a request is (TASK-08), and they
    /// may list their tasks. Without it no task has an owner, its id is its only protection, and there is no list.
    #[must_use]
    pub fn owned_by(&self, owner: impl Fn(&Context) -> Owner + Send + Sync + 'static) -> Self {
        Self { shared: Arc::clone(&self.shared), owner: Some(Arc::new(owner)) }
    }

    /// How many tasks are at work in this process.
    #[must_use]
    pub fn running(&self) -> usize {
        *self.shared.running.borrow()
    }

    /// Waits until no task is at work in this process.
    pub async fn idle(&self) {
        // The sender is in `self`.
        let _ = self.shared.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Stops all work in order, and leaves it to whoever next opens the store: there it is taken up again, or has
    /// failed. Work that ends by itself within its grace has ended.
    pub async fn shutdown(&self) {
        self.shared.closing.send_replace(true);
        self.idle().await;
    }
}

impl TasksBuilder {
    /// A tool whose calls are tasks. Of two of the same name the last counts.
    pub fn tool(mut self, tool: TaskTool) -> Self {
        self.shared.tools.insert(tool.tool.name().into(), tool);
        self
    }

    /// Whose the tasks are; see [`Tasks::owned_by`].
    pub fn owned_by(mut self, owner: impl Fn(&Context) -> Owner + Send + Sync + 'static) -> Self {
        self.owner = Some(Arc::new(owner));
        self
    }

    /// How often clients are asked to ask. Default 1 s.
    pub const fn poll_interval(mut self, every: Duration) -> Self {
        self.shared.poll_interval = Some(every);
        self
    }

    /// How often interrupted work is looked for, and tasks whose ttl is over, while there is anything to look after.
    /// Default 5 s.
    pub const fn upkeep(mut self, every: Duration) -> Self {
        self.shared.upkeep = every;
        self
    }

    /// What the connection on which work is handled is told besides: its grace, observers, filters.
    pub fn with(mut self, change: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.shared.change = Arc::new(change);
        self
    }

    /// Takes up interrupted work, and looks after the tasks from now on. To be called within a runtime.
    #[must_use]
    pub fn start(self) -> Tasks {
        let shared = Arc::new(self.shared);
        tokio::spawn(upkeep::keep(Arc::downgrade(&shared)));
        Tasks { shared, owner: self.owner }
    }
}

impl Shared {
    /// Until this process stops all work.
    fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.closing.subscribe();
        async move {
            let is_closing = closing.wait_for(|is_closing| *is_closing).await.is_ok();
            if !is_closing {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The tool that a task is a call of.
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
