//! The work of a session that notifications begin and end (D55): which messages do that.

use core::time::Duration;

use super::{ChildForm, Dialect, TurnForm};
use crate::{
    child::{ChildEnd, ChildState},
    json, message,
};

/// What an item of background work is called whose kind is not known here.
pub(crate) const BACKGROUND: &str = "background";

/// How the updates of a session report its work, apart from the requests that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionWorkForm {
    /// The member of the answer to a prompt with the id of the message that was inserted.
    pub message: &'static str,
    /// The kind of an update with the state of the session's foreground work, a whole snapshot (ACP-50).
    pub state: &'static str,
    /// Where in its params, and in those of updates of items, the members stand.
    pub body: &'static [&'static str],
    /// The member with the list of all background work; without an array there it is not reported (ACP-56).
    pub background: &'static str,
    /// The member of an item of that list with its kind.
    pub item_kind: &'static str,
    /// The kinds of items that are known. An item of another kind is work, too.
    pub items: &'static [ItemKind],
    /// The kind of an item that is a child, and the member with its session.
    pub child: (&'static str, &'static str),
    /// How long a client may leave a card unanswered that the agent has withdrawn (ACP-53, D37).
    pub cards: Duration,
    /// The code of an error to the request that closes a session, which means that there is none.
    pub no_session: i64,
}

/// One kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemKind {
    /// Its word in the list.
    pub word: &'static str,
    /// The member with the item's id: in the list, in updates, and in the params of the cancel.
    pub id: &'static str,
    /// The kind of the updates that report such an item.
    pub update: &'static str,
    /// The member of an update that says that the item works, and its word; none if it does until its end is told.
    pub at_work: Option<(&'static str, &'static str)>,
    /// The member of an update with the end of the item.
    pub end: &'static str,
    /// Words for an end, and what each means; none if an object there is the end, whatever caused it.
    pub ends: &'static [(&'static str, ChildEnd)],
    /// The request that cancels one, where the item grants that now (ACP-55).
    pub cancel: &'static str,
}

/// What is reported of a session's foreground work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateNews<'a> {
    pub(crate) state: ChildState,
    /// The update, as JSON.
    pub(crate) update: &'a [u8],
}

/// What an agent of ours reports of a session's foreground work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateReport<'a> {
    Running,
    /// It is over, or there was none.
    Idle(Option<StopReport<'a>>),
}

/// Why foreground work is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReport<'a> {
    /// For the reason that its handler has given, as JSON.
    Given(&'a [u8]),
    Cancelled,
    Failed {
        code: i32,
        message: &'a str,
        data: Option<&'a [u8]>,
    },
}

impl ItemKind {
    /// Writes the members that announce an item, and that it may be cancelled from now on (ACP-55, ACP-56).
    pub(crate) fn write_begin(&self, words: &ChildForm, id: &[u8], out: &mut Vec<u8>) {
        write_member(out, self.id, id);
        if let Some((member, word)) = self.at_work {
            write_text(out, member, word);
        }
        let Some(grants) = words.grants.last() else { return };
        let mut grant = vec![b'{'];
        json::write_string(&mut grant, words.cancel_grant);
        grant.extend_from_slice(b":{}}");
        write_member(out, grants, &grant);
    }

    /// Whether the announcement of an item has a member of this name by itself.
    pub(crate) fn is_own(&self, words: &ChildForm, member: &json::Member<'_>) -> bool {
        let at_work = self.at_work.map(|(member, _)| member);
        let own = [Some(self.id), at_work, words.grants.last().copied()];
        own.into_iter().flatten().any(|own| member.key_is(own))
    }

    /// Writes the members that report the end of an item; `shown` is an object that shows it, where the end is one.
    pub(crate) fn write_end(&self, id: &[u8], end: ChildEnd, shown: Option<&[u8]>, out: &mut Vec<u8>) {
        write_member(out, self.id, id);
        match self.ends.iter().find(|(_, how)| *how == end) {
            Some((word, _)) => write_text(out, self.end, word),
            None => write_member(out, self.end, shown.filter(|shown| shown.starts_with(b"{")).unwrap_or(b"{}")),
        }
    }
}

impl Dialect {
    /// The forms of turns and of their work, if its sessions report that by themselves (D55).
    #[must_use]
    pub(crate) fn session_work(&self) -> Option<(&'static TurnForm, &'static SessionWorkForm)> {
        self.turn.and_then(|turn| Some((turn, turn.work?)))
    }
}

