//! Bounds every session in time: a contender that wedges is killed, and the
//! driver's blocking read then ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Kills the processes it guards unless it is dropped in time.
#[derive(Debug)]
pub struct Watchdog {
    disarm: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    fired: Arc<AtomicBool>,
}

impl Watchdog {
    /// Guards `pids`, which the caller must not reap before it drops this.
    #[must_use]
    pub fn arm(pids: Vec<Pid>, after: Duration) -> Self {
        let (disarm, disarmed) = mpsc::channel();
        let fired = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let fired = Arc::clone(&fired);
            move || {
                if disarmed.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                    fired.store(true, Ordering::SeqCst);
                    for pid in pids {
                        // One that has ended already needs no signal.
                        let _ = kill_process(pid, Signal::KILL);
                    }
                }
            }
        });
        Self { disarm: Some(disarm), thread: Some(thread), fired }
    }

    /// Whether the time was up before this was dropped.
    #[must_use]
    pub fn has_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.disarm.take();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}
