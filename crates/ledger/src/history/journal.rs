//! What a session writes: a queue, and the thread that empties it.

use std::{
    collections::VecDeque,
    fs::{metadata, remove_file},
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{
    SESSION_SLOTS, SLOTS,
    file::{OwnFile, remove},
    folder::claim,
};

/// The most bytes that wait for the thread.
const MAX_QUEUED: usize = 256 << 10;

/// The least time between two writes.
const GATHER: Duration = Duration::from_millis(100);

/// How long the thread waits for more before it ends.
pub const LINGER: Duration = Duration::from_secs(1);

/// How long nothing is tried after a failure.
const RETRY: Duration = Duration::from_secs(10);

/// The stack of the thread, which calls little.
const STACK: usize = 128 << 10;

/// The version of the files.
pub(super) const VERSION: u32 = 1;

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirstLine {
    /// That it is a file of the history.
    pub(super) rescind: String,
    pub(super) version: u32,
    /// The name of the session.
    pub(super) session: String,
    /// When its clock began, in microseconds since 1970.
    pub(super) started: u64,
}

impl FirstLine {
    /// The kind of file that it is.
    pub(super) const KIND: &str = "history";
}

/// The history of one session. Dropping it writes what waits, if the process lives on.
///
/// No call waits for the disk.
#[derive(Debug)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The thread waits here for lines.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What each file begins with after its first line.
    head: Arc<[u8]>,
    /// There was a line that is not only a beginning.
    has_begun: bool,
    queue: VecDeque<Line>,
    /// Bytes in it.
    queued: usize,
    has_thread: bool,
    /// The thread waits for a line.
    is_idle: bool,
    /// It is writing what it has taken.
    is_writing: bool,
    is_closed: bool,
    /// How many ends were left out, until somebody asks.
    left_out: u64,
    /// Why nothing could be written, the first time, until somebody asks.
    failure: Option<String>,
    has_failed: bool,
    waker: Option<Waker>,
    /// The thread's, while there is none.
    files: Option<Files>,
}

/// A line, and how many ends it reports.
#[derive(Debug)]
struct Line {
    text: Vec<u8>,
    ends: u64,
}

impl Journal {
    /// The journal in `folder` of a session with this name, whose clock began then, in microseconds since 1970. Nothing is
    /// opened yet.
    #[must_use]
    pub fn new(folder: PathBuf, session: &str, started: u64) -> Self {
        let (rescind, session) = (FirstLine::KIND.to_owned(), session.to_owned());
        let mut first_line =
            serde_json::to_vec(&FirstLine { rescind, version: VERSION, session, started }).unwrap_or_default();
        first_line.push(b'\n');
        let state = State {
            head: Arc::default(),
            has_begun: false,
            queue: VecDeque::new(),
            queued: 0,
            has_thread: false,
            is_idle: false,
            is_writing: false,
            is_closed: false,
            left_out: 0,
            failure: None,
            has_failed: false,
            waker: None,
            files: Some(Files { folder, first_line, current: None, earlier: VecDeque::new(), retry: None }),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Has each file that begins from now on begin with this line, and one that has begun go on with it.
    pub fn begin(&self, line: Vec<u8>) {
        let mut state = self.0.state();
        state.head = line.as_slice().into();
        let has_begun = state.has_begun;
        drop(state);
        if has_begun {
            self.append(line, 0);
        }
    }

    /// Appends a line that reports so many ends. Without room for it they are only [counted](Self::left_out).
    pub fn append(&self, line: Vec<u8>, ends: u64) {
        let mut state = self.0.state();
        if state.queued + line.len() > MAX_QUEUED {
            state.left_out += ends;
            return;
        }
        state.has_begun = true;
        state.queued += line.len();
        state.queue.push_back(Line { text: line, ends });
        if state.has_thread {
            if state.is_idle {
                self.0.changed.notify_all();
            }
            return;
        }
        state.has_thread = true;
        drop(state);
        let theirs = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("history".into()).stack_size(STACK);
        if let Err(error) = thread.spawn(move || theirs.write_all()) {
            let mut state = self.0.state();
            state.has_thread = false;
            let lost: u64 = state.queue.drain(..).map(|line| line.ends).sum();
            state.queued = 0;
            state.fail(lost, &error);
        }
    }

    /// How many ends were left out since the last call.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        std::mem::take(&mut self.0.state().left_out)
    }

    /// Why nothing can be written: ready the first time that this is so, and never again.
    pub fn poll_failure(&self, cx: &Context<'_>) -> Poll<String> {
        let mut state = self.0.state();
        match state.failure.take() {
            Some(why) => Poll::Ready(why),
            None => {
                if state.has_thread && !state.has_failed {
                    state.wake_later(cx);
                }
                Poll::Pending
            }
        }
    }

    /// The same, if that is known already.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.state().failure.take()
    }

