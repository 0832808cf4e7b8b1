//! `rescind console [FILE…]`: one page for all shims.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use clap::Args;
use rescind_console::{Console, Key, Recording, Settings, shims::Directories};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    failure::Failure,
    fleet::{self, speak},
    screen::clean,
};

/// Show what is in flight on one page, and cancel it there.
///
/// Prints a link, and opens it on a terminal. The link works once; the page it leads to works until this command ends. It listens on
/// 127.0.0.1 only, and shows nothing to those who have neither the link nor the key.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Recordings (`rescind run --record`) to show instead of what runs
    #[arg(value_name = "FILE")]
    recordings: Vec<PathBuf>,

    /// The port to listen on; one that is free if not given
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    port: u16,

    /// Open no browser
    #[arg(long)]
    no_open: bool,

    /// Keep the key in FILE (mode 0600, made if there is none), so that a scraper of /metrics needs no new one
    /// after a restart: it sends `Authorization: Bearer KEY`
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime
        .map_err(|error| Failure::new("rescind console", error, "check the limit on open files (ulimit -n)"))
        .and_then(|runtime| runtime.block_on(serve(arguments)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.say();
            ExitCode::from(2)
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { recordings, port, no_open, key_file } = arguments;
    let directories = recordings.is_empty().then(Directories::of_this_user);
    directories.as_ref().map(fleet::look).transpose()?;
    let key = match &key_file {
        Some(file) => Key::from_file(file).map_err(|error| Failure::new(file.display(), &error, error.hint()))?,
        None => Key::random().map_err(|error| Failure::new("rescind console", &error, error.hint()))?,
    };
    let recordings = open_all(&recordings)?;
    let console = Console::open(Settings { port, key, directories, recordings }).await;
    let console = console.map_err(|error| {
        Failure::new(format_args!("--port {port}"), error, "name another port, or none for one that is free")
    })?;
    let link = console.link();
    // The link is the data of this command; a pipe that nobody reads is no reason not to serve.
    let _ = writeln!(io::stdout(), "{link}");
    if !no_open && io::stdout().is_terminal() {
        open_browser(&link);
    }
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup()));
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = signals else {
        return Err(Failure::new("rescind console", "cannot wait for signals", "check the limit on open files"));
    };
    tokio::select! {
        () = console.serve() => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

/// Each under its file's name, and with a number where two are called the same.
fn open_all(files: &[PathBuf]) -> Result<Vec<Recording>, Failure> {
    let mut taken = BTreeSet::new();
    let mut opened = Vec::new();
    for file in files {
        let stem = plain(file);
        let names = std::iter::once(stem.clone()).chain((2..).map(|n| format!("{stem}-{n}")));
        let Some(name) = names.into_iter().find(|name| taken.insert(name.clone())) else { continue };
        let recording = Recording::open(file, &name).map_err(|error| {
            Failure::new(file.display(), error, "name a file that `rescind run --record` has written")
        })?;
        for remark in recording.remarks() {
            speak(&format!("note: {}: {}", clean(&file.display().to_string()), clean(remark)));
        }
        opened.push(recording);
    }
    Ok(opened)
}

/// The file's name as a session's: letters, digits, `-`, `_` and `.`.
fn plain(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    match name.chars().take(48).map(plain).collect::<String>() {
        empty if empty.is_empty() => "recording".into(),
        name => name,
    }
}

/// With whatever opens links here. Where nothing does, the link has been printed.
fn open_browser(link: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = || Stdio::null();
    if let Ok(mut child) = Command::new(opener).arg(link).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn() {
        std::thread::spawn(move || child.wait());
    }
}
