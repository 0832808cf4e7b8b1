//! Servers at a URL: whether `rescind run --url` can stand in for one, and how its entry becomes a command and a URL again.
//!
//! Values keep their own letters: the URL becomes the last argument, and the headers become variables of `env`. What the
//! new text does not tell, the [`UrlNote`] does: the names of members, never a value that could be a secret.

use serde::{Deserialize, Serialize};

use crate::{
    edit::{self, Edit},
    entry::{Entry, HEADERS, Kind, Launch, Remote, TRANSPORTS, URLS},
    syntax::Syntax,
    tree::{Member, Object},
};

/// How a client writes a server that it starts, and what it puts in for references.
#[derive(Debug, PartialEq, Eq)]
pub struct Style {
    /// The value of `type`.
    started: &'static str,
    /// The member with the variables of the program.
    environment: &'static str,
    /// Whether program and arguments are one list.
    is_list: bool,
    /// How the references begin that it expands in variables and in headers alike.
    references: &'static [&'static str],
    /// Whether it expands them in arguments, too.
    expands_arguments: bool,
    /// Whether an entry with a command and members for a sign-in would be refused by it.
    is_strict: bool,
    /// Whether `url` without a `type` means HTTP+SSE.
    has_http_url: bool,
}

/// What an entry was like before it became a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlNote {
    /// The text from the key of the URL to its value.
    key: String,
    /// The member with the headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<HeaderNote>,
    /// The members that name the transport, each with its value as it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    transports: Vec<(String, String)>,
}

/// What the member with the headers was like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeaderNote {
    /// Its key, as it is written.
    key: String,
    /// For each variable the name of its header, as it is written.
    names: Vec<(String, String)>,
}

/// Why an entry is left at its URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no MCP server.
    #[error("is at a URL, and `rescind run --url` speaks MCP only")]
    NotTools,
    /// It uses a transport that the shim does not speak.
    #[error("is reached by HTTP+SSE, or may be, and `rescind run --url` speaks Streamable HTTP only")]
    Sse,
    /// Its URL is of another kind.
    #[error("has a URL that is neither http nor https")]
    NotHttp,
    /// Its client may have to sign in.
    #[error(
        "may need a sign-in, which its client has and a shim would need anew (rescind login); --force wraps it all the same"
    )]
    SignIn,
    /// It has a member that a command cannot express.
    #[error("has `{0}`, which a command cannot express")]
    Member(String),
    /// It holds a reference that the client would not expand any more.
    #[error("has a reference to a variable in `{0}`, which its client is not known to expand for a command")]
    Reference(String),
    /// Its file is YAML.
    #[error(
        "is at a URL in a YAML file, in which only commands are wrapped; write `rescind run --url URL` there by hand"
    )]
    Yaml,
    /// Lists name servers by their URL or command.
    #[error("may be allowed or denied by its URL in the settings of Claude Code")]
    Managed,
}

const COMMON: Style = Style {
    started: "stdio",
    environment: "env",
    is_list: false,
    references: &[],
    expands_arguments: false,
    is_strict: false,
    has_http_url: false,
};

const BRACES: Style = Style { references: &["${"], expands_arguments: true, ..COMMON };

const GEMINI: Style = Style { has_http_url: true, ..BRACES };

/// Clients that differ from [`COMMON`].
const STYLES: &[(&str, Style)] = &[
    ("claude-code", BRACES),
    ("vscode", BRACES),
    ("cursor", BRACES),
    ("windsurf", BRACES),
    ("roo", BRACES),
    ("amp", BRACES),
    ("crush", BRACES),
    ("gemini", GEMINI),
    ("qwen", GEMINI),
    ("codex", Style { is_strict: true, ..COMMON }),
    ("copilot", Style { started: "local", ..COMMON }),
    (
        "opencode",
        Style {
            started: "local",
            environment: "environment",
            is_list: true,
            references: &["{env:", "{file:"],
            expands_arguments: true,
            ..COMMON
        },
    ),
];

/// The style of a client, or of a file that is nobody's.
#[must_use]
pub fn style(client: Option<&str>) -> &'static Style {
    STYLES.iter().find(|(id, _)| Some(*id) == client).map_or(&COMMON, |(_, style)| style)
}

/// Members by which clients sign in.
const SIGN_IN: [&str; 5] = ["oauth", "auth", "authProviderType", "oauthScopes", "authorization"];

/// How references begin.
const REFERENCES: [&str; 3] = ["${", "{env:", "{file:"];

