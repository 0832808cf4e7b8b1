//! One contender, started, pinned, guarded and spoken to.

use std::io;
use std::time::Duration;

use crate::affinity;
use crate::contender::{Contender, Processes};
use crate::driver::{Driver, DriverError};
use crate::programs::Programs;
use crate::watchdog::Watchdog;

/// A session failed; says whose.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", contender.name())]
pub struct SessionError {
    /// The contender that was measured.
    pub contender: Contender,
    /// What went wrong.
    pub cause: DriverError,
}

/// A contender under way; dropped, its processes are killed.
#[derive(Debug)]
pub struct Session {
    contender: Contender,
    // In the order of dropping: the ends close, then nothing needs guarding.
    driver: Driver,
    watchdog: Watchdog,
    processes: Processes,
}

impl Session {
    /// Starts `contender`, lets the kernel confirm that all its processes are
    /// on `cpu`, and opens the session. After `at_most` it is killed.
    ///
    /// # Errors
    /// When a process does not start, runs elsewhere, or answers wrongly.
    pub fn open(
        contender: Contender,
        programs: &Programs,
        pipe_size: Option<usize>,
        cpu: usize,
        at_most: Duration,
    ) -> Result<Self, SessionError> {
        let failed = |cause: DriverError| SessionError { contender, cause };
        let mut processes = contender.start(programs, pipe_size).map_err(|error| failed(error.into()))?;
        let ends = processes.take_ends().ok_or_else(|| failed(DriverError::Closed))?;
        let watchdog = Watchdog::arm(processes.pids(), at_most);
        let mut session = Self { contender, driver: Driver::new(ends), watchdog, processes };
        session.speak(Driver::shake_hands)?;
        affinity::confirm_descendants(cpu).map_err(|error| failed(error.into()))?;
        Ok(session)
    }

    /// Lets the driver measure.
    ///
    /// # Errors
    /// What the driver met, with the contender's name; a session that the
    /// watchdog ended is a wedge.
    pub fn speak<T>(&mut self, measure: impl FnOnce(&mut Driver) -> Result<T, DriverError>) -> Result<T, SessionError> {
        measure(&mut self.driver).map_err(|cause| SessionError {
            contender: self.contender,
            cause: if self.watchdog.has_fired() { DriverError::TimeUp } else { cause },
        })
    }

    /// Process id of what stands between: of the first process started.
    #[must_use]
    pub fn first_pid(&self) -> Option<u32> {
        let pids = self.processes.pids();
        pids.first().map(|pid| pid.as_raw_pid().unsigned_abs())
    }

    /// Closes the driver's ends and waits for the processes to end.
    ///
    /// # Errors
    /// When one outlives its input by five seconds.
    pub fn close(self) -> Result<(), SessionError> {
        let contender = self.contender;
        let closed = |cause: io::Error| SessionError { contender, cause: cause.into() };
        drop(self.driver);
        drop(self.watchdog);
        self.processes.wait().map_err(closed)
    }
}
