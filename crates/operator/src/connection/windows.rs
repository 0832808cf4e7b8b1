//! A named pipe, whose name is in the session's file.

use std::{fs::File, io, io::Read, path::Path};

use interprocess::os::windows::named_pipe::{pipe_mode::Bytes, tokio::DuplexPipeStream};
use rescind_ledger::identity::ProcessId;

use crate::ShimError;

/// The longest name of a pipe.
const MAX_NAME: u64 = 256;

pub(crate) type Connection = DuplexPipeStream<Bytes>;

/// Connects once.
pub(crate) async fn open(file: &Path) -> io::Result<Connection> {
    let mut name = String::new();
    File::open(file)?.take(MAX_NAME).read_to_string(&mut name)?;
    Connection::connect_by_path(name.as_str()).await
}

/// The number of the process that listens.
pub(crate) fn server(connection: &Connection) -> io::Result<Option<u32>> {
    connection.server_process_id().map(Some)
}

/// Checks that this user listens. After the end of a shim another user could make a pipe of the same name.
pub(crate) fn check(connection: &Connection, _user: u32) -> Result<(), ShimError> {
    let server = connection.server_process_id().map_err(ShimError::from_io)?;
    match ProcessId::of(server).is_some_and(ProcessId::is_own) {
        true => Ok(()),
        false => Err(ShimError::Unreachable(io::Error::other("its pipe is served by another user"))),
    }
}
