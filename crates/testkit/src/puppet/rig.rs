//! A client, the shim and a server, with the test as both ends.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{
            net::{UnixListener, UnixStream},
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use rustix::process::{Pid, Signal};

use super::{
    ends::{Ends, Listening, PATIENCE, Transcript},
    strings::{Puppet, Server},
};

/// A client, the shim and a server. Dropping it kills all of them.
#[derive(Debug)]
pub struct Rig {
    /// The test as the client.
    pub client: Ends,
    /// The test as the server, and its process.
    pub server: Server,
    /// The shim between them.
    pub shim: Shim,
    /// The shim's own stdin and stdout, where they were asked for.
    pub theirs: Option<(OwnedFd, OwnedFd)>,
    /// Where the shim opens its admin socket, unless it was told otherwise.
    pub sockets: PathBuf,
    listener: UnixListener,
    transcript: Transcript,
    markers: usize,
    _folder: tempfile::TempDir,
}

/// How a [`Rig`] is set up.
#[derive(Debug)]
pub struct RigBuilder {
    program: PathBuf,
    flags: Vec<OsString>,
    under: Vec<OsString>,
    within: Vec<OsString>,
    streams: Streams,
    keeps_theirs: bool,
    sockets: Option<PathBuf>,
}

/// What the shim has as stdin and stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// A pipe each.
    Pipes,
    /// A pair of Unix sockets each, as Node.js gives its children.
    Sockets,
}

impl Rig {
    /// `program run` with nothing else but the puppet.
    pub fn start(program: &str) -> Self {
        Self::builder(program).start()
    }

    /// `program run` with flags, or in other surroundings.
    pub fn builder(program: &str) -> RigBuilder {
        RigBuilder {
            program: program.into(),
            flags: Vec::new(),
            under: Vec::new(),
            within: Vec::new(),
            streams: Streams::Pipes,
            keeps_theirs: false,
            sockets: None,
        }
    }

    /// Nothing more has come to the client until now: what the server says next is the next it hears.
    pub fn expect_client_hears_nothing(&mut self) {
        let marker = self.marker();
        self.server.send(&marker);
        self.client.expect(&marker);
    }

    /// Nothing more has come to the server until now: what the client says next is the next it hears.
    pub fn expect_server_hears_nothing(&mut self) {
        let marker = self.marker();
        self.client.send(&marker);
        self.server.expect(&marker);
    }

    fn marker(&mut self) -> String {
        self.markers += 1;
        format!(r#"{{"jsonrpc":"2.0","method":"marker","params":{{"number":{}}}}}"#, self.markers)
    }

    /// The server starts another process, in its own group.
    pub fn grandchild(&mut self) -> Puppet {
        self.server.puppet.spawn();
        Puppet::accept("grandchild", &self.listener, &self.transcript).0
    }

    /// The process that takes the place of the server.
    pub fn next_server(&self) -> Server {
        Server::accept(&self.listener, &self.transcript)
    }

    /// Ends the test, with everything that happened until now.
    ///
    /// # Panics
    ///
    /// Always.
    pub fn fail(&self, why: impl std::fmt::Display) -> ! {
        self.transcript.fail(why)
    }
}

impl RigBuilder {
    /// Flags of `run`.
    pub fn flags<S: Into<OsString>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// A command that becomes the shim, such as `nohup`.
    pub fn under<S: Into<OsString>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.under.extend(command.into_iter().map(Into::into));
        self
    }

