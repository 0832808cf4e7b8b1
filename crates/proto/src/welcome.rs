//! What a server has answered to clients that arrived: its handshake, and the lists that they read then.
//!
//! It is kept between two starts of one command, so that the next client of it need not wait for the server (D70). What a
//! server answers may depend on what its client declares of itself, so a document holds the answers to a few kinds of client.
//! A document counts whole or not at all, and so does a list: its pages are kept as one.

use crate::{
    dialect::{DISCOVER, Dialect, ListForm, mcp},
    error_code, fingerprint,
    frame::{self, Malformed, Params, Reason},
    hash::Seed,
    json,
};

/// The longest document, in bytes. What does not fit is not kept.
pub const MAX_DOCUMENT: usize = 256 << 10;

/// Kinds of client that a document has answers for at most; then the one that came first is left out.
const MAX_WELCOMES: usize = 4;

/// What a client declares of itself is kept up to so many bytes. One that declares more is not greeted early.
const MAX_CLIENT: usize = 16 << 10;

/// What is nested deeper in capabilities is compared as it stands.
const MAX_DEPTH: usize = 8;

/// Another form is not read.
const FORMAT: &[u8] = b"1";

const CURSOR: &str = "cursor";
const NEXT: &str = "nextCursor";

/// How long a client without a session may keep what it was answered.
const KEPT_FOR: &str = "ttlMs";

/// What the server of one command has answered, the last client's first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Welcomes(Vec<Welcome>);

impl Welcomes {
    /// Reads what [`write`](Self::write) has written. Anything else, also of an earlier or later form, holds nothing.
    #[must_use]
    pub fn read(document: &[u8]) -> Self {
        Self::read_whole(document).unwrap_or_default()
    }

    fn read_whole(document: &[u8]) -> Option<Self> {
        let text = document.strip_suffix(b"\n").unwrap_or(document);
        // Its parts become parts of messages, which are lines.
        if document.len() > MAX_DOCUMENT || text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return None;
        }
        let is_json = matches!(frame::parse(text), Err(Malformed::Invalid { reason: Reason::NoKind, .. }));
        if !is_json || json::member(text, "format") != Some(FORMAT) {
            return None;
        }
        let welcomes = json::elements(json::member(text, "welcomes")?)?;
        let welcomes = welcomes.map(|one| one.ok().and_then(Welcome::read)).collect::<Option<Vec<_>>>()?;
        (welcomes.len() <= MAX_WELCOMES).then_some(Self(welcomes))
    }

    /// Writes the document: one line. Lists that find no room in it are left out, and so is what came first.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = br#"{"format":"#.to_vec();
        out.extend_from_slice(FORMAT);
        out.extend_from_slice(br#","welcomes":["#);
        let mut is_first = true;
        for welcome in &self.0 {
            let room = (MAX_DOCUMENT - END.len()).saturating_sub(out.len() + 1);
            let Some(text) = welcome.written(room) else { continue };
            if !core::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.extend_from_slice(&text);
        }
        out.extend_from_slice(END);
        out
    }

    /// Whether nothing is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the server has answered to a client like this one.
    pub(crate) fn of(&self, seed: Seed, client: &Arrival) -> Option<&Welcome> {
        self.0.iter().find(|welcome| welcome.client.is_like(seed, client))
    }

    /// Keeps what the server answers to a client like this one from now on.
    pub(crate) fn keep(&mut self, seed: Seed, welcome: Welcome) {
        self.forget(seed, &welcome.client);
        self.0.insert(0, welcome);
        self.0.truncate(MAX_WELCOMES);
    }

    /// Forgets what the server has answered to clients like this one.
    pub(crate) fn forget(&mut self, seed: Seed, client: &Arrival) {
        self.0.retain(|known| !known.client.is_like(seed, client));
    }

    /// Forgets which requests the server does not know.
    pub(crate) fn forget_refusals(&mut self) {
        self.0.retain(|known| !known.refuses);
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().map(Welcome::held).sum()
    }
}

/// What stands behind the last of the welcomes.
const END: &[u8] = b"]}\n";

