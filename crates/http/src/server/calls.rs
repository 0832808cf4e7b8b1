//! The requests in flight on one link: one entry each, which is found by the id and by the progress token that its program
//! knows, and by the id that its client gave it.

use core::hash::{Hash, Hasher};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};
pub(crate) use rescind_parts::slab::Key as CallKey;
use rescind_parts::{
    hash::Seed,
    table::{self, Table},
};
use rescind_proto::{dialect::Dialect, id::RequestId};

use super::{
    SessionKey, StreamKey,
    keyed::{Keyed, note_look_up},
    keys::InputNumber,
};

/// Ids in the program's eyes that are ours, within a session, count down from here: few clients count so far.
const OWN_IDS: i64 = 1 << 30;

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The stream that waits for its answer.
    pub(crate) stream: StreamKey,
    /// The session whose client gave it its id; a request outside a session is not named by its id.
    pub(crate) session: Option<SessionKey>,
    /// Its id as its client knows it.
    pub(crate) client_id: RequestId,
    /// Its id as its program knows it.
    pub(crate) link_id: RequestId,
    /// Its progress token, as its program knows it, and as JSON of its client.
    pub(crate) token: Option<(RequestId, Bytes)>,
    pub(crate) asks: Asks,
    pub(crate) way: Way,
}

/// What a request asks for, as far as its answer is treated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asks {
    Anything,
    /// A subscription, which the server may end (MCP-M02).
    Subscription,
    ToolList,
    TaskList,
}

/// How far a request has come on its way to its program.
///
/// ```text
///  Joining ───────────────────────────────────────────► answered with the program's answer to our handshake
///  Here ──────────────────────────────────────────────► answered in the same step
///  Queued ──┬─ cancelled, and the program took it not ─► withdrawn with its cancel
///           └─ cancelled ──► Passed ──────────────────► answered, or settled in silence
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// The program never sees it: a session's handshake. With the revision that its client asks for, if it has sessions.
    Joining(Option<&'static Dialect>),
    /// The program never sees it: it is answered here.
    Here,
    /// It has this place among what the program is to take: until it was taken, a cancel takes it back.
    Queued(InputNumber),
    /// It is not taken back: the program has been given its cancel, or must see it (a handshake, MCP-C03).
    Passed,
}

impl Call {
    /// Feeds what decides its future into a hasher, but for its stream and its session.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (&self.client_id, &self.link_id, &self.token, self.asks).hash(state);
        core::mem::discriminant(&self.way).hash(state);
        if let Way::Joining(revision) = self.way {
            revision.map(|revision| revision.name).hash(state);
        }
    }

    /// Bytes of memory that it takes beside its place.
    fn heap_bytes(&self) -> usize {
        let token = self.token.as_ref().map_or(0, |(known, asked)| known.heap_bytes() + asked.len());
        self.client_id.heap_bytes() + self.link_id.heap_bytes() + token
    }
}

impl table::Entry for Call {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.link_id
    }

    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        self.token.iter().map(|(known, _)| known)
    }
}

/// The requests of a session that have one id at their client, and others at their program.
#[derive(Clone, Copy, Debug, Default)]
struct Namesakes {
    count: u32,
    /// The keys of all of them, combined by exclusive or: the key of the only one, if there is one.
    keys: u64,
}

type Renamed = Keyed<HashMap<(SessionKey, RequestId), Namesakes, FixedState>>;

/// The request in flight that a client means by an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    Nothing,
    Only(CallKey),
    /// There are several, so that none can be meant (D7).
    Several,
}

/// The requests in flight on a link.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    table: Table<Call>,
    /// Those whose id their program does not know: another in flight had it, or several clients share the program (D42).
    /// Few clients ever name a request again: it is made when one does, and kept while any is in flight.
    renamed: Option<Renamed>,
    /// Several clients share the program, whose ids and tokens name nothing (D42).
    is_shared: bool,
    seed: u64,
    next_id: i64,
    tokens_made: u64,
}

