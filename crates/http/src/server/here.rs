//! Answers in place of a program, which is not to see the request.

use rescind_proto::{error_code, id::RequestId, message};

use super::LinkKey;

/// An answer in place of a program, which is not to see the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// Nothing is to be done.
    Done,
    /// Its session is subscribed to too many resources.
    TooMany,
    /// It is about another's task, and so about none (TASK-07).
    UnknownTask,
}

impl Here {
    pub(crate) fn answer(self, id: &RequestId) -> Vec<u8> {
        let mut answer = Vec::new();
        match self {
            Self::Done => message::result(id, b"{}", &mut answer),
            Self::TooMany => {
                let words = "this session is subscribed to too many resources";
                message::error(Some(id), error_code::OVERLOADED, words, None, &mut answer);
            }
            Self::UnknownTask => {
                message::error(Some(id), error_code::INVALID_PARAMS, "unknown task", None, &mut answer)
            }
        }
        answer
    }
}

/// What is to be done once all that was sent with it is open and its response is in its place: a stream ends with the
/// last answer that it waits for.
#[derive(Clone, Debug)]
pub(crate) enum Later {
    /// This answers a request that its program is not to see.
    Answer(LinkKey, Vec<u8>),
    /// This request was taken back before its program took it.
    Settle(LinkKey, RequestId),
}
