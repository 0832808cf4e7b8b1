//! The end of the server: how its input ended and who ended it (D44), and what that means for requests (D35).

use super::{Core, Relay, Settled, Step, exchange::Up, last_lines::last_lines};
use crate::{
    cause::{Cause, CauseCode, sanitised},
    link::RequestKey,
    receipt::Outcome,
    side::Side,
    slab::Key,
    time::Instant,
};

/// How a side's input ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It closed its end.
    Closed,
    /// The process exited with this code.
    Exited(i32),
    /// The process was ended by this signal.
    Signalled(i32),
}

/// Who asked the server to end before it did (D44), as answers about its end say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedBy {
    /// Completes "… before it answered: ".
    pub words: String,
    /// Members for the error's data, as JSON; the first is `endedBy`.
    pub members: String,
}

/// What its driver knows of a server that has ended, for the errors about its end (D63).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedServer {
    /// Its program, as its user named it. Errors show it without control characters, and not its arguments: they can hold
    /// secrets.
    pub program: String,
    /// Why it could not be started, if it was not.
    pub unstarted: Option<String>,
    /// The last bytes that it wrote to stderr. Errors carry their last lines, without control characters.
    pub stderr: Vec<u8>,
}

impl Relay {
    /// Records what is known of a server that has ended, before [`handle_eof`](Self::handle_eof): answers about its end
    /// contain it.
    pub fn note_ended_server(&mut self, server: EndedServer) {
        self.core.ended_server = Some(Box::new(server));
    }

    /// Whether the server ended without an answer about that (D63): nothing was in flight, and its client had sent one
    /// request at most. `false` once another has come, since that one is answered.
    #[must_use]
    pub fn has_untold_end(&self) -> bool {
        self.core.untold_end == Some(self.core.reports.tally.requests[Side::Client])
    }

    /// The server has ended: each of its requests in flight is answered or cancelled.
    pub(super) fn server_gone(&mut self, now: Instant) {
        let asked = self.core.reports.tally.requests[Side::Client];
        let open = self.tables[Side::Client].by_age(|ex| ex.is_open_upstream() || ex.is_waiting());
        // The first request of a client that was welcomed early is open, and its client waits for nothing.
        let is_told = self.core.welcome.as_ref().is_some_and(|early| early.is_told());
        let is_idle = if is_told { self.tables.client.live() == 0 } else { asked <= 1 && open.is_empty() };
        self.core.untold_end = is_idle.then_some(asked);
        self.lose_server(now, open);
    }

    /// Ends these requests of the client, and all of the server, which has ended.
    pub(super) fn lose_server(&mut self, now: Instant, open: Vec<Key>) {
        for key in open {
            self.step(now, RequestKey { from: Side::Client, key }, |step| step.lose_server());
        }
        for key in self.tables[Side::Server].by_age(|ex| ex.is_live() && ex.is_theirs()) {
            let request = RequestKey { from: Side::Server, key };
            self.step(now, request, |step| step.cancel_upstream(Cause::new(CauseCode::Disconnect)));
            self.step(now, request, |step| {
                step.stop_grace();
                step.report_receipt();
                step.settle(Settled::Gone);
            });
        }
        self.core.stop_greeting();
        self.lose_children(now);
        self.core.unkept_released = 0;
    }
}

impl Step<'_> {
    /// The server that owes this request an answer has ended.
    fn lose_server(&mut self) {
        self.exchange.up = Up::Lost;
        self.let_own_go();
        let confirms = !self.exchange.upstream_dialect.is_silent() || self.exchange.task_work().is_some();
        if let Some(cancel) = self.cancel()
            && cancel.receipt.outcome.is_cut_short(confirms)
        {
            self.learn(Outcome::Unknown);
        }
        self.stop_clocks();
        self.stop_grace();
        self.mark_changed();
        if self.exchange.dialect.opaque {
            self.answer_gone();
            self.answer_duplicates_gone();
        } else if self.exchange.cancel.is_some() {
            self.answer_cancelled();
        } else {
            self.answer_gone();
        }
    }
}

impl Core {
    /// The words and data with which requests of an ended server are answered.
    pub(super) fn server_exit_error(&self) -> (String, Vec<u8>) {
        let (how, status, unasked) = match self.server_end {
            Some(End::Exited(code)) => (format!("exited with code {code}"), Some(("exitCode", code)), ""),
            Some(End::Signalled(signal)) => (
                format!("was ended by signal {signal}{}", signal_name(signal)),
                Some(("signal", signal)),
                "; neither its client nor rescind had sent that signal",
            ),
            Some(End::Closed) | None => ("closed its output".to_owned(), None, ""),
        };
        let nothing = EndedServer::default();
        let EndedServer { program, unstarted, stderr } = self.ended_server.as_deref().unwrap_or(&nothing);
        let program = if program.is_empty() { String::new() } else { format!(" ({})", sanitised(program)) };
        let (mut text, ended_by) = match (unstarted, &self.ended_by) {
            (Some(why), _) => (format!("the server{program} could not be started: {why}"), r#""endedBy":"server""#),
            (None, None) => (format!("the server{program} {how} before it answered{unasked}"), r#""endedBy":"server""#),
            (None, Some(by)) => (format!("the server{program} {how} before it answered: {}", by.words), &*by.members),
        };
        let lines = last_lines(stderr);
        if !lines.is_empty() {
            text.push_str("; the end of its stderr:\n");
            text.push_str(&lines);
        }
        let data = status.map(|(name, number)| format!(r#"{{"{name}":{number},{ended_by}}}"#));
        (text, data.unwrap_or_else(|| "{}".to_owned()).into_bytes())
    }
}

/// The name of a signal, where its number means the same on every system.
const fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
