//! A server that this process starts.
//!
//! A task of its own, the supervisor, owns the process from its start until it is collected, so that the ladder of MCP-S02
//! is climbed to its end whatever else is dropped. The connection reports to it when the child's stdin was closed and when
//! its stdout has ended; it reports to the connection when there is nothing more to wait for.

use std::{
    future::Future,
    io,
    pin::Pin,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use rescind_proto::{relay::End, time::Instant};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    process::{ChildStderr, Command},
};

use super::{
    Transport,
    pipe::{PipeReader, PipeWriter},
};
use crate::{
    alarm::Alarm,
    process::{
        ended_by::EndReason,
        owned_process::{Leader, OwnedProcess},
        shutdown::{Remaining, Shutdown, ShutdownLimits, ShutdownStep},
    },
};

/// Starts `command` and speaks to it through its standard input and output.
///
/// The child leads a process group of its own. Its standard error passes through to ours, unless the command sets
/// another. Call this within a tokio runtime with I/O and time enabled.
///
/// # Bounds
///
/// The capacity of two pipes. Ending the child takes at most 2.5 s, once it has read what was sent to it.
///
/// # When the other side dies
///
/// Its last output is still read, for at most 500 ms if another process holds its stdout open (D35); then calls end as
/// [`CallError::Closed`](crate::peer::CallError::Closed). [`Child::wait`] returns the status. The rest of its group is
/// killed.
///
/// # Dropping it
///
/// or ending the connection climbs the ladder of MCP-S02: its stdin is closed; 1.5 s later SIGTERM, 1 s later SIGKILL
/// to its group. On Windows CTRL+BREAK takes the place of SIGTERM, and the end of its job that of SIGKILL. The connection's driver waits for that; if the driver is dropped, the ladder is climbed without it.
/// When the runtime ends, the group is killed at once. The child is always collected: no zombie is left.
///
/// # Errors
///
/// The command cannot be started.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn child(command: impl Into<Command>) -> io::Result<(Transport, Child)> {
    let (mut process, pipes) = OwnedProcess::start_piped(command.into())?;
    let (leader, stderr) = (process.leader().clone(), process.take_stderr()?);
    let shared = Arc::new(ChildShared::default());
    let supervisor = Supervisor {
        shared: Arc::clone(&shared),
        process,
        shutdown: Shutdown::new(ShutdownLimits::default()),
        origin: tokio::time::Instant::now(),
        alarm: Alarm::new(),
    };
    let reader = ChildReader { shared: Arc::clone(&shared), pipe: PipeReader(pipes.stdout) };
    let writer = ChildWriter { shared: Arc::clone(&shared), pipe: PipeWriter(Some(pipes.stdin)) };
    tokio::spawn(supervisor);
    let child = Child { leader, shared, stderr: Arc::new(Mutex::new(stderr)) };
    Ok((Transport::new(reader, writer), child))
}

/// A child process that is the other side of a connection; see [`child()`].
///
/// Clones are the same child. Dropping them does not end it.
#[derive(Clone, Debug)]
pub struct Child {
    leader: Leader,
    shared: Arc<ChildShared>,
    stderr: Arc<Mutex<Option<ChildStderr>>>,
}

