//! `rescind run --shared` with its clients, and the one server that they share, in the test's hands.

use std::{
    io,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    ends::{Ends, Transcript},
    rig::{Shim, puppet},
    strings::Server,
};

/// Where clients come from that share a server. Dropping it ends what it holds.
#[derive(Debug)]
pub struct Sharing {
    /// Where the sockets of the sessions are.
    pub sockets: PathBuf,
    /// The home of the user, and the folder in which each session is started.
    pub home: PathBuf,
    listener: UnixListener,
    orders: PathBuf,
    transcript: Transcript,
    _folder: tempfile::TempDir,
}

impl Sharing {
    /// A user's home, in which nothing runs.
    ///
    /// # Panics
    ///
    /// If the folders cannot be made.
    #[expect(clippy::new_without_default, reason = "it makes folders")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [sockets, home, orders] = ["sockets", "home", "orders"].map(|name| folder.path().join(name));
        std::fs::create_dir(&home).expect("a home");
        let listener = UnixListener::bind(&orders).expect("a socket");
        Self { sockets, home, listener, orders, transcript: Transcript::default(), _folder: folder }
    }

    /// `program run` with these flags, before a puppet.
    pub fn command(&self, program: &str, flags: &[&str]) -> Command {
        let puppet = puppet(Path::new(program));
        let mut command = self.command_of(program, flags, &[]);
        command.arg(puppet).arg(&self.orders);
        command
    }

    /// `program run` with these flags, before a shell that does this and becomes a puppet.
    pub fn command_after(&self, program: &str, flags: &[&str], script: &str) -> Command {
        let script = format!("{script}; exec \"$0\" \"$@\"");
        let mut command = self.command_of(program, flags, &["sh", "-c", &script]);
        command.arg(puppet(Path::new(program))).arg(&self.orders);
        command
    }

    /// `program run` with these flags, before this command.
    pub fn command_of(&self, program: &str, flags: &[&str], server: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("run").args(flags).arg("--").args(server).current_dir(&self.home);
        command.env("HOME", &self.home).env("RESCIND_RUNTIME_DIR", &self.sockets);
        command
    }

    /// Starts one of these: its process, and the test as its client.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(&self, mut command: Command) -> (Shim, Ends) {
        let (to, from) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
        command.stdin(to.0).stdout(from.1);
        let shim = Shim::start(command, &self.transcript);
        (shim, Ends::of_client(from.0.into(), to.1.into(), self.transcript.clone()))
    }

    /// The next server process.
    pub fn accept(&self) -> Server {
        Server::accept(&self.listener, &self.transcript)
    }

    /// Whether one more server process has reported.
    ///
    /// # Panics
    ///
    /// If the socket cannot be asked.
    pub fn has_another(&self) -> bool {
        self.listener.set_nonblocking(true).expect("a mode");
        let accepted = self.listener.accept();
        self.listener.set_nonblocking(false).expect("a mode");
        accepted.is_ok()
    }

    /// Whether a shared server can be joined.
    pub fn is_anyone_there(&self) -> bool {
        std::fs::read_dir(self.sockets.join("shared")).is_ok_and(|mut files| files.next().is_some())
    }
}