impl Calls {
    pub(crate) fn new(is_shared: bool, seed: u64) -> Self {
        Self {
            table: Table::new(Seed::new(seed)),
            renamed: None,
            is_shared,
            seed,
            next_id: if is_shared { 1 } else { OWN_IDS },
            tokens_made: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallKey, &Call)> {
        self.table.iter()
    }

    /// Gives a request a progress token that no other has at the program: its own in a session, unless another in flight
    /// has it; ours where several clients share the program (D42).
    pub(crate) fn rename_token(&mut self, call: &mut Call) {
        if let Some((token, _)) = &mut call.token
            && (self.is_shared || self.by_token(token).is_some())
        {
            *token = self.own_token();
        }
    }

    /// Takes in a request; the id that the program knows it by is found as its token is.
    pub(crate) fn enter(&mut self, call: Call) -> (CallKey, RequestId) {
        let client_id = call.client_id.clone();
        note_look_up();
        let entered = if self.is_shared { Err(call) } else { self.table.insert_new(self.table.hash(&client_id), call) };
        let mut call = match entered {
            Ok(key) => return (key, client_id),
            Err(call) => call,
        };
        let link_id = self.own_id();
        call.link_id = link_id.clone();
        let key = self.table.insert(self.table.hash(&link_id), call);
        if let (Some(renamed), Some(call)) = (&mut self.renamed, self.table.get(key)) {
            note_name(renamed, key, call);
        }
        (key, link_id)
    }

    /// Takes a request out.
    pub(crate) fn take(&mut self, key: CallKey) -> Option<Call> {
        note_look_up();
        let call = self.table.remove(key, None)?;
        self.forget_name(key, &call);
        Some(call)
    }

    /// Takes out the request that the program knows by this id.
    pub(crate) fn take_by_id(&mut self, id: &RequestId) -> Option<(CallKey, Call)> {
        note_look_up();
        let (key, call) = self.table.take(self.table.hash(id), |call| call.link_id == *id)?;
        self.forget_name(key, &call);
        Some((key, call))
    }

    fn forget_name(&mut self, key: CallKey, call: &Call) {
        if self.table.len() == 0 {
            self.renamed = None;
        }
        let Some(renamed) = &mut self.renamed else { return };
        let Some(name) = own_name(call) else { return };
        if let Entry::Occupied(mut known) = renamed.entry(name) {
            let Namesakes { count, keys } = known.get_mut();
            (*count, *keys) = (*count - 1, *keys ^ key.word());
            if *count == 0 {
                known.remove();
            }
        }
    }

    /// An id that no request has.
    pub(crate) fn own_id(&mut self) -> RequestId {
        loop {
            let id = RequestId::integer(self.next_id);
            self.next_id += if self.is_shared { 1 } else { -1 };
            // Where several share the program, it knows no ids but ours.
            if self.is_shared || self.by_id(&id).is_none() {
                return id;
            }
        }
    }

    fn own_token(&mut self) -> RequestId {
        loop {
            self.tokens_made += 1;
            let token = RequestId::string(&format!("rescind-{}", self.tokens_made));
            if self.is_shared || self.by_token(&token).is_none() {
                return token;
            }
        }
    }

    pub(crate) fn get(&self, key: CallKey) -> Option<&Call> {
        note_look_up();
        self.table.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: CallKey) -> Option<&mut Call> {
        note_look_up();
        self.table.get_mut(key)
    }

    /// The request that the program knows by this id.
    pub(crate) fn by_id(&self, id: &RequestId) -> Option<CallKey> {
        note_look_up();
        self.table.by_id(id)
    }

    /// The request whose progress the program reports under this token.
    pub(crate) fn by_token(&self, token: &RequestId) -> Option<CallKey> {
        note_look_up();
        self.table.by_token(token, |_| true)
    }

    /// The request that is alone on the link.
    pub(crate) fn only(&self) -> Option<&Call> {
        self.table.only_live().and_then(|key| self.table.get(key))
    }

    /// The request that a session's client calls `id`.
    pub(crate) fn named(&mut self, session: SessionKey, id: &RequestId) -> Meant {
        let is_plain = |key: &CallKey| {
            self.table.get(*key).is_some_and(|call| call.session == Some(session) && call.client_id == *id)
        };
        let plain = self.by_id(id).filter(is_plain);
        let renamed = self.renamed.get_or_insert_with(|| {
            let mut renamed = Keyed(HashMap::with_hasher(FixedState::with_seed(self.seed)));
            self.table.iter().for_each(|(key, call)| note_name(&mut renamed, key, call));
            renamed
        });
        let known = renamed.get(&(session, id.clone())).copied().unwrap_or_default();
        match (plain, known.count) {
            (None, 0) => Meant::Nothing,
            (Some(plain), 0) => Meant::Only(plain),
            (None, 1) => CallKey::from_word(known.keys).map_or(Meant::Nothing, Meant::Only),
            (Some(_), 1..) | (None, 2..) => Meant::Several,
        }
    }

    /// Forgets all of them; what is in flight is not answered any more.
    pub(crate) fn clear(&mut self) {
        let keys: Vec<_> = self.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| drop(self.take(key)));
    }

