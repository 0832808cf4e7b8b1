//! The copy of this program that stays, for a program that a cache or a folder of temporary files may lose.
//!
//! Sessions may run the copy while a newer one takes its place: it is written beside it and renamed over it, so that they
//! keep the file that they began with.

use std::{
    cmp::Ordering,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{failure::Failure, fleet::report, folders, origin::Origin, program_version, screen::clean};

/// How long a copy may take to print its version: a machine may be busy, and its disk slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// The copy of this program that stays.
#[derive(Clone, Debug)]
pub(crate) struct OwnCopy {
    pub(crate) path: PathBuf,
    /// How this program was started.
    origin: Origin,
    state: State,
}

/// What is where the copy belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Missing,
    /// This very program.
    Same,
    /// Another build of this version, an older version, or what is damaged: its version, if it has one.
    Replaceable(Option<String>),
    /// A newer version, which stays.
    Newer(String),
}

impl OwnCopy {
    /// The copy that this program, at `program`, needs; `None` if it stays where it is.
    ///
    /// # Errors
    ///
    /// If there is no place for it.
    pub(crate) fn needed(program: &Path) -> Result<Option<Self>, Failure> {
        let origin = Origin::of(program);
        if !origin.needs_copy() {
            return Ok(None);
        }
        let path = folders::copy()?;
        let state = State::of(&path)?;
        Ok(Some(Self { path, origin, state }))
    }

    /// Whether there is one, and another build than this.
    pub(crate) const fn is_outdated(&self) -> bool {
        matches!(self.state, State::Replaceable(_))
    }

    /// Reports what will be done, or that nothing will.
    pub(crate) fn announce(&self) {
        let own = program_version::OWN;
        let path = clean(&self.path.display().to_string());
        let place = self.origin.passing_place().unwrap_or("a place that will not stay");
        report(&match &self.state {
            State::Missing => format!("rescind is in {place}: a copy that stays is put in {path}"),
            State::Same => return,
            State::Replaceable(Some(version)) if version != own => {
                format!("the copy in {path} is rescind {version}: this one, {own}, takes its place")
            }
            State::Replaceable(_) => {
                format!("the copy in {path} is another build or damaged: this one takes its place")
            }
            State::Newer(version) => {
                let call = self.origin.call();
                format!(
                    "note: {path} is rescind {version}, newer than this ({own}), and stays; `{call} uninstall` removes it"
                )
            }
        });
    }

    /// Puts it in its place as one step, and reports it. At every moment there is the old one or the new one, whole.
    ///
    /// # Errors
    ///
    /// If it cannot be written or run there. Then what was there before is still there.
    pub(crate) fn put(&self) -> Result<(), Failure> {
        // Another process may have put one there since.
        match State::of(&self.path)? {
            State::Same | State::Newer(_) => return Ok(()),
            State::Missing | State::Replaceable(_) => {}
        }
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        let failed = |error: &io::Error| self.failure(error);
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        remove_leftovers(folder);
        let beside = self.path.with_file_name(format!("{BESIDE}{}", std::process::id()));
        let done = write(&beside).map_err(|error| failed(&error)).and_then(|()| {
            // A file system may be mounted so that nothing on it can be run, and a disk may lie.
            if program_version::ask(&beside, PATIENCE).as_deref() != Some(program_version::OWN) {
                let hint = "mount it without `noexec`, or install rescind elsewhere and call the installed one";
                return Err(Failure::new(folder.display(), "a program that is put there cannot be run", hint));
            }
            take_place(&beside, &self.path).map_err(|error| failed(&error))
        });
        let _ = fs::remove_file(&beside);
        done?;
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        let path = clean(&self.path.display().to_string());
        report(&format!(
            "put rescind {} in {path}, which `{} uninstall` removes",
            program_version::OWN,
            self.origin.call()
        ));
        Ok(())
    }

    fn failure(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{AlreadyExists, FileTooLarge, NotADirectory, QuotaExceeded, StorageFull};
        let hint = if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
            "make room for it: it takes some 10 MB"
        } else if matches!(error.kind(), NotADirectory | AlreadyExists) {
            "a file is where its folder belongs: move that away"
        } else {
            "install rescind where it can stay (`npm install -g rescind`, `uv tool install rescind`), and call that one"
        };
        Failure::new(
            clean(&self.path.display().to_string()),
            format_args!("a copy of this program cannot be put there: {error}; no file of a client was changed"),
            hint,
        )
    }
}

