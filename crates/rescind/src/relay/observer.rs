//! What watches a link: the log, the recording, and what is said on stderr.

use std::{
    io,
    path::Path,
    task::{Context, Poll},
};

use rescind_proto::{
    cause::sanitised,
    dialect::Dialect,
    relay::{End, EndedBy, RelayConfig, RelayEvent, StuckSign},
    rule::Violations,
    side::{Side, Sides},
    time::Instant,
};
use rustix::process::Signal;

use super::{
    log::{Level, Log},
    names::Names,
    record::Recording,
    stderr::Stderr,
};

/// What to do about a cancelled request that is, past its grace, still worked on or still owed an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStuck {
    /// Say so on stderr.
    Report,
    /// End the server, and with it everything else it was doing (MCP-S03).
    Kill,
}

/// Everything that is told what happens and changes nothing of it.
#[derive(Debug, Default)]
pub(super) struct Observer {
    pub(super) log: Option<Log>,
    pub(super) recording: Option<Recording>,
    on_stuck: Option<OnStuck>,
    names: Names,
    stderr: Stderr,
}

impl Observer {
    /// Nobody watches yet.
    pub(super) fn new(on_stuck: Option<OnStuck>) -> Self {
        Self { on_stuck, ..Self::default() }
    }

    /// Asks the machine for what the observers want to hear.
    pub(super) fn configure(config: &mut RelayConfig, level: Option<Level>, records: bool) {
        config.emit.notices = records || level.is_some();
        config.emit.requests |= records || level >= Some(Level::Warn);
        config.emit.frames |= records || level >= Some(Level::Trace);
    }

    /// Ready when the observers can take more.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.recording.as_ref().map_or(Poll::Ready(()), |recording| recording.poll_ready(cx))
    }

    pub(super) fn kills_stuck(&self) -> bool {
        self.on_stuck == Some(OnStuck::Kill)
    }

    /// `in_flight` are the requests of each side after the event.
    pub(super) fn handle_event(&mut self, now: Instant, event: &RelayEvent, in_flight: Sides<usize>) {
        self.names.learn(event);
        if let Some(recording) = &mut self.recording {
            recording.event(now, event, &self.names);
        }
        if let Some(log) = &mut self.log {
            log.event(event, &self.names, in_flight);
        }
        if let (RelayEvent::Stuck { request, id, method, sign, .. }, Some(on_stuck)) = (event, self.on_stuck) {
            let end = match (on_stuck, request.from) {
                (OnStuck::Kill, Side::Client) => "; it is ended",
                (OnStuck::Kill, Side::Server) | (OnStuck::Report, _) => "",
            };
            let seen = match sign {
                StuckSign::Progress => "still works on",
                StuckSign::NoAnswer => "has not answered",
            };
            let (at_work, id, method) = (request.from.other().as_str(), sanitised(&id.to_string()), sanitised(method));
            self.stderr.say(&format!("rescind: the {at_work} {seen} a cancelled request: {method} {id}{end}\n"));
        }
        if let RelayEvent::GivenUp { side: Side::Client, unsent } = event {
            self.stderr.say(&format!(
                "error: the client: does not read; the rest of what the server said is lost (at least {unsent} bytes)\n\
                 hint: read what rescind writes to its end, or close it\n"
            ));
        }
        self.names.forget(event);
    }

    /// The server has ended; `by` asked it to, if anyone did.
    pub(super) fn handle_exit(&mut self, now: Instant, how: &End, by: Option<EndedBy>) {
        if let Some(recording) = &mut self.recording {
            recording.server_ended(now, how, by);
        }
        if let Some(log) = &mut self.log {
            log.server_ended(how, by);
        }
    }

    /// The server was stopped by this signal, since it asked on a terminal that is not ours to lend.
    pub(super) fn handle_stopped(&mut self, signal: Signal) {
        if let Some(log) = &mut self.log {
            log.stopped(signal);
        }
        let name = if signal == Signal::TTIN { "SIGTTIN" } else { "SIGTTOU" };
        self.stderr.say(&format!(
            "error: the server: stopped by {name}: it, or a program it started, asks on the terminal, which is its \
             client's\nhint: let it ask elsewhere: ssh with a key or SSH_ASKPASS, sudo with -A, git with a credential \
             helper; or start rescind from a shell\n"
        ));
    }

    /// The admin socket could not be opened.
    #[cfg(feature = "admin")]
    pub(super) fn handle_unlisted(&mut self, why: &super::admin::SocketError) {
        if let Some(log) = &mut self.log {
            log.unlisted(why);
        }
    }

    /// Nothing happens at the moment: what was gathered is sent off.
    pub(super) fn handle_idle(&mut self) {
        if let Some(error) = self.log.as_mut().and_then(Log::commit) {
            self.log = None;
            self.say_log_ends(&error);
        }
        if let Some((path, error)) = self.recording.as_mut().and_then(Recording::commit) {
            self.recording = None;
            self.say_recording_ends(&path, &error);
        }
    }

    /// The link is over: `spoken` on it were these dialects, `broken` these rules.
    pub(super) fn finish(&mut self, now: Instant, spoken: Sides<&Dialect>, broken: Sides<&Violations>) {
        if let Some(recording) = &mut self.recording
            && let Some((path, error)) = recording.finish(now, spoken)
        {
            self.say_recording_ends(&path, &error);
        }
        if let Some(log) = &mut self.log
            && let Some(error) = log.finish(broken)
        {
            self.say_log_ends(&error);
        }
        self.stderr.finish();
    }

    fn say_recording_ends(&mut self, path: &Path, error: &io::Error) {
        let path = path.display();
        self.stderr.say(&format!("error: {path}: {error}\nhint: the recording ends there; the link goes on\n"));
    }

    /// A log on stderr that cannot be written has nowhere to say so.
    fn say_log_ends(&mut self, error: &io::Error) {
        self.stderr.say(&format!("error: the log: {error}\nhint: the log ends there; the link goes on\n"));
    }
}
