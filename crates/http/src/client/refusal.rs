//! Why an HTTP request brought no answer, and what is said of that.

use http::{StatusCode, response::Parts};
use rescind_proto::{frame, link::Fault};

use super::{
    failure::Failure,
    headers::Origin,
    message,
    words::{self, Challenge},
};

/// A response that is not the answer that a request needs.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// What the server wants to know of its client.
    pub(crate) challenge: Option<Challenge>,
    /// When the server wants the request to be tried again.
    pub(crate) retry_after: Option<Box<str>>,
    /// What is wrong with it although its status says success.
    pub(crate) unusable: Option<String>,
    /// What was read of its body.
    pub(crate) body: Vec<u8>,
    /// The session whose id was refused.
    pub(crate) session: Option<u64>,
}

impl Refusal {
    /// What the head of a response says, to a request in this session.
    pub(crate) fn new(head: &Parts, session: Option<u64>) -> Self {
        Self {
            status: head.status,
            challenge: Challenge::read(&head.headers),
            retry_after: words::retry_after(&head.headers),
            unusable: None,
            body: Vec::new(),
            session,
        }
    }

    /// Whether the client is to show who it is, or that it may ask.
    pub(crate) fn wants_authorization(&self) -> bool {
        match self.status {
            StatusCode::UNAUTHORIZED => true,
            // Without a challenge it is for another reason.
            StatusCode::FORBIDDEN => self.challenge.is_some(),
            _ => false,
        }
    }

    /// The end of the requests that were refused so.
    pub(crate) fn failure(&self, origin: &Origin) -> Failure {
        let said = frame::parse(message::whole(&self.body)).ok();
        let said = said.as_ref().and_then(words::message_of).unwrap_or_else(|| words::excerpt(&self.body));
        let (named, wants_authorization) = (words::status(self.status), self.wants_authorization());
        let challenge = self.challenge.as_ref().filter(|_| wants_authorization);
        let mut text = match (&self.unusable, challenge) {
            (Some(unusable), _) => format!("{origin} {unusable}"),
            (None, Some(challenge)) => format!("{origin} wants authorization ({named}; {})", challenge.schemes),
            (None, None) if wants_authorization => format!("{origin} wants authorization ({named})"),
            (None, None) => format!("{origin} answered {named}"),
        };
        if !said.is_empty() {
            text.push_str(": ");
            text.push_str(&said);
        }
        let may_have_run = self.status.is_success() || self.status.is_server_error();
        let fault = if wants_authorization { Fault::Authorization } else { Fault::Server };
        let failure = if may_have_run { Failure::unknown(fault, text) } else { Failure::not_run(fault, text) };
        failure.with_status(self.status).with_challenge(challenge).with_retry_after(self.retry_after.as_deref())
    }

    /// The end of the requests that a server refused so that speaks only the transport of 2024-11-05.
    pub(crate) fn of_old_transport(&self, origin: &Origin) -> Failure {
        let text = format!(
            "{origin} speaks only HTTP+SSE, the transport of MCP 2024-11-05, which is not spoken here; Streamable HTTP, \
             its successor, was refused with {}",
            words::status(self.status)
        );
        Failure::not_run(Fault::Server, text).with_status(self.status)
    }
}

/// How a connection that carried an errand ended.
#[derive(Clone, Debug)]
pub(crate) enum Interruption {
    /// The server ended the response in order.
    Ended,
    /// It broke.
    Broken(String),
    /// No connection could be made.
    Unreached(String),
    /// The server refused to go on for now.
    Refused(StatusCode),
    /// The server took too long, or said more than is of use.
    TimedOut,
    /// The answer is longer than this.
    TooLarge(usize),
    /// It shows that the server speaks the transport of 2024-11-05.
    OldTransport,
}

impl Interruption {
    /// In a few words.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Ended | Self::TooLarge(_) | Self::OldTransport => "no answer".to_owned(),
            Self::Broken(why) | Self::Unreached(why) => why.clone(),
            Self::Refused(status) => words::status(*status),
            Self::TimedOut => "no answer in time".to_owned(),
        }
    }

    /// The end of requests whose response was lost so; `goes_on` if it could have been asked for again.
    pub(crate) fn failure(self, origin: &Origin, goes_on: bool) -> Failure {
        let (fault, status, what) = match self {
            Self::TooLarge(most) => return Failure::too_large(most),
            Self::Ended | Self::TimedOut | Self::OldTransport => {
                (Fault::Server, None, format!("{origin} ended its response without an answer"))
            }
            Self::Broken(why) | Self::Unreached(why) => {
                (Fault::Transport, None, format!("the connection to {origin} broke before the answer came ({why})"))
            }
            Self::Refused(status) => {
                let is_for_token = status == StatusCode::UNAUTHORIZED;
                let fault = if is_for_token { Fault::Authorization } else { Fault::Server };
                let named = words::status(status);
                let what = format!("the connection to {origin} ended before the answer came, and then it said {named}");
                (fault, Some(status), what)
            }
        };
        let tried = if goes_on { ", and could not be resumed" } else { "" };
        let failure = Failure::unknown(fault, format!("{what}{tried}; the request may have been carried out"));
        status.into_iter().fold(failure, Failure::with_status)
    }
}
