//! Why a shim could not be asked.

use std::io;

use rescind_feed::Problem;

/// Why a shim could not be asked, or its error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// Nobody listens on its socket: it has ended.
    #[error("gone")]
    Gone(#[source] io::Error),
    /// Its socket exists but it does not answer: it is suspended or overloaded, or it closed the connection.
    #[error("not answering")]
    NotAnswering,
    /// Its socket is served by another user.
    #[error("its socket is served by user {0}")]
    Foreign(u32),
    /// The socket cannot be used.
    #[error("cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// It answered with an error.
    #[error("{}", .problem.error)]
    Refused {
        /// The status of its answer.
        status: u16,
        /// Its error.
        problem: Problem,
    },
    /// This program cannot read its answer: it is of another version, or not a shim.
    #[error("answered something that cannot be read: {0}")]
    Unreadable(String),
}

impl ShimError {
    /// What an I/O error on a shim's socket says about the shim.
    pub(super) fn from_io(error: io::Error) -> Self {
        let kind = error.kind();
        if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset].contains(&kind) {
            return Self::Gone(error);
        }
        Self::Unreachable(error)
    }

    /// An answer that broke off or is not HTTP.
    pub(super) fn from_hyper(error: &hyper::Error) -> Self {
        if error.is_parse() || error.is_parse_status() {
            return Self::Unreadable(error.to_string());
        }
        Self::Gone(io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string()))
    }

    /// An answer that is not the expected JSON.
    pub(super) fn unreadable(error: impl std::fmt::Display) -> Self {
        Self::Unreadable(error.to_string())
    }
}
