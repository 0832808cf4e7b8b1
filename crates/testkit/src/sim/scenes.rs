//! The scenes that the explorer plays, and that walks and fuzzers start from.

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, acp, lsp, mcp},
    side::Sides,
};

use super::scene::{CALL, PERMISSION, PROMPT, Scene};

/// The scene in which two silent sides are joined.
pub const SILENT: &str = "silent, silent (MCP legacy)";

/// The scene in which two sides that demand answers are joined.
pub const ANSWERED: &str = "answered, answered (ACP v1)";

/// The scene of an agent's turns and its cards.
pub const TURNS: &str = "turns (ACP v1)";

/// The scene in which answers may hold bytes that are not UTF-8.
pub const MANGLED: &str = "mangled answers (MCP legacy)";

/// The scene in which a limit refuses what the client asks.
pub const LIMITED: &str = "limit (MCP legacy)";

/// The scene in which clocks end turns.
pub const TIMED_TURNS: &str = "turns, clock (ACP v1)";

/// Every distinct pair of policies that a relay can join.
pub fn relay() -> Vec<Scene> {
    let legacy = &mcp::LATEST_LEGACY;
    let modern = &mcp::LATEST;
    let silent = Scene::new(SILENT, legacy, legacy);
    vec![
        Scene { operator: true, clock: Some(Duration::from_secs(60)), ..silent.clone() }.named("… clock and operator"),
        silent,
        Scene::new("silent, silent (MCP modern)", modern, modern),
        Scene::new("silent, answered (MCP legacy, ACP v1)", legacy, &acp::V1),
        Scene::new("answered, silent (LSP, MCP legacy)", &lsp::LSP, legacy),
        Scene::new(ANSWERED, &acp::V1, &acp::V1),
        Scene {
            operator: true,
            clock: Some(Duration::from_secs(60)),
            ..Scene::new("answered, answered (LSP) …", &lsp::LSP, &lsp::LSP)
        },
        Scene {
            turn: true,
            operator: true,
            methods: Sides { client: &[PROMPT], server: &[PERMISSION] },
            plains: 0,
            ..Scene::new(TURNS, &acp::V1, &acp::V1)
        },
        Scene {
            tasks: true,
            operator: true,
            clock: Some(Duration::from_secs(60)),
            methods: Sides { client: &[CALL], server: &[] },
            asks: Sides { client: 2, server: 0 },
            plains: 0,
            ..Scene::new("tasks (MCP modern)", modern, modern)
        },
        gated("gate: both declared", true, true),
        gated("gate: client declared", true, false),
        gated("gate: server declared", false, true),
        gated("gate: neither declared", false, false),
        Scene { mangled: true, ..Scene::new(MANGLED, legacy, legacy) },
        Scene::new("reuse (MCP legacy, modern)", legacy, modern),
        Scene::new("reuse (MCP modern, legacy)", modern, legacy),
        Scene {
            turn: true,
            clock: Some(Duration::from_secs(60)),
            methods: Sides { client: &[PROMPT], server: &[] },
            asks: Sides { client: 2, server: 0 },
            plains: 0,
            ..Scene::new(TIMED_TURNS, &acp::V1, &acp::V1)
        },
        Scene { operator: true, ..Scene::new("silent, silent, departing (MCP legacy)", legacy, legacy) }.departing(),
        Scene::new("answered, silent, departing (LSP, MCP legacy)", &lsp::LSP, legacy).departing(),
        limited(LIMITED, legacy),
        limited("limit (ACP v1)", &acp::V1),
    ]
}

/// Pairs of policies for two endpoints with a relay between them.
pub fn chain() -> Vec<Scene> {
    let (legacy, modern) = (&mcp::LATEST_LEGACY, &mcp::LATEST);
    let chain = |name, client: &'static Dialect, server: &'static Dialect| {
        // Progress means nothing to a side that asked for it in another form.
        let progress = client.progress == server.progress;
        Scene { plains: 0, progress, ..Scene::new(name, client, server) }
    };
    vec![
        chain("silent, silent (MCP legacy)", legacy, legacy),
        chain("silent, answered (MCP legacy, ACP v1)", legacy, &acp::V1),
        chain("answered, silent (ACP v1, MCP legacy)", &acp::V1, legacy),
        chain("answered, answered (LSP)", &lsp::LSP, &lsp::LSP),
        chain("reuse (MCP legacy, modern)", legacy, modern),
        chain("reuse (MCP modern, legacy)", modern, legacy),
    ]
}

/// Every distinct policy of an endpoint.
pub fn endpoint() -> Vec<Scene> {
    let legacy = &mcp::LATEST_LEGACY;
    let both = |name, dialect| Scene { plains: 0, ..Scene::new(name, dialect, dialect) };
    let clock = Some(Duration::from_secs(60));
    vec![
        Scene { operator: true, plains: 1, ..both("MCP legacy", legacy) },
        Scene { patient: true, clock, resets: true, ends: false, plains: 1, ..both("MCP legacy, clocks", legacy) },
        both("MCP modern", &mcp::LATEST),
        Scene { mangled: true, ..both(MANGLED, legacy) },
        Scene { filtered: true, ..both("MCP legacy, filters", legacy) },
        Scene { filtered: true, ..both("ACP v1, filters", &acp::V1) },
        Scene { operator: true, ..both("ACP v1", &acp::V1) },
        Scene { operator: true, ..both("LSP", &lsp::LSP) },
        Scene { patient: true, clock, ends: false, ..both("LSP, clocks", &lsp::LSP) },
        Scene { plains: 0, ..gated("RFD: both declared", true, true) },
        Scene { plains: 0, ..gated("RFD: client declared", true, false) },
        Scene { plains: 0, ..gated("RFD: server declared", false, true) },
        Scene { plains: 0, ..gated("RFD: neither declared", false, false) },
    ]
}

/// One request of the client passes within ten seconds; a clock runs for as long.
fn limited(name: &'static str, dialect: &'static Dialect) -> Scene {
    Scene {
        limit: Some(Duration::from_secs(10)),
        clock: Some(Duration::from_secs(10)),
        operator: true,
        methods: Sides { client: &[CALL], server: &[] },
        asks: Sides { client: 3, server: 0 },
        plains: 0,
        ..Scene::new(name, dialect, dialect)
    }
}

fn gated(name: &'static str, client: bool, server: bool) -> Scene {
    let rfd = &acp::RFD_2025_11_13;
    Scene { declared: Sides { client, server }, ..Scene::new(name, rfd, rfd) }
}

impl Scene {
    /// The same under another name.
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}
