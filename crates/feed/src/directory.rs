//! Where the sockets of a user's shims lie.

use std::{ffi::OsString, path::PathBuf};

/// How a socket's name ends; before it stands the session's name.
pub const SOCKET_SUFFIX: &str = ".sock";

/// The directory of this user's sockets: `RESCIND_RUNTIME_DIR`, or `rescind` in `XDG_RUNTIME_DIR`, or a directory of
/// the user's own in `/tmp`. `variable` looks into the environment; an empty one counts as none.
///
/// It must belong to the user and be closed to everybody else (mode 0700): whoever uses it checks that.
#[must_use]
pub fn directory(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("RESCIND_RUNTIME_DIR")
        .or_else(|| Some(set("XDG_RUNTIME_DIR")?.join("rescind")))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/rescind-{user}")))
        // Without a slash at the end, which would lead through a link.
        .components()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_setting_wins() {
        let with = |ours: Option<&str>, xdg: Option<&str>| {
            let variable = |name: &str| match name {
                "RESCIND_RUNTIME_DIR" => ours.map(Into::into),
                _ => xdg.map(Into::into),
            };
            directory(variable, 1000)
        };
        assert_eq!(with(Some("/run/x/./"), None).as_os_str(), "/run/x");
        assert_eq!(with(Some("/run/x"), Some("/run/user/1000")), PathBuf::from("/run/x"));
        assert_eq!(with(None, Some("/run/user/1000")), PathBuf::from("/run/user/1000/rescind"));
        assert_eq!(with(Some(""), Some("")), PathBuf::from("/tmp/rescind-1000"));
    }
}
