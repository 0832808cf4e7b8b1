//! `rescind redact FILE`: a recording for people who must not see what is in it.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use rescind_console::{Redaction, RedactionError, redact};

use crate::{
    completion::Completion,
    failure::Failure,
    fleet::report,
    link::{RECORDING_HINT, open_new},
};

/// Copy a recording without what may be secret, to attach it to a report of a bug.
///
/// Kept: when each message and each decision of the shim came, from whom, how long it was and how it was framed; methods,
/// members and words that MCP, ACP, LSP and Codex define; ids that count, codes of errors, and texts of rescind's own; how
/// values are nested. The first line keeps the version of rescind, the time, the process id and the protocols.
///
/// Everything else is replaced. Of a text its length is left: `(12 bytes)`. A number becomes 0. Names, other ids, unknown
/// methods and unknown keys get another name, the same each time: `id-7`, `name-2`. What is not JSON is replaced as a whole.
/// The server's command, its arguments, variables and addresses are gone. The same recording always gives the same copy, and
/// all commands that read recordings read it.
///
/// Exit code: 0 if it is copied; 2 if not.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The recording (`rescind run --record`)
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Write the copy to OUT (mode 0600), which must not exist; without it, to stdout
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let Arguments { recording, output } = arguments;
    let input = File::open(recording).map_err(|error| Failure::new(recording.display(), error, RECORDING_HINT))?;
    let input = BufReader::with_capacity(1 << 16, input);
    let redaction = write_to(output.as_deref(), |out| {
        redact(input, out).map_err(|error| failure(recording, output.as_deref(), &error))
    })?;
    let Redaction { messages, replaced, unreadable, .. } = redaction;
    report(&format!("redacted {messages} messages: {replaced} values replaced"));
    if unreadable > 0 {
        report(&format!("note: {unreadable} lines could not be read, and nothing is left of them"));
    }
    Ok(Completion::Whole)
}

/// Writes to a new file, which is removed if that fails, or to stdout.
pub(crate) fn write_to<T>(
    output: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(path) = output else {
        return write(&mut BufWriter::with_capacity(1 << 16, Stdout { has_reader: true }));
    };
    let file = open_new(path)?;
    write(&mut BufWriter::with_capacity(1 << 16, file)).inspect_err(|_| drop(fs::remove_file(path)))
}

/// Stdout. A reader that leaves, such as `head`, has what it wanted.
struct Stdout {
    has_reader: bool,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.has_reader {
            return Ok(bytes.len());
        }
        match io::stdout().lock().write_all(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.has_reader = false,
            done => done?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_reader { io::stdout().lock().flush() } else { Ok(()) }
    }
}

fn failure(recording: &Path, output: Option<&Path>, error: &RedactionError) -> Failure {
    match error {
        RedactionError::Write(error) => not_written(output, error),
        RedactionError::Again => Failure::new(recording.display(), error, "it can be attached as it is"),
        RedactionError::Recording(_) | _ => Failure::new(recording.display(), error, RECORDING_HINT),
    }
}

/// The output could not be written.
pub(crate) fn not_written(output: Option<&Path>, error: &io::Error) -> Failure {
    let place = output.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
    Failure::new(place, error, "write to a place that has room")
}