/// Whether a command can stand in for this entry.
///
/// # Errors
///
/// The reason why not. Of several, [`Refusal::SignIn`] comes last.
pub fn check(entry: &Entry, style: &Style) -> Result<(), Refusal> {
    let Launch::Url(remote) = &entry.launch else { return Ok(()) };
    if entry.kind != Kind::Tools {
        return Err(Refusal::NotTools);
    }
    if entry.immovable.is_some() {
        return Err(Refusal::Yaml);
    }
    check_transport(&entry.object, remote, style)?;
    check_members(&entry.object, remote, style)?;
    check_references(remote, style)?;
    let has_sign_in = remote.others.iter().any(|name| SIGN_IN.contains(&name.as_str()));
    let has_credentials = remote.headers.iter().any(|(name, _)| {
        let name = name.to_ascii_lowercase();
        ["auth", "key", "token"].iter().any(|part| name.contains(part))
    });
    if has_sign_in || !(has_credentials || is_loopback(&remote.url)) { Err(Refusal::SignIn) } else { Ok(()) }
}

fn check_transport(object: &Object, remote: &Remote, style: &Style) -> Result<(), Refusal> {
    let named = TRANSPORTS.iter().filter_map(|name| object.get(name));
    let mut is_named = false;
    for member in named {
        is_named = true;
        match member.node.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("http" | "streamable-http" | "streamablehttp" | "streamable_http" | "remote") => {}
            Some("sse") => return Err(Refusal::Sse),
            _ => return Err(Refusal::Member(member.key.clone())),
        }
    }
    let url = remote.url.split(['?', '#']).next().unwrap_or_default();
    let is_plain = style.has_http_url && object.get("url").is_some();
    if !is_named && (is_plain || url.trim_end_matches('/').ends_with("/sse")) {
        return Err(Refusal::Sse);
    }
    let scheme = url.to_ascii_lowercase();
    let is_http = ["http://", "https://"].iter().any(|scheme_of| scheme.starts_with(scheme_of));
    if is_http || REFERENCES.iter().any(|start| url.starts_with(*start)) { Ok(()) } else { Err(Refusal::NotHttp) }
}

fn check_members(object: &Object, remote: &Remote, style: &Style) -> Result<(), Refusal> {
    let refused = |name: &str| Refusal::Member(name.to_owned());
    let is_sign_in = |name: &str| SIGN_IN.contains(&name) && !style.is_strict;
    if let Some(other) = remote.others.iter().find(|name| !is_sign_in(name)) {
        return Err(refused(other));
    }
    if let Some(second) = URLS.iter().filter(|name| object.get(name).is_some()).nth(1) {
        return Err(refused(second));
    }
    let mut headers = HEADERS.iter().filter_map(|name| object.get(name));
    let Some(member) = headers.next() else { return Ok(()) };
    if let Some(second) = headers.next() {
        return Err(refused(&second.key));
    }
    let Some(inner) = member.node.as_object() else { return Err(refused(&member.key)) };
    let is_plain = |header: &Member| {
        let name = &header.key;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        is_name && header.node.as_str().is_some()
    };
    let mut names: Vec<&str> = inner.members.iter().map(|header| &*header.key).collect();
    names.sort_unstable();
    let is_twice = names.windows(2).any(|pair| pair[0] == pair[1]);
    if is_twice || !inner.members.iter().all(is_plain) { Err(refused(&member.key)) } else { Ok(()) }
}

fn check_references(remote: &Remote, style: &Style) -> Result<(), Refusal> {
    let is_unknown = |text: &str| references(text).any(|start| !style.references.contains(&start));
    if is_unknown(&remote.url) || references(&remote.url).next().is_some() && !style.expands_arguments {
        return Err(Refusal::Reference("url".into()));
    }
    match remote.headers.iter().find(|(_, value)| is_unknown(value)) {
        Some((name, _)) => Err(Refusal::Reference(name.clone())),
        None => Ok(()),
    }
}

/// How the references in a text begin. `${env:X}` is one with a dollar.
fn references(text: &str) -> impl Iterator<Item = &'static str> {
    let without_dollar = text.replace("${", "$");
    let has = move |start: &&str| {
        if *start == "${" { without_dollar.len() < text.len() } else { without_dollar.contains(*start) }
    };
    REFERENCES.into_iter().filter(has)
}

