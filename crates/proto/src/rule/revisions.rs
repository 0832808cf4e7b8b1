//! Which texts state a rule: the names of their dialects.

pub(super) const MCP_2024_11_05: &[&str] = &["mcp-2024-11-05"];
pub(super) const MCP_2025_03_26: &[&str] = &["mcp-2025-03-26"];
pub(super) const MCP_2025_11_25: &[&str] = &["mcp-2025-11-25"];
pub(super) const MCP_2026_07_28: &[&str] = &["mcp-2026-07-28"];
/// The MCP extension `io.modelcontextprotocol/tasks`, spoken beside 2026-07-28.
pub(super) const TASKS_EXTENSION: &[&str] = &["mcp-tasks-extension"];
pub(super) const ACP_V1: &[&str] = &["acp-v1"];
pub(super) const ACP_V2: &[&str] = &["acp-v2-draft"];
pub(super) const ACP_RFD: &[&str] = &["acp-rfd-2025-11-13"];
pub(super) const LSP: &[&str] = &["lsp"];

/// The MCP revisions with sessions over Streamable HTTP.
pub(super) const MCP_SESSIONS: &[&str] = &["mcp-2025-03-26", "mcp-2025-06-18", "mcp-2025-11-25"];
/// The MCP revisions with an `initialize` handshake.
pub(super) const MCP_LEGACY: &[&str] = &["mcp-2024-11-05", "mcp-2025-03-26", "mcp-2025-06-18", "mcp-2025-11-25"];
/// The MCP revisions that define the semantics of timeouts: all but the first.
pub(super) const MCP_FROM_2025_03_26: &[&str] =
    &["mcp-2025-03-26", "mcp-2025-06-18", "mcp-2025-11-25", "mcp-2026-07-28"];
/// Every MCP revision; the tasks extension is none.
pub(super) const MCP: &[&str] =
    &["mcp-2024-11-05", "mcp-2025-03-26", "mcp-2025-06-18", "mcp-2025-11-25", "mcp-2026-07-28"];
/// Every ACP text.
pub(super) const ACP: &[&str] = &["acp-v1", "acp-v2-draft", "acp-rfd-2025-11-13"];
