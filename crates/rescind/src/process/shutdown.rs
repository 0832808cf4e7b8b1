//! The end of a link, step by step, as a state machine without processes or clocks.
//!
//! The client decides when a session ends (D44). Its end of input only closes the
//! server's stdin: the server may finish and exit on its own. Its signals are
//! passed on, and the ladder (SIGTERM, then SIGKILL) continues from there; after
//! SIGINT only once its input has ended, since Ctrl-C in a client that reads lines
//! ends a turn and not the session. The ladder begins without a signal only when
//! no client is left to read an answer.
//!
//! Every wait has a limit. The last bytes of a server that has ended are still
//! read, and a client gets a limited time to read them, counted from its last read.
//! Once the client has sent a signal, that limit is short, and reading does not
//! extend it.

use std::time::Duration;

use super::{
    ended_by::{EndReason, EndedBy},
    signals::Signal,
};
use rescind_proto::{relay::End, time::Instant};

/// The time limits of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShutdownLimits {
    /// From the client's end of input with nothing in flight to the start of the ladder; `None` is for ever.
    pub(crate) finish: Option<Duration>,
    /// From the start of the ladder, or a client's signal, to SIGTERM. Also the time for a server to read what it is owed
    /// before its stdin is closed, and for a client that has sent a signal to read the rest.
    pub(crate) close: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate: Duration,
    /// The same at most, if the client's SIGTERM was passed on. Also how soon after a SIGINT of the client a server that
    /// ends by itself is taken to end because of it.
    pub(crate) asked: Duration,
    /// From the server's exit to the end of its stdout, or the other way round (D35).
    pub(crate) server_drain: Duration,
    /// The longest pause of a client that is owed output after the server's end: the same as before it (D13).
    pub(crate) client_drain: Duration,
    /// From the end of a server that ended by itself, before its client can know of it, to the request that is answered with
    /// that (D63). Clients send their first one as soon as they have started this process.
    pub(crate) first_request: Duration,
}

impl Default for ShutdownLimits {
    fn default() -> Self {
        Self {
            finish: Some(Duration::from_secs(30)), // D44
            close: Duration::from_millis(1500),
            terminate: Duration::from_secs(1),
            asked: Duration::from_millis(2500),
            server_drain: Duration::from_millis(500), // D35
            client_drain: Duration::from_secs(600),   // D13
            first_request: Duration::from_secs(2),    // D63
        }
    }
}

/// A timer that fires this late means that this process itself was suspended, and perhaps the client too.
const SUSPENDED: Duration = Duration::from_secs(1);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownStep {
    /// Close the server's stdin.
    CloseStdin,
    /// SIGTERM to the server's group.
    Terminate,
    /// SIGKILL to the server's group, or to the processes it left behind.
    Kill,
    /// Read the rest of the server's stdout, then end the server's side of the relay.
    EndServer(End),
    /// Close the client's output: the server still runs, but will write nothing more.
    CloseClient,
    /// Return how the server ended: nothing is left to do, or the client has used up its time.
    Leave(End),
}

/// What is still open or owed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remaining {
    /// Bytes wait for the server, whose stdin is open.
    pub(crate) owed_server: bool,
    /// Bytes wait for the client, whose output is open.
    pub(crate) owed_client: bool,
    /// The server's stdout has not ended, nor its stderr after its exit.
    pub(crate) server_output: bool,
    /// The client waits for an answer.
    pub(crate) in_flight: bool,
    /// The client cannot know of the server's end, and may still send a request.
    pub(crate) end_untold: bool,
    /// Another server takes the place of this one once its output was read (D64).
    pub(crate) has_successor: bool,
}

/// The progress of a link towards its end.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    limits: ShutdownLimits,
    stage: ShutdownStage,
    stdin: Stdin,
    upstream: Upstream,
    /// The client's input has ended.
    client_ended: bool,
    /// Who was the first to ask the server to end.
    ended_by: Option<EndedBy>,
    /// An operator has ordered the end.
    is_ordered: bool,
    /// The client has sent a signal, so the rest must not take long.
    is_hurried: bool,
    /// When the client last sent SIGINT while its input was open.
    interrupted: Option<Instant>,
    /// The client's signals that did not ask for an end, each once.
    passed_on: Vec<Signal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ShutdownStage {
    /// Both sides are open.
    Relaying,
    /// The client's input has ended, and the server may finish. Nothing has been in flight since `idle`.
    Finishing { idle: Option<Instant> },
    /// The ladder has begun.
    Closing { until: Instant },
    /// SIGTERM was sent.
    Terminated { until: Instant },
    /// SIGKILL was sent.
    Killed,
    /// The server has exited; its stdout and stderr are read to the end.
    DrainingServer { how: End, until: Instant },
    /// The rest of its stdout was read; the relay does not know yet.
    ServerDrained { how: End },
    /// The rest is being written to the client. Until `untold` a request may come that is answered with the server's end.
    DrainingClient { how: End, until: Instant, untold: Option<Instant> },
}

/// The server's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdin {
    Open,
    /// To be closed once everything owed to the server is written.
    Closing,
    Closed,
}

