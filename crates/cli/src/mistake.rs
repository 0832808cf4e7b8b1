//! Mistakes of the command line: what a person who has mistyped something reads, on one line with the remedy.
//!
//! A command that is proposed is first parsed, so that it is one that works.

mod command;
mod flag;
mod nearest;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::screen::{clean, fitted};

/// The most columns of a command that is proposed.
const LONGEST: usize = 240;

/// What was typed, without the name of the program, and what can be.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    words: &'a [String],
    cli: &'a Command,
}

/// The line for an error in these words, of which the first is not the name of the program; `None` if it is not a mistake
/// but asks for help or the version.
pub(crate) fn line(error: &clap::Error, words: &[String], cli: &Command) -> Option<String> {
    let line = Line { words, cli };
    let said = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingSubcommand => return None,
        ErrorKind::InvalidSubcommand => command::unknown(line, &context(error, ContextKind::InvalidSubcommand)),
        ErrorKind::UnknownArgument => flag::unknown(line, &context(error, ContextKind::InvalidArg)),
        ErrorKind::InvalidValue => invalid_value(error),
        ErrorKind::MissingRequiredArgument => missing(line, &contexts(error, ContextKind::InvalidArg)),
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::ValueValidation => first_paragraph(error),
        ErrorKind::NoEquals
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::InvalidUtf8
        | ErrorKind::Io
        | ErrorKind::Format
        | _ => format!("{}; {}", first_paragraph(error), line.help()),
    };
    Some(format!("error: {}", clean(&said)))
}

/// What a value should have been.
fn invalid_value(error: &clap::Error) -> String {
    let (flag, value) = (context(error, ContextKind::InvalidArg), context(error, ContextKind::InvalidValue));
    let valid = contexts(error, ContextKind::ValidValue);
    if value.is_empty() && valid.is_empty() {
        return format!("'{flag}' has no value; write, for example, {}", example(&flag));
    }
    let what = if value.is_empty() {
        format!("'{flag}' has no value")
    } else {
        format!("invalid value '{value}' for '{flag}'")
    };
    match nearest::of(&value, valid.iter().map(String::as_str)) {
        Some(meant) => format!("{what}: did you mean {meant}? Possible are {}", list(&valid)),
        None => format!("{what}: write {}", list(&valid)),
    }
}

/// A flag, or the place of a word, with a value that can be one.
fn example(flag: &str) -> String {
    let (name, value) = flag.split_once(" <").map_or((flag, ""), |(name, value)| (name, value.trim_end_matches('>')));
    let value = match value {
        "URL" => "https://example.com/mcp",
        "ADDRESS" => "127.0.0.1:8000",
        "SIZE" => "64MiB",
        "N" => "8000",
        "SESSION" => "4711",
        "NAME: VALUE" => "'X-Team: blue'",
        "VARIABLE" => "GITHUB_TOKEN",
        "NAME=VARIABLE" => "Authorization=MY_TOKEN",
        "FILE" => "session.jsonl",
        "FOLDER|FILE" => "recordings/",
        "PROTOCOL" => "mcp",
        "TEXT" => "'no longer wanted'",
        "METHOD[:TOOL]" => "tools/call:search",
        value if value.ends_with("N/DURATION") => "tools/call=30/1m",
        value if value.contains("DURATION") => "5m",
        value => value,
    };
    format!("{name} {value}")
}

/// What was left out.
fn missing(line: Line<'_>, missing: &[String]) -> String {
    let named = |name: &str| missing.iter().any(|one| one.starts_with(name));
    let name = line.words.first().map_or("", String::as_str);
    let rest = line.words.get(1..).unwrap_or_default();
    let (what, remedy) = match name {
        "run" if named("<COMMAND>") => {
            ("no command was given", "name the server's command, as in: rescind run npx -y some-mcp-server".to_owned())
        }
        "serve" if named("<COMMAND>") => (
            "no command was given",
            "name the server's command, as in: rescind serve --listen 127.0.0.1:8000 npx -y some-mcp-server".to_owned(),
        ),
        "serve" if named("--listen") => {
            let is_given = rest.first().is_some_and(|word| word.parse::<std::net::SocketAddr>().is_ok());
            let listen = ["serve", "--listen", "127.0.0.1:8000"].map(str::to_owned);
            let words = [if is_given { &listen[..2] } else { &listen[..] }, rest].concat();
            ("--listen ADDRESS is missing", format!("write: {}", shown(&words)))
        }
        "end" => ("no session was named", "`rescind ps --sessions` lists them; write: rescind end 4711".to_owned()),
        "login" => ("no URL was given", "write: rescind login https://example.com/mcp".to_owned()),
        "logout" => {
            let remedy =
                "`rescind whoami` lists where you are signed in; write: rescind logout https://example.com/mcp";
            ("no URL was given", remedy.to_owned())
        }
        _ => return format!("rescind {name}: {} is required; {}", missing.join(" and "), line.help()),
    };
    format!("rescind {name}: {what}; {remedy}")
}

