//! The observers of a link: the log, the recording, and messages on stderr.

use std::{
    io,
    path::Path,
    task::{Context, Poll},
    time::Duration,
};

use rescind_proto::{
    cause::sanitised,
    dialect::Dialect,
    relay::{End, RelayConfig, RelayEvent, StuckSign, WelcomeNews},
    rule::Violations,
    side::{Side, Sides},
    time::Instant,
};

use super::{
    log::{Log, LogLevel},
    record::Recorder,
    stderr::Stderr,
};
use crate::process::{
    Suspended,
    ended_by::{EndReason, EndedBy},
    turn_processes::TurnProcess,
};

/// What to do if, after the grace, a cancelled request still reports progress or still lacks a required answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStuck {
    /// Report it on stderr.
    Report,
    /// End the server, and with it all its other work (MCP-S03).
    Kill,
}

/// What to do about the processes that began during a request, once it is cancelled (D59).
#[cfg(feature = "admin")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStop {
    /// End those that began during it alone: SIGTERM, and SIGKILL 2.5 s later. Never the server.
    EndProcesses,
}

/// Receives every event and changes nothing.
#[derive(Debug, Default)]
pub(super) struct Observer {
    pub(super) log: Option<Log>,
    pub(super) recorder: Option<Recorder>,
    on_stuck: Option<OnStuck>,
    /// There are limits, and no warning was written yet that they do not apply.
    has_limits: bool,
    stderr: Stderr,
}

impl Observer {
    /// An observer without a log or a recording.
    pub(super) fn new(on_stuck: Option<OnStuck>, has_limits: bool) -> Self {
        Self { on_stuck, has_limits, ..Self::default() }
    }

    /// Enables the events that the observers need.
    pub(super) fn configure(config: &mut RelayConfig, level: Option<LogLevel>, records: bool) {
        config.emit.notices = records || level.is_some();
        config.emit.requests |= records || level >= Some(LogLevel::Warn);
        config.emit.frames |= records || level >= Some(LogLevel::Trace);
    }

