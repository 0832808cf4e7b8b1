//! The path of this program that is written into files.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// An absolute path by which clients, which have no shell's PATH, will find this program.
///
/// The one by which it was called, links included, since a package manager changes the link and not the path.
pub(crate) fn path() -> Result<String, Failure> {
    let hint = "call it by its absolute path";
    let current = env::current_exe().map_err(|error| Failure::new("rescind", error, hint))?;
    let called = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_this = |path: &PathBuf| same(path, &current);
    let found = match called.components().count() {
        1 => candidates(&called).find(is_this),
        _ => std::path::absolute(&called).ok().filter(is_this),
    };
    let path = found.unwrap_or(current);
    let text = path.to_str().ok_or_else(|| Failure::new(path.display(), "is no UTF-8", "install it elsewhere"))?;
    Ok(text.to_owned())
}

/// The program that a shell would start by this name.
pub(crate) fn on_path(name: &Path) -> Option<PathBuf> {
    candidates(name).find(|path| path.is_file())
}

fn candidates(name: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&folders).filter(|folder| folder.is_absolute()).collect();
    // Files of projects that others share have `rescind`, and Windows adds this.
    let name =
        if name.extension().is_some() { name.to_owned() } else { name.with_extension(env::consts::EXE_EXTENSION) };
    folders.into_iter().map(move |folder| folder.join(&name))
}

/// What kind of temporary place a program is in, if it is in one: it is gone after a clean-up, a build or a restart.
pub(crate) fn temporary(path: &Path) -> Option<&'static str> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_built = real.with_file_name(".cargo-lock").exists();
    let of = |path: &Path| place(path, &env::temp_dir());
    of(path).or_else(|| of(&real)).or_else(|| is_built.then_some(BUILD))
}

const BUILD: &str = "a folder of builds";

fn place(path: &Path, temporary: &Path) -> Option<&'static str> {
    let parts: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let has = |name: &str| parts.contains(&name);
    let follows =
        |first: &str, second: &str| parts.windows(2).any(|pair| pair[0] == first && pair[1].starts_with(second));
    if has("_npx") {
        Some("a cache of npx")
    } else if follows("uv", "archive-") || follows("uv", "builds-") || follows("uv", "environments-") {
        Some("a cache of uvx")
    } else if follows("pnpm", "dlx") || parts.iter().any(|part| part.starts_with("bunx-")) {
        Some("a cache of a package runner")
    } else if follows("target", "debug") || follows("target", "release") {
        Some(BUILD)
    } else if path.starts_with(temporary) || ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|one| path.starts_with(one)) {
        Some("a folder of temporary files")
    } else {
        None
    }
}

pub(crate) fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_will_not_stay_is_known() {
        let of = |path: &str| place(Path::new(path), Path::new("/scratch/tmp"));
        for path in [
            "/home/a/.npm/_npx/5f7a/node_modules/.bin/rescind",
            "/home/a/.cache/uv/archive-v0/x/bin/rescind",
            "/home/a/.cache/pnpm/dlx/x/rescind",
            "/tmp/bunx-1000-rescind/rescind",
            "/home/a/rescind/target/release/rescind",
            "/tmp/rescind",
            "/scratch/tmp/rescind",
        ] {
            assert!(of(path).is_some(), "{path}");
        }
        for path in
            ["/usr/local/bin/rescind", "/home/a/.cargo/bin/rescind", "/home/a/target/rescind", "/tmpfiles/rescind"]
        {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
