//! What a world plays: who speaks what, which requests there are, and how much of everything.

use core::time::Duration;

use rescind_proto::{
    dialect::Dialect,
    relay::{Clock, ClockRule, Config},
    side::{Side, Sides},
    wire::Framing,
};

/// A method that parties ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
}

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
    /// Whether an operator may stop a request.
    pub operator: bool,
    /// Whether links may end.
    pub ends: bool,
    /// Settings of the relay.
    pub config: Config,
}

/// A method without anything special.
pub const CALL: Method = Method { name: "m/call" };

impl Scene {
    /// Two requests of the client and one of the server, everything allowed.
    #[must_use]
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
            operator: false,
            ends: true,
            config: Config::default(),
        }
    }

    /// The relay's settings for this scene.
    #[must_use]
    pub fn relay_config(&self) -> Config {
        let mut config = self.config.clone();
        config.dialects = Sides { client: Some(self.dialects.client), server: Some(self.dialects.server) };
        config.framing = Some(Framing::Line);
        config.observe = true;
        if let Some(limit) = self.clock {
            config.clocks = vec![ClockRule { clock: Clock::Response, method: None, name: None, limit }];
        }
        config
    }

    /// Whether `from` may cancel a request of its own with this method, in the dialect of `speaker`.
    #[must_use]
    pub fn may_cancel(&self, from: Side, speaker: Side, method: Method) -> bool {
        use rescind_proto::dialect::Cancellers;
        let dialect = self.dialects[speaker];
        let side = from == Side::Client || dialect.cancellers == Cancellers::Both;
        let declared = dialect.gate.is_none() || self.declared[from.other()];
        side && declared && dialect.uncancellable(method.name).is_none()
    }
}
