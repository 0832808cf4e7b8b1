//! How a program of ours came to this machine, as its path shows: whether it stays there, what starts it again, and what
//! removes it.

use std::{borrow::Cow, env, fs, path::Path};

use crate::{environment, screen::clean};

/// How a program came to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The copy of `rescind wrap`.
    Copy,
    Npx,
    PnpmDlx,
    Bunx,
    Uvx,
    PipxRun,
    /// A cache of something else.
    Cache,
    /// A folder of builds.
    Build,
    /// A folder of temporary files.
    Temporary,
    /// `npm install -g`.
    NpmGlobal,
    /// `npm install` in a folder.
    NpmLocal,
    UvTool,
    Pipx,
    Pip,
    Homebrew,
    Cargo,
    Winget,
    /// An archive, a system's package, or anything else.
    Other,
}

impl Origin {
    /// How the program at this path came there. Links are followed where the path itself does not show it.
    pub(crate) fn of(path: &Path) -> Self {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_copy = |copy: &Path| path == copy || fs::canonicalize(copy).is_ok_and(|copy| copy == real);
        if environment::copy().is_some_and(|copy| is_copy(&copy)) {
            return Self::Copy;
        }
        let temporary = env::temp_dir();
        let is_built = || real.with_file_name(".cargo-lock").exists().then_some(Self::Build);
        let is_temporary = |path: &Path| is_temporary(path, &temporary).then_some(Self::Temporary);
        let passing = passing(path).or_else(|| passing(&real)).or_else(is_built);
        let passing = passing.or_else(|| is_temporary(path)).or_else(|| is_temporary(&real));
        let installed = || installed(path).or_else(|| installed(&real)).or_else(|| of_pip(&real));
        passing.or_else(installed).unwrap_or(Self::Other)
    }

    /// How this program came here.
    fn of_this() -> Self {
        env::current_exe().map_or(Self::Other, |path| Self::of(&path))
    }

    /// What kind of place it is in, if it is gone from there after a clean-up, a build or a restart.
    pub(crate) const fn passing_place(self) -> Option<&'static str> {
        Some(match self {
            Self::Npx => "a cache of npx",
            Self::PnpmDlx | Self::Bunx => "a cache of a package runner",
            Self::Uvx => "a cache of uvx",
            Self::PipxRun => "a cache of pipx",
            Self::Cache => "a folder of caches",
            Self::Build => "a folder of builds",
            Self::Temporary => "a folder of temporary files",
            Self::Copy
            | Self::NpmGlobal
            | Self::NpmLocal
            | Self::UvTool
            | Self::Pipx
            | Self::Pip
            | Self::Homebrew
            | Self::Cargo
            | Self::Winget
            | Self::Other => return None,
        })
    }

    /// Whether `rescind wrap` makes a copy that stays. A build is left to the person who builds.
    pub(crate) const fn needs_copy(self) -> bool {
        self.passing_place().is_some() && !matches!(self, Self::Build)
    }

    /// The words that start it again.
    pub(crate) fn call(self) -> String {
        match self {
            Self::Npx => "npx rescind".into(),
            Self::PnpmDlx => "pnpm dlx rescind".into(),
            Self::Bunx => "bunx rescind".into(),
            Self::Uvx => "uvx rescind".into(),
            Self::PipxRun => "pipx run rescind".into(),
            Self::NpmLocal => "npx rescind".into(),
            Self::Copy => {
                environment::copy().map_or_else(|| "rescind".into(), |copy| clean(&copy.display().to_string()))
            }
            Self::Cache
            | Self::Build
            | Self::Temporary
            | Self::NpmGlobal
            | Self::UvTool
            | Self::Pipx
            | Self::Pip
            | Self::Homebrew
            | Self::Cargo
            | Self::Winget
            | Self::Other => "rescind".into(),
        }
    }

    /// The words that bring its newest version.
    pub(crate) const fn update(self) -> Option<&'static str> {
        Some(match self {
            Self::Npx => "npx rescind@latest wrap",
            Self::PnpmDlx => "pnpm dlx rescind@latest wrap",
            Self::Bunx => "bunx rescind@latest wrap",
            Self::Uvx => "uvx rescind@latest wrap",
            Self::PipxRun => "pipx run --no-cache rescind wrap",
            Self::NpmGlobal => "npm install -g rescind@latest",
            Self::NpmLocal => "npm install rescind@latest",
            Self::UvTool => "uv tool upgrade rescind",
            Self::Pipx => "pipx upgrade rescind",
            Self::Pip => "pip install --upgrade rescind",
            Self::Homebrew => "brew upgrade rescind",
            Self::Cargo => "cargo install --locked rescind-cli",
            Self::Winget => "winget upgrade Rescind.Rescind",
            Self::Copy | Self::Cache | Self::Build | Self::Temporary | Self::Other => return None,
        })
    }

    /// The words that remove it, where something has installed it.
    pub(crate) const fn removal(self) -> Option<&'static str> {
        Some(match self {
            Self::NpmGlobal => "npm uninstall -g rescind",
            Self::NpmLocal => "npm uninstall rescind",
            Self::UvTool => "uv tool uninstall rescind",
            Self::Pipx => "pipx uninstall rescind",
            Self::Pip => "pip uninstall rescind",
            Self::Homebrew => "brew uninstall rescind",
            Self::Cargo => "cargo uninstall rescind-cli",
            Self::Winget => "winget uninstall Rescind.Rescind",
            Self::Uvx => "uv cache clean rescind",
            Self::Copy
            | Self::Npx
            | Self::PnpmDlx
            | Self::Bunx
            | Self::PipxRun
            | Self::Cache
            | Self::Build
            | Self::Temporary
            | Self::Other => return None,
        })
    }
}

