//! The admin socket: what is in flight, for whoever asks, and cancels from whoever operates (`docs/admin.md`).
//!
//! Connections are tasks of the runtime that drives the link. They put questions to the [`Desk`]; the drive answers
//! them between two inputs, so that nothing is shared and nothing of the link is ever seen half done.

mod desk;
mod frames;
mod guests;
mod http;
mod query;
mod record;
mod scene;
mod socket;
mod stream;
mod tally;
mod tape;
mod watch;

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, SystemTime},
};

use rescind_proto::{
    relay::{End, Relay},
    side::Side,
    time::Instant,
};
use tokio::{task::JoinHandle, time::timeout};

use desk::Desk;
use scene::{Facts, Keeper, Scene};
use socket::Socket;
use stream::Stream;

pub(super) use socket::SocketError;

/// How long the end of a link waits for those who are still being told of it.
const LAST: Duration = Duration::from_millis(500);

/// Changes that are told at the end, at most: a few thousand requests may end with their link.
const LAST_EVENTS: usize = 20;

/// A link's admin socket, if it has one.
#[derive(Debug, Default)]
pub(super) struct Admin(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    desk: Arc<Desk>,
    keeper: Keeper,
    /// Who is woken by questions.
    drive: Option<Waker>,
    server: JoinHandle<()>,
    closing: tokio::sync::watch::Sender<bool>,
    socket: Socket,
}

impl Admin {
    /// Opens the socket of a link that began at `origin`, in the first of `directories` that can be used; none if there
    /// are no directories. Called on the runtime that drives the link.
    pub(super) fn open(
        directories: &[PathBuf],
        origin: std::time::Instant,
        command: &[OsString],
        server_pid: u32,
    ) -> Result<Self, Vec<SocketError>> {
        let mut errors = Vec::new();
        let opened = directories.iter().find_map(|path| Socket::open(path).map_err(|error| errors.push(error)).ok());
        let Some((socket, listener)) = opened else {
            return if errors.is_empty() { Ok(Self::default()) } else { Err(errors) };
        };
        let facts = Facts {
            name: socket.name.clone(),
            ancestors: ancestors(),
            server_pid,
            command: command.iter().map(|word| record::text(&word.to_string_lossy())).collect(),
            started: micros_since_1970(SystemTime::now() - origin.elapsed()),
        };
        // A process id may be another shim's soon. Its events are numbered from where its time begins: at ten a second
        // and a million numbers, no session gets to where a later one began.
        let (desk, stream) = (Arc::new(Desk::default()), Arc::new(Stream::new(facts.started)));
        let keeper = Keeper { facts, stream: Arc::clone(&stream), watch: None };
        let (closing, closes) = tokio::sync::watch::channel(false);
        let server = tokio::spawn(http::serve(listener, Arc::clone(&desk), stream, closes));
        Ok(Self(Some(Box::new(Open { desk, keeper, drive: None, server, closing, socket }))))
    }

    /// Answers one question. Whether there was one.
    #[inline]
    pub(super) fn poll(&mut self, now: Instant, relay: &mut Relay) -> bool {
        match &mut self.0 {
            Some(open) if open.desk.is_waited_at() => open.answer(now, relay),
            Some(_) | None => false,
        }
    }

    /// `side` sent these bytes, which the relay has not seen yet.
    #[inline]
    pub(super) fn handle_input(&mut self, now: Instant, relay: &Relay, side: Side, bytes: &[u8]) {
        if let Some(Keeper { watch: Some(watch), .. }) = self.0.as_mut().map(|open| &mut open.keeper) {
            watch.tape.record(now, side, relay.is_between_messages(side), bytes);
        }
    }

    /// Nothing happens at the moment: what has changed may be told, and whoever asks is to wake the drive.
    #[inline]
    pub(super) fn handle_idle(&mut self, cx: &Context<'_>, relay: &Relay) {
        let Some(open) = &mut self.0 else { return };
        if !open.drive.as_ref().is_some_and(|drive| drive.will_wake(cx.waker())) {
            open.attend(cx.waker());
        }
        if let Keeper { watch: Some(watch), stream, .. } = &mut open.keeper
            && !watch.stirred
            && watch.has_news(relay)
        {
            watch.stirred = true;
            stream.stirred.notify_one();
        }
    }

    /// The link is over: nothing is answered any more, and subscribers are told how it ended.
    pub(super) fn handle_eof(&mut self, now: Instant, relay: &mut Relay, how: &End) {
        let Some(open) = &mut self.0 else { return };
        open.desk.close();
        let mut left = LAST_EVENTS;
        while left > 0 && open.keeper.watch.as_ref().is_some_and(|watch| watch.has_news(relay)) {
            Scene { now, relay, keeper: &mut open.keeper }.tell();
            left -= 1;
        }
        watch::tell_end(now, &open.keeper.stream, end(how));
    }

    /// Removes the socket, and gives those who are connected a moment to read the rest.
    pub(super) async fn close(self) {
        let Some(open) = self.0 else { return };
        drop(open.socket);
        let _ = open.closing.send(true);
        let server = open.server.abort_handle();
        if timeout(LAST, open.server).await.is_err() {
            server.abort();
        }
    }
}

impl Open {
    #[cold]
    fn answer(&mut self, now: Instant, relay: &mut Relay) -> bool {
        let question = self.desk.take();
        let asked = question.is_some();
        if let Some(question) = question {
            question(&mut Scene { now, relay, keeper: &mut self.keeper });
        }
        asked
    }

    #[cold]
    fn attend(&mut self, drive: &Waker) {
        self.drive = Some(drive.clone());
        self.desk.attend(drive);
    }
}

fn end(how: &End) -> rescind_feed::End {
    match how {
        End::Exited(code) => rescind_feed::End::ExitCode(*code),
        End::Signalled(signal) => rescind_feed::End::Signal(*signal),
        End::Closed => rescind_feed::End::Unknown,
    }
}

fn micros_since_1970(time: SystemTime) -> u64 {
    let passed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    passed.as_micros().try_into().unwrap_or(u64::MAX)
}

/// The processes above this one, its parent first, as far as the system tells.
fn ancestors() -> Vec<u32> {
    let parent = rustix::process::getppid().and_then(|pid| pid.as_raw_pid().try_into().ok());
    let above = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which is in parentheses: the state, and the parent.
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid != 0)
    };
    std::iter::successors(parent, above).take(64).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{DirBuilderExt, PermissionsExt},
    };

    use super::*;

    fn open(directories: &[PathBuf]) -> Result<Admin, Vec<SocketError>> {
        Admin::open(directories, std::time::Instant::now(), &["server".into()], 1)
    }

    /// There may be no `/run/user/UID`, and the place in `/tmp` may be somebody else's.
    #[tokio::test]
    async fn the_first_directory_that_can_be_used_is_taken() {
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
        // Each of those that cannot be used is named.
        assert_eq!(open(&[missing, loose]).unwrap_err().len(), 2);
        assert!(open(&[]).unwrap().0.is_none());
    }
}
