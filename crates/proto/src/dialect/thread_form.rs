//! Turns that a request starts, a request cancels, and a notification ends (D58): which messages do that.

use core::time::Duration;

use crate::json;

/// What a command of the model is called that has outlived its turn.
pub(crate) const TERMINAL: &str = "terminal";

/// The turns of threads, and what else works in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadForm {
    /// How the dialect is recognised, and what its client declares.
    pub greeting: GreetingForm,
    /// The params member that names the thread, in all of these.
    pub thread: &'static str,
    /// The client's requests that start a turn (CDX-06, CDX-14).
    pub starts: &'static [&'static str],
    /// The member of their result that names the turn's thread, where it is another one.
    pub other_thread: &'static str,
    /// Where in a result or in params the turn's id stands.
    pub turn: &'static [&'static str],
    /// The params member in which other messages name a turn.
    pub turn_of: &'static str,
    /// Where the turn's status stands.
    pub status: &'static [&'static str],
    /// The status of a turn that is not over.
    pub running: &'static str,
    /// The status of a turn that was interrupted (CDX-07).
    pub interrupted: &'static str,
    /// The status of a turn that failed.
    pub failed: &'static str,
    /// The notification that a turn has begun.
    pub started: &'static str,
    /// The notification that a turn is over (CDX-05).
    pub completed: &'static str,
    /// The notification of a thread's status.
    pub status_changed: &'static str,
    /// Where in its params the status stands, and the status of a thread without a turn.
    pub idle: (&'static [&'static str], &'static str),
    /// How a turn is cancelled.
    pub interrupt: InterruptForm,
    /// The notification that a request of the server is withdrawn (CDX-08).
    pub withdrawn: &'static str,
    /// The params member that names that request, and a client's request in [`by_request_id`](Self::by_request_id).
    pub withdrawn_id: &'static str,
    /// The client's request after which it receives nothing more of a thread (CDX-16).
    pub leaves: &'static str,
    /// Requests of a client that name another of its requests (CDX-15).
    pub by_request_id: &'static [&'static str],
    /// Parts of a turn.
    pub items: ItemForm,
    /// Commands that outlive their turn.
    pub terminals: TerminalForm,
    /// Commands that the client runs itself.
    pub commands: CommandForm,
    /// Processes that the client starts, which work on after the answer.
    pub processes: ProcessForm,
    /// How long a cancelled turn may take before it counts as one that does not stop.
    pub limit: Duration,
}

/// How a handshake shows the dialect, and what it declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GreetingForm {
    /// Members that the server's answer has, each a string: all of them, or it is another protocol.
    pub marks: &'static [&'static str],
    /// Where in the client's params it asks for requests that may change (CDX-13).
    pub experimental: &'static [&'static str],
    /// Where it lists notifications that it does not want (CDX-18).
    pub silenced: &'static [&'static str],
}

/// The request that cancels a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterruptForm {
    /// Its method.
    pub method: &'static str,
    /// The params member that names the turn; an empty string means the active one.
    pub turn: &'static str,
    /// Words of an error which mean that the turn was over.
    pub refusals: &'static [&'static str],
}

/// The parts of a turn, each with a notification of its beginning and of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemForm {
    /// One has begun.
    pub started: &'static str,
    /// One is over.
    pub completed: &'static str,
    /// Where its kind stands.
    pub kind: &'static [&'static str],
    /// Where its id stands.
    pub id: &'static [&'static str],
    /// The kind that is a command of the model.
    pub command: &'static str,
    /// Where its process stands, if it has one that outlives a turn (CDX-09).
    pub process: &'static [&'static str],
    /// Kinds that name threads which the turn has opened for a part of the work, and where (CDX-10).
    pub children: &'static [(&'static str, &'static [&'static str])],
}