/// A text for a person who has started this program by a package runner: where it says `rescind` as a command, it says what
/// starts that.
pub(crate) fn in_words_of_its_caller(text: &str) -> Cow<'_, str> {
    const COMMAND: &str = "`rescind ";
    if !text.contains(COMMAND) {
        return text.into();
    }
    let origin = Origin::of_this();
    if matches!(origin, Origin::Npx | Origin::PnpmDlx | Origin::Bunx | Origin::Uvx | Origin::PipxRun) {
        return text.replace(COMMAND, &format!("`{} ", origin.call())).into();
    }
    text.into()
}

/// The names in a path.
fn parts(path: &Path) -> Vec<&str> {
    path.components().filter_map(|part| part.as_os_str().to_str()).collect()
}

/// The places from which a program goes, temporary files aside.
fn passing(path: &Path) -> Option<Origin> {
    let parts = parts(path);
    let has = |is_it: &dyn Fn(&str) -> bool| parts.iter().any(|part| is_it(part));
    let follows = |first: &str, second: &str| parts.windows(2).any(|pair| pair[0] == first && pair[1] == second);
    // Wherever `UV_CACHE_DIR` is, and on Windows below `uv\cache`.
    let is_of_uv = |part: &str| {
        let kinds = ["archive-v", "builds-v", "environments-v"];
        let versions = kinds.iter().filter_map(|kind| part.strip_prefix(kind));
        versions.into_iter().any(|version| !version.is_empty() && version.bytes().all(|one| one.is_ascii_digit()))
    };
    Some(if has(&|part| part == "_npx") {
        Origin::Npx
    } else if has(&is_of_uv) {
        Origin::Uvx
    } else if follows("pnpm", "dlx") || has(&|part| part.starts_with("dlx-")) {
        Origin::PnpmDlx
    } else if has(&|part| part.starts_with("bunx-")) {
        Origin::Bunx
    } else if follows(".cache", "pipx") || follows("pipx", ".cache") {
        Origin::PipxRun
    } else if follows("target", "debug") || follows("target", "release") {
        Origin::Build
    } else if has(&|part| part == ".cache") || follows("Library", "Caches") {
        Origin::Cache
    } else {
        return None;
    })
}

fn is_temporary(path: &Path, temporary: &Path) -> bool {
    path.starts_with(temporary) || ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|one| path.starts_with(one))
}

/// What has installed a program, where its path alone shows it.
fn installed(path: &Path) -> Option<Origin> {
    let parts = parts(path);
    let follows = |names: &[&str]| {
        parts.windows(names.len()).any(|some| some.iter().zip(names).all(|(one, name)| one.eq_ignore_ascii_case(name)))
    };
    let is_npm = follows(&["node_modules", "@rescind"]) || follows(&["node_modules", "rescind"]);
    // A prefix of npm's has the packages for all in `lib`, on Windows in `npm`; nvm and the like have many prefixes.
    let is_global = follows(&["lib", "node_modules", "rescind"]) || follows(&["npm", "node_modules", "rescind"]);
    Some(if is_npm && is_global {
        Origin::NpmGlobal
    } else if is_npm {
        Origin::NpmLocal
    } else if follows(&["uv", "tools", "rescind"]) || follows(&["uv", "data", "tools", "rescind"]) {
        Origin::UvTool
    } else if follows(&["pipx", "venvs", "rescind"]) {
        Origin::Pipx
    } else if follows(&["Cellar", "rescind"]) {
        Origin::Homebrew
    } else if follows(&[".cargo", "bin"]) || is_in_cargo_home(path) {
        Origin::Cargo
    } else if follows(&["WinGet", "Packages"]) || follows(&["WinGet", "Links"]) {
        Origin::Winget
    } else {
        return None;
    })
}

