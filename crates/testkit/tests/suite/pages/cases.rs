//! `docs/proof/cases.md`: which test shows which case of the catalogue.
//!
//! `just pages` writes it anew.

use std::{collections::BTreeMap, env, fmt::Write as _, fs};

use super::sources::{self, Test};

const WRITE: &str = "RESCIND_WRITE_PAGES";

/// Every case of the catalogue in a few words. They are numbered from 1.
const CASES: [(u32, &str); 79] = [
    (1, "a cancelled handler stops; nothing is written (MCP), or exactly one answer (ACP, LSP)"),
    (2, "a handler that swallows the cancel and returns normally"),
    (3, "a handler that fails after the cancel"),
    (4, "a handler that ends as cancelled although nobody cancelled it"),
    (5, "a cancel of an id that was never seen"),
    (6, "a cancel of an id that was answered"),
    (7, "a malformed cancel"),
    (8, "observers see every cancel; filters veto or rewrite one"),
    (9, "ids that look alike are different: 0, \"\", 5 and \"5\", integers beyond 2^53, long strings"),
    (10, "an id that is in flight already"),
    (11, "an id used again, after its answer or while the cancelled handler unwinds"),
    (12, "a cancel in the same read as its request"),
    (13, "a cancel of a request in the queue: it never starts"),
    (14, "a slot is free when its handler has ended; a flood runs no more handlers than the bound"),
    (15, "cancels and answers pass a saturated server"),
    (16, "`initialize` is not cancelled, in neither direction"),
    (17, "one of two requests is cancelled, the other returns"),
    (18, "new requests are served after a cancel"),
    (19, "a cancel that lands while the answer is being written"),
    (20, "a shutdown with requests in flight"),
    (21, "handlers, observers and filters that panic"),
    (22, "a cancel before its request sticks to it; a late one sticks to nothing"),
    (23, "cancelled before the call was made: nothing is written"),
    (24, "cancelled while the pipe is blocked: both are written, in order, or neither"),
    (25, "cancelled after the request was written: exactly one cancel"),
    (26, "the answer wins: no cancel"),
    (27, "a timeout: one cancel, and an error of its own for the caller"),
    (28, "the caller's cancel beats the timeout"),
    (29, "a default timeout, and one of a call's own"),
    (30, "progress restarts the response clock if asked to, and never the total"),
    (31, "the total timeout needs no progress to run out"),
    (32, "late answers, errors and progress are quiet and counted"),
    (33, "a peer that reads nothing holds up no clock"),
    (34, "a token shared by many calls gathers no listeners"),
    (35, "all tables are empty in the end, however calls ended"),
    (36, "a caller's words reach the wire, words derived from errors never"),
    (37, "dropping any handle sends exactly one cancel; detaching sends none"),
    (38, "what a cancelled handler asked for is cancelled too, and stops at the far end"),
    (39, "only that subtree is"),
    (40, "over three hops and two protocols"),
    (41, "through a linked task"),
    (42, "a child has no more time than its parent"),
    (43, "`session/cancel` closes what the turn has open, and the prompt says `cancelled`"),
    (44, "the end of a parent's connection cancels its children"),
    (45, "a disconnect cancels (2026-07-28), or does not (earlier revisions), over HTTP"),
    (46, "a cancel by POST reaches the stream that runs its request, and that stream ends"),
    (47, "a session that is deleted cancels its requests"),
    (48, "a cancel before the headers of its response, and after"),
    (49, "nothing reconnects after a cancel, and no cancelled stream is resumed"),
    (50, "another session's cancel with the same id touches nothing"),
    (51, "of a batch only the named member is cancelled"),
    (52, "a cancel of a task stops its work, and that of no other"),
    (53, "a late completion does not overwrite `cancelled`"),
    (54, "a cancel of a task that has ended, per dialect"),
    (55, "a task that does not exist"),
    (56, "`notifications/cancelled` does not cancel a task"),
    (57, "of a concurrent cancel and completion exactly one wins"),
    (58, "a cancel of a task that waits for input"),
    (59, "a cancel before the task's id was delivered: no orphan"),
    (60, "the process restarts: tasks are still there, and no interrupted one stays `working`"),
    (61, "a relay gives each hop its own ids, and tunnels no cancel"),
    (62, "late answers and late progress are swallowed"),
    (63, "a server that keeps silent, under a dialect that owes an answer: the relay answers"),
    (64, "a server that answers, under a dialect of silence: the answer is swallowed"),
    (65, "a server that dies: all that is in flight is answered with an error"),
    (66, "a server that answers with an id of another type"),
    (67, "a server that answers a notification with an error that names no request"),
    (68, "one request for several servers, and one for several equal requests"),
    (69, "a cancel beside a long message passes what has not begun, and waits for no more than what has"),
    (70, "what is none of the relay's business passes byte for byte"),
    (71, "the capability of the proposal of 2025-11-13, in each of its scenarios"),
    (72, "what a handler owns is gone before it is reported stopped"),
    (73, "a caller wakes after the notifications that preceded its answer"),
    (74, "a peer that floods and never reads costs bounded memory"),
    (75, "a repeated or escaped member of the envelope is refused"),
    (76, "an escaped id is the same id"),
    (77, "a dropped prompt sends one `session/cancel` and nothing else"),
    (78, "a server that answers and exits at once loses no answer in the relay"),
    (79, "a relay that is killed leaves nothing of its server behind"),
];

