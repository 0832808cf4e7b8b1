//! Whether the work on a request has stopped, as far as that is known (D41), and what became of a request that a server
//! made of its client (D53).

use crate::{
    Cancel, Child, ChildState, Outcome, Progress, Request, SettledHow, Side, State, TaskAtWork, TaskEnd, TaskStatus,
};

/// What is known of the work on a request.
///
/// It never grows: code that shows it must have a sign for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkStatus {
    /// The server confirmed the cancel, or never got the request; or reports the task as cancelled that the request waited for.
    Stopped,
    /// The server answered the request, or the task that it waited for is over.
    Finished,
    /// Its server has ended.
    Ended,
    /// More may become known.
    Stopping,
    /// Progress arrived after the cancel, or its server reported of a task that it is not over.
    Working,
    /// The answer that its protocol requires is missing.
    NoAnswer,
    /// The server does not read the cancel, or its protocol does not allow one.
    NotDelivered,
    /// Nothing was received since the cancel, and nothing has to be.
    Unknown,
    /// A server's request that its client does not work on any more, or never received.
    Withdrawn,
    /// A server's request that its client may still show or work on. The server does not wait for it any more.
    WithClient,
}

impl WorkStatus {
    /// Every status, in the order of a summary.
    pub const ALL: [Self; 10] = [
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
    #[must_use]
    pub fn of(request: &Request, is_awaited: bool) -> Self {
        if let Some(child) = &request.child {
            return Self::of_child(request, child, is_awaited);
        }
        match (&request.cancel, request.from) {
            (Some(cancel), Side::Client) => Self::of_work(request, cancel, is_awaited),
            (Some(cancel), Side::Server) => Self::of_question(cancel, is_awaited),
            (None, Side::Client) if was_let_go(request) => Self::Unknown,
            (None, _) if request.state == State::Ended => Self::Finished,
            (None, _) if is_awaited => Self::Stopping,
            (None, Side::Client) => Self::Unknown,
            (None, Side::Server) => Self::WithClient,
        }
    }

    /// What is known of a cancelled request that the server works on.
    fn of_work(request: &Request, cancel: &Cancel, is_awaited: bool) -> Self {
        // All the work that there was for it is that of the task.
        if let (Outcome::Asked | Outcome::Sent, Some(end)) = (cancel.outcome, cancel.waited_for) {
            return if end == TaskEnd::Cancelled { Self::Stopped } else { Self::Finished };
        }
        match cancel.outcome {
            Outcome::NeverSent | Outcome::Confirmed => Self::Stopped,
            Outcome::CompletedFirst | Outcome::AnsweredAfter => Self::Finished,
            Outcome::NotSendable => Self::NotDelivered,
            Outcome::Unknown => Self::Unknown,
            Outcome::Later(_) if is_awaited => Self::Stopping,
            Outcome::Later(_) => Self::Unknown,
            Outcome::Sent if is_at_work(request, cancel) => Self::Working,
            Outcome::Sent if request.state == State::Stuck && cancel.confirms => Self::of_resisting(request, cancel),
            Outcome::Asked | Outcome::Sent if is_awaited => Self::Stopping,
            // Its server is not late with anything yet.
            Outcome::Asked if cancel.held => Self::Unknown,
            Outcome::Asked => Self::NotDelivered,
            Outcome::Sent if cancel.confirms => Self::of_resisting(request, cancel),
            Outcome::Sent => Self::Unknown,
        }
    }

    /// What is known of work whose cancel was not confirmed in time: of a task its server may have reported that it goes on.
    fn of_resisting(request: &Request, cancel: &Cancel) -> Self {
        let is_said = |task: &TaskAtWork| {
            let is_open = matches!(task.status, TaskStatus::Working | TaskStatus::InputRequired);
            is_open && cancel.written.is_some_and(|written| task.reported > written)
        };
        if request.at_work.as_ref().is_some_and(is_said) { Self::Working } else { Self::NoAnswer }
    }

    /// What is known of a child, which only the word of its agent ends: not the end of its parent's turn (D54).
    fn of_child(request: &Request, child: &Child, is_awaited: bool) -> Self {
        match (child.state, request.cancel.as_ref()) {
            (ChildState::Cancelled, _) => Self::Stopped,
            (ChildState::Closed, _) => Self::Ended,
            (ChildState::Finished | ChildState::Failed | ChildState::History, _) => Self::Finished,
            (_, Some(Cancel { outcome: Outcome::Unknown, .. })) => Self::Unknown,
            _ if is_awaited => Self::Stopping,
            (state, _) if state.is_unseen() => Self::Unknown,
            (_, None) => Self::Unknown,
            (_, Some(Cancel { outcome: Outcome::Asked | Outcome::NotSendable, .. })) => Self::NotDelivered,
            (_, Some(cancel)) if is_at_work(request, cancel) => Self::Working,
            (_, Some(_)) => Self::NoAnswer,
        }
    }

    /// What is known of a cancelled request that the client works on: never a reason to end the server (D53).
    const fn of_question(cancel: &Cancel, is_awaited: bool) -> Self {
        match cancel.outcome {
            Outcome::NeverSent | Outcome::Confirmed => Self::Withdrawn,
            Outcome::CompletedFirst | Outcome::AnsweredAfter => Self::Finished,
            Outcome::Asked | Outcome::Sent | Outcome::Later(_) if is_awaited => Self::Stopping,
            Outcome::Asked | Outcome::Sent | Outcome::NotSendable | Outcome::Unknown | Outcome::Later(_) => {
                Self::WithClient
            }
        }
    }

    /// The same once the server has ended, and its work with it.
    #[must_use]
    pub const fn after_end(self) -> Self {
        if self.is_over() { self } else { Self::Ended }
    }

    /// Whether the work is over, as far as the server has any.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Finished | Self::Ended | Self::Withdrawn | Self::WithClient)
    }

