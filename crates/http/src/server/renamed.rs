//! Requests of a session that its program knows by another id, since another request in flight had theirs.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use rescind_proto::id::RequestId;

type Ids = HashSet<RequestId, FixedState>;

/// The ids that the program knows, by the client's id. A client that gives all its requests one id, as some do, has all of
/// them under it: so each is found by its own id, however many they are.
#[derive(Clone, Debug)]
pub(crate) struct Renamed {
    by_client_id: HashMap<RequestId, Ids, FixedState>,
    state: FixedState,
}

/// How many requests have a client's id and another at the program.
pub(crate) enum Known<'a> {
    None,
    Only(&'a RequestId),
    Several,
}

impl Renamed {
    pub(crate) fn new(seed: u64) -> Self {
        let state = FixedState::with_seed(seed);
        Self { by_client_id: HashMap::with_hasher(state.clone()), state }
    }

    pub(crate) fn insert(&mut self, client_id: &RequestId, link_id: &RequestId) {
        let ids = self.by_client_id.entry_ref(client_id).or_insert_with(|| Ids::with_hasher(self.state.clone()));
        ids.insert(link_id.clone());
    }

    pub(crate) fn remove(&mut self, client_id: &RequestId, link_id: &RequestId) {
        let Some(ids) = self.by_client_id.get_mut(client_id) else { return };
        ids.remove(link_id);
        if ids.is_empty() {
            self.by_client_id.remove(client_id);
        } else if ids.capacity() > 8 * ids.len() {
            // Else each id that once had many requests would keep their places.
            ids.shrink_to_fit();
        }
    }

    pub(crate) fn of(&self, client_id: &RequestId) -> Known<'_> {
        let mut ids = self.by_client_id.get(client_id).into_iter().flatten();
        match (ids.next(), ids.next()) {
            (None, _) => Known::None,
            (Some(only), None) => Known::Only(only),
            (Some(_), Some(_)) => Known::Several,
        }
    }

    /// Every pair of a client's id and the program's, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RequestId, &RequestId)> {
        self.by_client_id.iter().flat_map(|(id, known)| known.iter().map(move |known| (id, known)))
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let ids = self.by_client_id.iter().map(|(id, known)| {
            let names: usize = known.iter().map(RequestId::heap_bytes).sum();
            id.heap_bytes() + known.capacity() * size_of::<RequestId>() + names
        });
        self.by_client_id.capacity() * size_of::<(RequestId, Ids)>() + ids.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last of them would be found after all others, if they were looked through one by one: that takes minutes.
    #[test]
    fn each_of_three_hundred_thousand_requests_under_one_id_is_found_by_its_own() {
        let client_id = RequestId::integer(1);
        let mut renamed = Renamed::new(0);
        let all: Vec<_> = (0..300_000).map(RequestId::integer).collect();
        all.iter().for_each(|id| renamed.insert(&client_id, id));
        assert!(matches!(renamed.of(&client_id), Known::Several));
        let most = renamed.held();
        for id in &all[..all.len() - 1] {
            renamed.remove(&client_id, id);
        }
        assert!(matches!(renamed.of(&client_id), Known::Only(only) if Some(only) == all.last()));
        assert!(renamed.held() < most / 1000, "{} bytes of {most} are kept for one", renamed.held());
        all.iter().for_each(|id| renamed.remove(&client_id, id));
        assert!(matches!(renamed.of(&client_id), Known::None));
    }
}
