use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::Pipes;

const BUFFER: usize = 64 * 1024;

pub(super) fn forward(pipes: &mut Pipes) -> io::Result<()> {
    super::forward_on_tokio(pipes, pump, pump)
}

async fn pump(mut from: Receiver, mut to: Sender) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
