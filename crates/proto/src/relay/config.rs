//! The settings of a relay; every bound has a default (invariant 8).

use core::time::Duration;

use super::{LimitRules, arguments, early_welcome, reporting, restart, sessions, tasks, threads};
use crate::{
    bridge::{Bridge, BridgeConfig},
    children,
    dialect::Dialect,
    early_cancels::EarlyCancelLimits,
    framing::{Framing, MAX_BLOCK},
    link::Clock,
    outbox,
    side::Sides,
    welcome::Welcomes,
};

/// The most that a request costs: its entry, its indexes, its last progress and the reason of its cancel.
const REQUEST: usize = 4 << 10;

/// The most that the events of a read cost, for each of its bytes.
const EVENTS: usize = 256;

/// The most that is kept of work that is followed by itself (D54, D55, D56, D58): children, sessions that report their work,
/// threads, tasks.
const FOLLOWED: usize = children::MAX_HELD + sessions::MAX_HELD + threads::MAX_HELD + tasks::MAX_HELD;

/// Settings of a [`Relay`](super::Relay).
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The dialect of each side; `None` is detected from what passes (D2).
    pub dialects: Sides<Option<&'static Dialect>>,
    /// Whether the client's first message may show that the link speaks no protocol that is known here (D57). Not where
    /// the transport or a setting has told which it is, as HTTP has; then it is taken for the nearest one.
    pub unknown: bool,
    /// The framing of both sides; `None` is detected from the first bytes.
    pub framing: Option<Framing>,
    /// Time to wait for the other side's answer to a cancel before answering on its behalf (D34).
    pub grace: Duration,
    /// Shorter graces for some methods; none by default (D61).
    pub graces: Vec<GraceRule>,
    /// Whether a prompt waits for the turn before it in its session, if that was cancelled and its agent has not answered:
    /// for the grace, and 5 s at most (D60). On by default. Prompts that wait hold `max_backlog` bytes and one message at
    /// most; beyond that none waits.
    pub next_turn_waits: bool,
    /// Clocks for requests, the most specific first match wins; none by default (D16).
    pub clocks: Vec<ClockRule>,
    /// Limits on what is asked; none by default (D65).
    pub limits: LimitRules,
    /// The longest message, in bytes (D36).
    pub max_message: usize,
    /// Requests of one side in flight; one more is refused (D12).
    pub max_in_flight: usize,
    /// Bytes of ids, progress tokens and sessions that are kept of one side's requests, in flight and remembered; past
    /// that, one more is refused (D12).
    pub max_kept: usize,
    /// The largest backlog of a side, in bytes, before the other side's input is paused (D13).
    pub max_backlog: usize,
    /// How long a side may read nothing of a backlog past that bound before it is given up (D13).
    pub stall_limit: Duration,
    /// The limits of each side's cancels that overtake their request (D9).
    pub early_cancels: Sides<EarlyCancelLimits>,
    /// Settled requests remembered per side, so that what comes late for them is recognised (D8). They are
    /// forgotten a few at a time: up to 32 more may be remembered.
    pub remembered: usize,
    /// How long a settled request is remembered at least, and at most (D8).
    pub remember: (Duration, Duration),
    /// Joins the two eras of MCP, where the client is of one and the server of the other; without, each is left to find
    /// that out.
    pub bridge: Option<BridgeConfig>,
    /// Whether what was written to the server has not left by that: its driver reports later what became of it
    /// ([`handle_departure`](super::Relay::handle_departure)).
    pub server_departs: bool,
    /// Whether a server that has died may be started again (D64): what it has to be told is remembered.
    pub restart: bool,
    /// What the server answered at its last starts, if its client is to be welcomed with that while it starts, and what it
    /// answers now is to be learnt (D70); empty where nothing is known yet.
    pub welcomes: Option<Welcomes>,
    /// Whether the params of requests in flight are kept ([`Relay::arguments`](super::Relay::arguments)): 16 KiB of each, and
    /// 1 MiB of all, with what that costs.
    pub keeps_arguments: bool,
    /// Which events are emitted.
    pub emit: Emit,
    /// How errors name the settings that they come from.
    pub setting_names: SettingNames,
    /// Seeds the hash of request ids, so that a peer cannot choose ids that collide.
    pub seed: u64,
}

impl RelayConfig {
    /// What joins the two eras, if these settings want it.
    pub(super) fn bridge(&self) -> Option<Box<Bridge>> {
        let bridge = Bridge::new(self.bridge.clone()?, self.seed);
        Some(Box::new(bridge.with_server_departs(self.server_departs)))
    }

