//! The report for people.

use std::io::{self, Write};

use rescind_wrap::{
    outside::{Outside, OutsideKind},
    patience::Patience,
};

use super::report::{FileReport, PatienceReport, ProgramState, Report, ServerReport, ServerState};
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
    let Report { program, files, outside, patience, journal, attention, unreadable, .. } = report;
    let mut lines = vec![(format!("rescind {}  {}", program.version, clean(&program.path)), Tone::Plain)];
    if let Some(temporary) = program.temporary {
        lines.push((format!("  it is in {temporary}, and will not stay: install it before you wrap"), Tone::Alarm));
    }
    if files.is_empty() {
        lines.push(("no file of any client was found".into(), Tone::Plain));
    }
    lines.extend(files.iter().flat_map(of_file));
    if !outside.is_empty() {
        lines.push(("\nServers without a file that `rescind wrap` changes".into(), Tone::Plain));
        lines.extend(outside.iter().flat_map(of_outside));
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
    let verdict = match (attention, unreadable) {
        (0, 0) => ("all is well".into(), Tone::Plain),
        (attention, 0) => (format!("wants attention: {attention}"), Tone::Notice),
        (attention, unreadable) => (format!("wants attention: {attention}, cannot be read: {unreadable}"), Tone::Alarm),
    };
    lines.push((format!("\n{}", verdict.0), verdict.1));
    lines
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
        kind @ (OutsideKind::Extension | OutsideKind::Plugin | _) => kind.as_str(),
    };
    let servers = if servers.is_empty() { String::new() } else { format!("  [{}]", clean(&servers.join(", "))) };
    let mut lines = vec![(format!("  {client} {what} {}{servers}  {}", clean(name), shown(path)), Tone::Plain)];
    if let Some(problem) = problem {
        lines.push((format!("    cannot be read: {}", clean(problem)), Tone::Alarm));
    }
    lines
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
