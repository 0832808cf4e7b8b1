//! What can be done with a server.

use std::fmt;

use crate::{
    entry::{Entry, Launch},
    words::{self, Before, OwnWords},
};

/// What can be done with a server.
///
/// It never grows: a program that changes files must decide about each before it changes any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A shim can be put before it.
    Bare,
    /// A shim is before it: so many words.
    Wrapped(usize),
    /// A shim is in its place: its client connected to a URL before.
    WrappedUrl,
    /// A shim is before it that `wrap` would have written differently.
    WrappedByHand,
    /// It is this program itself.
    Rescind,
    /// Its client connects to a URL.
    Remote,
    /// The file has neither a command nor a URL for it.
    Elsewhere,
    /// Its command is a whole shell line, which would not work as an argument.
    ShellLine,
    /// Its command begins with `-`: it is a flag in the wrong place, or would be read as one of the shim.
    Flag,
    /// VS Code debugs it, and then starts only a command that is `node` or `python` itself.
    Debugged,
    /// A list of allowed or denied servers names its exact command, so a changed command would change what is allowed.
    Managed,
    /// The entry is not understood, for this reason.
    Unclear(&'static str),
}

impl Verdict {
    /// What can be done with a server, where administrators name these commands exactly.
    #[must_use]
    pub fn of(entry: &Entry, own: OwnWords, managed: &[Vec<String>]) -> Self {
        let command = match &entry.launch {
            Launch::Command(command) => command,
            Launch::Url(_) => return Self::Remote,
            Launch::Elsewhere => return Self::Elsewhere,
            Launch::Unclear(why) => return Self::Unclear(why),
        };
        match words::before(&command.words, own) {
            Before::Shim(words) => Self::Wrapped(words),
            Before::Url => Self::WrappedUrl,
            Before::ShimByHand => Self::WrappedByHand,
            Before::Rescind => Self::Rescind,
            Before::Nothing if managed.contains(&command.words) => Self::Managed,
            Before::Nothing if command.words.first().is_some_and(|program| program.starts_with('-')) => Self::Flag,
            Before::Nothing if entry.is_debugged => Self::Debugged,
            Before::Nothing if is_shell_line(&command.words) => Self::ShellLine,
            Before::Nothing => entry.immovable.map_or(Self::Bare, Self::Unclear),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bare => "has no shim",
            Self::Wrapped(_) => "has a shim",
            Self::WrappedUrl => "has a shim, which reaches its URL",
            Self::WrappedByHand => "has a shim that was put there by hand",
            Self::Rescind => "is rescind itself",
            Self::Remote => "is at a URL",
            Self::Elsewhere => "has neither a command nor a URL in this file",
            Self::ShellLine => "has a whole shell line as its command; split it into `command` and `args`",
            Self::Flag => "has a command that begins with `-`, as a flag does; the program goes into `command`",
            Self::Debugged => {
                "has `dev.debug`, with which VS Code starts no command but `node` and `python`; take `debug` out to wrap it"
            }
            Self::Managed => "is allowed or denied by its exact command in the settings of Claude Code",
            Self::Unclear(why) => return write!(f, "is not understood: {why}"),
        })
    }
}

/// Whether the program is a whole line, such as `npx -y server`. A path may have spaces; its first word has a slash then.
fn is_shell_line(words: &[String]) -> bool {
    let [line] = words else { return false };
    line.split_once(char::is_whitespace).is_some_and(|(first, _)| !first.contains(['/', '\\']))
}
