//! A configuration file as text.

use std::{collections::HashMap, ops::Range};

use crate::{
    edit::{self, Edit},
    entry::{Entry, Kind, Launch, PROGRAMS},
    journal::Note,
    oddity::{Form, Oddity},
    remote::{self, Style, UrlNote},
    syntax::{Syntax, SyntaxError},
    tree::{Node, Object, Value},
};

/// The mark that some editors put before UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Stands in place of a key where the servers are a list.
pub const LIST: &str = "[]";

/// What opencode keeps beside its servers in the form of its first version.
const NO_SERVERS: [[&str; 2]; 2] = [["mcp", "servers"], ["mcp", "timeout"]];

/// Where in a document the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Servers {
    /// The keys that lead to them; `*` is any key. [`LIST`], as the last, means that they are a list, and that each has its
    /// name in itself.
    pub at: &'static [&'static str],
    /// What they are.
    pub kind: Kind,
}

/// A configuration file as text, and the servers in it.
#[derive(Clone, Debug)]
pub struct Config {
    syntax: Syntax,
    has_mark: bool,
    text: String,
    root: Node,
    entries: Vec<Entry>,
    /// The names of its outermost members.
    names: Vec<String>,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// It breaks its syntax.
    #[error("it cannot be read: {0}")]
    Syntax(#[from] SyntaxError),
}

/// Words that were put before a server's command, or taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// These words come before it.
    Prepend(&'a [String]),
    /// So many words go. What was added with them, if it is known and still there, goes too.
    TakeOff {
        /// How many.
        words: usize,
        /// The arguments in [`Changed::notes`].
        added: Option<&'a str>,
    },
    /// This word takes the place of the program.
    Program(&'a str),
    /// Words take the place of some of those between the program of a shim and the server's own command.
    Flags {
        /// Which words of the whole command go.
        places: Range<usize>,
        /// What comes in their place.
        words: &'a [String],
    },
    /// A command that begins with these words takes the place of a URL, as this style has it.
    ToCommand(&'a [String], &'static Style),
    /// The URL that a note tells of comes back.
    ToUrl(&'a UrlNote),
}

/// What a change did besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The file.
    pub bytes: Vec<u8>,
    /// For each change what the file does not tell of it.
    pub notes: Vec<Option<Note>>,
    /// The servers that are left as they were, since they have changed too much to become what they were before.
    pub left: Vec<usize>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it is not text, or breaks its syntax.
    pub fn read(bytes: &[u8], syntax: Syntax, servers: &[Servers]) -> Result<Self, ReadError> {
        let text = std::str::from_utf8(bytes).map_err(|_| ReadError::NotUtf8)?;
        let (has_mark, text) = text.strip_prefix(BYTE_ORDER_MARK).map_or((false, text), |rest| (true, rest));
        let root = syntax.read(text)?;
        let mut entries = Vec::new();
        for Servers { at, kind } in servers {
            collect(&root, at, &mut Vec::new(), *kind, &mut entries);
        }
        refuse_namesakes(&mut entries);
        let members = root.as_object().into_iter().flat_map(|root| &root.members);
        let names = members.map(|member| member.key.clone()).collect();
        if syntax == Syntax::Yaml {
            refuse_unusual(text, &mut entries);
        }
        Ok(Self { syntax, has_mark, text: text.to_owned(), root, entries, names })
    }

    /// The servers, in the order of the text.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the file has an outermost member of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Whether the file has nothing in it but white space.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// What the file has and strict JSON has not, where it is JSON: the first of each kind.
    #[must_use]
    pub fn oddities(&self) -> Vec<Oddity> {
        let mut oddities = self.syntax.oddities(&self.text);
        if self.has_mark && self.syntax == Syntax::Json {
            let place = oddities.iter().take_while(|one| one.form == Form::Empty).count();
            oddities.insert(place, Oddity { form: Form::ByteOrderMark, line: 1 });
        }
        oddities
    }

    /// Whether another version of this file means the same, besides the commands of these servers.
    #[must_use]
    pub fn means_the_same(&self, other: &Self, besides: &[usize]) -> bool {
        let changed: Vec<&Object> =
            besides.iter().filter_map(|place| Some(&self.entries.get(*place)?.object)).collect();
        is_same((&self.text, &self.root), (&other.text, &other.root), &changed)
    }

    /// The file with the commands of these servers changed. What is not a command is left as it is.
    #[must_use]
    pub fn changed(&self, changes: &[(usize, Change<'_>)]) -> Changed {
        let mut edits = Vec::new();
        let (mut notes, mut left) = (Vec::new(), Vec::new());
        for (place, change) in changes {
            let (new, note) =
                self.entries.get(*place).and_then(|entry| self.edits(entry, change)).unwrap_or_else(|| {
                    left.push(*place);
                    (Vec::new(), None)
                });
            edits.extend(new);
            notes.push(note);
        }
        let text = edit::apply(&self.text, edits);
        let mark = if self.has_mark { BYTE_ORDER_MARK } else { "" };
        Changed { bytes: [mark, &text].concat().into_bytes(), notes, left }
    }

    fn edits(&self, entry: &Entry, change: &Change<'_>) -> Option<(Vec<Edit>, Option<Note>)> {
        let Self { text, syntax, .. } = self;
        match (&entry.launch, change) {
            (Launch::Command(command), Change::Prepend(words)) => {
                let edits = edit::prepend(text, *syntax, command, words);
                let added = command.has_no_arguments().then(|| edits.last().map(|edit| edit.text.clone())).flatten();
                Some((edits, added.map(Note::Arguments)))
            }
            (Launch::Command(command), Change::TakeOff { words, added }) => {
                Some((edit::take_off(text, &entry.object, command, *words, *added), None))
            }
            (Launch::Command(command), Change::Program(word)) => {
                Some((vec![edit::replace_program(*syntax, command, word)?], None))
            }
            (Launch::Command(command), Change::Flags { places, words }) => {
                Some((vec![edit::replace_words(text, *syntax, command, places, words)?], None))
            }
            (Launch::Url(_), Change::ToCommand(words, style)) => {
                let (edits, note) = remote::to_command(text, *syntax, &entry.object, words, style)?;
                Some((edits, Some(Note::Url(note))))
            }
            (Launch::Command(_), Change::ToUrl(note)) => Some((remote::to_url(text, &entry.object, note)?, None)),
            _ => None,
        }
    }
}

/// Whether two nodes, each with the text that it is of, mean the same; of `changed` objects the command is left out.
fn is_same((text, one): (&str, &Node), (other_text, other): (&str, &Node), changed: &[&Object]) -> bool {
    match (&one.value, &other.value) {
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_same((text, one), (other_text, other), changed))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_changed = changed.contains(&one);
            let counts = |key: &str| !is_changed || !(PROGRAMS.contains(&key) || key == "args");
            let members = |object: &Object| -> Vec<(String, Node)> {
                let members = object.members.iter().filter(|member| counts(&member.key));
                members.map(|member| (member.key.clone(), member.node.clone())).collect()
            };
            let (one, other) = (members(one), members(other));
            let mut pairs = one.iter().zip(&other);
            one.len() == other.len()
                && pairs.all(|((key, one), (other_key, other))| {
                    key == other_key && is_same((text, one), (other_text, other), changed)
                })
        }
        (Value::Other | Value::Strange(_), Value::Other | Value::Strange(_)) => {
            text[one.range.clone()] == other_text[other.range.clone()]
        }
        (one, other) => one == other,
    }
}

/// Finds the servers under a path of keys.
fn collect(node: &Node, keys: &[&str], path: &mut Vec<String>, kind: Kind, entries: &mut Vec<Entry>) {
    if keys == [LIST] {
        for (place, element) in node.as_array().unwrap_or_default().iter().enumerate() {
            let name = element.as_object().and_then(|server| server.get("name")?.node.as_str());
            path.push(name.map_or_else(|| (place + 1).to_string(), ToOwned::to_owned));
            entries.push(Entry::read(path.clone(), kind, element));
            path.pop();
        }
        return;
    }
    let Some(object) = node.as_object() else { return };
    let (wanted, rest) = keys.split_first().map_or((None, keys), |(first, rest)| (Some(*first), rest));
    for member in &object.members {
        if wanted.is_some_and(|wanted| wanted != "*" && wanted != member.key) {
            continue;
        }
        path.push(member.key.clone());
        match wanted {
            None => {
                let entry = Entry::read(path.clone(), kind, &member.node);
                let is_server = matches!(entry.launch, Launch::Command(_) | Launch::Url(_));
                if is_server || !NO_SERVERS.iter().any(|other| *path == other[..]) {
                    entries.push(entry);
                }
            }
            Some(_) => collect(&member.node, rest, path, kind, entries),
        }
        path.pop();
    }
}

/// Which of two servers with one name counts is the client's to say, and one of them would be wrapped for nobody.
fn refuse_namesakes(entries: &mut [Entry]) {
    let mut count: HashMap<Vec<String>, usize> = HashMap::new();
    for entry in &*entries {
        *count.entry(entry.path.clone()).or_default() += 1;
    }
    for entry in entries.iter_mut().filter(|entry| count[&entry.path] > 1) {
        entry.launch = Launch::Unclear("its name stands twice in the file");
    }
}

const RETURNS: &str = "a carriage return alone ends a line of its file; give its lines other ends";

/// Whether a line ends with a carriage return alone, as YAML allows.
fn is_broken_by_returns(text: &str) -> bool {
    text.replace("\r\n", "").contains('\r')
}

/// Finds out what YAML can say in a way that no change of ours can follow.
fn refuse_unusual(text: &str, entries: &mut [Entry]) {
    let returns = is_broken_by_returns(text).then_some(RETURNS);
    for entry in entries {
        match &entry.launch {
            Launch::Command(command) => {
                entry.immovable = edit::immovable(text, command);
                if let Some(why) = edit::unusual(text, command).or(returns) {
                    entry.launch = Launch::Unclear(why);
                }
            }
            Launch::Url(_) => entry.immovable = Some("only commands are wrapped in YAML"),
            Launch::Elsewhere | Launch::Unclear(_) => {}
        }
    }
}