    /// Whether it is known that the cancel did not stop the work, or that it is not obeyed as its protocol requires.
    #[must_use]
    pub const fn resists(self) -> bool {
        matches!(self, Self::Working | Self::NoAnswer | Self::NotDelivered)
    }

    /// The word used in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
    #[must_use]
    pub fn name(self) -> String {
        self.as_str().replace(' ', "_")
    }
}

/// Whether another shim on the way has only let the request go, after a time or an operator's stop (D52).
fn was_let_go(request: &Request) -> bool {
    let end = request.settled.as_ref().filter(|end| end.how == SettledHow::Error);
    end.is_some_and(|end| matches!(end.code, Some(-31001 | -31003)))
}

/// Whether progress shows that the work goes on after its cancel.
fn is_at_work(request: &Request, cancel: &Cancel) -> bool {
    let has_moved = |progress: &Progress| cancel.written.is_some_and(|written| progress.at > written);
    cancel.works_on || (cancel.confirms && request.progress.as_ref().is_some_and(has_moved))
}

impl Cancel {
    /// What its words leave out, to be added to them: who knows of a cancel that cannot be sent, and that a client may still
    /// be busy with what its server asked (D53). `is_card`: a person answers requests of this method.
    #[must_use]
    pub fn remark(&self, request: &Request, is_card: bool) -> String {
        // The words for a child have it.
        let is_unsent = self.outcome == Outcome::NotSendable && request.child.is_none();
        let unsent = if is_unsent { unsent(request) } else { String::new() };
        let is_with_client = request.from == Side::Server
            && matches!(self.outcome, Outcome::Sent | Outcome::NotSendable | Outcome::Unknown);
        match (is_with_client, is_card) {
            (false, _) => unsent,
            (true, true) => format!("{unsent}; the card may still be shown"),
            (true, false) => format!("{unsent}; the client may still work on it"),
        }
    }
}

