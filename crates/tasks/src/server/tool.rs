//! Tools whose calls can be tasks.

use std::time::Duration;

use rescind::mcp::{Revision, Tool, ToolHandler};

/// Whether calls of a tool become tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskSupport {
    /// They do where the client can have it: in 2025-11-25 if it asks for one, with the extension always. Any other
    /// call is answered as usual.
    Optional,
    /// They do always, and a client that cannot have it is refused: -32601 in 2025-11-25 (TASK-11), -32021 in
    /// 2026-07-28 (TASK-24).
    Required,
}

impl TaskSupport {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// Makes tasks of a tool's calls.
pub trait AsTask {
    /// The same tool, whose calls are tasks: for [`TasksBuilder::tool`](super::TasksBuilder::tool).
    fn task(self, support: TaskSupport) -> TaskTool;
}

impl AsTask for Tool {
    fn task(self, support: TaskSupport) -> TaskTool {
        let declared =
            self.declare_in(Revision::V2025_11_25, "execution", serde_json::json!({ "taskSupport": support.as_str() }));
        TaskTool { tool: declared, support, ttl: None, resumed_by: None }
    }
}

/// A tool whose calls are tasks; made by [`AsTask::task`].
///
/// The tool's [route](Tool::route) counts for the work of its tasks: grace, shield and time limit (D22). A shield
/// protects the work, never the status of its task.
#[derive(Clone, Debug)]
#[must_use = "a tool is nothing until a server has it"]
pub struct TaskTool {
    pub(super) tool: Tool,
    pub(super) support: TaskSupport,
    pub(super) ttl: Option<Duration>,
    pub(super) resumed_by: Option<Tool>,
}

impl TaskTool {
    /// How long its tasks are kept if the client does not say, from their creation; within the limits of the store.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Interrupted work is taken up again by `handler`, which is given the arguments of the call. Without one, a task
    /// whose process died has failed.
    pub fn resumed_by<Args>(mut self, handler: impl ToolHandler<Args>) -> Self {
        self.resumed_by = Some(self.tool.clone().handled_by(handler));
        self
    }

    /// Interrupted work is done again from its beginning: for work that may be done twice.
    pub fn repeatable(mut self) -> Self {
        self.resumed_by = Some(self.tool.clone());
        self
    }
}
