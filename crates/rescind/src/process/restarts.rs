//! When a server that has died is started again (D64), without processes or clocks.

use rescind_proto::{back_off::BackOff, relay::End, time::Instant};

/// After so many starts in a row that came to nothing, what waits for the server is answered; so it is after each further
/// one.
const PATIENCE: u32 = 3;

/// The starts of one server.
#[derive(Debug)]
pub(crate) struct Restarts {
    back_off: BackOff,
    stage: Stage,
    /// How often it was started after an end.
    count: u64,
    /// Starts in a row that came to nothing.
    failed: u32,
    /// The server was started again and has not been greeted since.
    is_new: bool,
}

#[derive(Debug)]
enum Stage {
    /// A server runs. How the former one ended.
    Running(Option<End>),
    /// It runs and is of no use: it has closed its output or its input, or was not greeted, and is being ended. Whether it
    /// was of use before.
    Ending(End, bool),
    /// There is none since one has ended so, until this time.
    Waiting(End, Instant),
}

impl Restarts {
    /// The server was started now.
    pub(crate) fn new(now: Instant) -> Self {
        let mut back_off = BackOff::default();
        back_off.start(now);
        Self { back_off, stage: Stage::Running(None), count: 0, failed: 0, is_new: false }
    }

    /// Notes that the server is of no use any more and is being ended.
    pub(crate) fn handle_useless(&mut self, how: End, was_of_use: bool) {
        self.stage = Stage::Ending(how, was_of_use);
    }

    /// Notes that there is no server any more. `was_of_use`: the client has got something from it, or could have. Whether
    /// what waits is to be answered now.
    pub(crate) fn handle_end(&mut self, now: Instant, how: End, was_of_use: bool) -> bool {
        self.back_off.end(now);
        self.failed = if was_of_use { 0 } else { self.failed + 1 };
        self.stage = Stage::Waiting(how, self.back_off.start(now));
        self.failed >= PATIENCE
    }

    /// Notes that a server was started; how often that was so after an end.
    pub(crate) fn handle_start(&mut self) -> u64 {
        self.stage = Stage::Running(self.ended().cloned());
        self.is_new = true;
        self.count += 1;
        self.count
    }

    /// Notes that the server has answered the handshake; whether that is news.
    pub(crate) const fn handle_greeted(&mut self) -> bool {
        std::mem::replace(&mut self.is_new, false)
    }

    /// How the last server ended, if one has.
    pub(crate) const fn ended(&self) -> Option<&End> {
        match &self.stage {
            Stage::Running(how) => how.as_ref(),
            Stage::Ending(how, _) | Stage::Waiting(how, _) => Some(how),
        }
    }

    /// How a server that is being ended has ended for its client, and whether it was of use.
    pub(crate) fn ending(&self) -> Option<(End, bool)> {
        match &self.stage {
            Stage::Ending(how, was_of_use) => Some((how.clone(), *was_of_use)),
            Stage::Running(_) | Stage::Waiting(..) => None,
        }
    }

    /// When a server is to be started, if there is none.
    pub(crate) const fn due(&self) -> Option<Instant> {
        match self.stage {
            Stage::Waiting(_, at) => Some(at),
            Stage::Running(_) | Stage::Ending(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::after_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn a_server_that_dies_again_and_again_is_started_later_and_later_and_what_waits_is_answered_from_the_third_failure()
    {
        let mut restarts = Restarts::new(at(0));
        let mut now = at(0);
        let mut answered = Vec::new();
        for (wait, was_of_use) in [(0, true), (1, false), (2, false), (4, false), (8, false), (16, true), (30, false)] {
            answered.push(restarts.handle_end(now, End::Exited(1), was_of_use));
            assert_eq!(restarts.due(), Some(now + Duration::from_secs(wait)));
            now = now + Duration::from_secs(wait);
            restarts.handle_start();
            assert_eq!((restarts.due(), restarts.ended()), (None, Some(&End::Exited(1))));
        }
        assert_eq!(answered, [false, false, false, true, true, false, false]);
        now = now + Duration::from_secs(60);
        restarts.handle_end(now, End::Exited(0), true);
        assert_eq!(restarts.due(), Some(now), "it had stayed");
    }

    #[test]
    fn an_attempt_that_starts_nothing_is_not_counted() {
        let mut restarts = Restarts::new(at(0));
        restarts.handle_end(at(0), End::Exited(1), true);
        restarts.handle_end(at(0), End::Exited(1), false);
        assert_eq!(restarts.handle_start(), 1);
        restarts.handle_end(at(9), End::Exited(1), true);
        assert_eq!(restarts.handle_start(), 2);
    }
}