/// A client that arrives: what it begins with, and what it declares of itself that a server's answers may depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arrival {
    /// The method of its first request.
    opener: Box<str>,
    /// Its revision, capabilities and name, as JSON.
    says: Box<[u8]>,
}

impl Arrival {
    /// Reads the request with which a client begins in this dialect; `None` if it does not say which revision it speaks.
    pub(crate) fn of(dialect: &Dialect, opener: &str, params: &[u8]) -> Option<Self> {
        let (version, capabilities, info) = if dialect.stateless {
            let meta = json::member(params, "_meta")?;
            let member = |name: &str| json::member(meta, name);
            (
                member(mcp::VERSION_IN_META)?,
                member("io.modelcontextprotocol/clientCapabilities"),
                member("io.modelcontextprotocol/clientInfo"),
            )
        } else {
            let member = |name: &str| json::member(params, name);
            (member("protocolVersion")?, member("capabilities"), member("clientInfo"))
        };
        let name = info.and_then(|info| json::member(info, "name"));
        let mut says = br#"{"version":"#.to_vec();
        says.extend_from_slice(version);
        for (member, value) in [("capabilities", capabilities), ("name", name)] {
            if let Some(value) = value {
                says.push(b',');
                write_member(member, value, &mut says);
            }
        }
        says.push(b'}');
        let is_line = !says.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        (json::is_string(version) && is_line && says.len() <= MAX_CLIENT)
            .then(|| Self { opener: opener.into(), says: says.into() })
    }

    fn is_like(&self, seed: Seed, other: &Self) -> bool {
        self.opener == other.opener && is_same(seed, &self.says, &other.says)
    }
}

/// What a server has answered to one kind of client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Welcome {
    client: Arrival,
    /// The result of the client's first request, or the error where the server refuses it.
    pub(crate) answer: Box<[u8]>,
    /// It refuses it, since it knows no such request: its clients begin with another.
    pub(crate) refuses: bool,
    /// The results of requests for lists, by their methods: each is the whole list, on one page.
    lists: Vec<(Box<str>, Box<[u8]>)>,
}

impl Welcome {
    pub(crate) const fn new(client: Arrival, answer: Box<[u8]>) -> Self {
        Self { client, answer, refuses: false, lists: Vec::new() }
    }

    /// That the server knows no request like the first one of this client, and shows so with this error; `None` if the error may
    /// be about something else.
    pub(crate) fn refusal(client: Arrival, error: &[u8]) -> Option<Self> {
        let code = json::member(error, "code").and_then(json::integer)?;
        let unknown = [error_code::METHOD_NOT_FOUND, error_code::INVALID_PARAMS, error_code::INVALID_REQUEST];
        let is_meant = *client.opener == *DISCOVER && unknown.iter().any(|unknown| code == i64::from(*unknown));
        is_meant.then(|| Self { refuses: true, ..Self::new(client, error.into()) })
    }

    fn read(raw: &[u8]) -> Option<Self> {
        let opener = json::member(raw, "opener").and_then(json::text)?.as_ref().into();
        let object = |name: &str| json::member(raw, name).filter(|value| value.starts_with(b"{")).map(Box::from);
        let mut welcome = Self::new(Arrival { opener, says: object("client")? }, object("answer")?);
        welcome.refuses = json::member(raw, "refuses") == Some(b"true");
        for list in json::members(json::member(raw, "lists")?)? {
            let list = list.ok()?;
            let method = json::text(list.key)?;
            if !list.value.starts_with(b"{") {
                return None;
            }
            welcome.set_list(&method, list.value.into());
        }
        Some(welcome)
    }

