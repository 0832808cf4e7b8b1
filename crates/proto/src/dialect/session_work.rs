//! The work of a session that notifications begin and end (D55): which messages do that.

use core::time::Duration;

use crate::{child::ChildEnd, json};

/// What an item of background work is called whose kind is not known here.
pub(crate) const BACKGROUND: &str = "background";

/// How the updates of a session report its work, apart from the requests that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionWorkForm {
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
    /// The member of an update with the end of the item.
    pub end: &'static str,
    /// Words for an end, and what each means; none if an object there is the end, whatever caused it.
    pub ends: &'static [(&'static str, ChildEnd)],
    /// The request that cancels one, where the item grants that now (ACP-55).
    pub cancel: &'static str,
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
