//! `rescind console [FILE…]`: serves the page of all shims.

use std::{
    collections::BTreeSet,
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
    number,
    screen::clean,
};

/// Show all requests in flight on one page, with a button to cancel each.
///
/// Prints a link and, on a terminal, opens it in the browser. The link works once: it redirects to the page, whose address
/// contains a secret key. That address works until this command ends, and after a restart too if --key-file and --port
/// are given. The command listens on 127.0.0.1 only, and serves nobody who has neither the link nor the key.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Recordings (`rescind run --record`) to show instead of running sessions
    #[arg(value_name = "FILE")]
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

/// Opens each file as a session with the file's name, and adds a number to a name that is taken.
fn open_all(files: &[PathBuf]) -> Result<Vec<Recording>, Failure> {
    let mut taken = BTreeSet::new();
    let mut opened = Vec::new();
    for file in files {
        let stem = plain(file);
        let names = std::iter::once(stem.clone()).chain((2..).map(|n| format!("{stem}-{n}")));
        let Some(name) = names.into_iter().find(|name| taken.insert(name.clone())) else { continue };
        let recording = Recording::open(file, &name).map_err(|error| {
            let hint = match &error {
                RecordingError::Version(_) => "open it with the rescind that wrote it, or a newer one",
                RecordingError::Io(_) | RecordingError::NotARecording | _ => {
                    "name a file that `rescind run --record` has written"
                }
            };
            Failure::new(file.display(), &error, hint)
        })?;
        for remark in recording.remarks() {
            report(&format!("note: {}: {}", clean(&file.display().to_string()), clean(remark)));
        }
        opened.push(recording);
    }
    Ok(opened)
}

/// Turns a file's name into a session's name: letters, digits, `-`, `_` and `.`.
fn plain(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    match name.chars().take(48).map(plain).collect::<String>() {
        empty if empty.is_empty() => "recording".into(),
        name => name,
    }
}
