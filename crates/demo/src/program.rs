//! Command lines with which the running executable starts itself in another role.

use std::{env, ffi::OsStr, io, process::Command};

use crate::{
    hops::{self, Role},
    sample_server,
};

/// A process of the first act.
pub(crate) fn hop(role: Role) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args([hops::SUBCOMMAND, role.as_str()]);
    Ok(command)
}

/// The shim with the sample server behind it. The shim records to `recording`.
pub(crate) fn shim_and_server(recording: &OsStr, flags: &[&str]) -> io::Result<Command> {
    let program = env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(["run", "--record"]).arg(recording).args(flags);
    command.arg("--").arg(&program).arg(sample_server::SUBCOMMAND);
    Ok(command)
}