    /// Ready when the observers can take more.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.recorder.as_ref().map_or(Poll::Ready(()), |recorder| recorder.poll_ready(cx))
    }

    pub(super) fn kills_stuck(&self) -> bool {
        self.on_stuck == Some(OnStuck::Kill)
    }

    /// `in_flight` are the requests of each side after the event.
    pub(super) fn handle_event(&mut self, now: Instant, event: &RelayEvent, in_flight: Sides<usize>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, event);
        }
        if let Some(log) = &mut self.log {
            log.event(event, in_flight);
        }
        if let (RelayEvent::Stuck { request, id, method, sign, .. }, Some(on_stuck)) = (event, self.on_stuck) {
            let end = match (on_stuck, request.from) {
                (OnStuck::Kill, Side::Client) => "; ending the server",
                (OnStuck::Kill, Side::Server) | (OnStuck::Report, _) => "",
            };
            let seen = match sign {
                StuckSign::Progress => "still reports progress on",
                StuckSign::NoAnswer => "has not answered",
            };
            let (at_work, id, method) = (request.from.other().as_str(), sanitised(&id.to_string()), sanitised(method));
            self.stderr.write(&format!("warning: the {at_work} {seen} a cancelled request: {method}, id {id}{end}\n"));
        }
        if let RelayEvent::GivenUp { side: Side::Client, unsent } = event {
            self.stderr.write(&format!(
                "error: the client does not read: the rest of the server's output is lost (at least {unsent} bytes)\n\
                 hint: read rescind's stdout to the end, or close it\n"
            ));
        }
    }

    /// The server has ended. `by` says who asked it to, if anybody did.
    pub(super) fn handle_exit(&mut self, now: Instant, how: &End, by: Option<EndedBy>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.server_ended(now, how, by);
        }
        if let Some(log) = &mut self.log {
            log.server_ended(how, by);
        }
    }

    /// The server has ended, or is of no use, and is started again after `wait` (D64). `by` says who asked it to end, if anybody
    /// did.
    pub(super) fn handle_restarting(&mut self, how: &End, by: Option<EndedBy>, wait: Duration) {
        let how = match (how, by) {
            (_, Some(EndedBy::Shim(EndReason::Ungreeted(limit)))) => {
                format!("did not answer initialize within {limit:?} and was ended")
            }
            (End::Exited(code), _) => format!("exited with code {code}"),
            (End::Signalled(signal), _) => format!("was ended by signal {signal}"),
            (End::Closed | _, _) => "closed its input or output".to_owned(),
        };
        let when = if wait.is_zero() { "now".to_owned() } else { format!("in {wait:?}") };
        self.stderr.write(&format!("warning: the server {how}: it is started again {when} (--restart)\n"));
    }

    /// The server was started again, for this time (D64).
    pub(super) fn handle_restarted(&mut self, now: Instant, count: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.server_restarted(now, count);
        }
        if let Some(log) = &mut self.log {
            log.server_restarted(count);
        }
    }

    /// The server is not started again after its end, though that is wanted.
    pub(super) fn handle_not_restarted(&mut self, why: &str) {
        self.stderr.write(&format!("warning: --restart does not start this server again: {why}\n"));
    }

    /// The server was started again and cannot take the former one's place.
    pub(super) fn handle_refused_restart(&mut self, why: &str) {
        let why = sanitised(why);
        self.stderr.write(&format!(
            "error: the server was started again, and its client cannot go on with it: {why}\nhint: restart the session\n"
        ));
    }

    /// This became of a client that was welcomed before its server had started (D70).
    pub(super) fn handle_welcome(&mut self, news: &WelcomeNews) {
        if let Some(log) = &mut self.log {
            log.welcome(news);
        }
        match news {
            WelcomeNews::Welcomed | WelcomeNews::Changed { is_reported: true, .. } => {}
            WelcomeNews::Confirmed { lacks, .. } if lacks.is_empty() => {}
            WelcomeNews::Confirmed { lacks, .. } => {
                let lacks = sanitised(&lacks.join(", "));
                self.stderr.write(&format!(
                    "warning: the server has less than its client was told from its last start: {lacks} \
                     (--greet-from-cache)\nhint: restart the session; the next client is told what is so now\n"
                ));
            }
            WelcomeNews::Changed { list, is_reported: false } => self.stderr.write(&format!(
                "warning: {list}: the server answers otherwise than its client was told from its last start, and its client \
                 was told of no notification for that (--greet-from-cache)\nhint: restart the session\n"
            )),
            WelcomeNews::Unfit(why) => {
                let why = sanitised(why);
                self.stderr.write(&format!(
                    "error: the client was told of the server's last start, and cannot go on with the server: {why} \
                     (--greet-from-cache)\nhint: restart the session; the next client is told what is so now\n"
                ));
            }
        }
    }

    /// What the server has answered cannot be kept for its next start.
    pub(super) fn handle_welcome_not_kept(&mut self, error: &io::Error) {
        self.stderr.write(&format!(
            "warning: --greet-from-cache: what the server answers cannot be kept: {error}\nhint: its next start is not \
             helped by this one\n"
        ));
    }

    /// The server was suspended: it used a terminal that is not ours to lend.
    pub(super) fn handle_suspended(&mut self, how: Suspended) {
        if let Some(log) = &mut self.log {
            log.suspended(how);
        }
        let name = how.name;
        self.stderr.write(&format!(
            "error: the server was suspended by {name}: it, or a program that it started, tried to use the terminal, \
             which belongs to its client\nhint: keep it from prompting there: ssh with a key or SSH_ASKPASS, sudo with \
             -A, git with a credential helper; or start rescind from a shell\n"
        ));
    }

    /// What the server ran in a container may still run.
    pub(super) fn handle_container_left(&mut self, why: &str) {
        let why = sanitised(why);
        self.stderr.write(&format!(
            "error: what the server runs in a container may still run: {why}\nhint: rescind reap ends what is left\n"
        ));
    }

    /// This became of processes of cancelled requests (D59).
    pub(super) fn handle_turn_processes(&mut self, news: &[TurnProcess]) {
        if let Some(log) = &mut self.log {
            news.iter().for_each(|one| log.turn_process(one));
        }
    }

    /// The admin socket could not be opened.
    #[cfg(feature = "admin")]
    pub(super) fn handle_unlisted(&mut self, why: &super::admin::SocketError) {
        if let Some(log) = &mut self.log {
            log.unlisted(why);
        }
    }

    /// What has ended cannot be kept.
    pub(super) fn handle_history_failed(&mut self, why: &str) {
        let why = sanitised(why);
        self.stderr.write(&format!(
            "warning: rescind ps --history does not have all of this session: {why}\nhint: --no-history (or \
             RESCIND_NO_HISTORY=1) keeps none\n"
        ));
    }

    /// Called when the link is idle, on which the client speaks `dialect`: flushes what was gathered.
    pub(super) fn handle_idle(&mut self, dialect: &Dialect) {
        if self.has_limits && dialect.opaque {
            self.has_limits = false;
            self.stderr.write(
                "warning: rescind does not know the protocol of this session: its limits refuse nothing\nhint: leave out \
                 --limit, --limit-repeats and --limit-errors, or name the protocol with --protocol\n",
            );
        }
        if let Some(error) = self.log.as_mut().and_then(Log::commit) {
            self.log = None;
            self.report_log_end(&error);
        }
        if let Some((path, error)) = self.recorder.as_mut().and_then(Recorder::commit) {
            self.recorder = None;
            self.report_recording_end(&path, &error);
        }
    }

    /// The link is over: `dialects` were spoken on it and the rules in `broken` were broken.
    pub(super) fn finish(&mut self, now: Instant, dialects: Sides<&Dialect>, broken: Sides<&Violations>) {
        if let Some(recorder) = &mut self.recorder
            && let Some((path, error)) = recorder.finish(now, dialects)
        {
            self.report_recording_end(&path, &error);
        }
        if let Some(log) = &mut self.log
            && let Some(error) = log.finish(broken)
        {
            self.report_log_end(&error);
        }
        self.stderr.finish();
    }

    fn report_recording_end(&mut self, path: &Path, error: &io::Error) {
        let path = path.display();
        self.stderr.write(&format!(
            "error: {path}: {error}\nhint: the rest of the session is not recorded; to record again, fix the cause and \
             restart the session\n"
        ));
    }

    /// If the log goes to stderr itself, this message is lost too.
    fn report_log_end(&mut self, error: &io::Error) {
        self.stderr.write(&format!(
            "error: the log: {error}\nhint: the rest of the session is not logged; to log again, fix the cause and \
             restart the session\n"
        ));
    }
}