    /// A command that starts the server, such as `docker run`.
    pub fn within<S: Into<OsString>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.within.extend(command.into_iter().map(Into::into));
        self
    }

    /// Keeps copies of the shim's own stdin and stdout in [`Rig::theirs`].
    pub const fn keep_theirs(mut self) -> Self {
        self.keeps_theirs = true;
        self
    }

    /// Another directory for the admin socket than one of the rig's own.
    pub fn sockets(mut self, directory: impl Into<PathBuf>) -> Self {
        self.sockets = Some(directory.into());
        self
    }

    /// Other standard streams.
    pub const fn streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Starts everything and waits for the server's process.
    ///
    /// # Panics
    ///
    /// If something does not start.
    pub fn start(self) -> Rig {
        let transcript = Transcript::default();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = folder.path().join("orders");
        let listener = UnixListener::bind(&address).expect("a socket");
        let (stdin, stdout, client) = self.make_streams(&transcript);
        let theirs = self.keeps_theirs.then(|| {
            let copy = |fd: &OwnedFd| fd.try_clone().expect("a descriptor can be cloned");
            (copy(&stdin), copy(&stdout))
        });
        let words = self.under.iter().map(OsString::as_os_str).chain([self.program.as_os_str()]);
        let mut words = words.chain(["run".as_ref()]).chain(self.flags.iter().map(OsString::as_os_str));
        let mut command = Command::new(words.next().expect("the program at least"));
        command
            .args(words)
            .arg("--")
            .args(&self.within)
            .arg(puppet(&self.program))
            .arg(&address)
            .stdin(stdin)
            .stdout(stdout);
        let sockets = self.sockets.unwrap_or_else(|| folder.path().join("sockets"));
        command.env("RESCIND_RUNTIME_DIR", &sockets);
        let shim = Shim::start(command, &transcript);
        let server = Server::accept(&listener, &transcript);
        Rig { client, server, shim, theirs, sockets, listener, transcript, markers: 0, _folder: folder }
    }

    /// The shim's stdin and stdout, and the client's ends of them.
    fn make_streams(&self, transcript: &Transcript) -> (OwnedFd, OwnedFd, Ends) {
        let ((stdin, to_shim), (from_shim, stdout)): ((OwnedFd, OwnedFd), (OwnedFd, OwnedFd)) = match self.streams {
            Streams::Pipes => {
                let (to, from) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
                ((to.0.into(), to.1.into()), (from.0.into(), from.1.into()))
            }
            Streams::Sockets => {
                let pair = || UnixStream::pair().expect("a pair of sockets");
                let (to, from) = (pair(), pair());
                ((to.0.into(), to.1.into()), (from.0.into(), from.1.into()))
            }
        };
        (stdin, stdout, Ends::of_client(from_shim, to_shim, transcript.clone()))
    }
}

/// The shim's process. Dropping it kills it.
#[derive(Debug)]
pub struct Shim {
    /// Its process id.
    pub id: i32,
    /// What it says on stderr, and the server with it.
    pub stderr: Listening,
    ended: mpsc::Receiver<ExitStatus>,
    has_ended: bool,
    transcript: Transcript,
}

impl Shim {
    /// Starts any command as the shim; stdin and stdout are the command's own affair.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(mut command: Command, transcript: &Transcript) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the shim starts");
        // The command keeps its copies of the descriptors it gave away.
        drop(command);
        let id = child.id().try_into().expect("a process id");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait().expect("a child can be waited for")));
        let stderr = Listening::new("stderr", stderr.into(), transcript.clone());
        Self { id, stderr, ended, has_ended: false, transcript: transcript.clone() }
    }

    /// Sends it a signal.
    pub fn kill(&self, signal: Signal) {
        self.transcript.note(format!("the shim gets {signal:?}"));
        let pid = Pid::from_raw(self.id).expect("a process id is no zero");
        rustix::process::kill_process(pid, signal).expect("the shim lives");
    }

    /// How it ended.
    pub fn wait(&mut self) -> ExitStatus {
        let Ok(status) = self.ended.recv_timeout(PATIENCE) else {
            self.transcript.fail("the shim does not end");
        };
        self.has_ended = true;
        self.transcript.note(format!("the shim ends: {status}"));
        status
    }

    /// It ends with this exit code.
    pub fn expect_exit(&mut self, code: i32) {
        let status = self.wait();
        if status.code() != Some(code) {
            let stderr = String::from_utf8_lossy(&self.stderr.rest()).into_owned();
            self.transcript.fail(format_args!("expected exit code {code}, got {status}; stderr: {stderr}"));
        }
    }

    /// It ends by this signal.
    pub fn expect_death(&mut self, signal: Signal) {
        let status = self.wait();
        if status.signal() != Some(signal.as_raw()) {
            self.transcript.fail(format_args!("expected {signal:?}, got {status}"));
        }
    }

    /// It has said nothing on stderr. Asked after its end.
    pub fn expect_said_nothing(&mut self) {
        let said = self.stderr.rest();
        if !said.is_empty() {
            self.transcript.fail(format_args!("stderr: {}", String::from_utf8_lossy(&said)));
        }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if !self.has_ended
            && let Some(pid) = Pid::from_raw(self.id)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// The puppet's program, which `cargo test` builds beside the shim's.
pub(super) fn puppet(program: &Path) -> PathBuf {
    let puppet = program.with_file_name("examples").join("puppet");
    assert!(puppet.exists(), "{} is missing: cargo build --examples", puppet.display());
    puppet
}