/// Whose tests observe a case whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Observer {
    /// Handlers, tasks and processes of an endpoint.
    Endpoint,
    /// A store of tasks, which outlives endpoints.
    Store,
    /// Real processes with the shim between them, or `rescind serve`.
    Shim,
    /// None: what the case is about is not built yet.
    NotBuilt,
}

fn observer(case: u32) -> Observer {
    match case {
        68 => Observer::NotBuilt,
        52..=60 => Observer::Store,
        45..=50 | 61..=70 | 78 | 79 => Observer::Shim,
        _ => Observer::Endpoint,
    }
}

/// Names of dialects in the source of a test, and in the page.
const DIALECTS: [(&str, &str); 11] = [
    ("REVISION_2024_11_05", "MCP 2024-11-05"),
    ("REVISION_2025_03_26", "MCP 2025-03-26"),
    ("REVISION_2025_06_18", "MCP 2025-06-18"),
    ("REVISION_2025_11_25", "MCP 2025-11-25"),
    ("LATEST_LEGACY", "MCP 2025-11-25"),
    ("REVISION_2026_07_28", "MCP 2026-07-28"),
    ("LATEST", "MCP 2026-07-28"),
    ("V1", "ACP v1"),
    ("V2_DRAFT", "ACP v2"),
    ("RFD_2025_11_13", "ACP RFD"),
    ("LSP", "LSP"),
];

#[test]
fn the_page_of_cases_is_up_to_date() {
    let (path, text) = (sources::page("proof/cases.md"), page(&sources::tests()));
    if env::var_os(WRITE).is_some() {
        fs::write(path, text).unwrap();
    } else {
        let found = fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == text,
            "docs/proof/cases.md is out of date: `just pages`, or {WRITE}=1 cargo test -p rescind-testkit --test suite pages::"
        );
    }
}

#[test]
fn every_case_that_is_built_has_a_test_that_observes_it_whole() {
    let by_case = by_case(&sources::tests());
    let shown = |case: u32| {
        let folder = match observer(case) {
            Observer::Endpoint => "`rescind/",
            Observer::Store => "`tasks/",
            Observer::Shim => "`cli/",
            Observer::NotBuilt => return true,
        };
        by_case.get(&case).is_some_and(|tests| tests.iter().any(|it| it.starts_with(folder)))
    };
    let missing: Vec<_> = CASES.iter().map(|(case, _)| *case).filter(|case| !shown(*case)).collect();
    assert_eq!(missing, [0; 0]);
}

#[test]
fn the_page_has_every_case_and_a_test_names_no_other() {
    assert!(CASES.iter().map(|(case, _)| *case).eq(1..=79));
    let unknown: Vec<_> = by_case(&sources::tests()).into_keys().filter(|case| !(1..=79).contains(case)).collect();
    assert_eq!(unknown, [0; 0]);
}

