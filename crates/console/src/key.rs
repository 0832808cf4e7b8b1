//! Secrets: what the server's paths begin with, and the token of its first link.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use subtle::ConstantTimeEq;

/// A secret of 128 bits or more, fit for a path. Whoever has it may see and cancel everything.
#[derive(Clone)]
pub struct Key(String);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be used.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is no file, or a link to one.
    #[error("is not a file of its own, but something else or a link")]
    NotAFile,
    /// It belongs to another user.
    #[error("belongs to another user")]
    Foreign,
    /// Others may read or write it.
    #[error("is open to other users (mode {0:03o})")]
    Loose(u32),
    /// What it holds is no key.
    #[error("holds no key: 32 to 128 letters, digits, `-` or `_`")]
    NotAKey,
    /// The system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

impl KeyError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File(_) | Self::NotAFile | Self::Foreign => {
                "name a file in a directory that is yours; it is made if there is none"
            }
            Self::Loose(_) => "make a new one: others may have read this one. Remove it and start again",
            Self::NotAKey => "remove it and start again: a new one is made",
            Self::Random(_) => "check that /dev/urandom is there",
        }
    }
}

impl Key {
    /// A new one, known to nobody.
    ///
    /// # Errors
    ///
    /// [`KeyError::Random`].
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// The one in `file`, which is made with mode 0600 if there is none.
    ///
    /// # Errors
    ///
    /// [`KeyError`]; a file that others can read is not used.
    pub fn from_file(file: &Path) -> Result<Self, KeyError> {
        let mut created = OpenOptions::new();
        match created.write(true).create_new(true).mode(0o600).open(file) {
            Ok(mut created) => {
                let key = Self::random()?;
                writeln!(created, "{}", key.0)?;
                Ok(key)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(file),
            Err(error) => Err(error.into()),
        }
    }

    fn read(path: &Path) -> Result<Self, KeyError> {
        // Not through a link, and not waiting for whoever writes to a pipe.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
            match error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
                true => KeyError::NotAFile,
                false => error.into(),
            }
        })?;
        check(&file)?;
        let mut text = String::new();
        file.take(256).read_to_string(&mut text).map_err(|_| KeyError::NotAKey)?;
        let key = text.trim_end();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        match (32..=128).contains(&key.len()) && key.chars().all(plain) {
            true => Ok(Self(key.to_owned())),
            false => Err(KeyError::NotAKey),
        }
    }

    /// Whether `given` is it; how much of it is right does not show in the time this takes.
    #[must_use]
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Its text: for links and headers only.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Does not tell it.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

fn check(file: &File) -> Result<(), KeyError> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(KeyError::NotAFile);
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(KeyError::Foreign);
    }
    match found.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(KeyError::Loose(mode)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn a_file_gives_the_same_key_again_and_nobody_else_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let key = Key::from_file(&file).unwrap();
        assert_eq!(key.reveal().len(), 32);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(Key::from_file(&file).unwrap().is(key.reveal()));
        assert!(!Key::random().unwrap().is(key.reveal()));
        assert!(!key.is(&key.reveal()[..31]) && !key.is(""));
        assert_eq!(format!("{key:?}"), "Key");
    }

    #[test]
    fn a_file_that_others_could_know_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        Key::from_file(&file).unwrap();
        let link = directory.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(Key::from_file(&link), Err(KeyError::NotAFile)));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Key::from_file(&file), Err(KeyError::Loose(0o640))));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        for wrong in ["", "short", "0123456789012345678901234567890/", &"x".repeat(300)] {
            fs::write(&file, wrong).unwrap();
            assert!(matches!(Key::from_file(&file), Err(KeyError::NotAKey)), "{wrong}");
        }
        assert!(matches!(Key::from_file(directory.path()), Err(KeyError::NotAFile)));
    }
}
