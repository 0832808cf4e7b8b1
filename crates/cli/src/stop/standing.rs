//! Whether the work on a request has stopped, as far as that is known (D41), and what became of a request that a server
//! made of its client (D53).

use rescind_feed::{Cancel, Outcome, Request, Side, State};

use crate::screen::Tone;

/// What is known of the work on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The server confirmed the cancel, or never got the request.
    Stopped,
    /// The server answered the request.
    Finished,
    /// Its server has ended.
    Ended,
    /// More may become known.
    Stopping,
    /// Progress arrived after the cancel.
    Working,
    /// The answer that its protocol requires is missing.
    NoAnswer,
    /// The server does not read the cancel, or its protocol does not allow one.
    NotDelivered,
    /// Nothing was heard since the cancel, and nothing has to be.
    Unknown,
    /// A server's request that its client does not work on any more, or never received.
    Withdrawn,
    /// A server's request that its client may still show or work on. The server does not wait for it any more.
    WithClient,
}

impl Standing {
    /// Every standing, in the order of a summary.
    pub(crate) const ALL: [Self; 10] = [
        Self::Stopped,
        Self::Finished,
        Self::Ended,
        Self::Stopping,
        Self::Working,
        Self::NoAnswer,
        Self::NotDelivered,
        Self::Unknown,
        Self::Withdrawn,
        Self::WithClient,
    ];

    /// What is known of `request` while more may come, or when nothing more `is_awaited`.
    pub(crate) fn of(request: &Request, is_awaited: bool) -> Self {
        match request.from {
            Side::Client => Self::of_work(request, is_awaited),
            Side::Server => Self::of_question(request, is_awaited),
        }
    }

    /// What is known of a request that the server works on.
    fn of_work(request: &Request, is_awaited: bool) -> Self {
        let Some(cancel) = &request.cancel else {
            return match (request.is_open(), is_awaited) {
                (false, _) => Self::Finished,
                (true, true) => Self::Stopping,
                (true, false) => Self::Unknown,
            };
        };
        match cancel.outcome {
            Outcome::NeverSent | Outcome::Confirmed => Self::Stopped,
            Outcome::CompletedFirst | Outcome::AnsweredAfter => Self::Finished,
            Outcome::NotSendable => Self::NotDelivered,
            Outcome::Unknown => Self::Unknown,
            Outcome::Sent if is_at_work(request, cancel) => Self::Working,
            Outcome::Sent if request.state == State::Stuck && cancel.confirms => Self::NoAnswer,
            Outcome::Asked | Outcome::Sent if is_awaited => Self::Stopping,
            Outcome::Asked => Self::NotDelivered,
            Outcome::Sent if cancel.confirms => Self::NoAnswer,
            Outcome::Sent => Self::Unknown,
            _ => Self::Unknown,
        }
    }

    /// What is known of a request that the client works on: never a reason to end the server (D53).
    fn of_question(request: &Request, is_awaited: bool) -> Self {
        let Some(cancel) = &request.cancel else {
            return match (request.is_open(), is_awaited) {
                (false, _) => Self::Finished,
                (true, true) => Self::Stopping,
                (true, false) => Self::WithClient,
            };
        };
        match cancel.outcome {
            Outcome::NeverSent | Outcome::Confirmed => Self::Withdrawn,
            Outcome::CompletedFirst | Outcome::AnsweredAfter => Self::Finished,
            Outcome::Asked | Outcome::Sent if is_awaited => Self::Stopping,
            Outcome::Asked | Outcome::Sent | Outcome::NotSendable | Outcome::Unknown => Self::WithClient,
            _ => Self::WithClient,
        }
    }

    /// Whether the work is over, as far as the server has any.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Finished | Self::Ended | Self::Withdrawn | Self::WithClient)
    }

    /// Whether it is known that the cancel did not stop the work, or that it is not obeyed as its protocol requires.
    pub(crate) const fn resists(self) -> bool {
        matches!(self, Self::Working | Self::NoAnswer | Self::NotDelivered)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Finished => "finished",
            Self::Ended => "ended",
            Self::Stopping => "stopping",
            Self::Working => "still working",
            Self::NoAnswer => "no answer",
            Self::NotDelivered => "not delivered",
            Self::Unknown => "unknown",
            Self::Withdrawn => "withdrawn",
            Self::WithClient => "with its client",
        }
    }

    /// The word for data.
    pub(crate) fn name(self) -> String {
        self.as_str().replace(' ', "_")
    }

    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::Stopped | Self::Finished | Self::Ended | Self::Withdrawn => Tone::Faint,
            Self::Stopping => Tone::Plain,
            Self::Unknown | Self::WithClient => Tone::Notice,
            Self::Working | Self::NoAnswer | Self::NotDelivered => Tone::Alarm,
        }
    }
}

/// Whether progress shows that the work goes on after its cancel.
fn is_at_work(request: &Request, cancel: &Cancel) -> bool {
    let has_moved = |progress: &rescind_feed::Progress| cancel.written.is_some_and(|written| progress.at > written);
    cancel.works_on || (cancel.confirms && request.progress.as_ref().is_some_and(has_moved))
}
