//! Where a session is recorded: a file, or a new file in a folder.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rescind::relay::{RecordError, RecordingFile, is_recording_folder};

use super::path;
use crate::failure::Failure;

/// What to do if a file is no recording.
pub(crate) const RECORDING_HINT: &str = "name a file that `rescind run --record` has written";

/// The most bytes of a server's name in the name of a file.
const MAX_NAME: usize = 48;

/// The value of `--record`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordTarget {
    /// This file, for one session.
    File(PathBuf),
    /// A file of its own for each session.
    Folder(PathBuf),
}

impl RecordTarget {
    pub(crate) fn of(path: PathBuf) -> Self {
        if is_recording_folder(&path) { Self::Folder(path) } else { Self::File(path) }
    }

    /// Opens the recording of a session of this `server`, which is its command or its URL. `session` is the session's name.
    pub(crate) fn open(self, server: &[String], session: &str) -> Result<RecordingFile, Failure> {
        match self {
            Self::File(path) => open_file(&path),
            Self::Folder(folder) => open_in(&folder, server, session),
        }
    }
}

fn open_file(path: &Path) -> Result<RecordingFile, Failure> {
    RecordingFile::open(path).map_err(|error| {
        let hint = match &error {
            RecordError::Link => "give the path of the file itself".into(),
            RecordError::NotARecording => "name a new file, or remove this one".into(),
            RecordError::InUse => format!(
                "name a folder, in which each session gets a file of its own: --record {}",
                path.with_extension("").join("").display()
            ),
            RecordError::Open(error) => path::remedy(path, error),
            RecordError::NotAFolder | _ => String::from("name a new file"),
        };
        Failure::new(path.display(), error, hint)
    })
}

/// Creates a file in a folder.
pub(crate) fn open_in(folder: &Path, server: &[String], session: &str) -> Result<RecordingFile, Failure> {
    RecordingFile::create_in(folder, &file_name(SystemTime::now(), server, session)).map_err(|error| {
        let hint = match &error {
            RecordError::NotAFolder => "name a folder, or leave out the slash at its end to record to this file".into(),
            RecordError::Open(error) => path::folder_remedy(folder, error),
            RecordError::Link | RecordError::NotARecording | RecordError::InUse | _ => {
                String::from("name another folder")
            }
        };
        Failure::new(folder.display(), error, hint)
    })
}

/// Creates a file for what is made of a recording, with mode 0600. One that exists is refused.
pub(crate) fn open_new(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::new(path.display(), "exists", "name a new file");
        }
        Failure::new(path.display(), &error, path::remedy(path, &error))
    })
}

/// The name of a recording without its ending: when, which server, which session. It is fit for every file system, and holds
/// none of the server's options, which may be secrets.
fn file_name(at: SystemTime, server: &[String], session: &str) -> String {
    let at = humantime::format_rfc3339_millis(at).to_string().replace(':', "");
    let named = rescind_console::short_command(server);
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let named: String = named.chars().map(fit).take(MAX_NAME).collect();
    let named = named.trim_matches(['-', '.']);
    let named = if named.is_empty() { "server" } else { named };
    format!("{at}-{named}-{session}")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_file_is_named_by_time_server_and_session() {
        let at = UNIX_EPOCH + Duration::from_millis(1_795_240_618_488);
        let named = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            file_name(at, &words, "4711")
        };
        assert_eq!(named(&["npx", "-y", "@scope/files"]), "2026-11-21T055658.488Z-npx--scope-files-4711");
        assert_eq!(named(&["https://me:hunter2@host/x?token=hunter2"]), "2026-11-21T055658.488Z-host-4711");
        assert_eq!(named(&["./server", "--token=hunter2"]), "2026-11-21T055658.488Z-server-4711");
        assert_eq!(named(&[]), "2026-11-21T055658.488Z-server-4711");
        assert_eq!(named(&["../../etc/\u{202e}\n"]), "2026-11-21T055658.488Z-server-4711");
        let long = "x".repeat(1000);
        assert!(named(&[&long]).len() < 100);
    }

    #[test]
    fn a_slash_at_the_end_or_a_folder_that_exists_means_a_folder() {
        let around = tempfile::tempdir().unwrap();
        let here = around.path().to_owned();
        assert_eq!(RecordTarget::of(here.clone()), RecordTarget::Folder(here.clone()));
        let (file, folder) = (here.join("new"), here.join("new").join(""));
        assert_eq!(RecordTarget::of(file.clone()), RecordTarget::File(file));
        assert_eq!(RecordTarget::of(folder.clone()), RecordTarget::Folder(folder));
    }
}
