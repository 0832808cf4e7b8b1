//! How a link ends, step by step, as a value without processes or clocks.
//!
//! The end of a session belongs to the client (D44). Its end of input closes the
//! server's stdin and nothing more: the server may finish and end by itself. Its
//! signals are passed on, and the ladder (SIGTERM, SIGKILL) continues from there.
//! By itself the ladder begins where no client is left to wait for an answer.
//!
//! Whichever side ends first, the rest is bounded: a server that has ended gets its
//! last bytes read, and a client that does not read them is not waited for longer
//! than a limit since it last read something. Once the client has sent a signal,
//! that limit is short, and reading does not extend it.

use std::time::Duration;

use rescind_proto::{
    relay::{End, EndReason, EndedBy},
    time::Instant,
};
use rustix::process::Signal;

/// The limits of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How long nothing may be in flight after the client's end of input before the ladder begins; `None` for ever.
    pub(crate) finish: Option<Duration>,
    /// From the begin of the ladder, or a client's signal, to SIGTERM; also how long a server that is to end may leave
    /// unread what it is still owed, and how long a client that has sent a signal may take to read the rest.
    pub(crate) close: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate: Duration,
    /// How long the server's stdout may stay open after its exit, and its exit may come after its stdout's end (D35).
    pub(crate) drain: Duration,
    /// How long the client may read nothing of what it is still owed after the server's end: as long as it may while
    /// the server lives (D13).
    pub(crate) part: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            finish: Some(Duration::from_secs(30)), // D44
            close: Duration::from_millis(1500),
            terminate: Duration::from_secs(1),
            drain: Duration::from_millis(500), // D35
            part: Duration::from_secs(600),    // D13
        }
    }
}

/// A look at the clock that comes this late says that the process itself was stopped, as a suspended job is, and so
/// perhaps was the client.
const STOPPED: Duration = Duration::from_secs(1);

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Close the server's stdin.
    CloseStdin,
    /// SIGTERM to the server's group.
    Terminate,
    /// SIGKILL to the server's group, or to what it left behind.
    Kill,
    /// Read what still lies in the server's stdout, then tell the relay that the server has ended.
    EndServer(End),
    /// Close the client's output: the server lives, and nothing will ever be written.
    CloseClient,
    /// Nothing is left to do, or the client has had its time: leave with what became of the server.
    Leave(End),
}

/// What is still open or owed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Bytes wait for the server and it can still be written to.
    pub(crate) owed_server: bool,
    /// Bytes wait for the client and it can still be written to.
    pub(crate) owed_client: bool,
    /// The server's stdout has not ended.
    pub(crate) server_output: bool,
    /// The client waits for an answer.
    pub(crate) in_flight: bool,
}

/// Where a link stands on its way to the end.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    limits: Limits,
    stage: Stage,
    stdin: Stdin,
    upstream: Upstream,
    /// The client's input has ended.
    client_ended: bool,
    /// Who asked the server to end first.
    ended_by: Option<EndedBy>,
    /// The client has sent a signal: it does not wait for the rest.
    is_hurried: bool,
    /// The client's signals that asked for no end, each once.
    passed_on: Vec<Signal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Both sides talk.
    Relaying,
    /// The client's input has ended; the server may finish. Nothing is in flight since `idle`.
    Finishing { idle: Option<Instant> },
    /// The ladder has begun.
    Closing { until: Instant },
    /// The server was told to end.
    Terminated { until: Instant },
    /// The server was killed.
    Killed,
    /// The server has exited; its stdout is read to the end.
    Draining { how: End, until: Instant },
    /// Nothing of the server is left but the news of it.
    Emptied { how: End },
    /// The client is being written the rest.
    Parting { how: End, until: Instant },
}

/// The server's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdin {
    Open,
    /// To be closed once the server was written what it is owed.
    Closing,
    Closed,
}