/// What excludes what.
fn conflict(error: &clap::Error) -> String {
    let flag = context(error, ContextKind::InvalidArg);
    let others = contexts(error, ContextKind::PriorArg);
    if others.is_empty() || others == [flag.clone()] {
        return format!("the argument '{flag}' cannot be used more than once; give it once");
    }
    let others = others.iter().map(|other| format!("'{other}'")).collect::<Vec<_>>().join(", ");
    format!("the argument '{flag}' cannot be used with {others}; leave one of them out")
}

/// What clap says before its advice, on one line.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

impl Line<'_> {
    /// The command that these words begin with.
    fn command(&self) -> Option<&str> {
        let name = self.words.first()?;
        self.names().find(|one| one == name)
    }

    /// Where help is for that.
    fn help(&self) -> String {
        match self.command() {
            Some(name) => format!("`rescind {name} --help` describes what it takes"),
            None => HELP.to_owned(),
        }
    }

    /// The commands for people.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.cli.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name)
    }

    /// The flags of a command, without their dashes.
    fn flags(&self, name: &str) -> Vec<&str> {
        let command = self.cli.find_subcommand(name);
        command.into_iter().flat_map(Command::get_arguments).filter_map(|flag| flag.get_long()).collect()
    }

    /// Whether this program understands these words.
    fn is_right(&self, words: &[String]) -> bool {
        let words = std::iter::once("rescind").chain(words.iter().map(String::as_str));
        self.cli.clone().try_get_matches_from(words).is_ok()
    }
}

/// Where help is for all.
const HELP: &str = "`rescind --help` lists the commands";

/// Whether a person asks for help with this word.
fn asks_for_help(word: &str) -> bool {
    matches!(word, "help" | "-help" | "/?" | "-?" | "?" | "/h" | "/help" | "--?" | "man" | "usage")
}

/// Whether a word is the URL of a server.
pub(crate) fn is_url(word: &str) -> bool {
    let lower = word.to_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

/// A command for a shell, as far as it has room on a line.
fn shown(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    fitted(&format!("rescind {}", words.join(" ")), LONGEST)
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,\\~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    contexts(error, kind).into_iter().next().unwrap_or_default()
}

fn contexts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        Some(
            ContextValue::None
            | ContextValue::Bool(_)
            | ContextValue::StyledStr(_)
            | ContextValue::StyledStrs(_)
            | ContextValue::Number(_)
            | _,
        )
        | None => Vec::new(),
    }
}

/// `a, b or c`.
fn list(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::Cli;

    fn said(words: &[&str]) -> String {
        let all = std::iter::once("rescind").chain(words.iter().copied());
        let error = Cli::try_parse_from(all).map(|_| ()).unwrap_err();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        line(&error, &words, &Cli::command()).unwrap_or_default()
    }

    /// Whatever is wrong, wherever: one line, nothing of clap's own advice, and a way on.
    #[test]
    fn a_wrong_word_or_value_anywhere_is_one_line() {
        let cli = Cli::command();
        for command in cli.get_subcommands().filter(|one| !one.is_hide_set()) {
            let name = command.get_name();
            let flags = command.get_arguments().filter_map(|flag| flag.get_long());
            let flags: Vec<String> = flags.map(|flag| format!("--{flag}")).collect();
            for flag in &flags {
                for words in [&[name, flag][..], &[name, flag, "-?"], &[name, flag, flag], &[name, &format!("{flag}x")]]
                {
                    if Cli::try_parse_from(std::iter::once("rescind").chain(words.iter().copied())).is_ok() {
                        continue;
                    }
                    let said = said(words);
                    // Where it is help that was asked for, that is shown.
                    let is_line = said.starts_with("error: ") && !said.contains('\n') && !said.contains("For more");
                    assert!(said.is_empty() || is_line, "{words:?}: {said}");
                    assert!(!said.contains("[possible values") && !said.contains("  "), "{words:?}: {said}");
                }
            }
        }
    }

    #[test]
    fn what_is_proposed_can_be_pasted_into_a_shell() {
        let words = |words: &[&str]| shown(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["run", "sh", "-c", "it's", ""]), r"rescind run sh -c 'it'\''s' ''");
        assert_eq!(words(&["run", &"x".repeat(500)]).chars().count(), LONGEST);
        assert_eq!(said(&["npx", "a\u{1b}[31m"]).find('\u{1b}'), None);
    }
}
