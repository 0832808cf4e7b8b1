//! The directories of a user's sockets.

use std::{ffi::OsString, path::PathBuf};

/// The suffix of a socket's name, after the name of the session.
pub const SOCKET_SUFFIX: &str = ".sock";

/// The environment variable that names the one directory to use.
pub const DIRECTORY_VARIABLE: &str = "RESCIND_RUNTIME_DIR";

/// The directories that may hold this user's sockets, in order. A shim uses the first that it can, and readers look
/// into all. `variable` reads the environment; an empty variable counts as unset.
///
/// A client may start a shim with almost no environment, and the reader's shell has another one. So the first two
/// depend on the user alone: `/run/user/UID/rescind`, then `/tmp/rescind-UID`. Last comes `rescind` in
/// `XDG_RUNTIME_DIR`. If `RESCIND_RUNTIME_DIR` is set, it is the only directory, for shims and readers.
///
/// On Windows it is `rescind\\run` in `LOCALAPPDATA`, for files that name the pipes of sessions.
///
/// The caller must check that a directory belongs to the user and is closed to others (mode 0700).
#[must_use]
#[cfg_attr(windows, expect(unused_variables, reason = "the folder is the user's already"))]
pub fn directories(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Without a final slash, which would follow a link.
    let plain = |path: PathBuf| path.components().collect::<PathBuf>();
    if let Some(chosen) = set(DIRECTORY_VARIABLE) {
        return vec![plain(chosen)];
    }
    #[cfg(windows)]
    return set("LOCALAPPDATA").map(|folder| folder.join("rescind").join("run")).into_iter().collect();
    #[cfg(unix)]
    of_unix(set("XDG_RUNTIME_DIR").map(|given| plain(given.join("rescind"))), user)
}

#[cfg(unix)]
fn of_unix(given: Option<PathBuf>, user: u32) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = vec![format!("/run/user/{user}/rescind").into(), format!("/tmp/rescind-{user}").into()];
    all.extend(given.filter(|given| !all.contains(given)));
    all
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn with(ours: Option<&str>, xdg: Option<&str>) -> Vec<PathBuf> {
        let variable = |name: &str| match name {
            DIRECTORY_VARIABLE => ours.map(Into::into),
            _ => xdg.map(Into::into),
        };
        directories(variable, 1000)
    }

    #[test]
    fn a_directory_that_was_chosen_is_the_only_one() {
        assert_eq!(with(Some("/run/x/./"), None)[0].as_os_str(), "/run/x");
        assert_eq!(with(Some("/run/x"), Some("/run/user/1000")), [PathBuf::from("/run/x")]);
    }

    /// Shim and reader may have different environments.
    #[test]
    fn places_that_depend_on_the_user_alone_come_first() {
        let always = ["/run/user/1000/rescind", "/tmp/rescind-1000"].map(PathBuf::from);
        assert_eq!(with(Some(""), Some("")), always);
        assert_eq!(with(None, Some("/run/user/1000/")), always);
        let elsewhere = with(None, Some("/elsewhere"));
        assert_eq!((&elsewhere[..2], elsewhere[2].as_os_str()), (&always[..], "/elsewhere/rescind".as_ref()));
    }
}