    /// It as JSON, with as many of its lists as find room; `None` if it finds none without them.
    fn written(&self, room: usize) -> Option<Vec<u8>> {
        let mut out = br#"{"opener":"#.to_vec();
        json::write_string(&mut out, &self.client.opener);
        for (name, value) in [("client", &self.client.says), ("answer", &self.answer)] {
            out.push(b',');
            write_member(name, value, &mut out);
        }
        if self.refuses {
            out.extend_from_slice(br#","refuses":true"#);
        }
        out.extend_from_slice(br#","lists":{"#);
        let mut has_lists = false;
        for (method, list) in &self.lists {
            if out.len() + method.len() + list.len() + 8 > room {
                continue;
            }
            if core::mem::replace(&mut has_lists, true) {
                out.push(b',');
            }
            write_member(method, list, &mut out);
        }
        out.extend_from_slice(b"}}");
        (out.len() <= room).then_some(out)
    }

    /// The whole list that a request of this method is answered with.
    pub(crate) fn list(&self, method: &str) -> Option<&[u8]> {
        self.lists.iter().find(|(known, _)| **known == *method).map(|(_, list)| &**list)
    }

    pub(crate) fn set_list(&mut self, method: &str, list: Box<[u8]>) {
        self.drop_list(method);
        self.lists.push((method.into(), list));
        // In one order, so that the document is the same for the same lists.
        self.lists.sort_by(|(one, _), (other, _)| one.cmp(other));
    }

    pub(crate) fn drop_list(&mut self, method: &str) {
        self.lists.retain(|(known, _)| **known != *method);
    }

    /// The client to which the server has answered this.
    pub(crate) const fn client(&self) -> &Arrival {
        &self.client
    }

    /// It with the lists of another.
    pub(crate) fn with_lists_of(mut self, other: &Self) -> Self {
        self.lists.clone_from(&other.lists);
        self
    }

    /// Whether clients are shown when a list of this capability changes.
    pub(crate) fn reports_changes(&self, capability: &str) -> bool {
        json::lookup(&self.answer, &["capabilities", capability, "listChanged"]) == Some(b"true")
    }

    pub(crate) fn held(&self) -> usize {
        let lists =
            self.lists.iter().map(|(method, list)| size_of::<(Box<str>, Box<[u8]>)>() + method.len() + list.len());
        size_of::<Self>() + self.client.opener.len() + self.client.says.len() + self.answer.len() + lists.sum::<usize>()
    }
}

/// A list that is read page by page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pages {
    form: &'static ListForm,
    /// The members of the first page that are not of the list, each with a comma behind it.
    others: Vec<u8>,
    /// The items of the pages that have come, with commas between them.
    items: Vec<u8>,
    /// How many have come.
    count: usize,
}

/// More pages of one list are not read.
const MAX_PAGES: usize = 256;

/// What a page of a list leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// It was the last one: the result that has all of them.
    Last(Box<[u8]>),
    /// It names the next one, by this cursor, which is JSON.
    Next(Box<[u8]>),
    /// It is not a page of the list, or the list is too long to be kept.
    Unfit,
}

impl Pages {
    pub(crate) const fn new(form: &'static ListForm) -> Self {
        Self { form, others: Vec::new(), items: Vec::new(), count: 0 }
    }

    pub(crate) const fn form(&self) -> &'static ListForm {
        self.form
    }

    /// Adds the next page, the result of a request.
    pub(crate) fn add(&mut self, result: &[u8]) -> Page {
        let Some(members) = json::members(result) else { return Page::Unfit };
        let (mut items, mut next) = (None, None);
        for member in members {
            let Ok(member) = member else { return Page::Unfit };
            if member.key_is(self.form.items) {
                items = Some(member.value);
            } else if member.key_is(NEXT) {
                next = Some(member.value).filter(|next| *next != b"null");
            } else if self.count == 0 {
                self.others.extend_from_slice(member.key);
                self.others.push(b':');
                self.others.extend_from_slice(member.value);
                self.others.push(b',');
            }
        }
        self.count += 1;
        let Some(items) = items.and_then(|items| items.strip_prefix(b"[")?.strip_suffix(b"]")) else {
            return Page::Unfit;
        };
        let items = items.trim_ascii();
        if !items.is_empty() {
            if !self.items.is_empty() {
                self.items.push(b',');
            }
            self.items.extend_from_slice(items);
        }
        if self.held() > MAX_DOCUMENT || self.count > MAX_PAGES {
            return Page::Unfit;
        }
        match next {
            Some(next) => Page::Next(next.into()),
            None => {
                let mut whole = b"{".to_vec();
                whole.extend_from_slice(&self.others);
                json::write_string(&mut whole, self.form.items);
                whole.extend_from_slice(b":[");
                whole.extend_from_slice(&self.items);
                whole.extend_from_slice(b"]}");
                let is_line = !whole.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
                if is_line { Page::Last(whole.into()) } else { Page::Unfit }
            }
        }
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.others.capacity() + self.items.capacity()
    }
}

