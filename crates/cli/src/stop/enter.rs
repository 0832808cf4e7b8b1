//! A person at the terminal who waits no longer.

/// Waits for Enter on stdin, where that is a terminal that this process may read. What is typed is not for anything that
/// reads stdin later: a question that follows the wait is answered on its own line.
#[derive(Debug)]
pub(super) struct Enter {
    #[cfg(unix)]
    stdin: Option<tokio::net::unix::pipe::Receiver>,
}

#[cfg(unix)]
impl Enter {
    pub(super) fn listen() -> Self {
        use std::{
            io::{self, IsTerminal},
            os::fd::AsFd,
        };

        use tokio::net::unix::pipe::Receiver;
        let stdin = io::stdin();
        let fd = stdin.is_terminal().then(|| stdin.as_fd().try_clone_to_owned().ok()).flatten();
        Self { stdin: fd.and_then(|fd| Receiver::from_owned_fd_unchecked(fd).ok()) }
    }

    /// Nobody can press it.
    pub(super) const fn nobody() -> Self {
        Self { stdin: None }
    }

    pub(super) const fn is_heard(&self) -> bool {
        self.stdin.is_some()
    }

    /// Returns once it was pressed, and whether the terminal shows that on a line of its own. Never, where nobody can press
    /// it. Nothing is lost if it is dropped before.
    pub(super) async fn pressed(&mut self) -> bool {
        if let Some(stdin) = &self.stdin
            && let Ok(()) = stdin.readable().await
            && let Some(is_echoed) = line(stdin)
        {
            return is_echoed;
        }
        self.stdin = None;
        std::future::pending().await
    }
}

/// Takes the line that was typed, once there is one; none if it is another process's. Whether the terminal shows what is typed.
#[cfg(unix)]
fn line(stdin: &tokio::net::unix::pipe::Receiver) -> Option<bool> {
    use rustix::{
        io::read,
        process::getpgrp,
        termios::{LocalModes, tcgetattr, tcgetpgrp},
    };
    // Reading in the background would stop this process; a terminal that does not control it has none.
    let is_ours = tcgetpgrp(stdin).map_or(true, |group| group == getpgrp());
    let mut typed = [0; 256];
    let has_typed = is_ours && read(stdin, &mut typed).is_ok_and(|count| count > 0);
    has_typed.then(|| tcgetattr(stdin).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ECHO)))
}

#[cfg(windows)]
impl Enter {
    /// A console is not asked.
    pub(super) const fn listen() -> Self {
        Self {}
    }

    pub(super) const fn nobody() -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "it is never heard here")]
    pub(super) const fn is_heard(&self) -> bool {
        false
    }

    pub(super) async fn pressed(&mut self) -> bool {
        std::future::pending().await
    }
}
