//! The mark that all processes of a session inherit.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
};

use rescind_feed::DIRECTORY_VARIABLE;
use serde::{Deserialize, Serialize};

use super::identity::ProcessId;

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

/// Where a process id and a start mean the same: this machine since it started, its PID and time namespaces, and, if
/// `RESCIND_RUNTIME_DIR` is set, that directory, however it is written: sessions of another directory are not this reader's.
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
        Self::with_directory(&std::env::var_os(DIRECTORY_VARIABLE).unwrap_or_default())
    }

    fn with_directory(directory: &OsStr) -> Self {
        let [machine, numbers, times] = super::place();
        let directory = if directory.is_empty() { PathBuf::new() } else { real(Path::new(directory)) };
        let parts = [machine, numbers, times, directory.into_os_string().into_encoded_bytes()];
        Self(hash(&parts.join(&0)))
    }
}

/// The one spelling of a directory that a session may be the first to create: so only its parent has to be there.
fn real(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let in_parent = || Some(absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?));
    // The components leave out a slash at the end.
    directory.canonicalize().ok().or_else(in_parent).unwrap_or_else(|| absolute.components().collect())
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

    /// However it is written, by the shim or by a reader, before it is there or afterwards.
    #[test]
    fn a_directory_is_one_place_in_every_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        for name in ["real", "real/run", "real/run/below", "real/other", "real/Other-"] {
            std::fs::create_dir(top.join(name)).unwrap();
        }
        let place = |text: &str| Place::with_directory(OsStr::new(text));
        let base = top.to_str().unwrap();
        let up: String = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect();
        let mut spellings: Vec<String> = [
            "/real/run",
            "/real/run/",
            "/real/run//",
            "/real/run/.",
            "/real/run/./",
            "//real/run",
            "/real//run",
            "/./real/run",
            "/real/./run",
            "/real/.//./run//.",
            "/real/../real/run",
            "/real/run/../run",
            "/real/run/below/..",
            "/real/other/../run/",
        ]
        .map(|spelling| format!("{base}{spelling}"))
        .into();
        if cfg!(unix) {
            spellings.extend([
                format!("//{base}/real/run"),
                format!("///{base}/real/run/"),
                format!("/.{base}/real/run"),
            ]);
            let relative = format!("{up}{}/real/run", base.trim_start_matches('/'));
            spellings.extend([format!("{relative}/"), format!("./{relative}"), format!(".//{relative}/."), relative]);
        }
        #[cfg(unix)]
        for (link, to) in [("link", "real"), ("again", "link"), ("real/by-name", "run")] {
            std::os::unix::fs::symlink(to, top.join(link)).unwrap();
        }
        if cfg!(unix) {
            let links =
                ["/link/run", "/link/run/", "/again/run", "/link/./run/.", "/link/../real/run", "/real/by-name/"];
            spellings.extend(links.map(|spelling| format!("{base}{spelling}")));
        }
        let here = place(&spellings[0]);
        for spelling in &spellings {
            assert_eq!(place(spelling), here, "{spelling}");
        }
        for other in
            ["", "/", "/real", "/real/other", "/real/Other-", "/real/run/below", "/real/run2", "/none/real/run"]
        {
            assert_ne!(place(&format!("{base}{other}")), here, "{other}");
        }
        assert!(spellings.len() >= if cfg!(unix) { 25 } else { 10 });

        // The first shim creates it, after its place was read.
        let later = ["/real/later", "/real/later/", "/real/./later//", "/real/run/../later"]
            .into_iter()
            .chain(cfg!(unix).then_some("/link/later/"));
        let places = || later.clone().map(|spelling| place(&format!("{base}{spelling}"))).collect::<Vec<_>>();
        let before = places();
        std::fs::create_dir(top.join("real/later")).unwrap();
        assert!(before.iter().chain(&places()).all(|place| *place == before[0]));
        assert_eq!(place(""), Place::with_directory(OsStr::new("")));
    }

    #[test]
    fn a_mark_is_found_in_an_environment() {
        let mark = Mark::next().unwrap();
        let environment = format!("A=1\0X{MARK_VARIABLE}=no\0{MARK_VARIABLE}={mark}\0B=2\0");
        assert_eq!(Mark::in_environment(environment.as_bytes()), Some(mark));
        assert_eq!(Mark::in_environment(b"RESCIND_MARK=\0RESCIND_MARKS=1-2\0\xff"), None);
    }
}
