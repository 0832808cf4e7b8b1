//! The order of requests in which children, and other parts of a request's work, stand below their parents.

use std::collections::{BTreeMap, HashMap};

use rescind_feed::Request;

/// The requests, each part of another below that and its other parts, with how deep it stands. A part whose parent is not
/// among them stands where it is listed, and so does every other request.
pub(super) fn in_order<'a>(requests: impl Iterator<Item = &'a Request>) -> Vec<(usize, &'a Request)> {
    let requests: Vec<&Request> = requests.collect();
    if !requests.iter().any(|request| request.is_part()) {
        return requests.into_iter().map(|request| (0, request)).collect();
    }
    let places: HashMap<&str, usize> = requests.iter().enumerate().map(|(at, one)| (&*one.key, at)).collect();
    let parent = |one: &Request| places.get(one.parent.as_deref().filter(|_| one.is_part())?).copied();
    let mut below = BTreeMap::<usize, Vec<usize>>::new();
    let mut open = Vec::new();
    for (at, one) in requests.iter().enumerate().rev() {
        match parent(one).filter(|parent| *parent != at) {
            Some(parent) => below.entry(parent).or_default().push(at),
            None => open.push((0, at)),
        }
    }
    let mut ordered = Vec::with_capacity(requests.len());
    while let Some((depth, at)) = open.pop() {
        ordered.push((depth, requests[at]));
        open.extend(below.remove(&at).into_iter().flatten().map(|child| (depth + 1, child)));
    }
    // A shim that names a circle of parents is wrong, and what it lists is shown all the same.
    ordered.extend(below.into_values().flatten().map(|at| (0, requests[at])));
    ordered
}

#[cfg(test)]
mod tests {
    use rescind_feed::{Child, ChildState};
    use rescind_testkit::fake_shim;

    use super::*;

    fn child(key: &str, parent: Option<&str>) -> Request {
        let child = Child { parent_session: "\"s\"".into(), state: ChildState::Running, can_cancel: true, reported: 0 };
        let one = fake_shim::request(1, "subagent", None, 0);
        Request { key: key.into(), parent: parent.map(Into::into), child: Some(child), ..one }
    }

    #[test]
    fn children_stand_below_their_parent_and_everything_is_shown_once() {
        let plain = |id, parent: Option<&str>| {
            let one = fake_shim::request(id, "session/prompt", None, 0);
            Request { parent: parent.map(Into::into), ..one }
        };
        let requests = [
            plain(1, None),
            plain(2, None),
            child("k1", Some("c1")),
            child("k2", Some("k1")),
            plain(3, Some("s1")),
            // A turn of an agent that a turn of Codex has opened.
            plain(4, Some("c2")),
            child("k3", Some("gone")),
            child("k4", Some("c1")),
            child("k5", Some("k6")),
            child("k6", Some("k5")),
            child("k7", Some("k7")),
        ];
        let shown: Vec<_> =
            in_order(requests.iter()).into_iter().map(|(depth, one)| format!("{depth} {}", one.key)).collect();
        assert_eq!(
            shown,
            ["0 c1", "1 k1", "2 k2", "1 k4", "0 c2", "1 c4", "0 c3", "0 k3", "0 k7", "0 k6", "0 k5"],
            "{shown:?}"
        );
    }
}