impl State {
    fn of(path: &Path) -> Result<Self, Failure> {
        // What else is wrong shows when the copy is made.
        let Ok(about) = fs::symlink_metadata(path) else { return Ok(Self::Missing) };
        if about.is_dir() {
            let cause = "is a folder, and the copy of this program belongs there; no file of a client was changed";
            return Err(Failure::new(clean(&path.display().to_string()), cause, "move it away, and try again"));
        }
        // Nothing else is opened: a pipe would wait for its other end.
        if !about.is_file() {
            return Ok(Self::Replaceable(None));
        }
        if is_executable(&about) && is_this(path).unwrap_or(false) {
            return Ok(Self::Same);
        }
        let version = program_version::ask(path, PATIENCE);
        let order = version.as_deref().and_then(|version| program_version::compare(version, program_version::OWN));
        Ok(match (order, version) {
            (Some(Ordering::Greater), Some(version)) => Self::Newer(version),
            (_, version) => Self::Replaceable(version),
        })
    }
}

/// Removes the copy and the folders that are empty without it; whether it was there.
///
/// # Errors
///
/// If it cannot be removed.
pub(crate) fn remove() -> Result<bool, Failure> {
    let path = folders::copy()?;
    let Some(folder) = path.parent() else { return Ok(false) };
    remove_leftovers(folder);
    let was_there = match remove_program(&path) {
        Ok(()) => true,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => false,
        Err(error) => {
            let hint = "end the sessions that run it, or remove it by hand";
            return Err(Failure::new(clean(&path.display().to_string()), error, hint));
        }
    };
    folders::remove_empty(folder, folder.parent().unwrap_or(folder));
    Ok(was_there)
}

/// What the name of a copy that is being written begins with.
const BESIDE: &str = ".rescind-new-";

/// Removes what a killed one has left. One that is being written now does not take its place then, and says so.
fn remove_leftovers(folder: &Path) {
    for one in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_left = |begin: &str| one.file_name().as_encoded_bytes().starts_with(begin.as_bytes());
        if is_left(BESIDE) || is_left(ASIDE) {
            let _ = fs::remove_file(one.path());
        }
    }
}

/// This program's own file, also if that has lost its name.
fn itself() -> io::Result<File> {
    if cfg!(target_os = "linux") {
        return File::open("/proc/self/exe");
    }
    File::open(std::env::current_exe()?)
}

fn write(beside: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
    let mut new = options.open(beside)?;
    io::copy(&mut itself()?, &mut new)?;
    new.flush()?;
    // Whatever the mask of this shell.
    #[cfg(unix)]
    new.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    new.sync_all()
}

/// Whether a file is this program, byte for byte.
fn is_this(path: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (itself()?, File::open(path)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        if let Err(error) = other.read_exact(&mut right[..count]) {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(false) } else { Err(error) };
        }
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

/// What the name of an old copy begins with that still runs, on Windows.
const ASIDE: &str = ".rescind-old-";

#[cfg(unix)]
fn is_executable(about: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o111 == 0o111
}

#[cfg(windows)]
const fn is_executable(_: &fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
fn take_place(beside: &Path, path: &Path) -> io::Result<()> {
    fs::rename(beside, path)
}

/// A program that runs keeps its place there, but not its name.
#[cfg(windows)]
fn take_place(beside: &Path, path: &Path) -> io::Result<()> {
    let aside = path.with_file_name(format!("{ASIDE}{}", std::process::id()));
    match fs::rename(path, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let done = fs::rename(beside, path);
    if done.is_err() {
        let _ = fs::rename(&aside, path);
    }
    // Fails while it runs: the next one removes it.
    let _ = fs::remove_file(&aside);
    done
}

#[cfg(unix)]
fn remove_program(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// A program that runs is moved to the temporary files, where the system removes it.
#[cfg(windows)]
fn remove_program(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return Err(error);
        }
        fs::rename(path, std::env::temp_dir().join(format!("rescind-old-{}.exe", std::process::id())))
    })
}