/// Whether a URL is of this machine.
fn is_loopback(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let name = host.strip_prefix('[').map_or_else(|| host.split(':').next(), |inside| inside.split(']').next());
    name.is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// The variables that take the values of these headers.
fn variables(headers: &Object) -> Vec<String> {
    let mut variables: Vec<String> = Vec::new();
    for header in &headers.members {
        let upper = header.key.to_ascii_uppercase();
        let name: String =
            upper.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
        let mut variable = format!("RESCIND_HEADER_{name}");
        while variables.contains(&variable) {
            variable.push('_');
        }
        variables.push(variable);
    }
    variables
}

fn headers_of(object: &Object) -> Option<(&Member, &Object)> {
    HEADERS.iter().find_map(|name| object.get(name)).and_then(|member| Some((member, member.node.as_object()?)))
}

/// Turns an entry into a command that begins with these words; [`check`] has found that it can.
pub(crate) fn to_command(
    text: &str,
    syntax: Syntax,
    object: &Object,
    words: &[String],
    style: &Style,
) -> Option<(Vec<Edit>, UrlNote)> {
    let url = URLS.iter().find_map(|name| object.get(name))?;
    let headers = headers_of(object);
    let variables = headers.map(|(_, inner)| variables(inner)).unwrap_or_default();
    let (program, rest) = words.split_first()?;
    let mut arguments: Vec<String> = rest.iter().map(|word| syntax.quoted(word)).collect();
    for (header, variable) in headers.iter().flat_map(|(_, inner)| &inner.members).zip(&variables) {
        arguments.push(syntax.quoted("--header-env"));
        arguments.push(syntax.quoted(&format!("{}={variable}", header.key)));
    }
    arguments.push(syntax.quoted("--url"));
    arguments.push(text[url.node.range.clone()].to_owned());
    let equals = edit::equals(text, syntax, &url.key_range, &url.node.range);
    let (command, program) = (syntax.key("command"), syntax.quoted(program));
    let joiner = edit::joiner(text, url.key_range.start, object.has_commas);
    let new = if style.is_list {
        format!("{command}{equals}[{program}, {}]", arguments.join(", "))
    } else {
        format!("{command}{equals}{program}{joiner}{}{equals}[{}]", syntax.key("args"), arguments.join(", "))
    };
    let mut edits = vec![Edit { range: url.key_range.start..url.node.range.end, text: new }];
    let mut note = UrlNote {
        key: text[url.key_range.start..url.node.range.start].to_owned(),
        headers: None,
        transports: Vec::new(),
    };
    if let Some((member, inner)) = headers {
        edits.push(Edit { range: member.key_range.clone(), text: syntax.key(style.environment) });
        let written = |key: &Member| text[key.key_range.clone()].to_owned();
        let names = inner.members.iter().zip(&variables).map(|(header, variable)| {
            edits.push(Edit { range: header.key_range.clone(), text: syntax.key(variable) });
            (variable.clone(), written(header))
        });
        note.headers = Some(HeaderNote { names: names.collect(), key: written(member) });
    }
    for member in TRANSPORTS.iter().filter_map(|name| object.get(name)) {
        edits.push(Edit { range: member.node.range.clone(), text: syntax.quoted(style.started) });
        note.transports.push((member.key.clone(), text[member.node.range.clone()].to_owned()));
    }
    Some((edits, note))
}

/// Turns a command back into the entry that a note tells of; `None` if it has changed too much since.
pub(crate) fn to_url(text: &str, object: &Object, note: &UrlNote) -> Option<Vec<Edit>> {
    let command = object.get("command")?;
    let (arguments, end) = match command.node.as_array() {
        Some(words) => (words, command.node.range.end),
        None => {
            let arguments = object.get("args")?;
            let joiner = edit::joiner(text, command.key_range.start, object.has_commas);
            let gap = text.get(command.node.range.end..arguments.key_range.start);
            let is_joined = gap == Some(&*joiner);
            (arguments.node.as_array()?, if is_joined { arguments.node.range.end } else { 0 })
        }
    };
    let url = arguments.last()?;
    let back = format!("{}{}", note.key, &text[url.range.clone()]);
    let mut edits = Vec::new();
    if end > 0 {
        edits.push(Edit { range: command.key_range.start..end, text: back });
    } else {
        edits.push(Edit { range: command.key_range.start..command.node.range.end, text: back });
        edits.push(edit::remove_member(text, object, "args")?);
    }
    if let Some(headers) = &note.headers {
        let member = ["env", "environment"].iter().find_map(|name| object.get(name))?;
        let inner = member.node.as_object()?;
        edits.push(Edit { range: member.key_range.clone(), text: headers.key.clone() });
        if inner.members.len() != headers.names.len() {
            return None;
        }
        for variable in &inner.members {
            let (_, name) = headers.names.iter().find(|(name, _)| *name == variable.key)?;
            edits.push(Edit { range: variable.key_range.clone(), text: name.clone() });
        }
    }
    for (name, value) in &note.transports {
        let member = object.get(name)?;
        edits.push(Edit { range: member.node.range.clone(), text: value.clone() });
    }
    Some(edits)
}
