//! The catalogue of rules: every normative sentence about cancellation, by number.
//!
//! The numbers are stable: code, tests, receipts and recordings cite them. A
//! rule binds in the revisions it lists, at its level unless its text names
//! another level for one of them; a [`Level::Fact`] binds nobody and is true.

mod revisions;

use core::fmt;
use std::collections::BTreeMap;

words! {
    /// How binding a rule is, in the words of its source.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Level {
        /// An obligation.
        Must = "MUST",
        /// A prohibition.
        MustNot = "MUST NOT",
        /// A recommendation.
        Should = "SHOULD",
        /// A recommendation against.
        ShouldNot = "SHOULD NOT",
        /// A permission.
        May = "MAY",
        /// A statement without a level: how a code or a notification is used.
        Fact = "fact",
    }
}

/// Builds [`Rule`] and its one table, so that a rule is written in one place.
macro_rules! catalogue {
    ($($rule:ident $number:literal $level:ident ($($revisions:ident)+) $text:literal)+) => {
        /// A rule about cancellation, by the number that stands for it everywhere.
        ///
        /// `Display` uses the number: `MCP-C06`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = concat!($number, ": ", $text)] $rule,)+
        }

        impl Rule {
            /// Every rule, in the order of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$rule),+];
        }

        static ENTRIES: [Entry; Rule::ALL.len()] = [
            $(Entry {
                number: $number,
                level: Level::$level,
                revisions: &[$(revisions::$revisions),+],
                text: $text,
            }),+
        ];
    };
}

/// How often one party broke which rules: nothing is kept of rules that it kept.
pub type Violations = BTreeMap<Rule, u64>;