impl TurnForm {
    /// Reads the state of the session's foreground work in an update with these params, if it reports one. Without a word
    /// it reports nothing, and takes nothing back.
    pub(crate) fn state_news<'a>(&self, params: &'a [u8]) -> Option<StateNews<'a>> {
        let form = self.work?;
        let is_state = self.kind_of(params).is_some_and(|kind| kind == form.state);
        let update = json::lookup(params, form.body).filter(|_| is_state)?;
        let state = self.child.state_of(update);
        (state != ChildState::Unconfirmed).then_some(StateNews { state, update })
    }

    /// Writes an update of a session, whose id is JSON, as a whole message; `members` adds those of its body, each after a
    /// comma.
    pub(crate) fn write_update(
        &self,
        session: &[u8],
        kind: &str,
        out: &mut Vec<u8>,
        members: impl FnOnce(&mut Vec<u8>),
    ) {
        let [body, kind_member] = self.kind else { return debug_assert!(false, "an update has another shape") };
        message::notification(self.update, out, |out| {
            json::write_string(out, self.session);
            out.push(b':');
            out.extend_from_slice(session);
            out.push(b',');
            json::write_string(out, body);
            out.extend_from_slice(b":{");
            json::write_string(out, kind_member);
            out.push(b':');
            json::write_string(out, kind);
            members(out);
            out.push(b'}');
        });
    }
}

impl SessionWorkForm {
    /// The kind of item with this word.
    pub(crate) fn item(&'static self, word: &str) -> Option<&'static ItemKind> {
        self.items.iter().find(|kind| word == kind.word)
    }

    /// The kind of item that a request of this method cancels.
    pub(crate) fn item_cancelled_by(&'static self, method: &str) -> Option<&'static ItemKind> {
        self.items.iter().find(|kind| method == kind.cancel)
    }

    /// Writes the members of a state (ACP-50), with the whole list of background work (ACP-56): kinds, and ids as JSON.
    pub(crate) fn write_state<'a>(
        &self,
        words: &ChildForm,
        report: StateReport<'_>,
        background: impl Iterator<Item = (&'a ItemKind, &'a [u8])>,
        out: &mut Vec<u8>,
    ) {
        let word = match report {
            StateReport::Running => words.at_work.first().copied().unwrap_or_default(),
            StateReport::Idle(_) => words.idle,
        };
        write_text(out, words.state_word, word);
        match report {
            StateReport::Running | StateReport::Idle(None) => {}
            StateReport::Idle(Some(StopReport::Given(reason))) => write_member(out, words.stop_reason, reason),
            StateReport::Idle(Some(StopReport::Cancelled)) => {
                write_text(out, words.stop_reason, words.cancelled_reason);
            }
            StateReport::Idle(Some(StopReport::Failed { code, message, data })) => {
                write_text(out, words.stop_reason, words.failed_reason);
                let mut error = Vec::new();
                message::error_object(code, message, data, &mut error);
                write_member(out, words.error, &error);
            }
        }
        let mut list = vec![b'['];
        for (kind, id) in background {
            let separator: &[u8] = if list.len() > 1 { b",{" } else { b"{" };
            list.extend_from_slice(separator);
            json::write_string(&mut list, self.item_kind);
            list.push(b':');
            json::write_string(&mut list, kind.word);
            write_member(&mut list, kind.id, id);
            list.push(b'}');
        }
        list.push(b']');
        write_member(out, self.background, &list);
    }
}

/// Writes a member behind others.
fn write_member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(b',');
    json::write_string(out, name);
    out.push(b':');
    out.extend_from_slice(value);
}

fn write_text(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(b',');
    json::write_string(out, name);
    out.push(b':');
    json::write_string(out, value);
}

impl ItemKind {
    /// How the item ended, if an update with these members reports that.
    pub(crate) fn end_in(&self, update: &[u8]) -> Option<ChildEnd> {
        let end = json::member(update, self.end)?;
        if self.ends.is_empty() {
            return end.starts_with(b"{").then_some(ChildEnd::Cancelled);
        }
        let word = json::text(end)?;
        self.ends.iter().find(|(known, _)| word == *known).map(|(_, how)| *how)
    }
}
