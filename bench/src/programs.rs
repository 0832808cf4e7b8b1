//! Where the programs are that a run starts.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// The programs of a run.
#[derive(Clone, Debug)]
pub struct Programs {
    /// This program, which can play the server and the forwarders.
    pub own: PathBuf,
    /// The `rescind` command; without it the shim takes no part.
    pub rescind: Option<PathBuf>,
}

/// The options that say which shim is measured.
#[derive(Clone, Debug, clap::Args)]
pub struct ShimOptions {
    /// The command to measure, instead of a release build of this repository.
    #[arg(long, env = "RESCIND")]
    rescind: Option<PathBuf>,
    /// Leave the shim out.
    #[arg(long, conflicts_with = "rescind")]
    without_rescind: bool,
}

/// What cargo prints for each thing it has built.
#[derive(Deserialize)]
struct Built {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl ShimOptions {
    /// Finds the programs; builds the shim in release mode unless one was
    /// named or none is wanted. Call before pinning.
    ///
    /// # Errors
    /// When the named command is missing, or the build fails.
    pub fn programs(&self) -> io::Result<Programs> {
        let rescind = match &self.rescind {
            _ if self.without_rescind => None,
            Some(named) if named.is_file() => Some(named.clone()),
            Some(named) => {
                return Err(io::Error::other(format!(
                    "{}: no such file\nhint: without --rescind and RESCIND the command is built here",
                    named.display()
                )));
            }
            None => Some(build_rescind()?),
        };
        Ok(Programs { own: std::env::current_exe()?, rescind })
    }
}

fn build_rescind() -> io::Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "rescind-cli"])
        .args(["--message-format", "json-render-diagnostics", "--manifest-path"])
        .arg(&manifest)
        .stderr(Stdio::inherit())
        .output()?;
    if !build.status.success() {
        return Err(io::Error::other(format!("{}: the shim does not build", manifest.display())));
    }
    build
        .stdout
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Built>(line).ok())
        .filter(|built| built.target.as_ref().is_some_and(|target| target.name == "rescind"))
        .find_map(|built| built.executable)
        .ok_or_else(|| io::Error::other("cargo built no command named rescind"))
}
