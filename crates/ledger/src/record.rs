//! What is known of a session beyond its processes.

use std::{collections::BTreeSet, ffi::OsString, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    container::command::ContainerCommand,
    system::{
        self,
        identity::ProcessId,
        mark::{Mark, Place},
    },
};

/// The suffix of a record's name, after the mark.
pub const RECORD_SUFFIX: &str = ".session";

/// Longer files are not records.
const MAX_RECORD: u64 = 1 << 20;

/// A session that has begun. It lies beside the session's socket from the start to the end, and stays there if the shim
/// is killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its mark.
    pub mark: Mark,
    /// Its name, as in `SESSION/ID`.
    pub session: String,
    /// The server's command and its arguments.
    pub command: Vec<String>,
    /// When it began, in microseconds since 1970 (UTC).
    pub started: u64,
    /// The process that started the shim, and the name of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The terminal that the shim runs on, if any, as the kernel numbers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<u32>,
}

/// The process that started a shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The process.
    #[serde(flatten)]
    pub id: ProcessId,
    /// The name of its program, cut by the kernel after 15 bytes.
    pub name: String,
}

impl Record {
    /// The record of a session of this process that begins now.
    #[must_use]
    pub fn new(mark: Mark, session: String, command: Vec<String>, started: u64) -> Self {
        let (client, terminal) = system::origin();
        let client = client.map(|(id, name)| Client { id, name });
        Self { mark, session, command, started, client, terminal }
    }

    /// The name of its file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}{RECORD_SUFFIX}", self.mark)
    }

    /// Reads all records in `directory`, which must be this user's alone. A file that is not a record is left out.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn read_all(directory: &Path) -> io::Result<Vec<Self>> {
        let entries = std::fs::read_dir(directory)?.filter_map(Result::ok);
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(RECORD_SUFFIX));
        Ok(named.filter_map(|entry| Self::read(&entry.path())).collect())
    }

    /// The command, if it works in a container.
    pub(crate) fn container_command(&self) -> Option<ContainerCommand> {
        let words: Vec<OsString> = self.command.iter().map(Into::into).collect();
        ContainerCommand::recognise(&words)
    }

    /// Removes the records in `directory` of sessions that have ended and left nothing. `left` are the marks of all
    /// [families](crate::family::Family::find). Containers are not searched here, so the record of a command that works in
    /// one stays.
    pub fn forget(directory: &Path, left: &BTreeSet<Mark>) {
        let here = Place::here();
        for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name();
            let mark = name.to_str().and_then(|name| name.strip_suffix(RECORD_SUFFIX)?.parse::<Mark>().ok());
            let is_over = |mark: &Mark| mark.place == here && !mark.shim.is_alive() && !left.contains(mark);
            let is_contained = || Self::read(&entry.path()).is_some_and(|record| record.container_command().is_some());
            if mark.as_ref().is_some_and(is_over) && !is_contained() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    fn read(path: &Path) -> Option<Self> {
        let about = std::fs::symlink_metadata(path).ok()?;
        if !about.is_file() || about.len() > MAX_RECORD {
            return None;
        }
        let record: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (path.file_name()?.to_str()? == record.file_name()).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let mark = Mark::next().unwrap();
        let record = Record::new(mark, "4711".into(), vec!["server".into()], 5);
        assert_eq!(record.client.as_ref().map(|client| client.id.pid), Some(std::os::unix::process::parent_id()));
        let text = serde_json::to_vec(&record).unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(directory.path().join(name), text).unwrap();
        write(&record.file_name(), &text);
        write(&format!("half{RECORD_SUFFIX}"), &text[..text.len() / 2]);
        write(&format!("another-name{RECORD_SUFFIX}"), &text);
        write("4711.sock", &text);
        assert_eq!(Record::read_all(directory.path()).unwrap(), std::slice::from_ref(&record));
        // Its shim runs.
        Record::forget(directory.path(), &BTreeSet::new());
        assert_eq!(Record::read_all(directory.path()).unwrap(), std::slice::from_ref(&record));
        let ended = Mark { shim: ProcessId { start: mark.shim.start - 1, ..mark.shim }, ..mark };
        write(&format!("{ended}{RECORD_SUFFIX}"), &text[..text.len() / 2]);
        Record::forget(directory.path(), &BTreeSet::new());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4);
    }
}