    /// Ready once everything was written or has failed. From the first call on the thread writes at once.
    pub fn poll_written(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.state();
        state.is_closed = true;
        self.0.changed.notify_all();
        if state.queue.is_empty() && !state.is_writing {
            return Poll::Ready(());
        }
        state.wake_later(cx);
        Poll::Pending
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl State {
    fn fail(&mut self, left_out: u64, error: &io::Error) {
        self.left_out += left_out;
        if !std::mem::replace(&mut self.has_failed, true) {
            self.failure = Some(error.to_string());
        }
    }

    fn wake_later(&mut self, cx: &Context<'_>) {
        if self.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) {
        let Some(mut files) = self.state().files.take() else { return };
        loop {
            let mut state = self.state();
            state.is_idle = true;
            let is_to_wait = |state: &mut State| state.queue.is_empty() && !state.is_closed;
            let waited = self.changed.wait_timeout_while(state, LINGER, is_to_wait);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.is_idle = false;
            if state.queue.is_empty() {
                state.has_thread = false;
                state.files = Some(files);
                return;
            }
            let (lines, head) = (std::mem::take(&mut state.queue), Arc::clone(&state.head));
            state.queued = 0;
            state.is_writing = true;
            drop(state);
            let written = files.write(&head, lines);
            let mut state = self.state();
            state.is_writing = false;
            state.left_out += written.left_out;
            if let Some(error) = &written.failure {
                state.fail(0, error);
            }
            if written.failure.is_some() || state.is_closed {
                state.waker.take().iter().for_each(Waker::wake_by_ref);
            }
            drop(self.changed.wait_timeout_while(state, GATHER, |state| !state.is_closed));
        }
    }
}

/// The files of a session.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    first_line: Vec<u8>,
    /// The one that is written to.
    current: Option<(PathBuf, OwnFile)>,
    /// Those before it, and when they were written to last.
    earlier: VecDeque<(PathBuf, SystemTime)>,
    /// When to try again after a failure.
    retry: Option<Instant>,
}

/// What became of some lines.
#[derive(Debug, Default)]
struct Written {
    left_out: u64,
    failure: Option<io::Error>,
}

impl Files {
    /// Writes lines, as many at once as a file takes.
    fn write(&mut self, head: &[u8], lines: VecDeque<Line>) -> Written {
        let all = || lines.iter().map(|line| line.ends).sum::<u64>();
        if self.retry.is_some_and(|retry| Instant::now() < retry) {
            return Written { left_out: all(), failure: None };
        }
        self.retry = None;
        // A user may delete the history.
        self.current.take_if(|(_, file)| !file.is_there());
        let mut written = Written::default();
        let (mut text, mut ends) = (Vec::new(), 0);
        for line in &lines {
            let room = self.current.as_ref().map_or(0, |(_, file)| file.room());
            if line.text.len() + text.len() > room {
                self.append(&mut text, &mut ends, &mut written);
                self.next(head, &mut written);
            }
            let room = self.current.as_ref().map_or(0, |(_, file)| file.room());
            if line.text.len() > room || written.failure.is_some() {
                written.left_out += line.ends;
                continue;
            }
            text.extend_from_slice(&line.text);
            ends += line.ends;
        }
        self.append(&mut text, &mut ends, &mut written);
        if written.failure.is_some() {
            self.retry = Some(Instant::now() + RETRY);
        }
        written
    }