fn is_in_cargo_home(path: &Path) -> bool {
    environment::variable("CARGO_HOME").is_some_and(|home| path.parent() == Some(&home.join("bin")))
}

/// Whether pip has put it there: its package then lies in the same environment or prefix.
fn of_pip(path: &Path) -> Option<Origin> {
    let prefix = path.parent()?.parent()?;
    let names = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path());
    let of_unix = names(&prefix.join("lib")).map(|python| python.join("site-packages/rescind"));
    let of_windows = std::iter::once(prefix.join("Lib/site-packages/rescind"));
    of_unix.chain(of_windows).any(|package| package.join("__main__.py").exists()).then_some(Origin::Pip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<Origin> {
        let path = Path::new(path);
        let is_temporary = || is_temporary(path, Path::new("/scratch/tmp")).then_some(Origin::Temporary);
        passing(path).or_else(is_temporary).or_else(|| installed(path))
    }

    #[test]
    fn a_place_that_will_not_stay_is_known() {
        for (path, origin) in [
            ("/home/a/.npm/_npx/5f7a/node_modules/@rescind/linux-x64/bin/rescind", Origin::Npx),
            ("/scratch/cache/_npx/5f7a/node_modules/.bin/rescind", Origin::Npx),
            ("/home/a/.cache/uv/archive-v0/x/bin/rescind", Origin::Uvx),
            ("/scratch/uv-cache/archive-v12/x/bin/rescind", Origin::Uvx),
            ("/c/AppData/Local/uv/cache/environments-v2/x/Scripts/rescind.exe", Origin::Uvx),
            ("/home/a/.cache/pnpm/dlx/x/node_modules/@rescind/linux-x64/bin/rescind", Origin::PnpmDlx),
            ("/tmp/xfs-1/dlx-77/node_modules/.bin/rescind", Origin::PnpmDlx),
            ("/tmp/bunx-1000-rescind/rescind", Origin::Bunx),
            ("/home/a/.cache/pipx/9d/bin/rescind", Origin::PipxRun),
            ("/home/a/.cache/deno/npm/rescind", Origin::Cache),
            ("/Users/a/Library/Caches/x/rescind", Origin::Cache),
            ("/home/a/rescind/target/release/rescind", Origin::Build),
            ("/tmp/rescind", Origin::Temporary),
            ("/scratch/tmp/rescind", Origin::Temporary),
        ] {
            assert_eq!(of(path), Some(origin), "{path}");
            assert!(origin.passing_place().is_some(), "{path}");
            assert_eq!(origin.needs_copy(), origin != Origin::Build, "{path}");
        }
    }

    #[test]
    fn what_has_installed_a_program_is_known_by_its_path() {
        for (path, origin, removal) in [
            (
                "/usr/lib/node_modules/rescind/node_modules/@rescind/linux-x64/bin/rescind",
                Origin::NpmGlobal,
                "npm uninstall -g rescind",
            ),
            ("/home/a/work/node_modules/@rescind/linux-x64/bin/rescind", Origin::NpmLocal, "npm uninstall rescind"),
            ("/home/a/.local/share/uv/tools/rescind/bin/rescind", Origin::UvTool, "uv tool uninstall rescind"),
            ("/home/a/.local/share/pipx/venvs/rescind/bin/rescind", Origin::Pipx, "pipx uninstall rescind"),
            ("/opt/homebrew/Cellar/rescind/0.1.0/bin/rescind", Origin::Homebrew, "brew uninstall rescind"),
            ("/home/a/.cargo/bin/rescind", Origin::Cargo, "cargo uninstall rescind-cli"),
        ] {
            assert_eq!(of(path), Some(origin), "{path}");
            assert_eq!((origin.removal(), origin.needs_copy()), (Some(removal), false), "{path}");
        }
    }

    #[test]
    fn nothing_is_guessed_of_other_places() {
        for path in
            ["/usr/local/bin/rescind", "/home/a/target/rescind", "/tmpfiles/rescind", "/srv/archive-video/rescind"]
        {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
