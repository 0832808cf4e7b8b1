//! A server as a configuration file has it.

use std::ops::Range;

use crate::tree::{Member, Node, Object, Value};

/// A server as a configuration file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The keys that lead to it, its own name last.
    pub path: Vec<String>,
    /// What the client starts.
    pub kind: Kind,
    /// How its client reaches it.
    pub launch: Launch,
    /// Whether the client has it switched off.
    pub is_disabled: bool,
    /// Whether VS Code debugs it (`dev.debug`).
    pub is_debugged: bool,
    /// Why the letters of its program, or of its URL, cannot become an argument, if they cannot.
    pub(crate) immovable: Option<&'static str>,
    /// All of its members.
    pub(crate) object: Object,
}

/// What a client starts.
///
/// It never grows: a file lists servers, agents or language servers, and each is wrapped in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An MCP server.
    Tools,
    /// An ACP agent.
    Agent,
    /// A language server.
    Language,
}

/// How a client reaches a server.
///
/// It never grows: a change of a file that did not know how a server is reached would destroy its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// It starts a program.
    Command(Command),
    /// It connects to a URL.
    Url(Remote),
    /// The entry names neither: the client or one of its extensions brings the program.
    Elsewhere,
    /// The entry is not understood, for this reason.
    Unclear(&'static str),
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program first.
    pub words: Vec<String>,
    pub(crate) form: Form,
}

/// A server at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The URL, as it is written.
    pub url: String,
    /// Headers that the client sends, in the order of the text.
    pub headers: Vec<(String, String)>,
    /// Other members that a command could not express, such as a way to sign in.
    pub others: Vec<String>,
}

/// Where the words of a command stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In one array.
    Array(Node),
    /// The program in a member, its arguments in another one beside it, if there are any.
    Members { key: Range<usize>, program: Range<usize>, arguments: Option<Node>, has_commas: bool },
}

/// The names under which clients keep a program.
pub(crate) const PROGRAMS: [&str; 2] = ["command", "cmd"];

/// The names under which clients keep a URL.
pub(crate) const URLS: [&str; 5] = ["url", "serverUrl", "httpUrl", "baseUrl", "uri"];

/// The names under which clients keep headers.
pub(crate) const HEADERS: [&str; 2] = ["headers", "http_headers"];

/// The names under which clients keep the kind of a connection.
pub(crate) const TRANSPORTS: [&str; 2] = ["type", "transport"];

/// What entries with a URL may have besides, and lose nothing by it.
const KNOWN_BESIDE_URL: [&str; 25] = [
    "name",
    "description",
    "disabled",
    "enabled",
    "timeout",
    "tools",
    "alwaysAllow",
    "autoApprove",
    "disabledTools",
    "trust",
    "includeTools",
    "excludeTools",
    "enabled_tools",
    "disabled_tools",
    "tool_timeout_sec",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "required",
    "gallery",
    "version",
    "settings",
    "source",
    "alwaysLoad",
    "codemode",
    "cwd",
];

impl Entry {
    pub(crate) fn read(path: Vec<String>, kind: Kind, node: &Node) -> Self {
        let Some(object) = node.as_object() else {
            let launch = Launch::Unclear(node.strangeness().unwrap_or("it is not an object"));
            let object = Object::default();
            return Self { path, kind, launch, is_disabled: false, is_debugged: false, immovable: None, object };
        };
        let is_disabled = object.flag("disabled") == Some(true) || object.flag("enabled") == Some(false);
        let debug = object.get("dev").and_then(|dev| dev.node.as_object()?.get("debug"));
        let is_debugged = debug.is_some_and(|debug| !matches!(debug.node.value, Value::Flag(false) | Value::Other));
        let launch = Launch::read(object);
        Self { path, kind, launch, is_disabled, is_debugged, immovable: None, object: object.clone() }
    }

    /// Whether it has a member of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.get(name).is_some()
    }

    /// Its name in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

impl Command {
    /// Whether its file says nothing of arguments, not even that there are none.
    pub(crate) fn has_no_arguments(&self) -> bool {
        matches!(self.form, Form::Members { arguments: None, .. })
    }
}

impl Launch {
    fn read(object: &Object) -> Self {
        if object.members.iter().filter(|member| member.key == "command").count() > 1 {
            return Self::Unclear("it has `command` twice");
        }
        // What a merge brings is not in the entry itself.
        if let Some(why) = object.get("<<").and_then(|member| member.node.strangeness()) {
            return Self::Unclear(why);
        }
        let Some(command) = PROGRAMS.iter().find_map(|name| object.get(name)) else {
            let url = URLS.iter().find_map(|name| object.get(name));
            return url.map_or(Self::Elsewhere, |url| remote(object, url));
        };
        match &command.node.value {
            Value::String(program) => of_members(object, command, program, "args"),
            Value::Array(words) => {
                let Some(words) = words.iter().map(Node::as_str).collect::<Option<Vec<_>>>() else {
                    let why = command.node.strangeness();
                    return Self::Unclear(why.unwrap_or("`command` has elements that are not strings"));
                };
                if words.is_empty() {
                    return Self::Unclear("`command` is empty");
                }
                let words = words.into_iter().map(ToOwned::to_owned).collect();
                Self::Command(Command { words, form: Form::Array(command.node.clone()) })
            }
            // As older releases of Zed have it.
            Value::Object(inner) => match inner.get("path") {
                Some(path @ Member { node: Node { value: Value::String(program), .. }, .. }) => {
                    of_members(inner, path, program, "args")
                }
                _ => Self::Unclear("`command` has no `path`"),
            },
            Value::Strange(why) => Self::Unclear(why),
            Value::Flag(_) | Value::Other => Self::Unclear("`command` is not a string"),
        }
    }
}

fn of_members(object: &Object, member: &Member, program: &str, arguments: &str) -> Launch {
    if program.trim().is_empty() {
        return Launch::Unclear("`command` is empty");
    }
    if object.members.iter().filter(|member| member.key == arguments).count() > 1 {
        return Launch::Unclear("it has `args` twice");
    }
    let arguments = object.get(arguments).map(|member| &member.node);
    let mut words = vec![program.to_owned()];
    match arguments.map(Node::as_words) {
        Some(Some(more)) => words.extend(more.into_iter().map(ToOwned::to_owned)),
        Some(None) => {
            let why = arguments.and_then(Node::strangeness);
            return Launch::Unclear(why.unwrap_or("`args` is not a list of strings"));
        }
        None => {}
    }
    let form = Form::Members {
        key: member.key_range.clone(),
        program: member.node.range.clone(),
        arguments: arguments.cloned(),
        has_commas: object.has_commas,
    };
    Launch::Command(Command { words, form })
}

fn remote(object: &Object, url: &Member) -> Launch {
    let Some(text) = url.node.as_str() else { return Launch::Unclear("its URL is not a string") };
    if object.has_twice() {
        return Launch::Unclear("it has a member twice");
    }
    let is_header = |member: &&Member| HEADERS.contains(&member.key.as_str());
    let headers = object.members.iter().filter(is_header).filter_map(|member| member.node.as_object());
    let headers = headers.flat_map(|headers| &headers.members);
    let headers = headers.filter_map(|header| Some((header.key.clone(), header.node.as_str()?.to_owned())));
    let known = |key: &str| {
        URLS.contains(&key) || HEADERS.contains(&key) || TRANSPORTS.contains(&key) || KNOWN_BESIDE_URL.contains(&key)
    };
    let others = object.members.iter().map(|member| member.key.clone()).filter(|key| !known(key));
    Launch::Url(Remote { url: text.to_owned(), headers: headers.collect(), others: others.collect() })
}
