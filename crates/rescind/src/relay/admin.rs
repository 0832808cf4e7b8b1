//! The admin socket: lists the requests in flight and takes cancels from an operator (`docs/admin.md`).
//!
//! Connections are tasks of the runtime that drives the link. They put queries into the [`Mailbox`], and the drive
//! answers them between two inputs. So nothing is shared, and no client sees the link in the middle of a step.
//!
//! An event has the state of requests, not what happened to them: a subscriber that was away or slow continues from a
//! snapshot, and needs no queue of its own. What must not be lost is the end of a request that was reported in flight; if
//! the relay has forgotten such a request, every subscriber gets a snapshot. An order to end the server is noted by the
//! query and carried out by the drive right after it, as `--on-stuck kill` is. Without subscribers a turn of the drive reads
//! two flags, and no timer runs.

mod change_tracker;
mod connections;
mod entry_key;
mod event_buffer;
mod filter;
mod frame_log;
mod history;
mod http;
mod link_view;
mod mailbox;
mod messages;
#[cfg(windows)]
mod pipe;
mod record;
mod session_facts;
#[cfg(unix)]
mod socket;
mod tally;

use std::{
    collections::VecDeque,
    ffi::OsString,
    future::poll_fn,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind_ledger::{identity::ancestors, mark::Mark, record::Record};
use rescind_proto::{
    relay::{End, Relay},
    side::Side,
    time::Instant,
};
use tokio::{task::JoinHandle, time::timeout};

use super::ends::{EntryName, StreamFacts};
use crate::process::{
    group::Group,
    turn_processes::{TurnProcess, TurnProcesses},
};
use event_buffer::EventBuffer;
use history::History;
use link_view::{AdminState, EndOrdered, LinkView};
use mailbox::Mailbox;
#[cfg(windows)]
use pipe as platform;
use platform::AdminSocket;
use session_facts::SessionFacts;
#[cfg(unix)]
use socket as platform;

pub(super) use platform::SocketError;

/// Time for subscribers to read the last events of a link.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Time for the disk to take the rest of the history.
const HISTORY_TIMEOUT: Duration = Duration::from_millis(500);

/// The most ancestors that are told.
const MAX_ANCESTORS: usize = 64;

/// The most `changes` events at the end: a few thousand requests may end with their link.
const MAX_FINAL_EVENTS: usize = 20;

/// A link's admin socket, if it has one.
#[derive(Debug, Default)]
pub(super) struct Admin(Option<Box<OpenAdmin>>);

#[derive(Debug)]
struct OpenAdmin {
    mailbox: Arc<Mailbox>,
    state: AdminState,
    history: Option<History>,
    /// Woken by queries.
    drive: Option<Waker>,
    server: JoinHandle<()>,
    closing: tokio::sync::watch::Sender<bool>,
    socket: AdminSocket,
}

impl Admin {
    /// Opens the socket of a link that began at `origin`, in the first of `directories` that can be used. Without
    /// directories there is no socket, and no history in the folder `history`. Call it on the runtime that drives the link.
    pub(super) fn open(
        (directories, history): (&[PathBuf], Option<PathBuf>),
        origin: std::time::Instant,
        (command, entry): (&[OsString], EntryName),
        server_pid: Option<u32>,
        told: StreamFacts,
        mark: Option<Mark>,
    ) -> Result<Self, Vec<SocketError>> {
        let mut errors = Vec::new();
        let opened =
            directories.iter().find_map(|path| AdminSocket::open(path).map_err(|error| errors.push(error)).ok());
        let Some((mut socket, listener)) = opened else {
            return if errors.is_empty() { Ok(Self::default()) } else { Err(errors) };
        };
        let facts = SessionFacts {
            name: socket.name.clone(),
            ancestors: ancestors().take(MAX_ANCESTORS).collect(),
            server_pid,
            command: command.iter().map(|word| record::text(&word.to_string_lossy())).collect(),
            entry: EntryName::new(entry.name.as_deref().map(record::text), entry.client.as_deref().map(record::text))
                .sharing(entry.shared.as_deref().map(record::text)),
            folder: std::env::current_dir().ok().map(|folder| record::text(&folder.to_string_lossy())),
            started: super::since_1970(origin).as_micros().try_into().unwrap_or(u64::MAX),
            origin,
            turn_processes: VecDeque::new(),
            ending_turns: None,
            restarts: None,
            told: StreamFacts { owner: told.owner.as_deref().map(record::text), ..told },
        };
        if let Some(mark) = mark {
            socket.keep(&Record::new(mark, facts.name.clone(), facts.command.clone(), facts.started));
        }
        // A later shim may get this process id and so this name. Events are numbered from the session's start in
        // microseconds: at ten events a second, no session reaches the first number of a later one.
        let history = history.map(|folder| History::new(folder, &facts));
        let (mailbox, events) = (Arc::new(Mailbox::default()), Arc::new(EventBuffer::new(facts.started)));
        let state = AdminState { facts, events: Arc::clone(&events), tracker: None, end: EndOrdered::No };
        let (closing, closes) = tokio::sync::watch::channel(false);
        let server = tokio::spawn(http::serve(listener, Arc::clone(&mailbox), events, closes));
        Ok(Self(Some(Box::new(OpenAdmin { mailbox, state, history, drive: None, server, closing, socket }))))
    }

    /// Whether there is a socket.
    pub(super) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Answers one query; `true` if there was one.
    #[inline]
    pub(super) fn poll(&mut self, now: Instant, relay: &mut Relay) -> bool {
        match &mut self.0 {
            Some(open) if open.mailbox.has_queries() => open.answer(now, relay),
            Some(_) | None => false,
        }
    }

    /// Whether an operator has ordered the server's end since the last call.
    pub(super) fn receive_end_order(&mut self) -> bool {
        let end = self.0.as_mut().map(|open| &mut open.state.end);
        end.is_some_and(|end| {
            let is_new = *end == EndOrdered::Now;
            if is_new {
                *end = EndOrdered::Before;
            }
            is_new
        })
    }

    /// Logs bytes that `side` sent, before the relay reads them.
    #[inline]
    pub(super) fn handle_input(&mut self, now: Instant, relay: &Relay, side: Side, bytes: &[u8]) {
        if let Some(AdminState { tracker: Some(tracker), .. }) = self.0.as_mut().map(|open| &mut open.state) {
            tracker.frame_log.record(now, side, relay.is_between_messages(side), bytes);
        }
    }

    /// Whether what has ended is kept.
    pub(super) fn keeps_history(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.history.is_some())
    }

    /// Notes what has ended.
    #[inline]
    pub(super) fn handle_ends(&mut self, now: Instant, relay: &mut Relay) {
        if let Some(OpenAdmin { state, history: Some(history), .. }) = self.0.as_deref_mut() {
            history.note_ends(now, relay, &state.facts);
        }
    }

    /// Called when the link is idle: has what has ended written. Ready once, if that cannot be written: why.
    #[inline]
    pub(super) fn poll_history(&mut self, cx: &Context<'_>, now: Instant, relay: &Relay) -> Poll<String> {
        let Some(OpenAdmin { state, history: Some(history), .. }) = self.0.as_deref_mut() else { return Poll::Pending };
        history.write(now, relay, &state.facts);
        history.poll_failure(cx)
    }

    /// Waits for the disk to take the history, for half a second at most. Why it could not be written, if that was not
    /// reported yet.
    pub(super) async fn finish_history(&mut self) -> Option<String> {
        let history = self.0.as_mut()?.history.take()?;
        let _ = timeout(HISTORY_TIMEOUT, poll_fn(|cx| history.poll_written(cx))).await;
        history.failure()
    }

    /// Called when the link is idle: lets queries wake the drive, and announces changes.
    #[inline]
    pub(super) fn handle_idle(&mut self, cx: &Context<'_>, relay: &Relay) {
        let Some(open) = &mut self.0 else { return };
        if !open.drive.as_ref().is_some_and(|drive| drive.will_wake(cx.waker())) {
            open.register(cx.waker());
        }
        if let AdminState { tracker: Some(tracker), events, facts, .. } = &mut open.state
            && !tracker.has_notified
            && tracker.has_changes(relay, facts)
        {
            tracker.has_notified = true;
            events.changed.notify_one();
        }
    }

    /// Answers no further queries, and reports to the subscribers how the link ended.
    pub(super) fn handle_eof(&mut self, now: Instant, relay: &mut Relay, how: &End) {
        let Some(open) = &mut self.0 else { return };
        if let Some(history) = &mut open.history {
            history.end(now, relay, &open.state.facts, end(how));
        }
        open.mailbox.close();
        let mut left = MAX_FINAL_EVENTS;
        let has_changes = |AdminState { tracker, facts, .. }: &AdminState, relay: &Relay| {
            tracker.as_ref().is_some_and(|tracker| tracker.has_changes(relay, facts))
        };
        while left > 0 && has_changes(&open.state, relay) {
            LinkView { now, relay, state: &mut open.state }.report_changes();
            left -= 1;
        }
        change_tracker::report_end(now, &open.state.events, end(how));
    }

    /// Another process has taken the server's place.
    pub(super) fn handle_replaced(&mut self, group: &Group) {
        if let Some(open) = &mut self.0 {
            open.state.facts.server_pid = Some(group.server_id());
        }
    }

    /// Notes what became of processes of cancelled requests, and of which requests more is to come.
    pub(super) fn handle_turn_processes(&mut self, turns: &TurnProcesses, news: &[TurnProcess]) {
        if let Some(open) = &mut self.0 {
            open.state.facts.note_turn_processes(turns.keys().collect(), news);
        }
    }

    /// There is no server for now.
    pub(super) fn handle_server_gone(&mut self) {
        if let Some(open) = &mut self.0 {
            open.state.facts.server_pid = None;
        }
    }

    /// The server was started again, for this time (D64).
    pub(super) fn handle_restarted(&mut self, now: Instant, count: u64) {
        if let Some(open) = &mut self.0 {
            let last = u64::try_from(now.since_origin().as_micros()).unwrap_or(u64::MAX);
            open.state.facts.restarts = Some(rescind_feed::Restarts { count, last, greeted: None });
        }
    }

    /// It has answered the handshake.
    pub(super) fn handle_greeted(&mut self, now: Instant) {
        if let Some(restarts) = self.0.as_mut().and_then(|open| open.state.facts.restarts.as_mut()) {
            restarts.greeted = Some(u64::try_from(now.since_origin().as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Removes the socket, and gives its clients a moment to read the rest.
    pub(super) async fn close(self) {
        let Some(open) = self.0 else { return };
        drop(open.socket);
        let _ = open.closing.send(true);
        let server = open.server.abort_handle();
        if timeout(CLOSE_TIMEOUT, open.server).await.is_err() {
            server.abort();
        }
    }
}

impl OpenAdmin {
    #[cold]
    fn answer(&mut self, now: Instant, relay: &mut Relay) -> bool {
        let Some(query) = self.mailbox.receive() else { return false };
        query(&mut LinkView { now, relay, state: &mut self.state });
        true
    }

    #[cold]
    fn register(&mut self, drive: &Waker) {
        self.drive = Some(drive.clone());
        self.mailbox.register(drive);
    }
}

fn end(how: &End) -> rescind_feed::End {
    match how {
        End::Exited(code) => rescind_feed::End::ExitCode(*code),
        End::Signalled(signal) => rescind_feed::End::Signal(*signal),
        End::Closed => rescind_feed::End::Unknown,
        _ => rescind_feed::End::Unknown,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs,
        os::unix::fs::{DirBuilderExt, PermissionsExt},
    };

    use super::*;

    fn open(directories: &[PathBuf]) -> Result<Admin, Vec<SocketError>> {
        Admin::open(
            (directories, None),
            std::time::Instant::now(),
            (&["server".into()], EntryName::default()),
            Some(1),
            StreamFacts::default(),
            Mark::next(),
        )
    }

    /// There may be no `/run/user/UID`, and the directory in `/tmp` may belong to another user.
    #[tokio::test]
    async fn the_first_usable_directory_gets_the_socket() {
        let around = tempfile::tempdir().unwrap();
        let (missing, loose) = (around.path().join("no/where"), around.path().join("loose"));
        let (good, further) = (around.path().join("good"), around.path().join("further"));
        fs::DirBuilder::new().mode(0o700).create(&loose).unwrap();
        fs::set_permissions(&loose, fs::Permissions::from_mode(0o755)).unwrap();
        let admin = open(&[missing.clone(), loose.clone(), good.clone(), further.clone()]).unwrap();
        let is_empty = |path: &PathBuf| fs::read_dir(path).unwrap().next().is_none();
        assert!(is_empty(&loose) && !is_empty(&good) && !further.exists());
        admin.close().await;
        assert!(is_empty(&good));
        // The error names each unusable directory.
        assert_eq!(open(&[missing, loose]).unwrap_err().len(), 2);
        assert!(open(&[]).unwrap().0.is_none());
    }
}
