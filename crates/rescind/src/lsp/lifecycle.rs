//! The order of a session: initialize, everything else, shutdown, exit.

use std::process::{ExitCode, Termination};

use rescind_proto::error_code;

use crate::peer::ErrorObject;

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SessionState {
    /// `initialize` has not come.
    #[default]
    Fresh,
    /// It came and is not answered.
    Initializing,
    /// It is answered.
    Running,
    /// `shutdown` came.
    ShutDown,
}

/// The end of a session, as the exit code of the server's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exit {
    /// After `shutdown`: exit code 0.
    Clean,
    /// Without `shutdown`: exit code 1.
    Early,
}

impl SessionState {
    /// Takes a request, or refuses it if the state does not allow it.
    pub(super) fn request(&mut self, method: &str) -> Result<(), ErrorObject> {
        match (*self, method) {
            (Self::Fresh, "initialize") => *self = Self::Initializing,
            (Self::Fresh | Self::Initializing, method) if method != "initialize" => {
                return Err(ErrorObject::new(error_code::SERVER_NOT_INITIALIZED, "initialize has not been answered"));
            }
            (Self::Running, "shutdown") => *self = Self::ShutDown,
            (Self::Running, method) if method != "initialize" => {}
            (Self::ShutDown, _) => {
                return Err(ErrorObject::new(error_code::INVALID_REQUEST, "the session has been shut down"));
            }
            (Self::Fresh | Self::Initializing | Self::Running, _) => {
                return Err(ErrorObject::new(error_code::INVALID_REQUEST, "initialize has come before"));
            }
        }
        Ok(())
    }

    /// Notes the answer to `initialize`; after an error the client may try again.
    pub(super) fn initialized(&mut self, succeeded: bool) {
        if *self == Self::Initializing {
            *self = if succeeded { Self::Running } else { Self::Fresh };
        }
    }

    /// Whether a notification is handled: only `exit` always is.
    pub(super) fn hears(self, method: &str) -> bool {
        method == "exit" || self == Self::Running
    }

    /// The exit if the session ended now.
    pub(super) const fn exit(self) -> Exit {
        match self {
            Self::ShutDown => Exit::Clean,
            Self::Fresh | Self::Initializing | Self::Running => Exit::Early,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Clean => Self::SUCCESS,
            Exit::Early => Self::FAILURE,
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(answer: Result<(), ErrorObject>) -> i32 {
        answer.map_or_else(|error| error.code, |()| 0)
    }

    #[test]
    fn requests_are_served_between_initialize_and_shutdown() {
        let mut session = SessionState::default();
        assert_eq!(code(session.request("textDocument/hover")), -32002);
        assert_eq!(code(session.request("shutdown")), -32002);
        assert_eq!(code(session.request("initialize")), 0);
        assert_eq!(code(session.request("textDocument/hover")), -32002);
        assert_eq!(code(session.request("initialize")), -32600);
        session.initialized(true);
        assert_eq!(code(session.request("textDocument/hover")), 0);
        assert_eq!(code(session.request("initialize")), -32600);
        assert_eq!(code(session.request("shutdown")), 0);
        for method in ["initialize", "shutdown", "textDocument/hover"] {
            assert_eq!(code(session.request(method)), -32600, "{method}");
        }
        assert_eq!(session.exit(), Exit::Clean);
    }

    #[test]
    fn a_failed_initialize_can_be_tried_again() {
        let mut session = SessionState::default();
        assert_eq!(code(session.request("initialize")), 0);
        session.initialized(false);
        assert_eq!(code(session.request("initialize")), 0);
        assert_eq!(session.exit(), Exit::Early);
    }

    #[test]
    fn only_exit_is_heard_outside_of_the_session() {
        for session in [SessionState::Fresh, SessionState::Initializing, SessionState::ShutDown] {
            assert!(session.hears("exit") && !session.hears("textDocument/didOpen"), "{session:?}");
        }
        assert!(SessionState::Running.hears("textDocument/didOpen"));
    }
}
