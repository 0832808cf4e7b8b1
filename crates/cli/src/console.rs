//! `rescind console [FILE…]`: serves the page of all shims.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use rescind_console::{AccessKey, Console, ConsoleSettings, Recording, RecordingError};
use rescind_operator::Directories;

use crate::{
    browser,
    completion::Completion,
    failure::Failure,
    fleet::{self, report},
    folders,
    interrupts::Interrupts,
    link::RECORDING_HINT,
    number,
    screen::clean,
};

/// The most recordings of one folder: the page lists no more sessions that have ended.
const MAX_OF_FOLDER: usize = 50;

/// Show all requests in flight on one page, with a button to cancel each.
///
/// Prints a link and, on a terminal, opens it in the browser. The link works once: it redirects to the page, whose address
/// contains a secret key. That address works until this command ends, and after a restart too if --key-file and --port
/// are given. The command listens on 127.0.0.1 only, and serves nobody who has neither the link nor the key.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Recordings (`rescind run --record`) to show instead of running sessions; of a folder, the newest 50
    #[arg(value_name = "FILE|FOLDER")]
    recordings: Vec<PathBuf>,

    /// The port to listen on; by default any free port
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        hide_default_value = true,
        value_parser = number::port,
        allow_hyphen_values = true
    )]
    port: u16,

    /// Do not open a browser
    #[arg(long)]
    no_open: bool,

    /// Keep the secret key in FILE (mode 0600, created if missing), so that the same key works after a restart. A scraper
    /// of /metrics sends it as `Authorization: Bearer KEY`
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

pub(crate) fn main(arguments: Arguments) -> Result<Completion, Failure> {
    fleet::block_on(serve(arguments)).map(|()| Completion::Whole)
}

async fn serve(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { recordings, port, no_open, key_file } = arguments;
    let directories = recordings.is_empty().then(Directories::of_this_user);
    directories.as_ref().map(fleet::scan).transpose()?;
    let key = match &key_file {
        Some(file) => AccessKey::from_file(file).map_err(|error| Failure::new(file.display(), &error, error.hint()))?,
        None => AccessKey::random().map_err(|error| Failure::new("rescind console", &error, error.hint()))?,
    };
    let recordings = open_all(&recordings)?;
    let history = directories.as_ref().and_then(|_| folders::history().ok());
    let console = Console::open(ConsoleSettings { port, key, directories, recordings, history }).await;
    let console = console.map_err(|error| {
        Failure::new(format_args!("--port {port}"), error, "choose another port, or omit --port for any free one")
    })?;
    let link = console.link();
    // The page is of use without a reader of stdout, too: a scraper has the key.
    let _ = writeln!(io::stdout(), "{link}");
    if !no_open && io::stdout().is_terminal() {
        // If there is none, the printed link remains.
        browser::open(&link);
    }
    let mut interrupts = Interrupts::listen("rescind console")?;
    tokio::select! {
        () = console.serve() => {}
        () = interrupts.recv() => {}
    }
    Ok(())
}

/// Opens each file as a session with the file's name, and adds a number to a name that is taken. Of a folder, the newest
/// recordings are opened, and what is none is left out.
fn open_all(paths: &[PathBuf]) -> Result<Vec<Recording>, Failure> {
    let mut taken = BTreeSet::new();
    let mut opened = Vec::new();
    for path in paths {
        let is_folder = path.is_dir();
        let files = if is_folder { in_folder(path)? } else { vec![path.clone()] };
        for file in files {
            let stem = plain(&file);
            let mut names = std::iter::once(stem.clone()).chain((2..).map(|n| format!("{stem}-{n}")));
            let Some(name) = names.find(|name| taken.insert(name.clone())) else { continue };
            match open_recording(&file, &name) {
                Ok(recording) => {
                    report_remarks(&file, &recording);
                    opened.push(recording);
                }
                Err(failure) if is_folder => {
                    report(&format!("note: {}: {}; left out", clean(&failure.input), failure.cause));
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(opened)
}

/// The recordings in a folder, by name and so by time; the newest, where there are more than the page shows.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: io::Error| Failure::new(folder.display(), error, "name a folder that you may read");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let hint = "name a folder that `rescind run --record` has written to";
        return Err(Failure::new(folder.display(), "has no recordings (*.jsonl)", hint));
    }
    let older = files.len().saturating_sub(MAX_OF_FOLDER);
    if older > 0 {
        report(&format!("note: {}: only the newest {MAX_OF_FOLDER} recordings are opened", folder.display()));
    }
    Ok(files.split_off(older))
}

/// Opens a recording as a session of this name.
pub(crate) fn open_recording(file: &Path, name: &str) -> Result<Recording, Failure> {
    Recording::open(file, name).map_err(|error| {
        let hint = match &error {
            RecordingError::Version(_) => "open it with the rescind that wrote it, or a newer one",
            RecordingError::Io(_) | RecordingError::NotARecording | _ => RECORDING_HINT,
        };
        Failure::new(file.display(), &error, hint)
    })
}

/// Says what is to be known of a recording.
pub(crate) fn report_remarks(file: &Path, recording: &Recording) {
    for remark in recording.remarks() {
        report(&format!("note: {}: {}", clean(&file.display().to_string()), clean(remark)));
    }
}

/// Turns a file's name into a session's name: letters, digits, `-`, `_` and `.`.
pub(crate) fn plain(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    match name.chars().take(48).map(plain).collect::<String>() {
        empty if empty.is_empty() => "recording".into(),
        name => name,
    }
}
