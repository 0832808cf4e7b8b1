//! How a link ends, step by step, as a value without processes or clocks.
//!
//! Whatever ends first, the rest is bounded: a client that has ended gets its
//! server the ladder (its stdin closed, SIGTERM, SIGKILL); a server that has ended
//! gets its last bytes read, and a client that does not read them is not waited
//! for longer than a limit since it last read something.

use std::time::Duration;

use rescind_proto::{relay::End, time::Instant};

/// The limits of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// From closing the server's stdin to SIGTERM; also how long it may leave unread what it is still owed.
    pub(crate) finish: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate: Duration,
    /// How long the server's stdout may stay open after its exit, and its exit may come after its stdout's end (D35).
    pub(crate) drain: Duration,
    /// How long the client may leave unread what it is still owed.
    pub(crate) part: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            finish: Duration::from_millis(1500),
            terminate: Duration::from_secs(1),
            drain: Duration::from_millis(500), // D35
            part: Duration::from_secs(5),
        }
    }
}

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
    /// Nothing is left to do: leave with what became of the server.
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
}

/// Where a link stands on its way to the end.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    limits: Limits,
    stage: Stage,
    upstream: Upstream,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Both sides talk.
    Relaying,
    /// The ladder has begun; what the server is still owed is being written.
    Finishing { until: Instant },
    /// The server's stdin is closed.
    Closed { until: Instant },
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
}