/// What the relay knows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upstream {
    Talking,
    /// It closed its stdout or its stdin and still runs; perhaps it is about to exit.
    Silent {
        until: Instant,
    },
    /// Its end was reported to the relay.
    Reported,
    /// After that, the client's output was closed.
    ClientClosed,
}

impl Shutdown {
    pub(crate) const fn new(limits: ShutdownLimits) -> Self {
        Self {
            limits,
            stage: ShutdownStage::Relaying,
            stdin: Stdin::Open,
            upstream: Upstream::Talking,
            client_ended: false,
            ended_by: None,
            is_ordered: false,
            is_hurried: false,
            interrupted: None,
            passed_on: Vec::new(),
        }
    }

    /// For a server that has ended as `how` says and has no successor, because of `by` if somebody asked for that.
    pub(crate) fn of_ended(limits: ShutdownLimits, now: Instant, how: End, by: Option<EndedBy>) -> Self {
        let mut shutdown = Self { ended_by: by, ..Self::new(limits) };
        shutdown.handle_server_exit(now, how);
        shutdown
    }

    /// Who was the first to ask the server to end, if anybody did.
    pub(crate) const fn ended_by(&self) -> Option<EndedBy> {
        self.ended_by
    }

    /// Whether nobody has asked the server to end, and its client may still send something.
    pub(crate) const fn is_unasked(&self) -> bool {
        let by_client = self.client_ended || self.is_hurried || self.interrupted.is_some();
        self.ended_by.is_none() && !self.is_ordered && !by_client
    }

    /// Whether the server may be started again if it ends (D64): its client is there and has not asked for the end, nor has
    /// an operator. A server that was ended for what it did to requests may be followed by another.
    pub(crate) const fn may_restart(&self) -> bool {
        let by = matches!(
            self.ended_by,
            None | Some(EndedBy::Shim(EndReason::Stuck | EndReason::Silent | EndReason::Ungreeted(_)))
        );
        by && !self.is_ordered && !self.client_ended && !self.is_hurried
    }

    /// Whether nothing has begun the end of a link that has no server for a while (D64).
    pub(crate) fn is_relaying(&self) -> bool {
        self.stage == ShutdownStage::Relaying && !self.client_ended && !self.is_hurried
    }

    /// Handles the end of the client's input, which only closes the server's; after SIGINT the ladder begins.
    pub(crate) fn handle_client_eof(&mut self, now: Instant) {
        self.client_ended = true;
        self.end_input();
        if self.interrupted.take().is_some() {
            self.continue_ladder(now, Signal::INT);
        }
    }

    fn end_input(&mut self) {
        self.close_stdin();
        if self.stage == ShutdownStage::Relaying {
            self.stage = ShutdownStage::Finishing { idle: None };
        }
    }

    /// Begins the ladder at its first rung.
    pub(crate) fn begin(&mut self, now: Instant, reason: EndReason) {
        if self.is_unrequested() {
            self.stage = ShutdownStage::Closing { until: now + self.limits.close };
            self.ended_by = Some(EndedBy::Shim(reason));
        }
        self.close_stdin();
    }

    /// Handles a signal of the client that is passed on; whether it asks for the end of the session. SIGINT asks for
    /// none while the client's input is open: it may have ended a turn (D44).
    pub(crate) fn handle_signal(&mut self, now: Instant, signal: Signal) -> bool {
        let asks = signal != Signal::INT || self.client_ended;
        if asks {
            self.continue_ladder(now, signal);
        } else {
            self.interrupted = Some(now);
            self.handle_passed_on(signal);
        }
        asks
    }

    /// Continues the ladder after a signal of the client was passed on. If that was SIGTERM, it is not repeated, and the
    /// server gets the time of both rungs. If the server has already ended, the signal shortens the wait for the client.
    fn continue_ladder(&mut self, now: Instant, signal: Signal) {
        self.is_hurried = true;
        let until = match &mut self.stage {
            ShutdownStage::Relaying | ShutdownStage::Finishing { .. } => now + self.limits.close,
            ShutdownStage::Closing { until } => *until,
            ShutdownStage::DrainingClient { until, untold, .. } => {
                *until = (*until).min(now + self.limits.close);
                *untold = None;
                return;
            }
            ShutdownStage::Terminated { .. }
            | ShutdownStage::Killed
            | ShutdownStage::DrainingServer { .. }
            | ShutdownStage::ServerDrained { .. } => return,
        };
        self.ended_by.get_or_insert(EndedBy::Client(signal.as_raw()));
        self.stage = if signal == Signal::TERM {
            ShutdownStage::Terminated { until: (until + self.limits.terminate).min(now + self.limits.asked) }
        } else {
            ShutdownStage::Closing { until }
        };
    }

    /// Notes a signal of the client that does not ask for an end. The server may die of it all the same.
    pub(crate) fn handle_passed_on(&mut self, signal: Signal) {
        if !self.passed_on.contains(&signal) {
            self.passed_on.push(signal);
        }
    }

