//! The processes of a tool: one and its child, which work until SIGTERM.

use std::{
    io,
    process::{Child, ExitCode},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::interval,
};

use super::{
    Role, STEP,
    mark::{Event, Piece},
};
use crate::{marks::Marks, program};

/// The exit code that a shell reports for SIGTERM.
const TERMINATED: u8 = 128 + 15;

/// Runs the compiler, and exits after it.
pub(super) async fn make(marks: &Marks) -> io::Result<ExitCode> {
    work(marks, Piece::Make, Some(Role::Compiler)).await
}

pub(super) async fn compiler(marks: &Marks) -> io::Result<ExitCode> {
    work(marks, Piece::Compiler, None).await
}

async fn work(marks: &Marks, piece: Piece, part: Option<Role>) -> io::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut step = interval(STEP);
    marks.mark(piece, Event::Started);
    let part: Option<Child> = part.map(|role| program::hop(role)?.spawn()).transpose()?;
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => break,
            _ = step.tick() => {
                if !marks.mark(piece, Event::Step) {
                    // The demo is gone.
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    }
    marks.mark(piece, Event::Told);
    if let Some(mut part) = part {
        part.wait()?;
    }
    marks.mark(piece, Event::Stopped);
    Ok(ExitCode::from(TERMINATED))
}
