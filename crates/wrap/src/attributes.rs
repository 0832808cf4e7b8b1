//! What a file has besides its content and mode.

use std::{ffi::CString, fs::File, path::Path};

use rustix::{
    fs::{XattrFlags, fsetxattr, getxattr, listxattr},
    io::Errno,
};

use crate::file::FileError;

/// The attribute that holds an access control list.
const ACCESS: &[u8] = b"system.posix_acl_access";

/// The longest value, and the longest list of names, that Linux allows.
const LONGEST: usize = 1 << 16;

/// Gives `new` the extended attributes of the file at `old`, its access control list among them.
///
/// # Errors
///
/// If one that a user may have set cannot be given. Those that the system sets by itself are not missed.
pub(crate) fn copy(old: &Path, new: &File) -> Result<(), FileError> {
    for name in names(old)? {
        let is_of_a_user = name.as_bytes().starts_with(b"user.") || name.as_bytes() == ACCESS;
        match value(old, &name).and_then(|value| fsetxattr(new, &name, &value, XattrFlags::empty())) {
            // One that is gone meanwhile.
            Err(Errno::NODATA) | Ok(()) => {}
            Err(error) if is_of_a_user => {
                return Err(FileError::Attribute(name.to_string_lossy().into_owned(), error.into()));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn names(path: &Path) -> Result<Vec<CString>, FileError> {
    let names = match whole(|room| listxattr(path, room)) {
        Ok(names) => names,
        // The file system has none.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(error) => return Err(FileError::Io(error.into())),
    };
    Ok(names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| CString::new(name).ok())
        .collect())
}

fn value(path: &Path, name: &CString) -> Result<Vec<u8>, Errno> {
    whole(|room| getxattr(path, name, room))
}

/// All that `read` has to say.
fn whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut found = vec![0; LONGEST];
    let length = read(&mut found)?;
    found.truncate(length);
    Ok(found)
}
