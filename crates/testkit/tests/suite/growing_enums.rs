//! A public enum of a published crate can grow without breaking a program that uses it (`#[non_exhaustive]`), or has a
//! reason of its own not to: all of its values are known for good, or a program that leaves one out is wrong.

use std::{collections::BTreeMap, fs, path::Path};

use crate::source::{rust_files, tokens};

/// Crate, enum, and why a program may rely on its having no further values.
const COMPLETE: &[(&str, &str, &str)] = &[
    (
        "operator",
        "FollowEvent",
        "whoever follows sessions must treat the list and each update, or shows what is no longer true",
    ),
    ("operator", "SessionUpdate", "an event that came and a link that was lost are all that following can bring"),
    ("demo", "Role", "the demo's picture has these four processes, and each is started by its word"),
    ("feed", "Answer", "JSON-RPC answers with a result or with an error"),
    ("feed", "Side", "a link has two sides, and each request comes from one of them"),
    ("feed", "WorkStatus", "whatever shows it must have a sign for each"),
    ("http", "HttpClientEvent", "a driver of the client that left one out would leave a stream open"),
    ("http", "HttpServerEvent", "a driver of the server that left one out would leave a client waiting"),
    ("http", "ReplyBody", "a body that a driver did not know could not be written"),
    ("http", "BodyChunk", "a body of events goes on, waits or is over"),
    ("http", "LinkInput", "a program that was not given one of them would miss a message or a cancel"),
    ("ledger", "Began", "what shows it must have words for each"),
    ("ledger", "Role", "a process is of a request, of what that has opened, or of neither"),
    ("ledger", "Standing", "a session runs or it has ended"),
    ("ledger", "What", "each is ended in its own way, and what is listed must be possible to end"),
    ("parts", "Ring", "what is over may still be answered or not"),
    ("proto", "CancelReply", "a cancelled request is answered once or not at all"),
    ("proto", "Cancellers", "both sides cancel or the client alone: no protocol lets only a server cancel"),
    ("proto", "Disconnect", "work outlives its connection or it does not"),
    ("proto", "Discovered", "a server has sessions or it has none"),
    ("proto", "ArgumentsView", "something of the params is kept or nothing is"),
    ("proto", "IdReuse", "an id is free again after its answer or never"),
    ("proto", "Answer", "an answer is a result or an error, as JSON-RPC has it"),
    ("proto", "Side", "there are two sides, and code for one is code for the other"),
    ("proto", "RequestState", "a request is written, answered and over; what shows it must have a word for each state"),
    ("proto", "WelcomeNews", "a driver that left one out would take a server for another than it is"),
    ("proto", "RelayEvent", "a recording that left one out could not be replayed"),
    (
        "proto",
        "Settled",
        "the other side's answer, one of the relay's, silence and no reader are all that a requester can be given",
    ),
    ("proto", "TaskNews", "a request becomes a task and that may reach nobody: a log names both"),
    ("proto", "StuckSign", "work shows that it goes on by speaking, or by not answering where it must"),
    ("proto", "Hop", "a frame is read or it is written"),
    ("proto", "Clock", "one clock is moved by progress and one is not (D16); the deadline ends as the second"),
    ("proto", "LateKind", "JSON-RPC has answers and notifications, and both kinds of each are told apart"),
    ("proto", "MonitorEvent", "a reader of a recording that left one out would show another session than there was"),
    (
        "proto",
        "ConnectionEvent",
        "a driver that left one out would break a promise: a handler not stopped, a caller not woken",
    ),
    ("proto", "Settlement", "a caller is told how its request ended, in words of its own for each end"),
    ("proto", "Reply", "a handler answers with a result or an error; a program writes it and never reads it"),
    ("proto", "HandlerEnd", "a program says how its handler ended and never reads it back"),
    ("proto", "Limit", "a setting is left alone, lifted or given"),
    ("rescind", "Elicited", "a person accepts, declines or closes the question, and a tool must decide about each"),
    ("tasks", "TaskOutcome", "each has its own form in each dialect of tasks (TASK-12, TASK-25)"),
    ("tasks", "Access", "a store that did not know who asks would have to let it pass or refuse it"),
    ("tasks", "Effect", "a store saves what changed and must know whether anything has"),
    ("tasks", "TaskSupport", "a tool's calls may be tasks or must be, and a tool without it has none"),
    ("proto", "ChildEnd", "the work of a child was cancelled, failed, or ended in another way"),
    ("proto", "ChildParent", "the parent of a child is a child or the session that a prompt stands for"),
    ("proto", "ChildState", "the work of a child goes on, is over, or is not known to be either"),
    ("proto", "TaskEnd", "a task was cancelled or it ended in another way"),
    ("proto", "TaskStatus", "the work of a task goes on, waits, is over, or is not known to be any of that"),
    ("wire", "MessageKind", "JSON-RPC has these messages, and one that does not say which it is"),
    ("wire", "Frame", "JSON-RPC has requests, notifications, responses and batches of them"),
    ("wire", "ResponseId", "a response names a request, or null, or has no id"),
    ("wire", "ResponseBody", "JSON-RPC has a result or an error in a response"),
    ("wire", "Malformed", "JSON-RPC has an error for what is no JSON and one for what is no message"),
    ("wire", "Framing", "the protocols of this workspace frame by lines or by headers, and a decoder knows both"),
    ("wire", "Chunk", "a reader that left one out would lose bytes without a word"),
    ("wire", "Leftover", "a reader that left one out would lose the end of an input without a word"),
    ("wire", "Mend", "a message is mended, is too long to be, or is not"),
    ("wire", "Piece", "what stands in a line is a message or it is noise"),
    ("wrap", "Kind", "a file lists servers, agents or language servers, and each is wrapped in its own way"),
    ("wrap", "Launch", "a change of a file that did not know how a server is reached would destroy its entry"),
    ("wrap", "Note", "a note that was not understood could not be undone, and a file would stay changed"),
    ("wrap", "Verdict", "a program that changes files must decide about each before it changes any"),
];