impl Child {
    /// Its process id, which is its group's.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Takes its standard error, once, if the command asked for a pipe. A pipe that is not read may block the child.
    #[must_use]
    pub fn take_stderr(&self) -> Option<ChildStderr> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Its exit status, if it has ended and was collected.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        match self.shared.lock().status {
            ChildStatus::Collected(status) => Some(status),
            ChildStatus::Alive | ChildStatus::Ended | ChildStatus::Lost => None,
        }
    }

    /// Waits for its end, and returns its exit status. This does not end it; the end of the connection does.
    ///
    /// # Errors
    ///
    /// Its status is not known, because other code of this process collected it.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        std::future::poll_fn(|cx| {
            let mut shared = self.shared.lock();
            match shared.status {
                ChildStatus::Collected(status) => Poll::Ready(Ok(status)),
                ChildStatus::Lost => Poll::Ready(Err(io::ErrorKind::NotFound.into())),
                ChildStatus::Alive | ChildStatus::Ended => {
                    shared.wait(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Sends SIGTERM to its group, on Windows CTRL+BREAK.
    pub fn terminate(&self) {
        self.leader.terminate();
    }

    /// Sends SIGKILL to its group, or ends its job.
    pub fn kill(&self) {
        self.leader.kill();
    }
}

/// State shared by the supervisor, the two pipes and the handles of a child.
#[derive(Debug, Default)]
struct ChildShared {
    state: Mutex<ChildState>,
}

#[derive(Debug, Default)]
struct ChildState {
    /// The child's stdin is closed, or its pipe was dropped.
    stdin_closed: bool,
    /// The child's stdout has ended, or its pipe was dropped.
    stdout_ended: bool,
    status: ChildStatus,
    supervisor: Option<Waker>,
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
enum ChildStatus {
    #[default]
    Alive,
    /// It has ended: nothing more will come than the pipe holds.
    Ended,
    Collected(ExitStatus),
    /// Other code of this process collected it.
    Lost,
}

impl ChildShared {
    fn lock(&self) -> MutexGuard<'_, ChildState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes the supervisor.
    fn update(&self, what: impl FnOnce(&mut ChildState)) {
        let supervisor = {
            let mut state = self.lock();
            what(&mut state);
            state.supervisor.take()
        };
        if let Some(supervisor) = supervisor {
            supervisor.wake();
        }
    }

    /// Sets the status and wakes everything that waits for it.
    fn set_status(&self, status: ChildStatus) {
        let waiting = {
            let mut state = self.lock();
            state.status = status;
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }
}

impl ChildState {
    /// What is still to be waited for. The connection closes stdin only after everything was written, and reads no more
    /// then: nothing would empty the pipe.
    const fn open(&self) -> Remaining {
        Remaining {
            owed_server: false,
            owed_client: false,
            server_output: !self.stdout_ended && !self.stdin_closed,
            in_flight: false,
            end_untold: false,
            has_successor: false,
        }
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }
}

struct ChildReader {
    shared: Arc<ChildShared>,
    pipe: PipeReader,
}

impl AsyncRead for ChildReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        // Checked before the pipe is read: everything written before the end is in the pipe then.
        let has_ended = {
            let mut state = self.shared.lock();
            let has_ended = !matches!(state.status, ChildStatus::Alive);
            if !has_ended {
                state.wait(cx);
            }
            has_ended
        };
        let read = match Pin::new(&mut self.pipe).poll_read(cx, buffer) {
            Poll::Ready(read) => read,
            Poll::Pending if has_ended => Ok(()),
            Poll::Pending => return Poll::Pending,
        };
        if read.is_err() || buffer.filled().len() == before {
            self.shared.update(|state| state.stdout_ended = true);
        }
        Poll::Ready(read)
    }
}

impl Drop for ChildReader {
    fn drop(&mut self) {
        self.shared.update(|state| state.stdout_ended = true);
    }
}

struct ChildWriter {
    shared: Arc<ChildShared>,
    pipe: PipeWriter,
}

impl AsyncWrite for ChildWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    /// Closes the child's stdin, and waits for its end.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = ready!(Pin::new(&mut self.pipe).poll_shutdown(cx));
        self.shared.update(|state| state.stdin_closed = true);
        let mut state = self.shared.lock();
        match state.status {
            ChildStatus::Alive | ChildStatus::Ended => {
                state.wait(cx);
                Poll::Pending
            }
            ChildStatus::Collected(_) | ChildStatus::Lost => Poll::Ready(closed),
        }
    }
}

impl Drop for ChildWriter {
    fn drop(&mut self) {
        self.pipe.0 = None;
        self.shared.update(|state| state.stdin_closed = true);
    }
}

/// The owner of the process; a future that is ready when the process is collected.
struct Supervisor {
    shared: Arc<ChildShared>,
    process: OwnedProcess,
    shutdown: Shutdown,
    origin: tokio::time::Instant,
    alarm: Alarm,
}

impl Supervisor {
    fn now(&self) -> Instant {
        Instant::after_origin(tokio::time::Instant::now().duration_since(self.origin))
    }

    /// Takes in the state of the pipes.
    fn listen(&mut self, cx: &Context<'_>, now: Instant) -> Remaining {
        let mut state = self.shared.lock();
        state.supervisor = Some(cx.waker().clone());
        if state.stdin_closed {
            self.shutdown.begin(now, EndReason::ReaderGone);
        }
        if state.stdout_ended {
            self.shutdown.handle_server_silent(now);
        }
        state.open()
    }
}

impl Future for Supervisor {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let now = this.now();
            if this.process.poll_end(cx).is_ready() {
                this.shutdown.handle_server_exit(now, End::Closed);
            }
            let open = this.listen(cx, now);
            while let Some(step) = this.shutdown.next(now, open) {
                match step {
                    // The pipes do that themselves.
                    ShutdownStep::CloseStdin | ShutdownStep::CloseClient => {}
                    ShutdownStep::Terminate => this.process.leader().terminate(),
                    ShutdownStep::Kill => this.process.leader().kill(),
                    ShutdownStep::EndServer(_) => this.shared.set_status(ChildStatus::Ended),
                    // The drop does the rest.
                    ShutdownStep::Leave(_) => return Poll::Ready(()),
                }
            }
            ready!(this.alarm.poll(cx, this.origin.into_std(), this.shutdown.deadline()));
        }
    }
}

impl Drop for Supervisor {
    /// Kills the group and collects the child, for whatever reason the supervisor ends.
    fn drop(&mut self) {
        let status = self.process.collect();
        self.shared.set_status(status.map_or(ChildStatus::Lost, ChildStatus::Collected));
    }
}

debug_fields!(Supervisor, process);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_still_says_is_waited_for_while_somebody_reads_it() {
        let mut state = ChildState::default();
        assert!(state.open().server_output);
        state.stdin_closed = true;
        assert!(!state.open().server_output, "its stdin is closed: the connection reads no more");
    }
}
