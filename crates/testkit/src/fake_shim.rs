//! An admin socket (`docs/admin.md`) behind which there is no shim: what it tells is a test's.
//!
//! It serves what [`FakeShim::put`] was given, and does with a cancel what [`FakeShim::on_cancel`] says. It answers on
//! threads of its own, and can be frozen, as a stopped process is, or broken off, as a killed one is.

mod http;
mod state;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    net::Shutdown,
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use rescind_feed::{
    Arguments, Counters, End, FrameView, Implementation, Progress, Request, SOCKET_SUFFIX, Session, Side, State,
};

use state::Script;
pub use state::Seen;

/// A socket that answers as a shim's does. Dropped, it is gone as a shim that was killed.
#[derive(Debug)]
pub struct FakeShim {
    shared: Arc<Shared>,
    socket: PathBuf,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    changed: Condvar,
    connections: Mutex<Vec<UnixStream>>,
}

impl FakeShim {
    /// Opens the socket of `session` in `directory`, which is made with mode 0700 if there is none.
    ///
    /// # Panics
    ///
    /// Where it cannot.
    pub fn open(directory: &Path, session: Session) -> Self {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).expect("a directory for sockets");
        let socket = directory.join(format!("{}{SOCKET_SUFFIX}", session.name));
        let listener = UnixListener::bind(&socket).expect("a socket");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).expect("a socket of ours");
        let script = Mutex::new(Script::new(session));
        let shared = Arc::new(Shared { script, changed: Condvar::new(), connections: Mutex::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Self { shared, socket }
    }

    /// Adds requests, or replaces those of the same key, and tells it in one event.
    pub fn put(&self, requests: impl IntoIterator<Item = Request>) {
        self.with(|script| script.put(requests.into_iter().collect()));
    }

    /// Replaces requests, and tells it in a snapshot, which has room for a thousand.
    pub fn replace(&self, requests: impl IntoIterator<Item = Request>) {
        self.with(|script| script.replace(requests.into_iter().collect()));
    }

    /// Changes the request of that key and tells it.
    ///
    /// # Panics
    ///
    /// Where there is none.
    pub fn change(&self, key: &str, change: impl FnOnce(&mut Request)) {
        self.with(|script| {
            let mut request = script.request(key).expect("a request of that key").clone();
            change(&mut request);
            script.put(vec![request]);
        });
    }

    /// The request of that key.
    pub fn request(&self, key: &str) -> Option<Request> {
        self.lock().request(key).cloned()
    }

    /// Moves the session's clock.
    pub fn set_now(&self, micros: u64) {
        self.with(|script| script.now = micros);
    }

    /// The messages of a request.
    pub fn put_frames(&self, key: &str, frames: Vec<FrameView>) {
        self.with(|script| script.frames.insert(key.to_owned(), frames));
    }

    /// The arguments of a request.
    pub fn put_arguments(&self, key: &str, arguments: Arguments) {
        self.with(|script| script.arguments.insert(key.to_owned(), arguments));
    }

    /// Makes it one of an older release, which knows no arguments.
    pub fn be_older(&self) {
        self.with(|script| script.is_older = true);
    }

    /// What it has counted.
    pub fn put_counters(&self, counters: Counters) {
        self.with(|script| script.counters = counters);
    }

    /// What becomes of a request that is cancelled, given the reason: without this, it is `cancelling` from then on.
    pub fn on_cancel(&self, obey: impl FnMut(&mut Request, Option<&str>) + Send + 'static) {
        self.with(|script| script.obey = Box::new(obey));
    }

    /// Tells the end of the session.
    pub fn end(&self, how: End) {
        self.with(|script| script.end(how));
    }

    /// Answers nobody until thawed, as a stopped process.
    pub fn freeze(&self) {
        self.with(|script| script.frozen = true);
    }

    /// Goes on.
    pub fn thaw(&self) {
        self.with(|script| script.frozen = false);
    }

    /// Closes every connection in the middle of whatever it is, and lets new ones come.
    pub fn break_off(&self) {
        for connection in self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Waits until what was asked of it is as `wanted` says, and gives what that says.
    pub fn wait_for<T>(&self, mut wanted: impl FnMut(&Seen) -> Option<T>) -> T {
        let mut script = self.lock();
        loop {
            if let Some(found) = wanted(&script.seen) {
                return found;
            }
            script = self.shared.changed.wait(script).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Where its socket is.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    fn with<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        let changed = change(&mut self.lock());
        self.shared.changed.notify_all();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.shared.lock()
    }
}

impl Drop for FakeShim {
    fn drop(&mut self) {
        self.with(|script| script.closed = true);
        // Wakes whoever accepts.
        let _ = UnixStream::connect(&self.socket);
        let _ = fs::remove_file(&self.socket);
        self.break_off();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            {
                let mut script = self.lock();
                if script.closed {
                    return;
                }
                script.seen.connections += 1;
            }
            let Ok(kept) = stream.try_clone() else { return };
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
            let shared = Arc::clone(&self);
            thread::spawn(move || {
                while let Ok(true) = shared.converse(&stream) {}
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    }

    /// Answers one request. Returns whether another may follow on this connection.
    fn converse(&self, stream: &UnixStream) -> io::Result<bool> {
        let asked = http::read(stream)?;
        self.lock().seen.paths.push(asked.target.clone());
        self.changed.notify_all();
        let script = self.changed.wait_while(self.lock(), |script| script.frozen && !script.closed);
        let mut script = script.unwrap_or_else(PoisonError::into_inner);
        if asked.path() == "/v1/events" && !script.has_ended() {
            drop(script);
            http::write_head(stream, "text/event-stream")?;
            return self.tell(stream, asked.since()).map(|()| false);
        }
        let (status, body) = script.answer(&asked);
        drop(script);
        self.changed.notify_all();
        if asked.follows && status == 200 {
            http::write_head(stream, "text/event-stream")?;
            http::write_ordered(stream, &body)?;
            return self.tell(stream, None).map(|()| false);
        }
        http::write(stream, status, &body).map(|()| true)
    }

    /// Tells everything after `since` as it happens.
    fn tell(&self, mut stream: &UnixStream, since: Option<u64>) -> io::Result<()> {
        let mut told = since;
        self.lock().seen.subscriptions.push(since);
        self.changed.notify_all();
        loop {
            let nothing = |script: &mut Script| !script.closed && (script.frozen || script.is_told(told));
            let script = self.changed.wait_while(self.lock(), nothing);
            let script = script.unwrap_or_else(PoisonError::into_inner);
            if script.closed {
                return Ok(());
            }
            let (number, text, more) = script.after(told);
            drop(script);
            stream.write_all(text.as_bytes())?;
            told = Some(number);
            if !more {
                return Ok(());
            }
        }
    }
}

/// A session of an MCP server that nothing else is known of.
pub fn session(name: &str, command: &[&str]) -> Session {
    let speaks = |protocol: &str| Implementation { protocol: protocol.into(), ..Implementation::default() };
    Session {
        version: rescind_feed::VERSION,
        name: name.into(),
        program: "rescind 0.1.0".into(),
        pid: 4_194_304 + name.bytes().map(u32::from).sum::<u32>(),
        ancestors: Vec::new(),
        server_pid: None,
        command: command.iter().map(|&word| word.to_owned()).collect(),
        entry: None,
        client_name: None,
        shared: None,
        folder: None,
        started: 1_790_000_000_000_000,
        client: speaks("mcp-2025-11-25"),
        server: speaks("mcp-2025-11-25"),
        connected: None,
        owner: None,
        signing_in: false,
        limits: BTreeMap::new(),
        held_up_by: None,
        unkept_children: 0,
        process_clock: None,
        turn_processes: Vec::new(),
        ending_turns: None,
        restarts: None,
        restarting: false,
        starting: None,
        hides_work: false,
        unkept_tasks: 0,
        unkept_released: 0,
    }
}

/// A request of the client's that runs. Its key is its id.
pub fn request(id: u64, method: &str, name: Option<&str>, since: u64) -> Request {
    Request {
        key: format!("c{id}"),
        from: Side::Client,
        id: id.to_string(),
        upstream: None,
        method: method.into(),
        name: name.map(str::to_owned),
        parent: None,
        opened_by: None,
        since,
        held_until: None,
        state: State::Running,
        waits_for_turn: false,
        may_be_released: false,
        deadline: None,
        progress: None,
        task: None,
        cancel: None,
        settled: None,
        late: None,
        child: None,
        at_work: None,
    }
}

/// Progress in percent, with words.
pub fn percent(at: u64, percent: f64, message: &str) -> Progress {
    let message = (!message.is_empty()).then(|| message.to_owned());
    Progress { at, count: 1, progress: Some(percent), total: Some(100.0), message }
}

/// A cancel by an operator that has just been asked for, of a request to an MCP server.
pub fn asked(at: u64, reason: Option<&str>) -> rescind_feed::Cancel {
    let cancel = rescind_feed::Cancel {
        cause: "operator".into(),
        reason: reason.map(str::to_owned),
        asked: at,
        written: None,
        outcome: rescind_feed::Outcome::Asked,
        after: None,
        answer: None,
        confirms: false,
        protocol: "MCP".into(),
        held: false,
        waited_for: None,
        works_on: false,
        words: String::new(),
    };
    cancel.in_words(None)
}
