//! The report for people.

use std::io::{self, Write};

use rescind_wrap::{
    outside::{Outside, OutsideKind},
    patience::Patience,
    verdict::Verdict,
};

use super::{
    report::{FileReport, PatienceReport, ProgramState, Report, ServerReport, ServerState},
    sharing::SharingReport,
};
use crate::{
    screen::{Screen, Tone, clean},
    wrap::{files::SHARED, shown},
};

pub(super) fn print(report: &Report) -> io::Result<()> {
    let screen = Screen::now();
    let mut stdout = io::stdout().lock();
    for (line, tone) in lines(report) {
        writeln!(stdout, "{}", screen.painted(&line, tone))?;
    }
    Ok(())
}

fn lines(report: &Report) -> Vec<(String, Tone)> {
    let Report { program, files, outside, sharing, patience, journal, .. } = report;
    let mut lines = vec![(format!("rescind {}  {}", program.version, clean(&program.path)), Tone::Plain)];
    match (program.temporary, &program.copy) {
        (Some(temporary), Some(copy)) => {
            let (call, copy) = (&program.call, shown(copy));
            lines
                .push((format!("  it is in {temporary}: `{call} wrap` puts a copy that stays in {copy}"), Tone::Plain));
        }
        (Some(temporary), None) => {
            lines.push((format!("  install it before you wrap: it is in {temporary}, and will not stay"), Tone::Alarm));
        }
        (None, _) => {}
    }
    if files.is_empty() {
        lines.push(("no file of any client was found".into(), Tone::Plain));
    }
    lines.extend(files.iter().flat_map(of_file));
    if !outside.is_empty() {
        lines.push(("\nServers without a file that `rescind wrap` changes".into(), Tone::Plain));
        lines.extend(outside.iter().flat_map(of_outside));
    }
    if !sharing.is_empty() {
        lines.push(("\nServers that several clients have".into(), Tone::Plain));
        lines.extend(sharing.iter().map(|one| of_sharing(one, &program.call)));
    }
    if !patience.is_empty() {
        lines.push(("\nHow long these clients wait for a call".into(), Tone::Plain));
        lines.extend(patience.iter().flat_map(of_patience));
    }
    let name = shown(&journal.path);
    for file in &journal.gone {
        let gone = format!("{name} tells of {}, which is gone; `rescind unwrap --all` forgets it", shown(file));
        lines.push((gone, Tone::Notice));
    }
    if journal.in_use {
        lines.push((format!("{name} is in use by a `rescind wrap` or `unwrap` that has not ended"), Tone::Notice));
    }
    if let Some(problem) = &journal.problem {
        lines.push((format!("{name} cannot be read: {problem}"), Tone::Alarm));
    }
    lines.extend(summary(report));
    lines
}

/// What to do first, how much wants attention, and how many servers have the shim.
fn summary(report: &Report) -> [(String, Tone); 3] {
    let (verdict, tone) = match (report.attention, report.unreadable) {
        (0, 0) => ("all is well".into(), Tone::Plain),
        (attention, 0) => (format!("wants attention: {attention}"), Tone::Notice),
        (attention, unreadable) => (format!("wants attention: {attention}, cannot be read: {unreadable}"), Tone::Alarm),
    };
    let servers = report.files.iter().flat_map(|file| &file.servers);
    let wrapped = servers.clone().filter(|server| server.state != ServerState::NotWrapped).count();
    let (all, files) = (servers.count(), report.files.len());
    let remedy = remedy(report).unwrap_or_else(|| "there is nothing to do".into());
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    let counts = format!("{wrapped} of {all} servers in {files} have the shim");
    [(format!("\n{remedy}"), tone), (verdict, tone), (counts, Tone::Plain)]
}

/// What to do first: what cannot be read, then what wants attention, then servers without the shim.
fn remedy(report: &Report) -> Option<String> {
    let Report { program, files, outside, journal, .. } = report;
    let unreadable = files.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let elsewhere = outside.iter().filter_map(|one| Some((&one.path, one.problem.as_ref()?)));
    if let Some((path, problem)) = unreadable.chain(elsewhere).next() {
        return Some(format!("first: mend {}: {}", shown(path), clean(problem)));
    }
    if let Some(temporary) = program.temporary.filter(|_| program.copy.is_none()) {
        return Some(format!("first: install rescind, for this one is in {temporary} and will not stay"));
    }
    let servers = files.iter().flat_map(|file| file.servers.iter().map(move |server| (file, server)));
    let wanting = servers.clone().find_map(|(file, server)| Some((file, server, server.attention.as_ref()?)));
    if let Some((file, server, attention)) = wanting {
        return Some(format!("first: {} in {}: {attention}", clean(&server.name), shown(&file.path)));
    }
    if let Some((file, refused)) = files.iter().find_map(|file| Some((file, file.refused.first()?))) {
        return Some(format!("first: mend {}: it {refused}", shown(&file.path)));
    }
    if let Some(leftover) = files.iter().find_map(|file| file.leftover.as_ref()) {
        return Some(format!("first: remove {}", shown(leftover)));
    }
    if let Some(problem) = &journal.problem {
        return Some(format!("first: mend {}: {problem}", shown(&journal.path)));
    }
    if journal.in_use {
        return Some("first: wait until the `rescind wrap` or `unwrap` that runs has ended".into());
    }
    if !journal.gone.is_empty() {
        return Some("first: `rescind unwrap --all`, which forgets files that are gone".into());
    }
    let bare = Verdict::Bare.to_string();
    let count = servers.filter(|(file, server)| !file.shared && server.why == bare).count();
    match count {
        0 => None,
        1 => Some("next: `rescind wrap` puts the shim before 1 server that has none".into()),
        _ => Some(format!("next: `rescind wrap` puts the shim before {count} servers that have none")),
    }
}

