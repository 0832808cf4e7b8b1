//! What headers repeat of a message (2026-07-28).

pub(crate) mod tools;

/// Requests whose headers repeat a name, and the member of the params that they repeat (TASK-26).
pub(crate) const NAMED: [(&str, &str); 6] = [
    ("tools/call", "name"),
    ("prompts/get", "name"),
    ("resources/read", "uri"),
    ("tasks/get", "taskId"),
    ("tasks/update", "taskId"),
    ("tasks/cancel", "taskId"),
];