/// A command of the model that outlives its turn, and the request that ends it: where the client has asked for such (CDX-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TerminalForm {
    /// The request.
    pub terminate: &'static str,
    /// The params member that names the process.
    pub process: &'static str,
    /// The member of its result that shows whether there was such a process.
    pub done: &'static str,
    /// The client's request for those of a thread; it may be answered in pages.
    pub list: &'static str,
    /// The params member that asks for a later page, and the member of a result that names the next one.
    pub pages: (&'static str, &'static str),
    /// The member of its result with the terminals.
    pub listed: &'static str,
    /// The member of one of them that names its item.
    pub item: &'static str,
}

/// The client's request that runs a command (CDX-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandForm {
    /// The request.
    pub run: &'static str,
    /// The request that ends it; its own answer follows.
    pub terminate: &'static str,
    /// The params member that names it in both; a request without it cannot be ended.
    pub process: &'static str,
}

/// The client's request that starts a process (CDX-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessForm {
    /// The request; it is answered once the process works.
    pub spawn: &'static str,
    /// The request that ends it.
    pub kill: &'static str,
    /// The notification that it is over.
    pub exited: &'static str,
    /// The params member that names it in all three.
    pub handle: &'static str,
    /// The member of the notification that shows how it ended, and its value where it was killed.
    pub killed: (&'static str, &'static str),
}

/// What a client declared in its handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Greeting {
    /// It asked for requests that may change (CDX-13).
    pub experimental: bool,
    /// It wants no message about the end of a turn (CDX-18).
    pub hides_completed: bool,
    /// It wants no message about a thread's status.
    pub hides_status: bool,
    /// It wants no message about the end of an item.
    pub hides_items: bool,
    /// It wants no message about the end of a process.
    pub hides_exits: bool,
}

impl Greeting {
    /// Whether no message shows the end of a turn.
    #[must_use]
    pub const fn hides_ends(&self) -> bool {
        self.hides_completed && self.hides_status
    }
}

impl ThreadForm {
    /// Whether the answer to a handshake shows the dialect.
    pub(crate) fn is_shown_by(&self, result: &[u8]) -> bool {
        self.greeting.marks.iter().all(|mark| json::member(result, mark).and_then(json::text).is_some())
    }

    /// Reads what the client declares in the params of its handshake.
    pub(crate) fn greeting(&self, params: &[u8]) -> Greeting {
        let silenced = json::lookup(params, self.greeting.silenced).and_then(json::elements);
        let mut greeting = Greeting {
            experimental: json::lookup(params, self.greeting.experimental) == Some(b"true"),
            ..Greeting::default()
        };
        for method in silenced.into_iter().flatten().map_while(Result::ok).filter_map(json::text) {
            greeting.hides_completed |= method == self.completed;
            greeting.hides_status |= method == self.status_changed;
            greeting.hides_items |= method == self.items.completed;
            greeting.hides_exits |= method == self.processes.exited;
        }
        greeting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::codex::APP_SERVER;

    /// CDX-13, CDX-18.
    #[test]
    fn a_greeting_is_read_as_it_is_written() {
        let form = APP_SERVER.threads.unwrap();
        let read = |params: &str| form.greeting(params.as_bytes());
        assert_eq!(read(r#"{"clientInfo":{},"capabilities":null}"#), Greeting::default());
        assert_eq!(
            read(r#"{"capabilities":{"experimentalApi":"true","optOutNotificationMethods":7}}"#),
            Greeting::default()
        );
        let silenced = r#"{"capabilities":{"experimentalApi":true,"optOutNotificationMethods":[1,"turn\/completed","turn/start"]}}"#;
        let expected = Greeting { experimental: true, hides_completed: true, ..Greeting::default() };
        assert_eq!(read(silenced), expected);
        let ends = r#"{"capabilities":{"optOutNotificationMethods":["item/completed","process/exited","item/*"]}}"#;
        assert_eq!(read(ends), Greeting { hides_items: true, hides_exits: true, ..Greeting::default() });
        let both = r#"{"capabilities":{"optOutNotificationMethods":["thread/status/changed","turn/completed"]}}"#;
        assert!(read(both).hides_ends() && !read(silenced).hides_ends());
    }
}