fn of_file(file: &FileReport) -> Vec<(String, Tone)> {
    let path = shown(&file.path);
    let heading = match file.client_name {
        Some(client) => format!("\n{client}  {path}"),
        None => format!("\n{path}"),
    };
    let mut lines = vec![(heading, Tone::Plain)];
    if file.shared {
        lines.push((format!("  {}", SHARED), Tone::Faint));
    }
    if let Some(problem) = &file.problem {
        lines.push((format!("  cannot be read: {}", clean(problem)), Tone::Alarm));
    }
    lines.extend(file.refused.iter().map(|refused| (format!("  this file {}", clean(refused)), Tone::Notice)));
    if let Some(leftover) = &file.leftover {
        let left = format!("  {} was left by a `rescind wrap` that was ended; remove it", shown(leftover));
        lines.push((left, Tone::Notice));
    }
    lines.extend(file.servers.iter().map(of_server));
    lines
}

fn of_server(server: &ServerReport) -> (String, Tone) {
    let name = clean(&server.name);
    let off = if server.disabled { ", switched off" } else { "" };
    let line = |state: &str, words: &str| format!("  {state:<11} {name:<20} {words}{off}");
    if let Some(attention) = &server.attention {
        return (line("attention", attention), Tone::Notice);
    }
    let by = server.program.as_ref().map(|program| {
        let path = clean(&program.path);
        match program.state {
            ProgramState::This => format!("by this program, {path}"),
            ProgramState::SameVersion => format!("by {path}, which is the same version"),
            ProgramState::NotAsked => format!("by {path}, which was not run"),
            ProgramState::OtherVersion
            | ProgramState::Missing
            | ProgramState::NotExecutable
            | ProgramState::NoAnswer => path,
        }
    });
    match server.state {
        ServerState::Wrapped => (line("wrapped", &by.unwrap_or_default()), Tone::Plain),
        ServerState::WrappedByHand => (line("wrapped", &server.why), Tone::Plain),
        ServerState::NotWrapped => (line("not wrapped", &server.why), Tone::Faint),
    }
}

fn of_outside(one: &Outside) -> Vec<(String, Tone)> {
    let Outside { kind, client, name, path, servers, problem } = one;
    let what = match *kind {
        OutsideKind::List => "lists in",
        OutsideKind::Managed => "managed by an administrator:",
        OutsideKind::Settings => "in the settings of",
        kind @ (OutsideKind::Extension | OutsideKind::Plugin | _) => kind.as_str(),
    };
    let servers = if servers.is_empty() { String::new() } else { format!("  [{}]", clean(&servers.join(", "))) };
    let mut lines = vec![(format!("  {client} {what} {}{servers}  {}", clean(name), shown(path)), Tone::Plain)];
    if *kind == OutsideKind::Settings {
        let way = "Settings | Tools | AI Assistant | Model Context Protocol (MCP)";
        lines.push((
            format!("    by hand, in {way}: rescind as the command, `run` and the old command before the arguments"),
            Tone::Faint,
        ));
    }
    if let Some(problem) = problem {
        lines.push((format!("    cannot be read: {}", clean(problem)), Tone::Alarm));
    }
    lines
}

fn of_sharing(one: &SharingReport, call: &str) -> (String, Tone) {
    let SharingReport { name, shared_by, started_by, saves } = one;
    let (name, wrap) = (clean(name), format!("`{call} wrap --shared {}`", clean(name)));
    let saves = saves.map(|bytes| format!(", and saves about {} now", megabytes(bytes))).unwrap_or_default();
    let words = match (&*shared_by.join(", "), &**started_by) {
        (shared, []) => format!("one for {shared}"),
        ("", all) => format!("{} start one each; {wrap} has them share one{saves}", all.join(", ")),
        (shared, [one]) => format!("one for {shared}; {one} starts its own, and {wrap} has it join{saves}"),
        (shared, more) => {
            format!("one for {shared}; {} start one each, and {wrap} has them join{saves}", more.join(", "))
        }
    };
    (format!("  {name}: {words}"), Tone::Plain)
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

fn of_patience(one: &PatienceReport) -> Vec<(String, Tone)> {
    let PatienceReport { client_name, known: Patience { waits, on_timeout, on_stop, set, .. } } = one;
    let tone = if one.known.is_silent() { Tone::Notice } else { Tone::Plain };
    let (on_timeout, on_stop) = (on_timeout.as_str(), on_stop.as_str());
    vec![
        (format!("  {client_name}: {waits}"), Tone::Plain),
        (format!("    then sends: {on_timeout}; stopped by its user, sends: {on_stop}; set: {set}"), tone),
    ]
}
