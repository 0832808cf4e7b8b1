//! What a test holds of a puppet: the server's ends of the link, and the socket for orders.

use std::{
    collections::VecDeque,
    io::{IoSliceMut, Write},
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags},
};

use super::ends::{Ends, Listening, PATIENCE, Transcript};

/// The server: its messages are the test's, its process is a puppet.
#[derive(Debug)]
pub struct Server {
    ends: Ends,
    /// The process.
    pub puppet: Puppet,
}

impl Server {
    pub(super) fn accept(listener: &UnixListener, transcript: &Transcript) -> Self {
        let (puppet, stdin, stdout) = Puppet::accept("server", listener, transcript);
        Self { ends: Ends::new("server", stdin, stdout, transcript.clone()), puppet }
    }

    /// The process exits with this code, and its ends of the link close with it.
    pub fn exit(&mut self, code: i32) {
        self.close();
        self.puppet.exit(code);
    }
}

impl Deref for Server {
    type Target = Ends;

    fn deref(&self) -> &Ends {
        &self.ends
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Ends {
        &mut self.ends
    }
}

/// A process that does what it is told, and tells of signals.
#[derive(Debug)]
pub struct Puppet {
    /// Its process id.
    pub id: i32,
    /// Its process group.
    pub group: i32,
    orders: UnixStream,
    replies: Listening,
    /// Signals that came while something else was waited for.
    signals: VecDeque<String>,
    transcript: Transcript,
}

impl Puppet {
    /// The next puppet to report, and its stdin and stdout.
    pub(super) fn accept(
        name: &'static str,
        listener: &UnixListener,
        transcript: &Transcript,
    ) -> (Self, OwnedFd, OwnedFd) {
        wait_for(listener, transcript);
        let (socket, _) = listener.accept().expect("a puppet reports");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut hello = [0; 64];
        let received =
            rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(&mut hello)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let received = received.expect("a puppet says who it is").bytes;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let [stdin, stdout] = <[OwnedFd; 2]>::try_from(fds).expect("a puppet hands over stdin and stdout");
        let hello = String::from_utf8_lossy(&hello[..received]).into_owned();
        transcript.note(format!("{name} is process {}", hello.trim()));
        let (id, group) = hello.trim().split_once(' ').expect("a process id and a group");
        let replies = socket.try_clone().expect("a socket can be cloned").into();
        let mut puppet = Self {
            id: id.parse().expect("a process id"),
            group: group.parse().expect("a process group"),
            orders: socket,
            replies: Listening::new(name, replies, transcript.clone()),
            signals: VecDeque::new(),
            transcript: transcript.clone(),
        };
        // Only now are the ends of the link nobody's but the test's.
        puppet.done();
        (puppet, stdin, stdout)
    }

    /// It exits with this code. Its ends of the link are the test's, and stay open.
    pub fn exit(&mut self, code: i32) {
        self.order(format_args!("exit {code}"));
    }

    /// It sends itself this signal.
    pub fn raise(&mut self, signal: i32) {
        self.order(format_args!("raise {signal}"));
    }

    /// From now on it survives this signal.
    pub fn survive(&mut self, signal: i32) {
        self.order(format_args!("catch {signal}"));
        self.done();
    }

    pub(super) fn spawn(&mut self) {
        self.order(format_args!("spawn"));
        self.done();
    }

    /// It gets this signal, which it survives.
    pub fn expect_signal(&mut self, signal: i32) {
        let reply = self.signals.pop_front().unwrap_or_else(|| self.replies.line());
        if reply != format!("signal {signal}") {
            self.transcript.fail(format_args!("expected signal {signal}, got {reply:?}"));
        }
    }

    /// It dies, or is dead: the socket of a dead process is closed.
    pub fn expect_death(&mut self) {
        self.replies.rest();
        self.transcript.note(format!("process {} is dead", self.id));
    }

    /// It dies, and gets no signal before that it survives.
    pub fn expect_death_at_once(&mut self) {
        let rest = self.replies.rest();
        if !self.signals.is_empty() || !rest.is_empty() {
            let rest = String::from_utf8_lossy(&rest).into_owned();
            self.transcript.fail(format_args!("expected death, got {:?} {rest:?}", self.signals));
        }
        self.transcript.note(format!("process {} is dead", self.id));
    }

    fn order(&mut self, order: std::fmt::Arguments<'_>) {
        self.transcript.note(format!("process {}: {order}", self.id));
        if let Err(error) = writeln!(self.orders, "{order}") {
            self.transcript.fail(format_args!("process {} takes no orders: {error}", self.id));
        }
    }

    fn done(&mut self) {
        loop {
            match self.replies.line() {
                reply if reply == "done" => return,
                reply => self.signals.push_back(reply),
            }
        }
    }
}

fn wait_for(listener: &UnixListener, transcript: &Transcript) {
    let patience = Timespec::try_from(PATIENCE).ok();
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, patience.as_ref())) == Ok(0) {
        transcript.fail("no puppet reported in time");
    }
}