/// What stands in brackets on the page is run.
#[test]
fn a_test_of_a_case_skips_none_of_the_dialects_that_it_names() {
    let skips = |test: &&Test| {
        let passes_over = ["continue;", "DIALECTS.into_iter().skip(", "DIALECTS[", "filter(|dialect|"];
        !cases(&test.comment).is_empty() && passes_over.iter().any(|way| test.body.contains(way))
    };
    let tests = sources::tests();
    let skipping = tests.iter().filter(skips).filter(|test| !dialects(test).is_empty());
    let skipping: Vec<_> = skipping.map(|test| format!("{}::{}", test.file, test.name)).collect();
    assert_eq!(skipping, [""; 0]);
}

fn page(tests: &[Test]) -> String {
    let by_case = by_case(tests);
    let mut page = String::from(
        "# Cases, and the tests that show them\n\n\
         Behaviours collected from the test suites and bug trackers of the field. \
         Written by a test from the comments of tests, `Case 12, 22.`: \
         `just pages`. Files are those of `crates/*/tests/suite`: `rescind` observes \
         handlers, tasks and processes of whole endpoints, `tasks` the stores and state machine of tasks, \
         `proto` the engine, `http` its machines of HTTP and endpoints on sockets, `cli` real processes. \
         In brackets: the dialects that the test itself names, each of which it runs. \
         A case that is not built yet may have tests all the same: they show the engine's part.\n",
    );
    for (case, words) in CASES {
        let built = if observer(case) == Observer::NotBuilt { " (not built yet)" } else { "" };
        write!(page, "\n**{case}** {words}{built}\n\n").unwrap();
        match by_case.get(&case) {
            Some(tests) => tests.iter().for_each(|test| writeln!(page, "- {test}").unwrap()),
            None if observer(case) == Observer::NotBuilt => page.push_str("- no test\n"),
            None => page.push_str("- **no test**\n"),
        }
    }
    page
}

/// What shows each case, in the words of the page.
fn by_case(tests: &[Test]) -> BTreeMap<u32, Vec<String>> {
    let mut by_case = BTreeMap::<_, Vec<_>>::new();
    for test in tests {
        let dialects = dialects(test);
        let spoken = if dialects.is_empty() { String::new() } else { format!(" ({})", dialects.join(", ")) };
        for case in cases(&test.comment) {
            by_case.entry(case).or_default().push(format!("`{}::{}`{spoken}", test.file, test.name));
        }
    }
    by_case
}

/// `Case 12, 22.`, `Cases 30 and 31, MCP-T05.`: up to the first word that is no number.
fn cases(comment: &str) -> Vec<u32> {
    let Some(rest) = comment.strip_prefix("Cases ").or_else(|| comment.strip_prefix("Case ")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for word in rest.split_whitespace().filter(|word| *word != "and") {
        let Ok(case) = word.trim_end_matches([',', '.', ':']).parse() else { break };
        found.push(case);
        if !word.ends_with(',') && word.ends_with(['.', ':']) {
            break;
        }
    }
    found
}

fn dialects(test: &Test) -> Vec<&'static str> {
    let mut source = test.body.clone();
    for (name, list) in &test.lists {
        if words(&test.body).any(|word| word == name) {
            source.push_str(list);
        }
    }
    if source.contains("Dialect::ALL") {
        return vec!["every dialect"];
    }
    let named = |name: &str| words(&source).any(|word| word == name);
    let mut found: Vec<_> = DIALECTS.iter().filter(|(name, _)| named(name)).map(|(_, words)| *words).collect();
    found.dedup();
    found
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn comments_are_read_up_to_what_is_no_case() {
    assert_eq!(cases("Case 12, 22. "), [12, 22]);
    assert_eq!(cases("Cases 30 and 31, MCP-T05. "), [30, 31]);
    assert_eq!(cases("Case 26: 5 ids. "), [26]);
    assert_eq!(cases("Case 43, the client's side. "), [43]);
    assert_eq!(cases("D22. "), [0; 0]);
}