    fn append(&mut self, text: &mut Vec<u8>, ends: &mut u64, written: &mut Written) {
        let (text, ends) = (std::mem::take(text), std::mem::take(ends));
        let Some((_, file)) = self.current.as_mut().filter(|_| !text.is_empty()) else { return };
        if let Err(error) = file.append(&text) {
            written.left_out += ends;
            written.failure.get_or_insert(error);
        }
    }

    /// Begins another file.
    fn next(&mut self, head: &[u8], written: &mut Written) {
        if written.failure.is_some() {
            return;
        }
        while self.earlier.len() + 1 >= SESSION_SLOTS
            && let Some((path, modified)) = self.earlier.pop_front()
        {
            remove(&path, modified);
        }
        let head = [&self.first_line, head].concat();
        let first = std::process::id() % SLOTS;
        let begun = match claim(&self.folder, first, SystemTime::now()) {
            // An empty file would only take room.
            Ok(Some((path, mut file))) => file.append(&head).inspect_err(|_| drop(remove_file(&path))).map(|()| {
                let before = self.current.replace((path, file));
                let earlier = before.and_then(|(path, file)| {
                    drop(file);
                    let modified = metadata(&path).ok()?.modified().ok()?;
                    Some((path, modified))
                });
                self.earlier.extend(earlier);
            }),
            // It begins its own anew, which is its own in any case.
            Ok(None) => match &mut self.current {
                Some((_, file)) => file.clear().and_then(|()| file.append(&head)),
                None => Err(io::Error::other(format!("each of the {SLOTS} files belongs to a session that runs"))),
            },
            Err(error) => Err(error),
        };
        written.failure = begun.err();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::mpsc, task::Wake};

    use super::{super::SLOT_SIZE, *};

    struct Alarm(mpsc::Sender<()>);

    impl Wake for Alarm {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    /// Waits until what was appended is written.
    fn finish(journal: &Journal) {
        let (rings, rung) = mpsc::channel();
        let waker = Waker::from(Arc::new(Alarm(rings)));
        while journal.poll_written(&Context::from_waker(&waker)).is_pending() {
            rung.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    fn line(length: usize) -> Vec<u8> {
        let mut line = vec![b'x'; length - 1];
        line.push(b'\n');
        line
    }

    const FIRST: &str = "{\"rescind\":\"history\",\"version\":1,\"session\":\"7\",\"started\":5}\n";

    #[test]
    fn there_is_no_folder_before_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("history");
        let journal = Journal::new(inside.clone(), "7", 5);
        assert!(!inside.exists());
        journal.begin(b"head\n".to_vec());
        assert!(!inside.exists());
        journal.append(b"one\n".to_vec(), 1);
        finish(&journal);
        journal.begin(b"other\n".to_vec());
        finish(&journal);
        assert_eq!(files(&inside), [format!("{FIRST}head\none\nother\n")]);
        assert_eq!((journal.left_out(), journal.failure()), (0, None));
    }

    #[test]
    fn a_file_that_is_full_is_followed_by_another_with_the_same_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path().into(), "7", 5);
        journal.begin(b"head\n".to_vec());
        for _ in 0..9 {
            journal.append(line(10_000), 1);
        }
        finish(&journal);
        let files = files(folder.path());
        assert_eq!(files.len(), 3);
        assert!(files.iter().all(|file| file.starts_with(&format!("{FIRST}head\n"))));
        assert!(files.iter().all(|file| file.len() as u64 <= SLOT_SIZE));
        assert_eq!(journal.left_out(), 0);
    }

    #[test]
    fn a_session_has_its_share_of_the_files_and_the_oldest_of_its_own_go() {
        let folder = tempfile::tempdir().unwrap();
        let other = Journal::new(folder.path().into(), "8", 6);
        other.append(b"other\n".to_vec(), 1);
        finish(&other);
        let mut files = Files {
            folder: folder.path().into(),
            first_line: FIRST.into(),
            current: None,
            earlier: VecDeque::new(),
            retry: None,
        };
        for n in 0..2 * SESSION_SLOTS {
            let mut text = format!("{n}\n").into_bytes();
            text.append(&mut line(20_000));
            let written = files.write(b"", VecDeque::from([Line { text, ends: 1 }]));
            assert!(written.failure.is_none() && written.left_out == 0);
        }
        let left = self::files(folder.path());
        assert_eq!(left.len(), SESSION_SLOTS + 1);
        assert!(left.iter().any(|file| file.ends_with("other\n")));
        let is_there = |n: usize| left.iter().any(|file| file.contains(&format!("\n{n}\n")));
        assert!(is_there(2 * SESSION_SLOTS - 1) && is_there(SESSION_SLOTS) && !is_there(SESSION_SLOTS - 1));
    }