/// The cursor that these params of a request for a list name, as JSON.
pub(crate) fn cursor(params: &[u8]) -> Option<&[u8]> {
    json::member(params, CURSOR).filter(|cursor| *cursor != b"null")
}

/// Writes the member that names the next page.
pub(crate) fn write_cursor(cursor: &[u8], out: &mut Vec<u8>) {
    write_member(CURSOR, cursor, out);
}

/// Writes the `_meta` of a client's request for one of ours, which asks for no progress.
pub(crate) fn write_without_token(meta: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    let members = json::members(meta).into_iter().flatten().map_while(Result::ok);
    for (at, member) in members.filter(|member| !member.key_is("progressToken")).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(member.key);
        out.push(b':');
        out.extend_from_slice(member.value);
    }
    out.push(b'}');
}

/// Whether two lists have the same items.
pub(crate) fn has_same_items(seed: Seed, form: &ListForm, one: &[u8], other: &[u8]) -> bool {
    match (json::member(one, form.items), json::member(other, form.items)) {
        (Some(one), Some(other)) => is_same(seed, one, other),
        (one, other) => one == other,
    }
}

/// Whether two answers to `initialize` are of the same server, of the same version.
pub(crate) fn is_same_server(seed: Seed, one: &[u8], other: &[u8]) -> bool {
    match (json::member(one, "serverInfo"), json::member(other, "serverInfo")) {
        (Some(one), Some(other)) => is_same(seed, one, other),
        (one, other) => one == other,
    }
}

/// Whether an answer to `initialize` names this revision, which is JSON.
pub(crate) fn is_version(result: &[u8], version: &[u8]) -> bool {
    let text = |json| json::text(json);
    json::member(result, "protocolVersion").and_then(text).is_some_and(|named| Some(named) == text(version))
}

/// The capabilities that a client was shown in `shown`, and of which `real` has less.
pub(crate) fn lacking<'a>(told: &'a [u8], real: &[u8]) -> impl Iterator<Item = Box<str>> + use<'a> {
    let real: Box<[u8]> = json::member(real, "capabilities").unwrap_or_default().into();
    let told = json::member(told, "capabilities").and_then(json::members).into_iter().flatten().map_while(Result::ok);
    told.filter_map(move |member| {
        let name = json::text(member.key)?;
        let has = promises_nothing(member.value)
            || json::member(&real, &name).is_some_and(|real| has_at_least(real, member.value, MAX_DEPTH));
        (!has).then(|| name.as_ref().into())
    })
}

fn promises_nothing(capability: &[u8]) -> bool {
    matches!(capability, b"false" | b"null")
}

/// Whether `real` has all that `shown` has, and perhaps more.
fn has_at_least(real: &[u8], told: &[u8], depth: usize) -> bool {
    if promises_nothing(told) || real == told {
        return true;
    }
    let Some(members) = json::members(told).filter(|_| depth > 0) else { return false };
    let has = |member: json::Member<'_>| {
        let real = json::text(member.key).and_then(|name| json::member(real, &name));
        promises_nothing(member.value) || real.is_some_and(|real| has_at_least(real, member.value, depth - 1))
    };
    members.map_while(Result::ok).all(has)
}

/// An answer that a client may not keep any longer than until it asks again: it was not the server that gave it.
pub(crate) fn not_to_be_kept(answer: &[u8]) -> Vec<u8> {
    let Some(kept) = json::member(answer, KEPT_FOR).and_then(|value| frame::span_of(answer, value)) else {
        return answer.into();
    };
    let mut out = answer[..kept.start].to_vec();
    out.push(b'0');
    out.extend_from_slice(&answer[kept.end..]);
    out
}

/// Whether two values are the same, whatever the order of members, the white space and the escapes.
fn is_same(seed: Seed, one: &[u8], other: &[u8]) -> bool {
    let print = |raw| fingerprint::of(seed, &Params::of(raw));
    one == other || print(one) == print(other)
}

fn write_member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    json::write_string(out, name);
    out.push(b':');
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests;