/// Who knows of a cancel that cannot be sent.
fn unsent(request: &Request) -> String {
    let (requester, worker) = (request.from.as_str(), request.from.other().as_str());
    // Its protocol may have the requester wait for the work all the same.
    let is_answered = match &request.settled {
        Some(settled) => settled.how == SettledHow::AnsweredHere,
        None => request.state == State::Answering,
    };
    let answered = if is_answered { format!(", and the {requester} gets an error") } else { String::new() };
    format!("; the {worker} was not told{answered}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A record of a later shim, with these members.
    fn record(members: &Value) -> Request {
        let mut record =
            json!({"key": "c1", "from": "client", "id": "1", "method": "m", "since": 5, "state": "running"});
        record.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(record).unwrap()
    }

    fn cancel(outcome: &str) -> Value {
        json!({"cause": "scheduler", "asked": 6, "written": 7, "outcome": outcome, "confirms": true, "protocol": "ACP 3",
               "worksOn": false, "words": "parked, and not confirmed"})
    }

    #[test]
    fn a_row_with_a_word_of_a_later_shim_is_kept_and_goes_on_as_it_came() {
        let settled = json!({"at": 9, "how": "handed_over"});
        let rows = [
            json!({"state": "paused"}),
            json!({"state": "paused", "settled": settled}),
            json!({"state": "cancelling", "cancel": cancel("parked")}),
            json!({"child": {"parentSession": "\"s\"", "state": "dreaming", "canCancel": true, "reported": 5}}),
            json!({"atWork": {"status": "waiting_for_quota", "reported": 5}}),
            json!({"workflow": {"step": 3}}),
        ];
        for members in rows {
            let row = record(&members);
            let shown = serde_json::to_value(&row).unwrap();
            for (name, value) in members.as_object().unwrap().iter().filter(|(name, _)| *name != "workflow") {
                assert_eq!(shown[name], *value, "{shown}");
            }
        }
    }

    #[test]
    fn what_another_shim_has_let_go_is_not_over() {
        for (code, expected) in
            [(-31001, WorkStatus::Unknown), (-31003, WorkStatus::Unknown), (-31002, WorkStatus::Finished)]
        {
            let settled = json!({"at": 9, "how": "error", "code": code});
            assert_eq!(
                WorkStatus::of(&record(&json!({"state": "ended", "settled": settled})), false),
                expected,
                "{code}"
            );
        }
    }

    #[test]
    fn of_a_state_that_is_not_known_nothing_is_claimed() {
        let paused = record(&json!({"state": "paused"}));
        assert_eq!((paused.state.as_str(), paused.is_open(), paused.is_released()), ("paused", true, false));
        assert_eq!(WorkStatus::of(&paused, false), WorkStatus::Unknown);
        let over = record(&json!({"state": "archived", "settled": {"at": 9, "how": "handed_over"}}));
        assert!(
            !over.is_open() && WorkStatus::of(&over, false) == WorkStatus::Unknown,
            "it is not known to have ended"
        );
        let parked = record(&json!({"state": "cancelling", "cancel": cancel("parked")}));
        let status = [true, false].map(|is_awaited| WorkStatus::of(&parked, is_awaited));
        assert_eq!(status, [WorkStatus::Stopping, WorkStatus::Unknown]);
        assert!(!parked.cancel.unwrap().outcome.is_final());
    }

    #[test]
    fn the_end_of_a_session_is_read_also_where_its_manner_is_not_known() {
        let how =
            |how: Value| serde_json::from_value::<crate::Ended>(json!({"seq": 1, "now": 2, "how": how})).unwrap().how;
        assert_eq!(how(json!({"exitCode": 3})), crate::End::ExitCode(3));
        assert_eq!(how(json!({"evicted": {"by": "quota"}})), crate::End::Unknown);
        assert_eq!(how(json!("suspended")), crate::End::Unknown);
    }
}