struct Entry {
    number: &'static str,
    level: Level,
    revisions: &'static [&'static [&'static str]],
    text: &'static str,
}

catalogue! {
    McpC01 "MCP-C01" Must (MCP)
        "A cancel names only a request that its sender issued itself, in the same direction (2026-07-28: that the client issued)."
    McpC02 "MCP-C02" Must (MCP)
        "A cancel names only a request that its sender believes to be still in progress."
    McpC03 "MCP-C03" MustNot (MCP_LEGACY)
        "A client never cancels `initialize`, neither by choice nor by timeout."
    McpC04 "MCP-C04" Should (MCP)
        "The receiver of a cancel stops processing the request."
    McpC05 "MCP-C05" Should (MCP)
        "The receiver of a cancel frees what the request held."
    McpC06 "MCP-C06" ShouldNot (MCP)
        "The receiver of a cancel sends no response for the cancelled request (2026-07-28: MCP-H04 makes it MUST NOT)."
    McpC07 "MCP-C07" May (MCP)
        "The receiver ignores a cancel whose request is unknown, already completed or cannot be cancelled."
    McpC08 "MCP-C08" Should (MCP)
        "The sender of a cancel ignores a response that arrives afterwards."
    McpC09 "MCP-C09" Must (MCP)
        "Both sides handle the races: a cancel after completion, a cancel that crosses the response."
    McpC10 "MCP-C10" Should (MCP)
        "Both sides log the reason of a cancel."
    McpC11 "MCP-C11" Should (MCP)
        "A user interface shows that cancellation was requested."
    McpC12 "MCP-C12" Should (MCP)
        "Invalid cancels are ignored: unknown id, completed request, malformed notification."
    McpC13 "MCP-C13" Must (MCP_2025_11_25 TASKS_EXTENSION)
        "A request run as a task is cancelled with `tasks/cancel`, never with `notifications/cancelled`."
    McpC14 "MCP-C14" Should (MCP_2024_11_05)
        "Servers put time limits on long operations (the first text of 2024-11-05 only)."
    McpC15 "MCP-C15" Should (MCP_2024_11_05)
        "Clients keep track of which pending requests can be cancelled (the first text of 2024-11-05 only)."

    McpT01 "MCP-T01" Should (MCP)
        "Every request sent has a timeout."
    McpT02 "MCP-T02" Should (MCP_FROM_2025_03_26)
        "On a timeout the sender issues the cancel and stops waiting (never for `initialize`: MCP-C03)."
    McpT03 "MCP-T03" Should (MCP_FROM_2025_03_26)
        "SDKs and middleware let the timeout be set per request."
    McpT04 "MCP-T04" May (MCP_FROM_2025_03_26)
        "Progress for a request restarts its timeout."
    McpT05 "MCP-T05" Should (MCP_FROM_2025_03_26)
        "A maximum is enforced whatever progress arrives."
    McpT06 "MCP-T06" Should (MCP)
        "Clients put timeouts on tool calls."

    McpP00 "MCP-P00" Must (MCP)
        "A progress token is a string or an integer, unique among all active requests."
    McpP01 "MCP-P01" Must (MCP)
        "Progress names only the token of an active request (2025-11-25: or of a task that has not ended)."
    McpP02 "MCP-P02" Must (MCP)
        "Progress values increase."
    McpP03 "MCP-P03" Must (MCP)
        "Progress stops when the request completes or is cancelled."

    McpH01 "MCP-H01" ShouldNot (MCP_SESSIONS)
        "A server does not take an HTTP disconnect for a cancel; the stream may be resumed."
    McpH02 "MCP-H02" Should (MCP_SESSIONS)
        "To cancel, a client POSTs `notifications/cancelled` in the session; accepted it MUST get 202 without a body, else an HTTP error."
    McpH03 "MCP-H03" Must (MCP_2026_07_28)
        "Over HTTP closing the response stream is the cancel: a server takes any disconnect for one and awaits no notification."
    McpH04 "MCP-H04" MustNot (MCP_2026_07_28)
        "The server sends nothing further for a cancelled request, progress and logging included."
    McpH05 "MCP-H05" Fact (MCP_2026_07_28)
        "`notifications/cancelled` belongs to stdio: never POST it; one received over HTTP gets 202 or an HTTP error and cancels nothing."
    McpH06 "MCP-H06" Must (MCP_2026_07_28)
        "Over HTTP a broken response stream loses its request; the client issues it again under a new id, a listen too."
    McpH07 "MCP-H07" Must (MCP_2025_11_25)
        "The client respects `retry`; a server may close a connection without ending its stream; a message travels on one stream only."

    McpS01 "MCP-S01" Must (MCP_2026_07_28)
        "On stdio the client cancels with `notifications/cancelled`."
    McpS02 "MCP-S02" Should (MCP)
        "To shut down, the client closes the child's stdin, waits, sends SIGTERM, then SIGKILL; a 2026-07-28 server exits promptly at end of input."
    McpS03 "MCP-S03" ShouldNot (MCP_2026_07_28)
        "A client does not tie the life of a stdio server to one task, thread or conversation."

    McpM01 "MCP-M01" MustNot (MCP_2026_07_28)
        "A server sends no `notifications/cancelled`, except to end a `subscriptions/listen`."
    McpM02 "MCP-M02" Must (MCP_2026_07_28)
        "A server that ends a `subscriptions/listen` sends a cancel with its id on stdio or closes its stream on HTTP, and SHOULD first send the empty result."
    McpM03 "MCP-M03" MustNot (MCP_2026_07_28)
        "A server issues no request of its own."

    McpI01 "MCP-I01" MustNot (MCP)
        "No id is null; an id is a string or an integer."
    McpI02 "MCP-I02" MustNot (MCP_LEGACY)
        "No id is used twice by one side within a session."
    McpI03 "MCP-I03" MustNot (MCP_2026_07_28)
        "No id equals that of another request not yet answered; a cancelled request never is answered."

    McpB01 "MCP-B01" Must (MCP_2025_03_26)
        "Batches are accepted, though never with `initialize` in them; a cancel may stand in the same array as its request, even before it."

    Task01 "TASK-01" Must (MCP_2025_11_25)
        "A task starts as `working`, may alternate with `input_required`, and never leaves `completed`, `failed` or `cancelled`."
    Task02 "TASK-02" Must (MCP_2025_11_25)
        "`tasks/cancel` of a task that has ended is rejected with -32602."
    Task03 "TASK-03" Must (MCP_2025_11_25)
        "A valid `tasks/cancel` moves the task to `cancelled` before it is answered, and the answer is the task."
    Task04 "TASK-04" Must (MCP_2025_11_25)
        "A cancelled task stays `cancelled`, even if its work completes or fails later."
    Task05 "TASK-05" Should (MCP_2025_11_25)
        "The work of a cancelled task is stopped."
    Task06 "TASK-06" Must (MCP_2025_11_25)
        "`tasks/result` waits until the task has ended, `cancelled` included, then gives the result or error of the underlying request."
    Task07 "TASK-07" Must (MCP_2025_11_25 TASKS_EXTENSION)
        "An unknown task or bad cursor is answered -32602 (extension: MUST for `tasks/get`, SHOULD for update and cancel)."
    Task08 "TASK-08" Must (MCP_2025_11_25 TASKS_EXTENSION)
        "Task ids cannot be guessed where no authorization binds them (extension: ever), and tasks of others are rejected."
    Task09 "TASK-09" Must (MCP_2025_11_25)
        "Task responses carry `createdAt`, `lastUpdatedAt` and the actual `ttl`; after it the task may be deleted."
    Task10 "TASK-10" Must (MCP_2025_11_25)
        "Messages of a task name it in `_meta`, the `tasks/result` response too; `tasks/*` requests and status notifications SHOULD NOT."
    Task11 "TASK-11" Must (MCP_2025_11_25)
        "Task capabilities are exhaustive; a receiver without the one for a request ignores its task metadata, and so it is no task."
    Task12 "TASK-12" Should (MCP_2025_11_25)
        "A tool result with `isError: true` makes its task `failed` (the opposite of TASK-25)."
    Task20 "TASK-20" Must (TASKS_EXTENSION)
        "The extension has `tasks/get`, `tasks/update` and `tasks/cancel`; `tasks/result` and `tasks/list` are answered -32601."
    Task21 "TASK-21" Must (TASKS_EXTENSION)
        "`tasks/cancel` is answered with an empty acknowledgement; the task may still end otherwise."
    Task22 "TASK-22" Fact (TASKS_EXTENSION)
        "`tasks/cancel` of a task that has ended gets the same acknowledgement (the opposite of TASK-02)."
    Task23 "TASK-23" Must (TASKS_EXTENSION)
        "A task is durable before its handle is returned."
    Task24 "TASK-24" Must (TASKS_EXTENSION)
        "A client that did not declare the extension is answered -32021."
    Task25 "TASK-25" Must (TASKS_EXTENSION)
        "A tool result with `isError: true` makes its task `completed`; `failed` is for JSON-RPC errors (the opposite of TASK-12)."
    Task26 "TASK-26" Must (TASKS_EXTENSION)
        "Over HTTP a `tasks/*` request carries the header `Mcp-Name` with the task's id."
    Task27 "TASK-27" MustNot (TASKS_EXTENSION)
        "No handle goes to a request that did not declare the extension, and eras do not mix: no extension under 2025-11-25, no old forms after it."

    Acp01 "ACP-01" Must (ACP_V1 ACP_V2 ACP_RFD)
        "A cancelled request is still answered: its result, the method's own cancellation result where it has one, or error -32800."
    Acp02 "ACP-02" Must (ACP_RFD ACP_V1)
        "A cancel stops the request's activity and all that is nested in it (v1: MAY)."
    Acp03 "ACP-03" Must (ACP_V2 ACP_RFD)
        "A cancel that comes after the answer, or in v2 for an unknown id, is ignored; nothing is answered twice (RFD: should)."
    Acp04 "ACP-04" May (ACP_V1 ACP_V2)
        "Notifications still pending are sent before the answer to a cancelled request."
    Acp05 "ACP-05" Should (ACP)
        "A request cancelled from within (timeout, context limit, shutdown) is answered with the same -32800."
    Acp06 "ACP-06" May (ACP)
        "A party ignores a `$/` notification it does not support, and never answers one (RFD: once declared it MUST be handled)."
    Acp07 "ACP-07" Should (ACP_RFD)
        "A cancel is passed on to nested requests, the whole tree is cleaned up and every affected request is answered."
    Acp08 "ACP-08" Must (ACP_V1)
        "After `session/cancel` the client answers open permission requests `cancelled`; the agent sends its last updates, then answers the prompt `cancelled`."
    Acp09 "ACP-09" May (ACP_V1 ACP_RFD)
        "A cancelled request is answered with partial results (withdrawn in v2)."
    Acp10 "ACP-10" Must (ACP_V1)
        "`session/close` cancels as `session/cancel` does."
    Acp20 "ACP-20" Must (ACP_RFD)
        "A party that handles cancels declares `cancellation.request`; nobody sends a cancel to one that did not."
    Acp21 "ACP-21" MustNot (ACP_RFD)
        "Nothing is cancelled before capabilities were exchanged, and `initialize` never."
    Acp32 "ACP-32" MustNot (ACP_V1 ACP_V2)
        "A child has one parent for good: it is not announced elsewhere, nor below itself, and its id is no other session's."
    Acp33 "ACP-33" MustNot (ACP_V1 ACP_V2)
        "The client calls nothing on a child that the child's capabilities do not list now; cancel is all that there is."

    Lsp01 "LSP-01" Must (LSP)
        "A cancelled request is still answered, with a result (partial allowed) or an error; -32800 is advised."
    Lsp02 "LSP-02" Must (LSP)
        "An unknown request whose method starts with `$/` is answered -32601; such a notification may be ignored."
    Lsp03 "LSP-03" Fact (LSP)
        "-32802 is only for requests that support it, -32801 is content modified, -32803 is request failed; -32899 to -32800 is reserved."
    Lsp04 "LSP-04" May (LSP)
        "Partial results received before -32800 are used, marked incomplete; after any other error they should not be."
    Lsp05 "LSP-05" Fact (LSP)
        "Progress begun by the server is cancelled by `window/workDoneProgress/cancel`, progress begun by the client by cancelling its request."
    Lsp06 "LSP-06" MustNot (LSP)
        "Nothing is sent before the answer to `initialize` (bar a few server notifications), nor by the client after `shutdown` bar `exit`: no cancel either."
    Lsp07 "LSP-07" Fact (LSP)
        "-32800 means that the client cancelled; a server that stops by itself answers -32802 where supported, else -32803."
}

impl Rule {
    const fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }

    /// Its number, such as `MCP-C06`.
    #[must_use]
    pub const fn number(self) -> &'static str {
        self.entry().number
    }

    /// How binding it is, where its text does not say otherwise.
    #[must_use]
    pub const fn level(self) -> Level {
        self.entry().level
    }

    /// The names of the dialects whose texts state it, oldest first within a protocol. The tasks extension of MCP has one,
    /// too: `mcp-tasks-extension`.
    pub fn revisions(self) -> impl Iterator<Item = &'static str> {
        self.entry().revisions.iter().copied().flatten().copied()
    }

    /// What a party that keeps it does, in one line; prohibitions read as "no" and "never".
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.entry().text
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dialect::Dialect;

    #[test]
    fn a_rule_is_written_as_its_number() {
        for rule in Rule::ALL {
            assert_eq!(rule.to_string(), rule.number());
        }
    }

    #[test]
    fn no_number_and_no_text_stands_for_two_rules() {
        for (place, rule) in Rule::ALL.iter().enumerate() {
            for earlier in &Rule::ALL[..place] {
                assert_ne!(rule.number(), earlier.number());
                assert_ne!(rule.text(), earlier.text(), "{rule} and {earlier}");
            }
        }
    }

    #[test]
    fn a_level_is_written_as_specifications_write_it() {
        let levels = [Level::Must, Level::MustNot, Level::Should, Level::ShouldNot, Level::May, Level::Fact];
        assert_eq!(levels.map(Level::as_str), ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "fact"]);
        assert_eq!(Rule::McpC06.level().as_str(), "SHOULD NOT");
    }

    #[test]
    fn the_catalogue_is_complete() {
        let counts = [
            ("MCP-C", 15),
            ("MCP-T", 6),
            ("MCP-P", 4),
            ("MCP-H", 7),
            ("MCP-S", 3),
            ("MCP-M", 3),
            ("MCP-I", 3),
            ("MCP-B", 1),
            ("TASK-0", 9),
            ("TASK-1", 3),
            ("TASK-2", 8),
            ("ACP-0", 9),
            ("ACP-1", 1),
            ("ACP-2", 2),
            ("ACP-3", 2),
            ("LSP-", 7),
        ];
        for (prefix, count) in counts {
            let found = Rule::ALL.iter().filter(|rule| rule.number().starts_with(prefix)).count();
            assert_eq!(found, count, "{prefix}");
        }
        assert_eq!(Rule::ALL.len(), counts.iter().map(|(_, count)| count).sum::<usize>());
    }

    #[test]
    fn a_number_is_spelled_like_the_name_in_code() {
        for rule in Rule::ALL {
            assert_eq!(rule.number().replace('-', ""), format!("{rule:?}").to_uppercase());
        }
    }

    #[test]
    fn every_rule_is_stated_by_the_protocol_of_its_number() {
        for rule in Rule::ALL {
            let protocol = match rule.number().split('-').next().unwrap() {
                "MCP" | "TASK" => "mcp-",
                "ACP" => "acp-",
                _ => "lsp",
            };
            assert!(rule.revisions().count() > 0 && rule.revisions().all(|name| name.starts_with(protocol)), "{rule}");
        }
        assert_eq!(Rule::McpC03.revisions().collect::<Vec<_>>(), revisions::MCP_LEGACY);
        assert_eq!(Rule::McpC13.revisions().collect::<Vec<_>>(), ["mcp-2025-11-25", "mcp-tasks-extension"]);
    }

    #[test]
    fn every_dialect_is_a_revision_of_the_same_name() {
        let all: BTreeSet<&str> = Rule::ALL.iter().flat_map(|rule| rule.revisions()).collect();
        let dialects: BTreeSet<&str> = Dialect::ALL.iter().map(|dialect| dialect.name).collect();
        assert_eq!(all.difference(&dialects).collect::<Vec<_>>(), [&"mcp-tasks-extension"]);
        assert!(dialects.is_subset(&all));
    }

    #[test]
    fn every_text_is_one_sentence_on_one_line() {
        for rule in Rule::ALL {
            let text = rule.text();
            assert!(text.ends_with('.') && !text.contains('\n'), "{rule}: {text}");
            assert!(text.chars().count() <= 160, "{rule}: {} characters", text.chars().count());
        }
    }
}