/// What the relay knows of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upstream {
    Talking,
    /// It closed its stdout, or its stdin, and lives; perhaps it is about to exit.
    Silent {
        until: Instant,
    },
    /// The relay was told that it ended.
    Told,
    /// And the client's output was closed.
    Parted,
}

impl Lifecycle {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            stage: Stage::Relaying,
            stdin: Stdin::Open,
            upstream: Upstream::Talking,
            client_ended: false,
            ended_by: None,
            is_hurried: false,
            passed_on: Vec::new(),
        }
    }

    /// Who asked the server to end first, if anyone did.
    pub(crate) const fn ended_by(&self) -> Option<EndedBy> {
        self.ended_by
    }

    /// The client's input has ended: so does the server's, and nothing more.
    pub(crate) fn client_ended(&mut self) {
        self.client_ended = true;
        self.end_input();
    }

    fn end_input(&mut self) {
        self.close_stdin();
        if self.stage == Stage::Relaying {
            self.stage = Stage::Finishing { idle: None };
        }
    }

    /// The ladder begins from its first rung.
    pub(crate) fn begin(&mut self, now: Instant, reason: EndReason) {
        if self.is_unasked() {
            self.stage = Stage::Closing { until: now + self.limits.close };
            self.ended_by = Some(EndedBy::Shim(reason));
        }
        self.close_stdin();
    }

    /// A signal of the client was passed on: the ladder goes on from there. A server that has just been sent SIGTERM
    /// is not sent another, but has the time of both rungs. Where the server has ended before, the signal bounds how
    /// long the client is waited for.
    pub(crate) fn signalled(&mut self, now: Instant, signal: Signal) {
        self.is_hurried = true;
        let until = match &mut self.stage {
            Stage::Relaying | Stage::Finishing { .. } => now + self.limits.close,
            Stage::Closing { until } => *until,
            Stage::Parting { until, .. } => {
                *until = (*until).min(now + self.limits.close);
                return;
            }
            Stage::Terminated { .. } | Stage::Killed | Stage::Draining { .. } | Stage::Emptied { .. } => return,
        };
        self.ended_by.get_or_insert(EndedBy::Client(signal.as_raw()));
        self.stage = if signal == Signal::TERM {
            Stage::Terminated { until: until + self.limits.terminate }
        } else {
            Stage::Closing { until }
        };
    }

    /// A signal of the client that asks for no end was passed on. A server may die of it all the same.
    pub(crate) fn passed_on(&mut self, signal: Signal) {
        if !self.passed_on.contains(&signal) {
            self.passed_on.push(signal);
        }
    }

    /// The server was sent SIGTERM out of turn: the ladder goes on from there.
    pub(crate) fn terminated(&mut self, now: Instant, reason: EndReason) {
        if self.is_unasked() || matches!(self.stage, Stage::Closing { .. }) {
            self.stage = Stage::Terminated { until: now + self.limits.terminate };
            self.ended_by.get_or_insert(EndedBy::Shim(reason));
        }
    }

    /// The server closed its stdout or its stdin.
    pub(crate) fn server_silent(&mut self, now: Instant) {
        if self.upstream == Upstream::Talking {
            self.upstream = Upstream::Silent { until: now + self.limits.drain };
        }
    }

    /// The server's process has ended.
    pub(crate) fn server_exited(&mut self, now: Instant, how: End) {
        if !self.has_exited() {
            let of = |signal: &&Signal| how == End::Signalled(signal.as_raw());
            if let Some(signal) = self.passed_on.iter().find(of) {
                self.ended_by.get_or_insert(EndedBy::Client(signal.as_raw()));
            }
            self.stage = Stage::Draining { how, until: now + self.limits.drain };
        }
    }

    pub(crate) const fn has_exited(&self) -> bool {
        matches!(self.stage, Stage::Draining { .. } | Stage::Emptied { .. } | Stage::Parting { .. })
    }

    /// Neither the client nor the ladder has asked the server to end.
    const fn is_unasked(&self) -> bool {
        matches!(self.stage, Stage::Relaying | Stage::Finishing { .. })
    }

    fn close_stdin(&mut self) {
        if self.stdin == Stdin::Open {
            self.stdin = Stdin::Closing;
        }
    }

    /// The server took some of what it was owed.
    pub(crate) fn server_read(&mut self, now: Instant) {
        if let (Stage::Closing { until }, Stdin::Closing) = (&mut self.stage, self.stdin) {
            *until = now + self.limits.close;
        }
    }

    /// The client took some of what it was owed.
    pub(crate) fn client_read(&mut self, now: Instant) {
        if let Stage::Parting { until, .. } = &mut self.stage
            && !self.is_hurried
        {
            *until = now + self.limits.part;
        }
    }

    /// When [`next`](Self::next) is to be asked again, though nothing happened.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let stage = match self.stage {
            Stage::Relaying | Stage::Killed | Stage::Emptied { .. } => None,
            Stage::Finishing { idle } => idle.and_then(|idle| Some(idle + self.limits.finish?)),
            Stage::Closing { until }
            | Stage::Terminated { until }
            | Stage::Draining { until, .. }
            | Stage::Parting { until, .. } => Some(until),
        };
        let silent = match self.upstream {
            Upstream::Silent { until } if !self.has_exited() => Some(until),
            Upstream::Silent { .. } | Upstream::Talking | Upstream::Told | Upstream::Parted => None,
        };
        [stage, silent].into_iter().flatten().min()
    }

    /// What is to be done now. Ask again until there is nothing.
    pub(crate) fn next(&mut self, now: Instant, open: Open) -> Option<Step> {
        if let Upstream::Silent { until } = self.upstream
            && until <= now
            && !self.has_exited()
        {
            self.upstream = Upstream::Told;
            self.end_input();
            return Some(Step::EndServer(End::Closed));
        }
        if let Stage::Finishing { idle } = &mut self.stage {
            *idle = if open.in_flight { None } else { idle.or(Some(now)) };
            if let Some((idle, finish)) = idle.zip(self.limits.finish)
                && idle + finish <= now
            {
                let is_silent = matches!(self.upstream, Upstream::Told | Upstream::Parted);
                self.begin(now, if is_silent { EndReason::Silent } else { EndReason::Idle(finish) });
            }
        }
        if self.stdin == Stdin::Closing && !open.owed_server && !self.has_exited() {
            self.stdin = Stdin::Closed;
            if let Stage::Closing { until } = &mut self.stage {
                *until = now + self.limits.close;
            }
            return Some(Step::CloseStdin);
        }
        if self.upstream == Upstream::Told && self.client_ended && !open.owed_client && !self.has_exited() {
            self.upstream = Upstream::Parted;
            return Some(Step::CloseClient);
        }
        match self.stage.clone() {
            Stage::Relaying | Stage::Finishing { .. } | Stage::Killed => None,
            Stage::Closing { until } => {
                if now < until {
                    return None;
                }
                self.stage = Stage::Terminated { until: now + self.limits.terminate };
                Some(Step::Terminate)
            }
            Stage::Terminated { until } => {
                if now < until {
                    return None;
                }
                self.stage = Stage::Killed;
                Some(Step::Kill)
            }
            Stage::Draining { how, until } => {
                if open.server_output && now < until {
                    return None;
                }
                self.stage = Stage::Emptied { how };
                Some(Step::Kill)
            }
            Stage::Emptied { how } => {
                let limit = if self.is_hurried { self.limits.close } else { self.limits.part };
                self.stage = Stage::Parting { how: how.clone(), until: now + limit };
                let is_news = matches!(self.upstream, Upstream::Talking | Upstream::Silent { .. });
                self.upstream = Upstream::Told;
                is_news.then_some(Step::EndServer(how)).or_else(|| self.next(now, open))
            }
            Stage::Parting { how, until } => {
                if open.owed_client && now < until {
                    return None;
                }
                if open.owed_client && !self.is_hurried && until + STOPPED <= now {
                    self.client_read(now);
                    return None;
                }
                Some(Step::Leave(how))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Open = Open { owed_server: false, owed_client: false, server_output: true, in_flight: false };
    const BUSY: Open = Open { in_flight: true, ..QUIET };
    const OWES_SERVER: Open = Open { owed_server: true, in_flight: true, ..QUIET };
    const OWES_CLIENT: Open = Open { owed_client: true, server_output: false, ..QUIET };
    const ENDED: Open = Open { server_output: false, ..QUIET };

    const YEAR: u64 = 365 * 24 * 3600 * 1000;

    fn at(millis: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(millis))
    }

    fn fresh() -> Lifecycle {
        Lifecycle::new(Limits::default())
    }

    fn steps(lifecycle: &mut Lifecycle, now: Instant, open: Open) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = lifecycle.next(now, open) {
            let last = matches!(step, Step::Leave(_));
            steps.push(step);
            if last {
                break;
            }
        }
        steps
    }

    #[test]
    fn the_end_of_input_closes_stdin_and_nothing_more_while_something_is_in_flight() {
        let mut lifecycle = fresh();
        lifecycle.client_ended();
        assert_eq!(steps(&mut lifecycle, at(0), BUSY), [Step::CloseStdin]);
        assert_eq!(lifecycle.deadline(), None);
        assert_eq!(steps(&mut lifecycle, at(YEAR), BUSY), []);
        assert_eq!(lifecycle.ended_by(), None);
    }

    #[test]
    fn with_nothing_in_flight_a_server_has_thirty_seconds_to_end_by_itself() {
        let mut lifecycle = fresh();
        lifecycle.client_ended();
        assert_eq!(steps(&mut lifecycle, at(0), BUSY), [Step::CloseStdin]);
        assert_eq!(steps(&mut lifecycle, at(5000), QUIET), []);
        assert_eq!(lifecycle.deadline(), Some(at(35_000)), "counted from the last answer");
        assert_eq!(steps(&mut lifecycle, at(34_999), QUIET), []);
        assert_eq!(steps(&mut lifecycle, at(35_000), QUIET), []);
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Shim(EndReason::Idle(Duration::from_secs(30)))));
        assert_eq!(steps(&mut lifecycle, at(36_500), QUIET), [Step::Terminate]);
        assert_eq!(steps(&mut lifecycle, at(37_500), QUIET), [Step::Kill]);
    }

    #[test]
    fn a_request_that_arrives_late_stops_the_clock() {
        let mut lifecycle = fresh();
        lifecycle.client_ended();
        steps(&mut lifecycle, at(0), QUIET);
        assert_eq!(steps(&mut lifecycle, at(29_999), BUSY), []);
        assert_eq!(lifecycle.deadline(), None);
    }

    #[test]
    fn a_server_may_be_given_for_ever() {
        let mut lifecycle = Lifecycle::new(Limits { finish: None, ..Limits::default() });
        lifecycle.client_ended();
        assert_eq!(steps(&mut lifecycle, at(0), QUIET), [Step::CloseStdin]);
        assert_eq!(lifecycle.deadline(), None);
        assert_eq!(steps(&mut lifecycle, at(YEAR), QUIET), []);
    }

    #[test]
    fn a_client_that_is_gone_has_its_server_climb_the_ladder() {
        let mut lifecycle = fresh();
        lifecycle.begin(at(0), EndReason::ReaderGone);
        assert_eq!(steps(&mut lifecycle, at(0), BUSY), [Step::CloseStdin]);
        assert_eq!(lifecycle.deadline(), Some(at(1500)));
        assert_eq!(steps(&mut lifecycle, at(1499), BUSY), []);
        assert_eq!(steps(&mut lifecycle, at(1500), BUSY), [Step::Terminate]);
        assert_eq!(lifecycle.deadline(), Some(at(2500)));
        assert_eq!(steps(&mut lifecycle, at(2500), BUSY), [Step::Kill]);
        assert_eq!(lifecycle.deadline(), None);
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Shim(EndReason::ReaderGone)));
    }

    #[test]
    fn a_client_may_go_while_its_server_finishes() {
        let mut lifecycle = fresh();
        lifecycle.client_ended();
        assert_eq!(steps(&mut lifecycle, at(0), BUSY), [Step::CloseStdin]);
        lifecycle.begin(at(10_000), EndReason::ReaderGone);
        assert_eq!(steps(&mut lifecycle, at(11_499), BUSY), []);
        assert_eq!(steps(&mut lifecycle, at(11_500), BUSY), [Step::Terminate]);
    }

    #[test]
    fn stdin_stays_open_while_the_server_reads_what_it_is_owed() {
        let mut lifecycle = fresh();
        lifecycle.client_ended();
        assert_eq!(steps(&mut lifecycle, at(YEAR), OWES_SERVER), []);
        lifecycle.begin(at(YEAR), EndReason::ReaderGone);
        assert_eq!(steps(&mut lifecycle, at(YEAR), OWES_SERVER), []);
        lifecycle.server_read(at(YEAR + 1000));
        assert_eq!(steps(&mut lifecycle, at(YEAR + 2499), OWES_SERVER), []);
        assert_eq!(steps(&mut lifecycle, at(YEAR + 2499), QUIET), [Step::CloseStdin]);
        assert_eq!(lifecycle.deadline(), Some(at(YEAR + 3999)));
    }

    #[test]
    fn a_server_that_is_to_end_and_reads_nothing_is_terminated() {
        let mut lifecycle = fresh();
        lifecycle.begin(at(0), EndReason::ReaderGone);
        assert_eq!(steps(&mut lifecycle, at(1500), OWES_SERVER), [Step::Terminate]);
    }

    #[test]
    fn the_ladder_goes_on_from_a_signal_of_the_client() {
        let mut lifecycle = fresh();
        lifecycle.signalled(at(0), Signal::INT);
        assert_eq!(steps(&mut lifecycle, at(0), BUSY), [], "its stdin is the client's affair");
        assert_eq!(steps(&mut lifecycle, at(1499), BUSY), []);
        assert_eq!(steps(&mut lifecycle, at(1500), BUSY), [Step::Terminate]);
        assert_eq!(steps(&mut lifecycle, at(2500), BUSY), [Step::Kill]);
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Client(2)));
    }

    #[test]
    fn a_sigterm_of_the_client_is_not_repeated_and_leaves_the_time_of_both_rungs() {
        let mut lifecycle = fresh();
        lifecycle.signalled(at(0), Signal::TERM);
        lifecycle.begin(at(10), EndReason::ReaderGone);
        assert_eq!(steps(&mut lifecycle, at(10), BUSY), [Step::CloseStdin]);
        lifecycle.signalled(at(900), Signal::TERM);
        assert_eq!(steps(&mut lifecycle, at(2499), BUSY), []);
        assert_eq!(steps(&mut lifecycle, at(2500), BUSY), [Step::Kill]);
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Client(15)));
    }

    #[test]
    fn a_second_signal_wins_no_time() {
        let mut lifecycle = fresh();
        lifecycle.signalled(at(0), Signal::HUP);
        lifecycle.signalled(at(1000), Signal::INT);
        lifecycle.signalled(at(1400), Signal::TERM);
        assert_eq!(steps(&mut lifecycle, at(2499), BUSY), []);
        assert_eq!(steps(&mut lifecycle, at(2500), BUSY), [Step::Kill]);
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Client(1)));
    }

    #[test]
    fn a_signal_that_asks_for_no_end_begins_no_ladder() {
        let mut lifecycle = fresh();
        lifecycle.passed_on(Signal::USR1);
        assert_eq!(steps(&mut lifecycle, at(YEAR), BUSY), []);
        assert_eq!(lifecycle.deadline(), None);
        lifecycle.server_exited(at(YEAR), End::Exited(1));
        assert_eq!(lifecycle.ended_by(), None);
    }

    #[test]
    fn a_server_that_dies_of_such_a_signal_was_ended_by_its_client() {
        let mut lifecycle = fresh();
        lifecycle.passed_on(Signal::USR1);
        lifecycle.passed_on(Signal::USR2);
        lifecycle.server_exited(at(0), End::Signalled(Signal::USR1.as_raw()));
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Client(Signal::USR1.as_raw())));
    }

    #[test]
    fn a_signal_that_comes_after_the_end_ended_nothing() {
        let mut lifecycle = fresh();
        lifecycle.server_exited(at(0), End::Exited(0));
        lifecycle.signalled(at(0), Signal::TERM);
        assert_eq!(lifecycle.ended_by(), None);
    }

    #[test]
    fn an_exit_is_told_after_its_output_was_read() {
        let mut lifecycle = fresh();
        let how = End::Exited(3);
        lifecycle.server_exited(at(0), how.clone());
        assert_eq!(steps(&mut lifecycle, at(1), BUSY), []);
        let last = [Step::Kill, Step::EndServer(how.clone()), Step::Leave(how)];
        assert_eq!(steps(&mut lifecycle, at(2), ENDED), last);
    }

    #[test]
    fn output_that_somebody_else_holds_open_is_not_waited_for() {
        let mut lifecycle = fresh();
        let how = End::Signalled(9);
        lifecycle.server_exited(at(0), how.clone());
        let last = [Step::Kill, Step::EndServer(how.clone()), Step::Leave(how)];
        assert_eq!(steps(&mut lifecycle, at(500), QUIET), last);
    }

    #[test]
    fn the_rest_waits_for_a_client_that_pauses_as_long_as_before_the_servers_end() {
        let mut lifecycle = fresh();
        let how = End::Exited(0);
        lifecycle.server_exited(at(0), how.clone());
        assert_eq!(steps(&mut lifecycle, at(0), OWES_CLIENT), [Step::Kill, Step::EndServer(how.clone())]);
        assert_eq!(steps(&mut lifecycle, at(599_999), OWES_CLIENT), []);
        lifecycle.client_read(at(599_999));
        assert_eq!(steps(&mut lifecycle, at(1_199_998), OWES_CLIENT), []);
        assert_eq!(steps(&mut lifecycle, at(1_199_999), OWES_CLIENT), [Step::Leave(how)]);
    }

    #[test]
    fn time_in_which_the_shim_itself_was_stopped_is_not_the_clients() {
        let mut lifecycle = fresh();
        let how = End::Exited(0);
        lifecycle.server_exited(at(0), how.clone());
        steps(&mut lifecycle, at(0), OWES_CLIENT);
        assert_eq!(steps(&mut lifecycle, at(YEAR), OWES_CLIENT), []);
        assert_eq!(lifecycle.deadline(), Some(at(YEAR + 600_000)));
        assert_eq!(steps(&mut lifecycle, at(YEAR + 600_000), OWES_CLIENT), [Step::Leave(how)]);
    }

    #[test]
    fn a_signal_after_the_exit_bounds_the_wait_for_a_client_that_reads() {
        let mut lifecycle = fresh();
        let how = End::Exited(0);
        lifecycle.server_exited(at(0), how.clone());
        steps(&mut lifecycle, at(0), OWES_CLIENT);
        lifecycle.client_read(at(3000));
        lifecycle.signalled(at(4000), Signal::TERM);
        lifecycle.client_read(at(5000));
        lifecycle.signalled(at(5400), Signal::INT);
        assert_eq!(steps(&mut lifecycle, at(5499), OWES_CLIENT), []);
        assert_eq!(steps(&mut lifecycle, at(5500), OWES_CLIENT), [Step::Leave(how)]);
        assert_eq!(lifecycle.ended_by(), None);
    }

    #[test]
    fn a_signal_just_before_the_limit_wins_no_time() {
        let mut lifecycle = fresh();
        lifecycle.server_exited(at(0), End::Exited(0));
        steps(&mut lifecycle, at(0), OWES_CLIENT);
        let due = lifecycle.deadline().unwrap();
        lifecycle.signalled(due, Signal::TERM);
        assert_eq!(lifecycle.deadline(), Some(due));
    }

    #[test]
    fn a_signal_before_the_servers_last_bytes_were_read_bounds_the_wait_for_its_client_too() {
        let before: fn(&mut Lifecycle) = |lifecycle| {
            lifecycle.signalled(at(0), Signal::TERM);
            lifecycle.server_exited(at(100), End::Exited(0));
        };
        let meanwhile: fn(&mut Lifecycle) = |lifecycle| {
            lifecycle.server_exited(at(0), End::Exited(0));
            lifecycle.signalled(at(100), Signal::TERM);
        };
        for signalled in [before, meanwhile] {
            let mut lifecycle = fresh();
            signalled(&mut lifecycle);
            assert_eq!(steps(&mut lifecycle, at(200), OWES_CLIENT), [Step::Kill, Step::EndServer(End::Exited(0))]);
            lifecycle.client_read(at(1600));
            assert_eq!(steps(&mut lifecycle, at(1700), OWES_CLIENT), [Step::Leave(End::Exited(0))]);
        }
    }

    #[test]
    fn a_server_that_closes_its_stdout_and_lives_may_finish_what_it_does() {
        let mut lifecycle = fresh();
        lifecycle.server_silent(at(0));
        assert_eq!(steps(&mut lifecycle, at(499), ENDED), []);
        assert_eq!(steps(&mut lifecycle, at(500), ENDED), [Step::EndServer(End::Closed), Step::CloseStdin]);
        assert_eq!(steps(&mut lifecycle, at(30_499), ENDED), []);
        assert_eq!(steps(&mut lifecycle, at(30_500), ENDED), []);
        assert_eq!(steps(&mut lifecycle, at(32_000), ENDED), [Step::Terminate]);
        assert_eq!(lifecycle.ended_by(), Some(EndedBy::Shim(EndReason::Silent)));
        lifecycle.server_exited(at(32_001), End::Signalled(15));
        assert_eq!(steps(&mut lifecycle, at(32_001), ENDED), [Step::Kill, Step::Leave(End::Signalled(15))]);
    }

    #[test]
    fn the_clients_output_ends_once_nothing_can_be_written_to_it() {
        let mut lifecycle = fresh();
        lifecycle.server_silent(at(0));
        assert_eq!(steps(&mut lifecycle, at(500), OWES_CLIENT), [Step::EndServer(End::Closed), Step::CloseStdin]);
        assert_eq!(steps(&mut lifecycle, at(700), ENDED), [], "what it still asks is answered");
        lifecycle.client_ended();
        assert_eq!(steps(&mut lifecycle, at(800), OWES_CLIENT), []);
        assert_eq!(steps(&mut lifecycle, at(900), ENDED), [Step::CloseClient]);
    }

    #[test]
    fn an_exit_soon_after_the_end_of_output_is_told_with_its_status() {
        let mut lifecycle = fresh();
        lifecycle.server_silent(at(0));
        lifecycle.server_exited(at(499), End::Exited(1));
        let last = [Step::Kill, Step::EndServer(End::Exited(1)), Step::Leave(End::Exited(1))];
        assert_eq!(steps(&mut lifecycle, at(500), ENDED), last);
    }
}
