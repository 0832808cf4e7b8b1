//! The processes of a tool: one and its child, which work until the system asks them to end.

use std::{
    io,
    process::{Child, ExitCode},
};

use tokio::time::interval;

use super::{
    Role, STEP,
    mark::{Event, Piece},
};
use crate::marks::Marks;

/// What asks these processes to end, where all of a group are asked at once.
pub(crate) const TERMINATION: &str = if cfg!(windows) { "CTRL+BREAK" } else { "SIGTERM" };

/// The exit code after that, which no other end has: the code that a shell reports for SIGTERM.
pub(crate) const TERMINATED: u8 = 128 + 15;

/// Runs the compiler, and exits after it.
pub(super) async fn make(marks: &Marks) -> io::Result<ExitCode> {
    work(marks, Piece::Make, Some(Role::Compiler)).await
}

pub(super) async fn compiler(marks: &Marks) -> io::Result<ExitCode> {
    work(marks, Piece::Compiler, None).await
}

async fn work(marks: &Marks, piece: Piece, part: Option<Role>) -> io::Result<ExitCode> {
    let mut termination = termination()?;
    let mut step = interval(STEP);
    marks.mark(piece, Event::Started);
    let part: Option<Child> = part.map(|role| super::command(role)?.spawn()).transpose()?;
    loop {
        tokio::select! {
            biased;
            _ = termination.recv() => break,
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

#[cfg(unix)]
fn termination() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
}

#[cfg(windows)]
fn termination() -> io::Result<tokio::signal::windows::CtrlBreak> {
    tokio::signal::windows::ctrl_break()
}