    /// Bytes of memory that they take.
    pub(crate) fn held(&self) -> usize {
        let renamed = self.renamed.as_ref().map_or(0, |renamed| {
            let names: usize = renamed.keys().map(|(_, id)| id.heap_bytes()).sum();
            renamed.capacity() * size_of::<((SessionKey, RequestId), Namesakes)>() + names
        });
        self.table.held() + self.iter().map(|(_, call)| call.heap_bytes()).sum::<usize>() + renamed
    }

    /// Feeds what decides the ids and tokens of later ones into a hasher. They stand with their streams.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (self.next_id, self.tokens_made).hash(state);
    }

    /// Panics if they contradict each other.
    pub(crate) fn check(&self) {
        self.table.check(|_| true);
        let mut renamed = 0;
        for (key, call) in self.iter() {
            assert_eq!(self.table.by_id(&call.link_id), Some(key), "a request is found by its id");
            if let Some((token, _)) = &call.token {
                assert_eq!(self.table.by_token(token, |_| true), Some(key), "a request is found by its token");
            }
            if let (Some(known), Some(name)) = (&self.renamed, own_name(call)) {
                assert!(known.contains_key(&name), "a request is found by its name");
                renamed += 1;
            }
        }
        let counted: u32 = self.renamed.iter().flat_map(|known| known.values()).map(|known| known.count).sum();
        assert_eq!(counted, renamed, "a name is kept for no request");
    }
}

/// What its client calls a request, if its program knows another id.
fn own_name(call: &Call) -> Option<(SessionKey, RequestId)> {
    let session = call.session.filter(|_| call.link_id != call.client_id)?;
    Some((session, call.client_id.clone()))
}

fn note_name(renamed: &mut Renamed, key: CallKey, call: &Call) {
    let Some(name) = own_name(call) else { return };
    let known = renamed.entry(name).or_default();
    (known.count, known.keys) = (known.count + 1, known.keys ^ key.word());
}

#[cfg(test)]
mod tests {
    use core::num::NonZero;

    use super::*;

    const SESSION: SessionKey = SessionKey(NonZero::<u64>::MIN);

    fn enter(calls: &mut Calls, id: &RequestId) -> CallKey {
        let mut call = Call {
            stream: StreamKey(NonZero::<u64>::MIN),
            session: Some(SESSION),
            client_id: id.clone(),
            link_id: id.clone(),
            token: None,
            asks: Asks::Anything,
            way: Way::Passed,
        };
        calls.rename_token(&mut call);
        calls.enter(call).0
    }

    /// The last of them would be found after all others, if they were looked through one by one: that takes minutes.
    #[test]
    fn each_of_three_hundred_thousand_requests_under_one_id_is_found_by_its_own() {
        let client_id = RequestId::integer(1);
        let mut calls = Calls::new(true, 0);
        let all: Vec<_> = (0..300_000).map(|_| enter(&mut calls, &client_id)).collect();
        assert_eq!(calls.named(SESSION, &client_id), Meant::Several);
        for key in &all[..all.len() - 1] {
            calls.take(*key);
        }
        assert_eq!(calls.named(SESSION, &client_id), Meant::Only(all[all.len() - 1]));
        calls.check();
        calls.clear();
        assert_eq!(calls.named(SESSION, &client_id), Meant::Nothing);
        assert!(calls.renamed.is_none_or(|renamed| renamed.is_empty()));
    }

    #[test]
    fn two_requests_of_one_id_in_a_session_of_its_own_are_told_apart_at_the_program() {
        let id = RequestId::integer(7);
        let mut calls = Calls::new(false, 0);
        let first = enter(&mut calls, &id);
        let second = enter(&mut calls, &id);
        assert_eq!(calls.get(second).map(|call| call.link_id.clone()), Some(RequestId::integer(OWN_IDS)));
        assert_eq!(calls.named(SESSION, &id), Meant::Several);
        calls.take(first);
        assert_eq!(calls.named(SESSION, &id), Meant::Only(second));
        calls.check();
    }
}