    /// Continues the ladder after SIGTERM was sent outside of it.
    pub(crate) fn handle_terminated(&mut self, now: Instant, reason: EndReason) {
        if self.is_unrequested() || matches!(self.stage, ShutdownStage::Closing { .. }) {
            self.stage = ShutdownStage::Terminated { until: now + self.limits.terminate };
            self.ended_by.get_or_insert(EndedBy::Shim(reason));
        }
    }

    /// Handles an operator's order to end the server, after SIGTERM was sent: no other follows, whatever had begun its end, and
    /// though it has exited.
    pub(crate) fn handle_order(&mut self, now: Instant) {
        self.is_ordered = true;
        self.handle_terminated(now, EndReason::Operator);
    }

    /// Handles a server that closed its stdout or its stdin.
    pub(crate) fn handle_server_silent(&mut self, now: Instant) {
        if self.upstream == Upstream::Talking {
            self.upstream = Upstream::Silent { until: now + self.limits.server_drain };
        }
    }

    /// Handles the exit of the server's process.
    pub(crate) fn handle_server_exit(&mut self, now: Instant, how: End) {
        if !self.has_exited() {
            let of = |signal: &&Signal| how == End::Signalled(signal.as_raw());
            let is_interrupted = self.interrupted.is_some_and(|at| now.since(at) < self.limits.asked);
            // One that ends by itself soon after SIGINT ends because of it.
            let interrupt = is_interrupted.then_some(&Signal::INT);
            if let Some(signal) = self.passed_on.iter().find(of).or(interrupt) {
                self.ended_by.get_or_insert(EndedBy::Client(signal.as_raw()));
            }
            self.stage = ShutdownStage::DrainingServer { how, until: now + self.limits.server_drain };
        }
    }

    pub(crate) const fn has_exited(&self) -> bool {
        matches!(
            self.stage,
            ShutdownStage::DrainingServer { .. }
                | ShutdownStage::ServerDrained { .. }
                | ShutdownStage::DrainingClient { .. }
        )
    }

    /// Whether it has exited, all that it wrote was read, and the relay is not told yet.
    pub(crate) const fn is_drained(&self) -> bool {
        matches!(self.stage, ShutdownStage::ServerDrained { .. })
    }

    /// Whether it runs, and neither the client's signal nor the ladder has asked it to end.
    pub(crate) const fn is_unrequested(&self) -> bool {
        matches!(self.stage, ShutdownStage::Relaying | ShutdownStage::Finishing { .. })
    }

    fn close_stdin(&mut self) {
        if self.stdin == Stdin::Open {
            self.stdin = Stdin::Closing;
        }
    }

    /// Handles a server that read some of what it was owed.
    pub(crate) fn handle_server_read(&mut self, now: Instant) {
        if let (ShutdownStage::Closing { until }, Stdin::Closing) = (&mut self.stage, self.stdin) {
            *until = now + self.limits.close;
        }
    }

    /// Handles a client that read some of what it was owed.
    pub(crate) fn handle_client_read(&mut self, now: Instant) {
        if let ShutdownStage::DrainingClient { until, .. } = &mut self.stage
            && !self.is_hurried
        {
            *until = now + self.limits.client_drain;
        }
    }

