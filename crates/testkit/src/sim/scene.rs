//! What a world plays: who speaks what, which requests there are, and how much of everything.

use core::time::Duration;

use rescind_proto::{
    connection,
    dialect::Dialect,
    framing::Framing,
    link::Clock,
    relay::{ClockRule, RateLimit, RelayConfig},
    side::{Side, Sides},
};

use super::hop::{Cut, PIECES};

/// A method that parties ask for.
pub type Method = &'static str;

/// How a world is set up, and its bounds.
#[derive(Clone, Debug)]
pub struct Scene {
    /// What it shows.
    pub name: &'static str,
    /// What each side speaks.
    pub dialects: Sides<&'static Dialect>,
    /// Whether a side declared that it understands cancels, where its dialect asks for that (ACP-20).
    pub declared: Sides<bool>,
    /// The ids that both sides use.
    pub ids: &'static [&'static str],
    /// The methods each side asks for.
    pub methods: Sides<&'static [Method]>,
    /// How many requests each side sends.
    pub asks: Sides<usize>,
    /// How many notifications of no known method pass.
    pub plains: usize,
    /// How often the other side may answer one request.
    pub answers: u8,
    /// The response clock of the client's requests, if one is set.
    pub clock: Option<Duration>,
    /// How long after one request of the client passed the next one may, if a limit is set (D65).
    pub limit: Option<Duration>,
    /// Whether an operator may stop a request.
    pub operator: bool,
    /// Whether links may end.
    pub ends: bool,
    /// Whether progress moves that clock, for endpoints.
    pub resets: bool,
    /// How many handlers of an endpoint run at once.
    pub slots: usize,
    /// How long a handler may take to stop.
    pub grace: Duration,
    /// … when the connection ends.
    pub short_grace: Duration,
    /// Whether callers may cancel and wait nevertheless.
    pub patient: bool,
    /// Whether handlers of endpoints report progress.
    pub progress: bool,
    /// Whether the session's turn is cancelled and updated (D37).
    pub turn: bool,
    /// Whether the server answers with handles of tasks (D38).
    pub tasks: bool,
    /// Whether answers may hold bytes that are not UTF-8.
    pub mangled: bool,
    /// Whether bytes arrive in pieces, garbage lies between messages, and time passes in small steps.
    pub adversarial: bool,
    /// Whether a monitor watches each link of a relay, and must see what the relay knows.
    pub witnessed: bool,
    /// Whether a copy of all that a relay shows is kept in step by its changes, and its counts must add up.
    pub watched: bool,
    /// Whether endpoints are driven as one with filters is: message by message, and some are vetoed.
    pub filtered: bool,
    /// Whether the machine's own invariants are left unchecked: what is broken must show on the wire.
    pub wire_only: bool,
    /// Settings of the relay.
    pub config: RelayConfig,
}

/// A method without anything special.
pub const CALL: Method = "m/call";

/// The turn of a session.
pub const PROMPT: Method = "session/prompt";

/// The agent's request within a turn.
pub const PERMISSION: Method = "session/request_permission";

impl Scene {
    /// Two requests of the client and one of the server, everything allowed.
    pub fn new(name: &'static str, client: &'static Dialect, server: &'static Dialect) -> Self {
        Self {
            name,
            dialects: Sides { client, server },
            declared: Sides { client: true, server: true },
            ids: &["1", "2"],
            methods: Sides { client: &[CALL], server: &[CALL] },
            asks: Sides { client: 2, server: 1 },
            plains: 1,
            answers: 2,
            clock: None,
            limit: None,
            operator: false,
            ends: true,
            resets: false,
            slots: 1,
            grace: Duration::from_secs(5),
            short_grace: Duration::from_secs(1),
            patient: false,
            progress: true,
            turn: false,
            tasks: false,
            mangled: false,
            adversarial: false,
            witnessed: false,
            watched: false,
            filtered: false,
            wire_only: false,
            // A world of its own has prompts that wait.
            config: RelayConfig { next_turn_waits: false, ..RelayConfig::default() },
        }
    }

    /// A scene for walks: many requests under odd ids, bytes in pieces, garbage between them.
    pub fn adversarial(self) -> Self {
        Self {
            adversarial: true,
            ids: &["0", "\"\"", "5", "\"5\"", "9007199254740993", "\"\\u00e9\""],
            asks: Sides { client: 40, server: 20 },
            plains: 10,
            slots: 3,
            operator: true,
            patient: true,
            ..self
        }
    }

    /// The same scene, in which the relay learns later what has left for the server.
    pub fn departing(mut self) -> Self {
        self.config.server_departs = true;
        self
    }

    /// The same scene with a monitor on each link of the relay.
    pub fn witnessed(mut self) -> Self {
        // It sees what was written, and not what has left.
        self.config.server_departs = false;
        Self { witnessed: true, ..self }
    }

    /// The same scene with a watcher of the relay.
    pub fn watched(self) -> Self {
        Self { watched: true, ..self }
    }

    /// The relay's settings for this scene.
    pub fn relay_config(&self) -> RelayConfig {
        let mut config = self.config.clone();
        config.dialects = Sides { client: Some(self.dialects.client), server: Some(self.dialects.server) };
        config.framing = Some(Framing::Line);
        config.emit.requests = true;
        config.emit.frames |= self.witnessed;
        if let Some(limit) = self.clock {
            config.clocks = vec![ClockRule { clock: Clock::Response, method: None, name: None, limit }];
        }
        if let Some(per) = self.limit {
            let name = "--limit".into();
            config.limits.rates = vec![RateLimit { name, method: None, tool: None, most: 1, per }];
        }
        config
    }

    /// How a frame is cut that is written: anywhere in an adversarial scene, and nowhere in one with filters.
    pub const fn pieces(&self, may_halve: bool) -> &'static [Cut] {
        match (self.filtered, self.adversarial) {
            (true, _) => &[],
            (false, true) => &PIECES,
            (false, false) if may_halve => &[Cut::Half],
            (false, false) => &[],
        }
    }

    /// An endpoint's settings for this scene.
    pub fn endpoint_config(&self, role: Side) -> connection::ConnectionConfig {
        connection::ConnectionConfig {
            dialect: Some(self.dialects[role]),
            max_running: self.slots,
            grace: self.grace,
            short_grace: self.short_grace,
            remembered: self.config.remembered,
            remember: self.config.remember,
            deadline_travels: false,
            ..connection::ConnectionConfig::new(role)
        }
    }

    /// Whether `from` may cancel a request of its own with this method, in the dialect of `speaker`.
    pub fn may_cancel(&self, from: Side, speaker: Side, method: &str) -> bool {
        use rescind_proto::dialect::Cancellers;
        let dialect = self.dialects[speaker];
        let side = from == Side::Client || dialect.cancellers == Cancellers::Both;
        let declared = dialect.gate.is_none() || self.declared[from.other()];
        side && declared && dialect.uncancellable(method).is_none()
    }
}
