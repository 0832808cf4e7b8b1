//! The mark that all processes of a session inherit.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
};

use rescind_feed::DIRECTORY_VARIABLE;
use serde::{Deserialize, Serialize};

use crate::{identity::ProcessId, system};

/// The environment variable with a session's [`Mark`].
pub const MARK_VARIABLE: &str = "RESCIND_MARK";

/// Names one session of one shim, on this machine and since it started. As text: `PID-START-PLACE-NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Mark {
    /// The shim.
    pub shim: ProcessId,
    /// Where its numbers mean something.
    pub place: Place,
    /// Which of the shim's sessions.
    pub number: u32,
}

/// Where a process id means the same: this machine since it started, its PID namespace, and, if `RESCIND_RUNTIME_DIR` is
/// set, that directory: sessions of another directory are not this reader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// Sessions that this process has marked.
static MARKED: AtomicU32 = AtomicU32::new(0);

impl Mark {
    /// The mark of this process's next session; `None` if this system does not tell when a process started.
    #[must_use]
    pub fn next() -> Option<Self> {
        let shim = ProcessId::own()?;
        Some(Self { shim, place: Place::here(), number: MARKED.fetch_add(1, Ordering::Relaxed) })
    }

    /// The mark in an environment, as `/proc/PID/environ` has it.
    pub(crate) fn in_environment(environment: &[u8]) -> Option<Self> {
        let value = |line: &[u8]| {
            let value = line.strip_prefix(MARK_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()?.parse().ok()
        };
        environment.split(|byte| *byte == 0).find_map(value)
    }
}

impl Place {
    /// The place of this process.
    #[must_use]
    pub fn here() -> Self {
        let [machine, namespace] = system::place();
        let directory = std::env::var_os(DIRECTORY_VARIABLE).unwrap_or_default();
        let parts = [machine, namespace, directory.into_encoded_bytes()];
        Self(hash(&parts.join(&0)))
    }
}

/// FNV-1a: the same in every version of this program.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shim: ProcessId { pid, start }, place: Place(place), number } = self;
        write!(f, "{pid}-{start}-{place:016x}-{number}")
    }
}

/// A text that is not a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a mark of rescind")]
pub struct NotAMark;

impl FromStr for Mark {
    type Err = NotAMark;

    fn from_str(text: &str) -> Result<Self, NotAMark> {
        let parts: Vec<&str> = text.split('-').collect();
        let [pid, start, place, number] = parts[..] else { return Err(NotAMark) };
        let shim = ProcessId { pid: pid.parse().map_err(|_| NotAMark)?, start: start.parse().map_err(|_| NotAMark)? };
        let place = Place(u64::from_str_radix(place, 16).map_err(|_| NotAMark)?);
        let mark = Self { shim, place, number: number.parse().map_err(|_| NotAMark)? };
        // One session has one text.
        if mark.to_string() == text { Ok(mark) } else { Err(NotAMark) }
    }
}

impl From<Mark> for String {
    fn from(mark: Mark) -> Self {
        mark.to_string()
    }
}

impl TryFrom<String> for Mark {
    type Error = NotAMark;

    fn try_from(text: String) -> Result<Self, NotAMark> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let (one, two) = (Mark::next().unwrap(), Mark::next().unwrap());
        assert_ne!(one, two);
        assert_eq!((one.shim, one.place), (two.shim, Place::here()));
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in ["", "1-2-3", "1-2-0000000000000003-4-5", "+1-2-0000000000000003-4", "1-2-3-4", "x-2-3-4"] {
            assert_eq!(text.parse::<Mark>(), Err(NotAMark), "{text}");
        }
    }

    #[test]
    fn a_mark_is_found_in_an_environment() {
        let mark = Mark::next().unwrap();
        let environment = format!("A=1\0X{MARK_VARIABLE}=no\0{MARK_VARIABLE}={mark}\0B=2\0");
        assert_eq!(Mark::in_environment(environment.as_bytes()), Some(mark));
        assert_eq!(Mark::in_environment(b"RESCIND_MARK=\0RESCIND_MARKS=1-2\0\xff"), None);
    }
}