    /// When to call [`next`](Self::next) again if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let stage = match self.stage {
            ShutdownStage::Relaying | ShutdownStage::Killed | ShutdownStage::ServerDrained { .. } => None,
            ShutdownStage::Finishing { idle } => idle.and_then(|idle| Some(idle + self.limits.finish?)),
            ShutdownStage::Closing { until }
            | ShutdownStage::Terminated { until }
            | ShutdownStage::DrainingServer { until, .. } => Some(until),
            ShutdownStage::DrainingClient { until, untold, .. } => Some(untold.unwrap_or(until).min(until)),
        };
        let silent = match self.upstream {
            Upstream::Silent { until } if !self.has_exited() => Some(until),
            Upstream::Silent { .. } | Upstream::Talking | Upstream::Reported | Upstream::ClientClosed => None,
        };
        [stage, silent].into_iter().flatten().min()
    }

    /// What to do now. Call it until it returns `None`.
    pub(crate) fn next(&mut self, now: Instant, open: Remaining) -> Option<ShutdownStep> {
        if let Upstream::Silent { until } = self.upstream
            && until <= now
            && !self.has_exited()
        {
            self.upstream = Upstream::Reported;
            self.end_input();
            return Some(ShutdownStep::EndServer(End::Closed));
        }
        if let ShutdownStage::Finishing { idle } = &mut self.stage {
            *idle = if open.in_flight { None } else { idle.or(Some(now)) };
            if let Some((idle, finish)) = idle.zip(self.limits.finish)
                && idle + finish <= now
            {
                let is_silent = matches!(self.upstream, Upstream::Reported | Upstream::ClientClosed);
                self.begin(now, if is_silent { EndReason::Silent } else { EndReason::Idle(finish) });
            }
        }
        if self.stdin == Stdin::Closing && !open.owed_server && !self.has_exited() {
            self.stdin = Stdin::Closed;
            if let ShutdownStage::Closing { until } = &mut self.stage {
                *until = now + self.limits.close;
            }
            return Some(ShutdownStep::CloseStdin);
        }
        if self.upstream == Upstream::Reported && self.client_ended && !open.owed_client && !self.has_exited() {
            self.upstream = Upstream::ClientClosed;
            return Some(ShutdownStep::CloseClient);
        }
        match &mut self.stage {
            ShutdownStage::Relaying | ShutdownStage::Finishing { .. } | ShutdownStage::Killed => None,
            ShutdownStage::Closing { until } => {
                if now < *until {
                    return None;
                }
                self.stage = ShutdownStage::Terminated { until: now + self.limits.terminate };
                Some(ShutdownStep::Terminate)
            }
            ShutdownStage::Terminated { until } => {
                if now < *until {
                    return None;
                }
                self.stage = ShutdownStage::Killed;
                Some(ShutdownStep::Kill)
            }
            ShutdownStage::DrainingServer { how, until } => {
                if open.server_output && now < *until {
                    return None;
                }
                self.stage = ShutdownStage::ServerDrained { how: how.clone() };
                Some(ShutdownStep::Kill)
            }
            ShutdownStage::ServerDrained { .. } if open.has_successor => None,
            ShutdownStage::ServerDrained { how } => {
                let how = how.clone();
                let limit = if self.is_hurried { self.limits.close } else { self.limits.client_drain };
                let is_asked = self.is_hurried || self.is_ordered || self.ended_by.is_some();
                let untold = (!is_asked).then(|| now + self.limits.first_request);
                self.stage = ShutdownStage::DrainingClient { how: how.clone(), until: now + limit, untold };
                let is_news = matches!(self.upstream, Upstream::Talking | Upstream::Silent { .. });
                self.upstream = Upstream::Reported;
                is_news.then_some(ShutdownStep::EndServer(how)).or_else(|| self.next(now, open))
            }
            ShutdownStage::DrainingClient { how, until, untold } => {
                *untold = untold.filter(|untold| open.end_untold && now < *untold);
                if untold.is_some() {
                    return None;
                }
                if open.owed_client && now < *until {
                    return None;
                }
                if open.owed_client && !self.is_hurried && *until + SUSPENDED <= now {
                    self.handle_client_read(now);
                    return None;
                }
                Some(ShutdownStep::Leave(how.clone()))
            }
        }
    }
}