impl Lifecycle {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, stage: Stage::Relaying, upstream: Upstream::Talking }
    }

    /// The ladder begins: the client has ended, or the server does not read.
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.stage == Stage::Relaying {
            self.stage = Stage::Finishing { until: now + self.limits.finish };
        }
    }

    /// The server was sent a signal that asks it to end: the ladder goes on from there.
    pub(crate) fn terminated(&mut self, now: Instant) {
        if let Stage::Relaying | Stage::Finishing { .. } | Stage::Closed { .. } = self.stage {
            self.stage = Stage::Terminated { until: now + self.limits.terminate };
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
            self.stage = Stage::Draining { how, until: now + self.limits.drain };
        }
    }

    pub(crate) const fn has_exited(&self) -> bool {
        matches!(self.stage, Stage::Draining { .. } | Stage::Emptied { .. } | Stage::Parting { .. })
    }

    /// The server took some of what it was owed.
    pub(crate) fn server_read(&mut self, now: Instant) {
        if let Stage::Finishing { until } = &mut self.stage {
            *until = now + self.limits.finish;
        }
    }

    /// The client took some of what it was owed.
    pub(crate) fn client_read(&mut self, now: Instant) {
        if let Stage::Parting { until, .. } = &mut self.stage {
            *until = now + self.limits.part;
        }
    }

    /// When [`next`](Self::next) is to be asked again, though nothing happened.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let stage = match self.stage {
            Stage::Relaying | Stage::Killed | Stage::Emptied { .. } => None,
            Stage::Finishing { until }
            | Stage::Closed { until }
            | Stage::Terminated { until }
            | Stage::Draining { until, .. }
            | Stage::Parting { until, .. } => Some(until),
        };
        let silent = match self.upstream {
            Upstream::Silent { until } if !self.has_exited() => Some(until),
            Upstream::Silent { .. } | Upstream::Talking | Upstream::Told => None,
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
            self.begin(now);
            return Some(Step::EndServer(End::Closed));
        }
        match self.stage.clone() {
            Stage::Relaying | Stage::Killed => None,
            Stage::Finishing { until } => {
                if !open.owed_server {
                    self.stage = Stage::Closed { until: now + self.limits.finish };
                    return Some(Step::CloseStdin);
                }
                self.terminate_at(now, until)
            }
            Stage::Closed { until } => self.terminate_at(now, until),
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
                self.stage = Stage::Parting { how: how.clone(), until: now + self.limits.part };
                let told = self.upstream == Upstream::Told;
                self.upstream = Upstream::Told;
                (!told).then_some(Step::EndServer(how)).or_else(|| self.next(now, open))
            }
            Stage::Parting { how, until } => (!open.owed_client || until <= now).then_some(Step::Leave(how)),
        }
    }

    fn terminate_at(&mut self, now: Instant, until: Instant) -> Option<Step> {
        if now < until {
            return None;
        }
        self.stage = Stage::Terminated { until: now + self.limits.terminate };
        Some(Step::Terminate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Open = Open { owed_server: false, owed_client: false, server_output: true };
    const OWES_SERVER: Open = Open { owed_server: true, ..QUIET };
    const OWES_CLIENT: Open = Open { owed_client: true, server_output: false, ..QUIET };
    const ENDED: Open = Open { server_output: false, ..QUIET };

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
    fn the_end_of_the_client_climbs_the_ladder() {
        let mut lifecycle = fresh();
        lifecycle.begin(at(0));
        assert_eq!(steps(&mut lifecycle, at(0), QUIET), [Step::CloseStdin]);
        assert_eq!(lifecycle.deadline(), Some(at(1500)));
        assert_eq!(steps(&mut lifecycle, at(1499), QUIET), []);
        assert_eq!(steps(&mut lifecycle, at(1500), QUIET), [Step::Terminate]);
        assert_eq!(lifecycle.deadline(), Some(at(2500)));
        assert_eq!(steps(&mut lifecycle, at(2500), QUIET), [Step::Kill]);
        assert_eq!(lifecycle.deadline(), None);
    }

    #[test]
    fn stdin_stays_open_while_the_server_reads_what_it_is_owed() {
        let mut lifecycle = fresh();
        lifecycle.begin(at(0));
        assert_eq!(steps(&mut lifecycle, at(0), OWES_SERVER), []);
        lifecycle.server_read(at(1000));
        assert_eq!(steps(&mut lifecycle, at(2499), OWES_SERVER), []);
        assert_eq!(steps(&mut lifecycle, at(2499), QUIET), [Step::CloseStdin]);
    }

    #[test]
    fn a_server_that_reads_nothing_of_it_is_terminated() {
        let mut lifecycle = fresh();
        lifecycle.begin(at(0));
        assert_eq!(steps(&mut lifecycle, at(1500), OWES_SERVER), [Step::Terminate]);
    }

    #[test]
    fn a_signal_skips_to_its_rung() {
        let mut lifecycle = fresh();
        lifecycle.terminated(at(0));
        lifecycle.begin(at(10));
        lifecycle.terminated(at(900));
        assert_eq!(steps(&mut lifecycle, at(999), QUIET), []);
        assert_eq!(steps(&mut lifecycle, at(1000), QUIET), [Step::Kill]);
    }

    #[test]
    fn an_exit_is_told_after_its_output_was_read() {
        let mut lifecycle = fresh();
        let how = End::Exited(3);
        lifecycle.server_exited(at(0), how.clone());
        assert_eq!(steps(&mut lifecycle, at(1), QUIET), []);
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
    fn the_rest_is_written_while_the_client_reads() {
        let mut lifecycle = fresh();
        let how = End::Exited(0);
        lifecycle.server_exited(at(0), how.clone());
        assert_eq!(steps(&mut lifecycle, at(0), OWES_CLIENT), [Step::Kill, Step::EndServer(how.clone())]);
        lifecycle.client_read(at(4000));
        assert_eq!(steps(&mut lifecycle, at(8999), OWES_CLIENT), []);
        assert_eq!(steps(&mut lifecycle, at(9000), OWES_CLIENT), [Step::Leave(how)]);
    }

    #[test]
    fn a_server_that_closes_its_stdout_and_lives_is_gone() {
        let mut lifecycle = fresh();
        lifecycle.server_silent(at(0));
        assert_eq!(steps(&mut lifecycle, at(499), ENDED), []);
        assert_eq!(steps(&mut lifecycle, at(500), ENDED), [Step::EndServer(End::Closed), Step::CloseStdin]);
        assert_eq!(steps(&mut lifecycle, at(2000), ENDED), [Step::Terminate]);
        lifecycle.server_exited(at(2001), End::Signalled(15));
        assert_eq!(steps(&mut lifecycle, at(2001), ENDED), [Step::Kill, Step::Leave(End::Signalled(15))]);
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