#[test]
fn a_public_enum_can_grow_or_says_why_it_never_will() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut growing = 0;
    for entry in fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        if fs::read_to_string(folder.join("Cargo.toml")).unwrap().contains("publish = false") {
            continue;
        }
        let package = folder.file_name().unwrap().to_str().unwrap().to_owned();
        for file in rust_files(&folder.join("src")) {
            for Declared { name, can_grow } in declared(&tokens(&fs::read_to_string(&file).unwrap())) {
                if can_grow {
                    growing += 1;
                } else {
                    *found.entry((package.clone(), name)).or_default() += 1;
                }
            }
        }
    }
    assert!(growing > 50, "only {growing} public enums can grow: are these the sources?");
    let mut listed: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (package, name, reason) in COMPLETE {
        assert!(reason.split(' ').count() > 4, "{package}: {name} has no reason");
        *listed.entry(((*package).to_owned(), (*name).to_owned())).or_default() += 1;
    }
    let missing: Vec<_> = found.iter().filter(|(key, count)| listed.get(*key) != Some(*count)).collect();
    let gone: Vec<_> = listed.iter().filter(|(key, count)| found.get(*key) != Some(*count)).collect();
    assert!(missing.is_empty(), "neither non_exhaustive nor listed with a reason: {missing:?}");
    assert!(gone.is_empty(), "listed, and there no more or non_exhaustive: {gone:?}");
    let reasons: BTreeMap<_, _> = COMPLETE.iter().map(|entry| (entry.2, entry)).collect();
    assert_eq!(reasons.len(), COMPLETE.len(), "each has a reason of its own");
}

#[test]
fn an_enum_is_found_however_it_is_written() {
    let cases = [
        ("pub enum A { B }", Some(false)),
        ("#[non_exhaustive] pub enum A { B }", Some(true)),
        (
            "#[derive(Clone, Copy)]\n#[non_exhaustive]\n/// Words.\n#[serde(tag = \"a\")]\npub enum A<'a> { B(&'a str) }",
            Some(true),
        ),
        ("#[derive(Clone)] #[serde(untagged)] pub enum A { B }", Some(false)),
        ("#[non_exhaustive] pub struct B { pub c: u8 } pub enum A { B }", Some(false)),
        ("#[non_exhaustive]\npub struct B;\n#[derive(Debug)]\npub enum A { B }", Some(false)),
        ("words! { /// Words.\n #[non_exhaustive] pub enum A { B = \"b\" } }", Some(true)),
        ("words! { pub enum A { B = \"b\" } }", Some(false)),
        ("macro_rules! m { ($a:ident) => { #[non_exhaustive] #[repr(u8)] pub enum A { $a } } }", Some(true)),
        ("pub mod b { pub enum A {} }", Some(false)),
        ("enum A { B } pub(crate) enum C { D } pub(super) enum E { F }", None),
        ("// pub enum A {}\nconst B: &str = \"pub enum A {}\";", None),
        ("#[cfg(test)] mod tests { pub enum A { B } }", None),
    ];
    for (source, expected) in cases {
        let found = declared(&tokens(source)).into_iter().map(|it| (it.name, it.can_grow)).collect::<Vec<_>>();
        let expected: Vec<_> = expected.map(|can_grow| ("A".to_owned(), can_grow)).into_iter().collect();
        assert_eq!(found, expected, "{source}");
    }
}

struct Declared {
    name: String,
    can_grow: bool,
}

/// The public enums of a file, those of its tests left out.
fn declared(tokens: &[String]) -> Vec<Declared> {
    let mut found = Vec::new();
    let is = |at: usize, wanted: &str| tokens.get(at).is_some_and(|token| token == wanted);
    let (mut at, mut can_grow) = (0, false);
    while at < tokens.len() {
        if is(at, "#") && is(at + 1, "[") {
            let end = closing(tokens, at + 1);
            let attribute = &tokens[at + 2..end];
            if attribute.join("") == "cfg(test)" {
                (at, can_grow) = (after_item(tokens, end + 1), false);
                continue;
            }
            can_grow |= attribute == ["non_exhaustive"];
            at = end + 1;
            continue;
        }
        if is(at, "pub") && is(at + 1, "enum") {
            found.extend(tokens.get(at + 2).map(|name| Declared { name: name.clone(), can_grow }));
        }
        // An attribute is that of the item that follows it.
        can_grow = false;
        at += 1;
    }
    found
}

/// Where the bracket that opens at `at` is closed.
fn closing(tokens: &[String], at: usize) -> usize {
    let mut depth = 0_u32;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return place;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Where the item that begins at `at` is over: after its block, or its semicolon.
fn after_item(tokens: &[String], at: usize) -> usize {
    let first = tokens.iter().enumerate().skip(at).find(|(_, token)| *token == "{" || *token == ";");
    first.map_or(tokens.len(), |(place, token)| if token == "{" { closing(tokens, place) + 1 } else { place + 1 })
}