// The same on each platform, with the signals of one that has all of them.
#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const QUIET: Remaining = Remaining {
        owed_server: false,
        owed_client: false,
        server_output: true,
        in_flight: false,
        end_untold: false,
        has_successor: false,
    };
    const BUSY: Remaining = Remaining { in_flight: true, ..QUIET };
    const OWES_SERVER: Remaining = Remaining { owed_server: true, in_flight: true, ..QUIET };
    const OWES_CLIENT: Remaining = Remaining { owed_client: true, server_output: false, ..QUIET };
    const ENDED: Remaining = Remaining { server_output: false, ..QUIET };

    type Order = fn(&mut Shutdown);

    const YEAR: u64 = 365 * 24 * 3600 * 1000;

    fn at(millis: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(millis))
    }

    fn fresh() -> Shutdown {
        Shutdown::new(ShutdownLimits::default())
    }

    fn steps(shutdown: &mut Shutdown, now: Instant, open: Remaining) -> Vec<ShutdownStep> {
        let mut steps = Vec::new();
        while let Some(step) = shutdown.next(now, open) {
            let last = matches!(step, ShutdownStep::Leave(_));
            steps.push(step);
            if last {
                break;
            }
        }
        steps
    }

    #[test]
    fn the_end_of_input_closes_stdin_and_nothing_more_while_something_is_in_flight() {
        let mut shutdown = fresh();
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(0), BUSY), [ShutdownStep::CloseStdin]);
        assert_eq!(shutdown.deadline(), None);
        assert_eq!(steps(&mut shutdown, at(YEAR), BUSY), []);
        assert_eq!(shutdown.ended_by(), None);
    }

    /// D47: of a container the client leaves less time.
    #[test]
    fn a_shorter_limit_counts_from_the_clients_sigterm_and_from_no_other_step() {
        let limits = ShutdownLimits { asked: Duration::from_secs(1), ..ShutdownLimits::default() };
        let mut asked = Shutdown::new(limits);
        asked.handle_signal(at(0), Signal::TERM);
        assert_eq!(steps(&mut asked, at(999), BUSY), []);
        assert_eq!(steps(&mut asked, at(1000), BUSY), [ShutdownStep::Kill]);
        let mut begun = Shutdown::new(limits);
        begun.begin(at(0), EndReason::ReaderGone);
        assert_eq!(steps(&mut begun, at(1499), BUSY), [ShutdownStep::CloseStdin]);
        assert_eq!(begun.deadline(), Some(at(2999)));
    }

    #[test]
    fn with_nothing_in_flight_a_server_has_thirty_seconds_to_end_by_itself() {
        let mut shutdown = fresh();
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(0), BUSY), [ShutdownStep::CloseStdin]);
        assert_eq!(steps(&mut shutdown, at(5000), QUIET), []);
        assert_eq!(shutdown.deadline(), Some(at(35_000)), "counted from the last answer");
        assert_eq!(steps(&mut shutdown, at(34_999), QUIET), []);
        assert_eq!(steps(&mut shutdown, at(35_000), QUIET), []);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Shim(EndReason::Idle(Duration::from_secs(30)))));
        assert_eq!(steps(&mut shutdown, at(36_500), QUIET), [ShutdownStep::Terminate]);
        assert_eq!(steps(&mut shutdown, at(37_500), QUIET), [ShutdownStep::Kill]);
    }

    #[test]
    fn a_request_that_arrives_late_stops_the_clock() {
        let mut shutdown = fresh();
        shutdown.handle_client_eof(at(0));
        steps(&mut shutdown, at(0), QUIET);
        assert_eq!(steps(&mut shutdown, at(29_999), BUSY), []);
        assert_eq!(shutdown.deadline(), None);
    }

    #[test]
    fn a_server_may_be_given_for_ever() {
        let mut shutdown = Shutdown::new(ShutdownLimits { finish: None, ..ShutdownLimits::default() });
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(0), QUIET), [ShutdownStep::CloseStdin]);
        assert_eq!(shutdown.deadline(), None);
        assert_eq!(steps(&mut shutdown, at(YEAR), QUIET), []);
    }

    #[test]
    fn a_client_that_is_gone_has_its_server_climb_the_ladder() {
        let mut shutdown = fresh();
        shutdown.begin(at(0), EndReason::ReaderGone);
        assert_eq!(steps(&mut shutdown, at(0), BUSY), [ShutdownStep::CloseStdin]);
        assert_eq!(shutdown.deadline(), Some(at(1500)));
        assert_eq!(steps(&mut shutdown, at(1499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(1500), BUSY), [ShutdownStep::Terminate]);
        assert_eq!(shutdown.deadline(), Some(at(2500)));
        assert_eq!(steps(&mut shutdown, at(2500), BUSY), [ShutdownStep::Kill]);
        assert_eq!(shutdown.deadline(), None);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Shim(EndReason::ReaderGone)));
    }

    #[test]
    fn a_client_may_go_while_its_server_finishes() {
        let mut shutdown = fresh();
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(0), BUSY), [ShutdownStep::CloseStdin]);
        shutdown.begin(at(10_000), EndReason::ReaderGone);
        assert_eq!(steps(&mut shutdown, at(11_499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(11_500), BUSY), [ShutdownStep::Terminate]);
    }

    #[test]
    fn stdin_stays_open_while_the_server_reads_what_it_is_owed() {
        let mut shutdown = fresh();
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(YEAR), OWES_SERVER), []);
        shutdown.begin(at(YEAR), EndReason::ReaderGone);
        assert_eq!(steps(&mut shutdown, at(YEAR), OWES_SERVER), []);
        shutdown.handle_server_read(at(YEAR + 1000));
        assert_eq!(steps(&mut shutdown, at(YEAR + 2499), OWES_SERVER), []);
        assert_eq!(steps(&mut shutdown, at(YEAR + 2499), QUIET), [ShutdownStep::CloseStdin]);
        assert_eq!(shutdown.deadline(), Some(at(YEAR + 3999)));
    }

    #[test]
    fn a_server_that_is_to_end_and_reads_nothing_is_terminated() {
        let mut shutdown = fresh();
        shutdown.begin(at(0), EndReason::ReaderGone);
        assert_eq!(steps(&mut shutdown, at(1500), OWES_SERVER), [ShutdownStep::Terminate]);
    }

    /// Its last bytes are still being read: it was not asked to end, and yet no other may follow.
    #[test]
    fn an_end_that_is_asked_for_while_a_server_is_drained_lets_no_other_follow() {
        let orders: [(&str, Order); 4] = [
            ("an operator", |shutdown| shutdown.handle_order(at(100))),
            ("SIGTERM", |shutdown| _ = shutdown.handle_signal(at(100), Signal::TERM)),
            ("SIGHUP", |shutdown| _ = shutdown.handle_signal(at(100), Signal::HUP)),
            ("the end of input", |shutdown| shutdown.handle_client_eof(at(100))),
        ];
        for (who, order) in orders {
            let mut shutdown = fresh();
            shutdown.handle_server_exit(at(0), End::Exited(0));
            assert!(shutdown.is_unasked() && shutdown.may_restart());
            order(&mut shutdown);
            assert!(!shutdown.is_unasked() && !shutdown.may_restart(), "{who}");
            assert_eq!(shutdown.ended_by(), None, "{who}: it has ended by itself");
        }
    }

    #[test]
    fn the_ladder_goes_on_from_a_signal_of_the_client() {
        let mut shutdown = fresh();
        assert!(shutdown.handle_signal(at(0), Signal::HUP));
        assert_eq!(steps(&mut shutdown, at(0), BUSY), [], "its stdin is the client's affair");
        assert_eq!(steps(&mut shutdown, at(1499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(1500), BUSY), [ShutdownStep::Terminate]);
        assert_eq!(steps(&mut shutdown, at(2500), BUSY), [ShutdownStep::Kill]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(1)));
    }

    #[test]
    fn after_sigint_the_ladder_begins_once_the_input_has_ended() {
        let mut shutdown = fresh();
        assert!(!shutdown.handle_signal(at(0), Signal::INT));
        assert_eq!(steps(&mut shutdown, at(YEAR), BUSY), [], "it may have ended a turn");
        assert_eq!((shutdown.deadline(), shutdown.ended_by()), (None, None));
        shutdown.handle_client_eof(at(YEAR));
        assert_eq!(steps(&mut shutdown, at(YEAR), BUSY), [ShutdownStep::CloseStdin]);
        assert_eq!(steps(&mut shutdown, at(YEAR + 1499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(YEAR + 1500), BUSY), [ShutdownStep::Terminate]);
        assert_eq!(steps(&mut shutdown, at(YEAR + 2500), BUSY), [ShutdownStep::Kill]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(2)));
    }

    #[test]
    fn after_the_end_of_the_input_sigint_begins_the_ladder_at_once() {
        let mut shutdown = fresh();
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(0), BUSY), [ShutdownStep::CloseStdin]);
        assert!(shutdown.handle_signal(at(5000), Signal::INT));
        assert_eq!(steps(&mut shutdown, at(6500), BUSY), [ShutdownStep::Terminate]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(2)));
    }

    #[test]
    fn after_sigint_a_client_that_reads_no_more_has_its_server_climb_the_ladder() {
        let mut shutdown = fresh();
        shutdown.handle_signal(at(0), Signal::INT);
        // As the link does for a client whose reader is gone.
        shutdown.handle_client_eof(at(5000));
        shutdown.begin(at(5000), EndReason::ReaderGone);
        assert_eq!(steps(&mut shutdown, at(5000), BUSY), [ShutdownStep::CloseStdin]);
        assert_eq!(steps(&mut shutdown, at(6500), BUSY), [ShutdownStep::Terminate]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(2)));
    }

    #[test]
    fn after_sigint_another_signal_begins_the_ladder() {
        let mut shutdown = fresh();
        shutdown.handle_signal(at(0), Signal::INT);
        assert!(shutdown.handle_signal(at(5000), Signal::TERM));
        assert_eq!(steps(&mut shutdown, at(7499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(7500), BUSY), [ShutdownStep::Kill]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(15)));
    }

    #[test]
    fn a_server_that_ends_soon_after_sigint_was_ended_by_its_client() {
        let soon = [(2499, End::Exited(0)), (100, End::Exited(130)), (YEAR, End::Signalled(2))];
        let late = [(2500, End::Exited(0)), (YEAR, End::Exited(130)), (YEAR, End::Signalled(9))];
        let ended_by = |(after, how)| {
            let mut shutdown = fresh();
            shutdown.handle_signal(at(0), Signal::INT);
            shutdown.handle_server_exit(at(after), how);
            shutdown.ended_by()
        };
        assert_eq!(soon.map(ended_by), [Some(EndedBy::Client(2)); 3]);
        assert_eq!(late.map(ended_by), [None; 3]);
    }

    #[test]
    fn sigint_does_not_hurry_a_client_whose_input_is_open() {
        let before: fn(&mut Shutdown) = |shutdown| {
            shutdown.handle_signal(at(0), Signal::INT);
            shutdown.handle_server_exit(at(0), End::Signalled(2));
            steps(shutdown, at(0), OWES_CLIENT);
        };
        let after: fn(&mut Shutdown) = |shutdown| {
            shutdown.handle_server_exit(at(0), End::Signalled(2));
            steps(shutdown, at(0), OWES_CLIENT);
            shutdown.handle_signal(at(0), Signal::INT);
        };
        for end in [before, after] {
            let mut shutdown = fresh();
            end(&mut shutdown);
            assert_eq!(shutdown.deadline(), Some(at(600_000)));
            shutdown.handle_client_eof(at(1000));
            assert_eq!(shutdown.deadline(), Some(at(2500)), "it has sent a signal, and says no more");
        }
    }

    #[test]
    fn a_sigterm_of_the_client_is_not_repeated_and_leaves_the_time_of_both_rungs() {
        let mut shutdown = fresh();
        shutdown.handle_signal(at(0), Signal::TERM);
        shutdown.begin(at(10), EndReason::ReaderGone);
        assert_eq!(steps(&mut shutdown, at(10), BUSY), [ShutdownStep::CloseStdin]);
        shutdown.handle_signal(at(900), Signal::TERM);
        assert_eq!(steps(&mut shutdown, at(2499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(2500), BUSY), [ShutdownStep::Kill]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(15)));
    }

    #[test]
    fn a_second_signal_wins_no_time() {
        let mut shutdown = fresh();
        shutdown.handle_signal(at(0), Signal::HUP);
        shutdown.handle_signal(at(1000), Signal::INT);
        shutdown.handle_signal(at(1400), Signal::TERM);
        assert_eq!(steps(&mut shutdown, at(2499), BUSY), []);
        assert_eq!(steps(&mut shutdown, at(2500), BUSY), [ShutdownStep::Kill]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(1)));
    }

    #[test]
    fn a_signal_that_asks_for_no_end_begins_no_ladder() {
        let mut shutdown = fresh();
        shutdown.handle_passed_on(Signal::USR1);
        assert_eq!(steps(&mut shutdown, at(YEAR), BUSY), []);
        assert_eq!(shutdown.deadline(), None);
        shutdown.handle_server_exit(at(YEAR), End::Exited(1));
        assert_eq!(shutdown.ended_by(), None);
    }

    #[test]
    fn a_server_that_dies_of_such_a_signal_was_ended_by_its_client() {
        let mut shutdown = fresh();
        shutdown.handle_passed_on(Signal::USR1);
        shutdown.handle_passed_on(Signal::USR2);
        shutdown.handle_server_exit(at(0), End::Signalled(Signal::USR1.as_raw()));
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Client(Signal::USR1.as_raw())));
    }

    #[test]
    fn a_signal_that_comes_after_the_end_ended_nothing() {
        let mut shutdown = fresh();
        shutdown.handle_server_exit(at(0), End::Exited(0));
        shutdown.handle_signal(at(0), Signal::TERM);
        assert_eq!(shutdown.ended_by(), None);
    }

    #[test]
    fn an_exit_is_told_after_its_output_was_read() {
        let mut shutdown = fresh();
        let how = End::Exited(3);
        shutdown.handle_server_exit(at(0), how.clone());
        assert_eq!(steps(&mut shutdown, at(1), BUSY), []);
        let last = [ShutdownStep::Kill, ShutdownStep::EndServer(how.clone()), ShutdownStep::Leave(how)];
        assert_eq!(steps(&mut shutdown, at(2), ENDED), last);
    }

    /// D63.
    #[test]
    fn an_end_that_its_client_cannot_know_of_waits_for_the_request_that_is_answered_with_it() {
        const UNTOLD: Remaining = Remaining { end_untold: true, ..ENDED };
        let (how, mut shutdown) = (End::Exited(1), fresh());
        let end = |shutdown: &mut Shutdown| {
            shutdown.handle_server_exit(at(0), End::Exited(1));
            assert_eq!(steps(shutdown, at(0), UNTOLD).len(), 2, "nothing is owed");
        };
        end(&mut shutdown);
        assert_eq!((steps(&mut shutdown, at(1999), UNTOLD), shutdown.deadline()), (vec![], Some(at(2000))));
        assert_eq!(steps(&mut shutdown, at(2000), UNTOLD), [ShutdownStep::Leave(how.clone())], "none came");

        let mut shutdown = fresh();
        end(&mut shutdown);
        assert_eq!(steps(&mut shutdown, at(1500), OWES_CLIENT), [], "its answer waits to be read");
        assert_eq!(steps(&mut shutdown, at(9000), ENDED), [ShutdownStep::Leave(how.clone())]);

        let mut shutdown = fresh();
        end(&mut shutdown);
        shutdown.handle_signal(at(1), Signal::TERM);
        assert_eq!(steps(&mut shutdown, at(1), UNTOLD), [ShutdownStep::Leave(how.clone())], "it wants no answer");

        let mut shutdown = fresh();
        shutdown.handle_signal(at(0), Signal::TERM);
        shutdown.handle_server_exit(at(1), how.clone());
        assert_eq!(steps(&mut shutdown, at(1), UNTOLD).last(), Some(&ShutdownStep::Leave(how)), "it knows");
    }

    #[test]
    fn output_that_somebody_else_holds_open_is_not_waited_for() {
        let mut shutdown = fresh();
        let how = End::Signalled(9);
        shutdown.handle_server_exit(at(0), how.clone());
        let last = [ShutdownStep::Kill, ShutdownStep::EndServer(how.clone()), ShutdownStep::Leave(how)];
        assert_eq!(steps(&mut shutdown, at(500), QUIET), last);
    }

    #[test]
    fn the_rest_waits_for_a_client_that_pauses_as_long_as_before_the_servers_end() {
        let mut shutdown = fresh();
        let how = End::Exited(0);
        shutdown.handle_server_exit(at(0), how.clone());
        assert_eq!(
            steps(&mut shutdown, at(0), OWES_CLIENT),
            [ShutdownStep::Kill, ShutdownStep::EndServer(how.clone())]
        );
        assert_eq!(steps(&mut shutdown, at(599_999), OWES_CLIENT), []);
        shutdown.handle_client_read(at(599_999));
        assert_eq!(steps(&mut shutdown, at(1_199_998), OWES_CLIENT), []);
        assert_eq!(steps(&mut shutdown, at(1_199_999), OWES_CLIENT), [ShutdownStep::Leave(how)]);
    }

    #[test]
    fn time_in_which_the_shim_itself_was_stopped_is_not_the_clients() {
        let mut shutdown = fresh();
        let how = End::Exited(0);
        shutdown.handle_server_exit(at(0), how.clone());
        steps(&mut shutdown, at(0), OWES_CLIENT);
        assert_eq!(steps(&mut shutdown, at(YEAR), OWES_CLIENT), []);
        assert_eq!(shutdown.deadline(), Some(at(YEAR + 600_000)));
        assert_eq!(steps(&mut shutdown, at(YEAR + 600_000), OWES_CLIENT), [ShutdownStep::Leave(how)]);
    }

    #[test]
    fn a_signal_after_the_exit_bounds_the_wait_for_a_client_that_reads() {
        let mut shutdown = fresh();
        let how = End::Exited(0);
        shutdown.handle_server_exit(at(0), how.clone());
        steps(&mut shutdown, at(0), OWES_CLIENT);
        shutdown.handle_client_read(at(3000));
        shutdown.handle_signal(at(4000), Signal::TERM);
        shutdown.handle_client_read(at(5000));
        shutdown.handle_signal(at(5400), Signal::INT);
        assert_eq!(steps(&mut shutdown, at(5499), OWES_CLIENT), []);
        assert_eq!(steps(&mut shutdown, at(5500), OWES_CLIENT), [ShutdownStep::Leave(how)]);
        assert_eq!(shutdown.ended_by(), None);
    }

    #[test]
    fn a_signal_just_before_the_limit_wins_no_time() {
        let mut shutdown = fresh();
        shutdown.handle_server_exit(at(0), End::Exited(0));
        steps(&mut shutdown, at(0), OWES_CLIENT);
        let due = shutdown.deadline().unwrap();
        shutdown.handle_signal(due, Signal::TERM);
        assert_eq!(shutdown.deadline(), Some(due));
    }

    #[test]
    fn a_signal_before_the_servers_last_bytes_were_read_bounds_the_wait_for_its_client_too() {
        let before: fn(&mut Shutdown) = |shutdown| {
            shutdown.handle_signal(at(0), Signal::TERM);
            shutdown.handle_server_exit(at(100), End::Exited(0));
        };
        let meanwhile: fn(&mut Shutdown) = |shutdown| {
            shutdown.handle_server_exit(at(0), End::Exited(0));
            shutdown.handle_signal(at(100), Signal::TERM);
        };
        for handle_signal in [before, meanwhile] {
            let mut shutdown = fresh();
            handle_signal(&mut shutdown);
            assert_eq!(
                steps(&mut shutdown, at(200), OWES_CLIENT),
                [ShutdownStep::Kill, ShutdownStep::EndServer(End::Exited(0))]
            );
            shutdown.handle_client_read(at(1600));
            assert_eq!(steps(&mut shutdown, at(1700), OWES_CLIENT), [ShutdownStep::Leave(End::Exited(0))]);
        }
    }

    #[test]
    fn a_server_that_closes_its_stdout_and_lives_may_finish_what_it_does() {
        let mut shutdown = fresh();
        shutdown.handle_server_silent(at(0));
        assert_eq!(steps(&mut shutdown, at(499), ENDED), []);
        assert_eq!(
            steps(&mut shutdown, at(500), ENDED),
            [ShutdownStep::EndServer(End::Closed), ShutdownStep::CloseStdin]
        );
        assert_eq!(steps(&mut shutdown, at(30_499), ENDED), []);
        assert_eq!(steps(&mut shutdown, at(30_500), ENDED), []);
        assert_eq!(steps(&mut shutdown, at(32_000), ENDED), [ShutdownStep::Terminate]);
        assert_eq!(shutdown.ended_by(), Some(EndedBy::Shim(EndReason::Silent)));
        shutdown.handle_server_exit(at(32_001), End::Signalled(15));
        assert_eq!(
            steps(&mut shutdown, at(32_001), ENDED),
            [ShutdownStep::Kill, ShutdownStep::Leave(End::Signalled(15))]
        );
    }

    #[test]
    fn the_clients_output_ends_once_nothing_can_be_written_to_it() {
        let mut shutdown = fresh();
        shutdown.handle_server_silent(at(0));
        assert_eq!(
            steps(&mut shutdown, at(500), OWES_CLIENT),
            [ShutdownStep::EndServer(End::Closed), ShutdownStep::CloseStdin]
        );
        assert_eq!(steps(&mut shutdown, at(700), ENDED), [], "what it still asks is answered");
        shutdown.handle_client_eof(at(0));
        assert_eq!(steps(&mut shutdown, at(800), OWES_CLIENT), []);
        assert_eq!(steps(&mut shutdown, at(900), ENDED), [ShutdownStep::CloseClient]);
    }

    #[test]
    fn an_exit_soon_after_the_end_of_output_is_told_with_its_status() {
        let mut shutdown = fresh();
        shutdown.handle_server_silent(at(0));
        shutdown.handle_server_exit(at(499), End::Exited(1));
        let last = [ShutdownStep::Kill, ShutdownStep::EndServer(End::Exited(1)), ShutdownStep::Leave(End::Exited(1))];
        assert_eq!(steps(&mut shutdown, at(500), ENDED), last);
    }
}
