//! Secrets: the key in the server's paths, and the token in its link.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::Path,
};

use subtle::ConstantTimeEq;

/// A secret of at least 128 bits, safe in a path. Its holder may see and cancel everything.
#[derive(Clone)]
pub struct AccessKey(String);

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessKeyError {
    /// The file cannot be used.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is not a regular file, or is a link.
    #[error("is not a regular file")]
    NotAFile,
    /// It belongs to another user.
    #[error("belongs to another user")]
    Foreign,
    /// Others may read or write it.
    #[error("is open to other users (mode {0:03o})")]
    OpenToOthers(u32),
    /// Its content is not a key.
    #[error("does not hold a key (32 to 128 letters, digits, `-` or `_`)")]
    NotAKey,
    /// The system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

impl AccessKeyError {
    /// The remedy, for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::File(error) if error.kind() == io::ErrorKind::NotFound => {
                "create the file's directory first; the file is then created for you"
            }
            Self::File(_) | Self::NotAFile | Self::Foreign => {
                "name a file in a directory of your own; if it is missing, it is created"
            }
            Self::OpenToOthers(_) => {
                "if it holds a key, others may have read that: remove the file, and a new key is created; else name another file"
            }
            Self::NotAKey => "name another file; or remove this one, and a new key is created in its place",
            Self::Random(_) => "check that /dev/urandom exists",
        }
    }
}

impl AccessKey {
    /// Generates a new key.
    ///
    /// # Errors
    ///
    /// [`AccessKeyError::Random`].
    pub fn random() -> Result<Self, AccessKeyError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(AccessKeyError::Random)?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// Reads the key in `file`. A missing file is created with mode 0600 and a new key.
    ///
    /// # Errors
    ///
    /// [`AccessKeyError`]; a file that others can read is not used.
    pub fn from_file(file: &Path) -> Result<Self, AccessKeyError> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.write(true).create_new(true).open(file) {
            Ok(mut created) => {
                let key = Self::random()?;
                writeln!(created, "{}", key.0)?;
                Ok(key)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(file),
            Err(error) => Err(error.into()),
        }
    }

    fn read(path: &Path) -> Result<Self, AccessKeyError> {
        let file = open(path)?;
        let mut text = String::new();
        file.take(256).read_to_string(&mut text).map_err(|_| AccessKeyError::NotAKey)?;
        let key = text.trim_end();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        match (32..=128).contains(&key.len()) && key.chars().all(plain) {
            true => Ok(Self(key.to_owned())),
            false => Err(AccessKeyError::NotAKey),
        }
    }

    /// Compares `given` with the key in constant time.
    #[must_use]
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// The text of the key, for links and headers only.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Does not show the key.
impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Follows no link, and does not wait for the writer of a pipe.
#[cfg(unix)]
fn open(path: &Path) -> Result<File, AccessKeyError> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            true => AccessKeyError::NotAFile,
            false => error.into(),
        }
    })?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(AccessKeyError::NotAFile);
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(AccessKeyError::Foreign);
    }
    match found.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(AccessKeyError::OpenToOthers(mode)),
        _ => Ok(file),
    }
}

/// Follows no link. Who may read the file is not asked: the folders of a user are closed to others by themselves.
#[cfg(windows)]
fn open(path: &Path) -> Result<File, AccessKeyError> {
    if std::fs::symlink_metadata(path)?.is_file() { Ok(File::open(path)?) } else { Err(AccessKeyError::NotAFile) }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn a_file_gives_the_same_key_again_and_nobody_else_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let key = AccessKey::from_file(&file).unwrap();
        assert_eq!(key.reveal().len(), 32);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(AccessKey::from_file(&file).unwrap().is(key.reveal()));
        assert!(!AccessKey::random().unwrap().is(key.reveal()));
        assert!(!key.is(&key.reveal()[..31]) && !key.is(""));
        assert_eq!(format!("{key:?}"), "Key");
    }

    #[test]
    fn a_file_that_others_could_know_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        AccessKey::from_file(&file).unwrap();
        let link = directory.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(AccessKey::from_file(&link), Err(AccessKeyError::NotAFile)));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(AccessKey::from_file(&file), Err(AccessKeyError::OpenToOthers(0o640))));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        for wrong in ["", "short", "0123456789012345678901234567890/", &"x".repeat(300)] {
            fs::write(&file, wrong).unwrap();
            assert!(matches!(AccessKey::from_file(&file), Err(AccessKeyError::NotAKey)), "{wrong}");
        }
        assert!(matches!(AccessKey::from_file(directory.path()), Err(AccessKeyError::NotAFile)));
        let error = AccessKey::from_file(&directory.path().join("no/key")).unwrap_err();
        assert!(error.hint().starts_with("create the file's directory first"), "{error}");
    }
}
