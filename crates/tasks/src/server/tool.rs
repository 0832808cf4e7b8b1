//! Tools whose calls can be tasks.

use std::time::Duration;

use rescind::mcp::{Preparation, Revision, Tool, ToolHandler};

use crate::dialect::TaskDialect;

/// Whether calls of a tool become tasks.
///
/// It never grows: a tool's calls may be tasks or must be, and a tool without it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskSupport {
    /// Where the client supports it: in 2025-11-25 if the call asks for a task, in the extension always. Other calls are
    /// answered as usual.
    Optional,
    /// Always. Other calls are rejected: with -32601 in 2025-11-25 (TASK-11), with -32021 in 2026-07-28 (TASK-24).
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
    /// Returns the tool for [`TasksBuilder::tool`](super::TasksBuilder::tool).
    fn task(self, support: TaskSupport) -> TaskTool;
}

impl AsTask for Tool {
    fn task(self, support: TaskSupport) -> TaskTool {
        let asked = Revision::ALL.into_iter().filter(|revision| revision.dialect().asks_for_tasks());
        let declared = serde_json::json!({ "taskSupport": support.as_str() });
        let tool = asked.fold(self, |tool, revision| tool.declare_in(revision, "execution", declared.clone()));
        TaskTool { tool, support, ttl: None, preparation: None, resumed_by: None }
    }
}

/// A tool whose calls are tasks; created with [`AsTask::task`].
///
/// The settings of the tool's [route](Tool::route) apply to the work of its tasks: grace, shield and time limit (D22). A
/// shield protects the work, never the status of its task.
#[derive(Clone, Debug)]
#[must_use = "a tool must be added to `Tasks`"]
pub struct TaskTool {
    pub(super) tool: Tool,
    pub(super) support: TaskSupport,
    pub(super) ttl: Option<Duration>,
    pub(super) preparation: Option<Preparation>,
    pub(super) resumed_by: Option<Tool>,
}

impl TaskTool {
    /// Sets how long its tasks are kept after their creation if the client does not say. The store's limits apply.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Prepares each call before the tool is called.
    ///
    /// The preparation may [ask](rescind::peer::Context::ask) the client. In the extension the call then becomes a task only
    /// when the client has answered, and the task keeps the prepared arguments; if the preparation fails or the call is
    /// cancelled before, there is no task. In 2025-11-25, where such a call could not be cancelled (MCP-C13), it is the
    /// first part of the task's work. A call that becomes no task is prepared as well.
    pub fn prepared_by(mut self, preparation: Preparation) -> Self {
        self.preparation = Some(preparation);
        self
    }

    /// Resumes interrupted work with `handler`, which receives the arguments of the call. Without one, a task whose
    /// process died fails.
    pub fn resumed_by<Args>(mut self, handler: impl ToolHandler<Args>) -> Self {
        self.resumed_by = Some(self.tool.clone().handled_by(handler));
        self
    }

    /// Starts interrupted work anew, for work that may be done twice.
    pub fn repeatable(mut self) -> Self {
        self.resumed_by = Some(self.tool.clone());
        self
    }

    /// What `tool`, this one or what resumes it, does in a task of that dialect.
    pub(super) fn work(&self, tool: Tool, dialect: TaskDialect) -> Tool {
        match (dialect, &self.preparation) {
            (TaskDialect::November2025, Some(preparation)) => tool.prepared_by(preparation.clone()),
            (TaskDialect::November2025, None) | (TaskDialect::Extension, _) => tool,
        }
    }
}