    /// The most bytes of memory that a relay with these settings holds ([`Relay::held`](super::Relay::held)), if its
    /// driver hands it at most `read` bytes at a time (invariant 8).
    ///
    /// It is what both sides together can cause at their worst. A link that is read on both sides holds little more
    /// than one read.
    #[must_use]
    pub const fn most_held(&self, read: usize) -> usize {
        // Settled requests: those owed nothing, and sixteen times as many that may still be answered (D8).
        let requests = self.max_in_flight + 17 * (self.remembered + 32);
        let early = self.early_cancels.client.most + self.early_cancels.server.most;
        let queue = outbox::bound_for(self.max_backlog, read, self.max_message);
        let decoder = 2 * self.max_message + MAX_BLOCK;
        let tables = requests * REQUEST + self.max_kept + 2 * self.max_message;
        let bridge = match &self.bridge {
            Some(bridge) => {
                2 * (2 * bridge.max_held + bridge.max_listening + self.max_message) + requests * REQUEST + 2 * queue
            }
            None => 0,
        };
        let limits = self.limits.most_held() + if self.restart { restart::MOST_HELD } else { 0 };
        let welcome = if self.welcomes.is_some() { early_welcome::MOST_HELD } else { 0 };
        let arguments = if self.keeps_arguments { arguments::MAX_HELD } else { 0 };
        // Prompts that wait, and then all of them at once in the queue, which may have grown to twice that.
        let held = 3 * self.max_backlog + 2 * self.max_message;
        2 * (queue + decoder + tables)
            + held
            + early * REQUEST
            + EVENTS * read
            + bridge
            + limits
            + welcome
            + arguments
            + FOLLOWED
            + reporting::MAX_HELD
    }
}

/// Which events a relay emits, beside those that a driver may have to act on: timeouts, stuck requests, a side that is
/// given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emit {
    /// Cancels, receipts, and everything swallowed, rejected or against a rule; on by default.
    pub notices: bool,
    /// The start and the end of every request.
    pub requests: bool,
    /// Requests that end in silence ([`RelayEvent::Silenced`](super::RelayEvent::Silenced)), for a driver whose requester
    /// waits on something of its own, such as an HTTP response (D41).
    pub silences: bool,
    /// Every frame ([`RelayEvent::Frame`](super::RelayEvent::Frame)), for recordings.
    pub frames: bool,
    /// Children whose cancelled work has ended ([`Relay::poll_stopped_child`](super::Relay::poll_stopped_child)), for a driver
    /// that looks at what is left of it.
    pub stopped_children: bool,
    /// The keys of what has ended ([`Relay::poll_ended`](super::Relay::poll_ended)), for a driver that keeps a history.
    pub ends: bool,
}

impl Default for Emit {
    fn default() -> Self {
        Self { notices: true, requests: false, silences: false, frames: false, stopped_children: false, ends: false }
    }
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            dialects: Sides { client: None, server: None },
            unknown: true,
            framing: None,
            grace: Duration::from_secs(5),
            graces: Vec::new(),
            next_turn_waits: true,
            clocks: Vec::new(),
            limits: LimitRules::default(),
            max_message: 64 << 20,
            max_in_flight: 65_536,
            max_kept: 16 << 20,
            max_backlog: 16 << 20,
            stall_limit: Duration::from_secs(600),
            early_cancels: Sides { client: EarlyCancelLimits::STRANGER, server: EarlyCancelLimits::STRANGER },
            remembered: 4096,
            remember: (Duration::from_secs(5), Duration::from_secs(600)),
            bridge: None,
            server_departs: false,
            restart: false,
            welcomes: None,
            keeps_arguments: false,
            emit: Emit::default(),
            setting_names: SettingNames::default(),
            seed: 0,
        }
    }
}

/// How the relay's own errors name its settings, so that their reader knows whose limit it was and what to change. A
/// driver that offers the settings under other names, such as flags of a command, gives them here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingNames {
    /// [`Clock::Response`].
    pub response_timeout: &'static str,
    /// [`Clock::Total`].
    pub total_timeout: &'static str,
    /// [`RelayConfig::max_message`].
    pub max_message: &'static str,
    /// [`RelayConfig::max_in_flight`].
    pub max_in_flight: &'static str,
}

impl Default for SettingNames {
    fn default() -> Self {
        Self {
            response_timeout: "the relay's response timeout",
            total_timeout: "the relay's total timeout",
            max_message: "the relay's max_message",
            max_in_flight: "the relay's max_in_flight",
        }
    }
}

/// How long the other side may leave cancelled requests of one method unanswered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraceRule {
    /// The method.
    pub method: Box<str>,
    /// How long; no longer than without this rule.
    pub grace: Duration,
}

/// One clock for the requests that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRule {
    /// Which clock.
    pub clock: Clock,
    /// The method it is for; `None` means the client's requests of every method that has clocks at all (D16).
    pub method: Option<Box<str>>,
    /// The `name` in the params, such as a tool's; only together with `method`.
    pub name: Option<Box<str>>,
    /// How long.
    pub limit: Duration,
}
