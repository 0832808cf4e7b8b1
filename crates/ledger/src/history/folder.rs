//! The folder of the files: which there are, and how one more finds its place.

use std::{
    fs::{DirBuilder, read_dir, symlink_metadata},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{
    MAX_AGE, MAX_EXPIRED, SLOTS,
    file::{OwnFile, remove},
};

/// The end of a file's name, after its number.
const SUFFIX: &str = ".jsonl";

/// How often to look for a place: what one process removes another may take.
const ATTEMPTS: u32 = 8;

/// A time further in the future than this was set by a wrong clock, or is compared with one.
const TOLERANCE: Duration = Duration::from_secs(24 * 60 * 60);

/// A file that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) modified: SystemTime,
}

impl Slot {
    /// Whether it is as old as this.
    fn is_older(&self, than: Duration, now: SystemTime) -> bool {
        now.duration_since(self.modified).is_ok_and(|age| age > than)
    }

    /// Whether its time cannot be right, or the clock is not.
    fn is_of_the_future(&self, now: SystemTime) -> bool {
        self.modified.duration_since(now).is_ok_and(|ahead| ahead > TOLERANCE)
    }
}

/// The files in a folder, in the order in which they make room; none if it does not exist.
pub(super) fn slots(folder: &Path, now: SystemTime) -> io::Result<Vec<Slot>> {
    let entries = match read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let slot = |entry: std::fs::DirEntry| {
        let number =
            entry.file_name().to_str()?.strip_suffix(SUFFIX)?.parse::<u32>().ok().filter(|number| *number < SLOTS)?;
        let path = entry.path();
        let about = symlink_metadata(&path).ok().filter(|about| about.is_file() && path == path_of(folder, number))?;
        Some(Slot { number, path, modified: about.modified().ok()? })
    };
    let mut found: Vec<Slot> = entries.filter_map(Result::ok).filter_map(slot).collect();
    found.sort_by_key(|slot| (!slot.is_of_the_future(now), slot.modified, slot.number));
    Ok(found)
}

/// Creates one more file, and the folder if it is missing. The oldest makes room if there are as many as there may be;
/// `None` if each of them belongs to a session that lives.
///
/// `first` is the number that is tried first: sessions that begin at once try different ones.
pub(super) fn claim(folder: &Path, first: u32, now: SystemTime) -> io::Result<Option<(PathBuf, OwnFile)>> {
    let mut create = DirBuilder::new();
    create.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut create, 0o700);
    create.create(folder)?;
    for slot in slots(folder, now)?.iter().filter(|slot| slot.is_older(MAX_AGE, now)).take(MAX_EXPIRED) {
        remove(&slot.path, slot.modified);
    }
    for _ in 0..ATTEMPTS {
        let found = slots(folder, now)?;
        let is_free = |number: &u32| found.iter().all(|slot| slot.number != *number);
        for number in (0..SLOTS).map(|number| (number + first) % SLOTS).filter(is_free) {
            let path = path_of(folder, number);
            if let Some(file) = OwnFile::create(&path)? {
                return Ok(Some((path, file)));
            }
        }
        for slot in found {
            if remove(&slot.path, slot.modified)
                && let Some(file) = OwnFile::create(&slot.path)?
            {
                return Ok(Some((slot.path, file)));
            }
        }
    }
    Ok(None)
}

fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:03}{SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        time::UNIX_EPOCH,
    };

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A folder with a file of an ended session for each of these times.
    fn folder(times: &[SystemTime]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, time) in (0..).zip(times) {
            File::create(path_of(folder.path(), number)).unwrap().set_modified(*time).unwrap();
        }
        folder
    }

    fn numbers(folder: &Path) -> Vec<u32> {
        let mut numbers: Vec<_> =
            slots(folder, SystemTime::now()).unwrap().into_iter().map(|slot| slot.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn a_file_is_one_sessions_own_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("state/history");
        let now = SystemTime::now();
        let (path, first) = claim(&inside, 7, now).unwrap().unwrap();
        let (other, _second) = claim(&inside, 7, now).unwrap().unwrap();
        assert_eq!((path.clone(), other), (path_of(&inside, 7), path_of(&inside, 8)));
        let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert!(super::super::file::is_live(&path) && !remove(&path, modified(&path)));
        drop(first);
        assert!(!super::super::file::is_live(&path));
        assert!(!remove(&path, now - DAY), "it was written to since it was seen");
        assert!(remove(&path, modified(&path)) && !path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn folder_and_file_are_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("history");
        let (path, _file) = claim(&inside, 0, SystemTime::now()).unwrap().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&inside), mode(&path)), (0o700, 0o600));
    }

    #[test]
    fn when_all_are_taken_the_oldest_whose_session_has_ended_makes_room() {
        let now = SystemTime::now();
        let times: Vec<_> = (0..SLOTS).map(|n| now - Duration::from_secs(u64::from(SLOTS - n))).collect();
        let folder = folder(&times);
        let oldest = File::open(path_of(folder.path(), 0)).unwrap();
        oldest.lock().unwrap();
        let (path, _file) = claim(folder.path(), 200, now).unwrap().unwrap();
        assert_eq!(path, path_of(folder.path(), 1));
        assert_eq!(numbers(folder.path()).len(), SLOTS as usize);
    }

    #[test]
    fn without_room_nothing_is_removed() {
        let folder = folder(&vec![SystemTime::now(); SLOTS as usize]);
        let lock = |number| {
            let file = File::open(path_of(folder.path(), number)).unwrap();
            file.lock().unwrap();
            file
        };
        let _live: Vec<File> = (0..SLOTS).map(lock).collect();
        assert!(claim(folder.path(), 0, SystemTime::now()).unwrap().is_none());
        assert_eq!(numbers(folder.path()).len(), SLOTS as usize);
    }

    #[test]
    fn what_is_too_old_goes_and_what_is_not_stays() {
        let now = SystemTime::now();
        let folder = folder(&[now - 31 * DAY, now - 29 * DAY, now]);
        let (_, _file) = claim(folder.path(), 9, now).unwrap().unwrap();
        assert_eq!(numbers(folder.path()), [1, 2, 9]);
    }

    #[test]
    fn a_clock_far_in_the_future_takes_a_few_files_and_not_all() {
        let now = SystemTime::now();
        let folder = folder(&[now; 20]);
        let (_, _file) = claim(folder.path(), 30, now + 10_000 * DAY).unwrap().unwrap();
        assert_eq!(numbers(folder.path()).len(), 20 - MAX_EXPIRED + 1);
    }

    #[test]
    fn with_a_clock_that_was_set_back_nothing_is_too_old() {
        let folder = folder(&[SystemTime::now(); 20]);
        let (_, _file) = claim(folder.path(), 30, UNIX_EPOCH + DAY).unwrap().unwrap();
        assert_eq!(numbers(folder.path()).len(), 21);
    }

    #[test]
    fn what_was_written_under_a_clock_in_the_future_makes_room_first() {
        let now = SystemTime::now();
        let folder = folder(&[now - DAY, now + 400 * DAY, now + 300 * DAY, now - 2 * DAY]);
        let order: Vec<_> = slots(folder.path(), now).unwrap().into_iter().map(|slot| slot.number).collect();
        assert_eq!(order, [2, 1, 3, 0]);
    }

    #[test]
    fn nothing_but_a_file_of_the_history_is_touched() {
        let now = SystemTime::now();
        let folder = folder(&[]);
        for name in ["256.jsonl", "1.jsonl", "+01.jsonl", "notes.txt", "000.json"] {
            File::create(folder.path().join(name)).unwrap().set_modified(now - 400 * DAY).unwrap();
        }
        fs::create_dir(path_of(folder.path(), 3)).unwrap();
        let (path, _file) = claim(folder.path(), 3, now).unwrap().unwrap();
        assert_eq!((path, fs::read_dir(folder.path()).unwrap().count()), (path_of(folder.path(), 4), 7));
    }
}
