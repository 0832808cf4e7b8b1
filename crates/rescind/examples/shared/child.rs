//! Starting the other side.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    process::Stdio,
};

use rescind::peer::Transport;
use tokio::process::Command;

/// The pipes of this command, or else of the example of this name, which was built beside this one.
pub(crate) fn transport(mut command: impl Iterator<Item = OsString>, example: &str) -> io::Result<Transport> {
    let beside =
        || env::current_exe().map(|this| this.with_file_name(example).with_extension(env::consts::EXE_EXTENSION));
    let program = match command.next() {
        Some(program) => program,
        None => beside()?.into_os_string(),
    };
    let mut child =
        Command::new::<&OsStr>(&program).args(command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pipes = child.stdout.take().zip(child.stdin.take()).ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(Transport::from(pipes).keeping(child))
}