    #[cfg(unix)]
    #[test]
    fn when_the_history_is_deleted_it_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("history");
        let journal = Journal::new(inside.clone(), "7", 5);
        journal.begin(b"head\n".to_vec());
        journal.append(b"one\n".to_vec(), 1);
        finish(&journal);
        fs::remove_dir_all(&inside).unwrap();
        journal.append(b"two\n".to_vec(), 1);
        finish(&journal);
        assert_eq!(files(&inside), [format!("{FIRST}head\ntwo\n")]);
    }

    #[test]
    fn without_room_for_another_file_a_session_begins_its_own_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files {
            folder: folder.path().into(),
            first_line: FIRST.into(),
            current: None,
            earlier: VecDeque::new(),
            retry: None,
        };
        let text = |n: u8| [format!("{n}\n").as_bytes(), &line(20_000)].concat();
        let one = |n| VecDeque::from([Line { text: text(n), ends: 1 }]);
        assert!(files.write(b"", one(1)).failure.is_none());
        // All others belong to sessions that live.
        let taken: Vec<_> = (1..SLOTS).map(|_| claim(folder.path(), 0, SystemTime::now()).unwrap().unwrap()).collect();
        assert!(files.write(b"", one(2)).failure.is_none());
        let (path, _) = files.current.as_ref().unwrap();
        assert_eq!(fs::read(path).unwrap(), [FIRST.as_bytes(), &text(2)].concat());
        files.current = None;
        let taken_too = claim(folder.path(), 0, SystemTime::now()).unwrap().unwrap();
        let written = files.write(b"", one(3));
        let why = written.failure.unwrap().to_string();
        assert_eq!((&*why, written.left_out), ("each of the 256 files belongs to a session that runs", 1));
        drop((taken, taken_too));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path().into(), "7", 5);
        journal.append(line(40_000), 3);
        finish(&journal);
        assert_eq!(journal.left_out(), 3);
        // A disk that does not take anything: no thread empties the queue.
        let stalled = Journal::new(folder.path().into(), "7", 5);
        stalled.0.state().has_thread = true;
        for _ in 0..100 {
            stalled.append(line(10_000), 2);
        }
        let state = stalled.0.state();
        assert!(state.queued <= MAX_QUEUED);
        assert_eq!(state.left_out, 2 * (100 - state.queue.len() as u64));
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_told_once_and_tried_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let journal = Journal::new(file.join("history"), "7", 5);
        journal.append(b"one\n".to_vec(), 1);
        finish(&journal);
        journal.append(b"two\n".to_vec(), 1);
        finish(&journal);
        assert!(journal.failure().is_some() && journal.failure().is_none());
        assert_eq!(journal.left_out(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_takes_nothing_and_ends_nothing() {
        let full = fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files {
            folder: folder.path().into(),
            first_line: FIRST.into(),
            current: Some(("full".into(), OwnFile::of(full))),
            earlier: VecDeque::new(),
            retry: None,
        };
        let lines = || VecDeque::from([Line { text: b"one\n".to_vec(), ends: 1 }]);
        let written = files.write(b"", lines());
        assert_eq!(written.failure.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        assert_eq!(written.left_out, 1);
        let written = files.write(b"", lines());
        assert!(written.failure.is_none() && written.left_out == 1, "it is not tried again at once");
    }

    #[test]
    fn the_thread_ends_when_nothing_comes_and_another_goes_on_in_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path().into(), "7", 5);
        journal.append(b"one\n".to_vec(), 1);
        let begun = Instant::now();
        while journal.0.state().has_thread {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
        journal.append(b"two\n".to_vec(), 1);
        finish(&journal);
        assert_eq!(files(folder.path()), [format!("{FIRST}one\ntwo\n")]);
    }
}
