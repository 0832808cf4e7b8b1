//! Where the sockets of a user's shims lie.

use std::{ffi::OsString, path::PathBuf};

/// How a socket's name ends; before it stands the session's name.
pub const SOCKET_SUFFIX: &str = ".sock";

/// The environment variable that names the one directory to use.
pub const DIRECTORY_VARIABLE: &str = "RESCIND_RUNTIME_DIR";

/// The directories in which this user's sockets may lie, in the order in which a shim tries them: it takes the first
/// that it can use, and readers look into all. `variable` looks into the environment; an empty one counts as none.
///
/// A client may start a shim with hardly any environment, and a shell that reads has another one. So the places come
/// first that depend on the user alone: `/run/user/UID/rescind`, then `/tmp/rescind-UID`. Only where a shim can use
/// neither, it takes `rescind` in `XDG_RUNTIME_DIR`. `RESCIND_RUNTIME_DIR` is a choice: where it is set, it is the only
/// directory, for shims and readers.
///
/// A directory is used only if it belongs to the user and is closed to others (mode 0700): its user checks that.
#[must_use]
pub fn directories(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Without a slash at the end, which would lead through a link.
    let plain = |path: PathBuf| path.components().collect::<PathBuf>();
    if let Some(chosen) = set(DIRECTORY_VARIABLE) {
        return vec![plain(chosen)];
    }
    let mut all = vec![format!("/run/user/{user}/rescind").into(), format!("/tmp/rescind-{user}").into()];
    let given = set("XDG_RUNTIME_DIR").map(|given| plain(given.join("rescind")));
    all.extend(given.filter(|given| !all.contains(given)));
    all
}

#[cfg(test)]
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

    /// Neither side can be sure of the other's environment.
    #[test]
    fn places_that_depend_on_the_user_alone_come_first() {
        let always = ["/run/user/1000/rescind", "/tmp/rescind-1000"].map(PathBuf::from);
        assert_eq!(with(Some(""), Some("")), always);
        assert_eq!(with(None, Some("/run/user/1000/")), always);
        let elsewhere = with(None, Some("/elsewhere"));
        assert_eq!((&elsewhere[..2], elsewhere[2].as_os_str()), (&always[..], "/elsewhere/rescind".as_ref()));
    }
}
