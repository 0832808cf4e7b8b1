//! What clients subscribe to, in the words of both eras: lists that change, and resources.

use std::collections::BTreeSet;

use super::rewrite;
use crate::json;

/// What a subscription wants to be reported.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Filter {
    /// Changes of which of [`LISTS`], by place.
    pub(super) lists: [bool; 3],
    pub(super) uris: BTreeSet<Box<str>>,
}

/// A kind of list.
struct List {
    /// In the filter of a subscription.
    wanted: &'static str,
    /// The server's capability.
    capability: &'static str,
    notification: &'static str,
}

const LISTS: [List; 3] = [
    List { wanted: "toolsListChanged", capability: "tools", notification: "notifications/tools/list_changed" },
    List { wanted: "promptsListChanged", capability: "prompts", notification: "notifications/prompts/list_changed" },
    List {
        wanted: "resourcesListChanged",
        capability: "resources",
        notification: "notifications/resources/list_changed",
    },
];

/// The member of a filter that names resources.
const RESOURCES: &str = "resourceSubscriptions";

/// Which lists a server reports changes of, by its description of itself.
pub(super) fn reported_by(server: &[u8]) -> [bool; 3] {
    core::array::from_fn(|at| reports(server, LISTS[at].capability, "listChanged"))
}

/// The list that this notification reports a change of, by place.
pub(super) fn changed_by(notification: &str) -> Option<usize> {
    LISTS.iter().position(|list| list.notification == notification)
}

/// Bytes that a name takes in a set.
pub(super) fn weight(name: &str) -> usize {
    name.len() + PLACE
}

/// More than a place in a set or a map takes.
pub(super) const PLACE: usize = 64;

fn reports(server: &[u8], capability: &str, what: &str) -> bool {
    json::lookup(server, &["capabilities", capability, what]) == Some(b"true")
}

impl Filter {
    /// What a client wants that this server can report.
    pub(super) fn granted(wanted: &[u8], server: &[u8]) -> Self {
        let mut lists = reported_by(server);
        for (is_granted, list) in lists.iter_mut().zip(&LISTS) {
            *is_granted &= json::member(wanted, list.wanted) == Some(b"true");
        }
        let subscribes = reports(server, "resources", "subscribe");
        let named = json::member(wanted, RESOURCES).filter(|_| subscribes).and_then(json::elements);
        let named = named.into_iter().flatten().map_while(Result::ok);
        Self { lists, uris: named.filter_map(|uri| Some(json::text(uri)?.into())).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists == [false; 3] && self.uris.is_empty()
    }

    /// Writes it as the params of both eras have it, after the members of `_meta`.
    pub(super) fn write_params(&self, meta: &[u8], out: &mut Vec<u8>) {
        let mut members = Vec::new();
        for (list, _) in LISTS.iter().zip(self.lists).filter(|(_, is_wanted)| *is_wanted) {
            rewrite::raw_member(list.wanted, b"true", &mut members);
        }
        for (at, uri) in self.uris.iter().enumerate() {
            if at == 0 {
                rewrite::member(RESOURCES, &mut members);
            }
            members.push(if at == 0 { b'[' } else { b',' });
            json::write_string(&mut members, uri);
        }
        if !self.uris.is_empty() {
            members.push(b']');
        }
        rewrite::meta(meta, None, &[], out);
        rewrite::member("notifications", out);
        rewrite::object(&members, None, &[], out);
    }
}
