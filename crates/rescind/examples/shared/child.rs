//! Starting the other side.

use std::{env, ffi::OsString, io, process::Command};

use rescind::peer::{Transport, transport};

/// The pipes of this command, or else of the example of this name, which was built beside this one.
pub(crate) fn started(mut command: impl Iterator<Item = OsString>, example: &str) -> io::Result<Transport> {
    let beside =
        || env::current_exe().map(|this| this.with_file_name(example).with_extension(env::consts::EXE_EXTENSION));
    let program = match command.next() {
        Some(program) => program,
        None => beside()?.into_os_string(),
    };
    let mut server = Command::new(program);
    server.args(command);
    let (transport, _child) = transport::child(server)?;
    Ok(transport)
}
