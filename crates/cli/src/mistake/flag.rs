//! A flag or a word that a command does not take.

use super::{HELP, Line, asks_for_help, nearest, shown};

/// Says what to write in place of a line in which `given` has no place.
pub(super) fn unknown(line: Line<'_>, given: &str) -> String {
    format!("unexpected argument '{given}'; {}", remedy(line, given))
}

fn remedy(line: Line<'_>, given: &str) -> String {
    let words = line.words;
    let Some(name) = line.command() else { return before_a_command(line, given) };
    if asks_for_help(given) {
        return format!("write: rescind {name} --help");
    }
    if !given.starts_with('-') {
        return of_word(line, name, given);
    }
    let own = line.flags(name);
    // `-timeout` is read as `-t`.
    let whole = words.iter().find(|word| {
        word.starts_with('-') && !word.starts_with("--") && word.starts_with(given) && own.contains(&&*plain(word))
    });
    let wanted = plain(whole.map_or(given, |word| word));
    if own.contains(&&*wanted) {
        return format!("did you mean '--{wanted}'?");
    }
    if let Some(owner) = line.names().find(|other| line.flags(other).contains(&&*wanted)) {
        return format!("it is a flag of `rescind {owner}`; {}", line.help());
    }
    match nearest::of(&wanted, own.into_iter()) {
        Some(meant) => format!("did you mean '--{meant}'?"),
        None => line.help(),
    }
}

/// What was meant by a flag where the command should be.
fn before_a_command(line: Line<'_>, given: &str) -> String {
    let words = line.words;
    if asks_for_help(given) || words.first().is_some_and(|word| asks_for_help(word)) {
        return "write: rescind --help, or, for example, rescind run --help".to_owned();
    }
    if let Some(meant) =
        nearest::of(&plain(given), ["version", "help"].into_iter()).or_else(|| (given == "-v").then_some("version"))
    {
        return format!("write: rescind --{meant}");
    }
    // `rescind --json ps`, and `rescind --timeout 5m npx …`.
    let own = words.iter().position(|word| line.names().any(|name| name == word)).map(|at| {
        let (before, after) = words.split_at(at);
        [&after[..1], before, &after[1..]].concat()
    });
    let of = |name: &str| [&[name.to_owned()], words].concat();
    let mut candidates = own.into_iter().chain(["run", "serve", "ps", "console", "stop"].map(of));
    match candidates.find(|words| line.is_right(words)) {
        Some(words) => format!("flags come after the command: {}", shown(&words)),
        None => format!("flags come after the command; {HELP}"),
    }
}

/// What was meant by a word that is no flag.
fn of_word(line: Line<'_>, name: &str, given: &str) -> String {
    let words = line.words;
    let at = words.iter().rposition(|word| word == given).filter(|at| *at > 0);
    let Some(at) = at else { return line.help() };
    // `stop --kill unknown`, where only `--kill=unknown` is a value.
    let joined = [&words[..at - 1], &[format!("{}={given}", words[at - 1])], &words[at + 1..]].concat();
    let of_wrap = if is_file(given) { "--file" } else { "--server" };
    let flagged = ["--session", "--client", of_wrap]
        .map(|flag| [&words[..at], &[flag.to_owned(), given.to_owned()], &words[at + 1..]].concat());
    let lists_requests = matches!(name, "stop" | "ps" | "mcp") && given.contains('/');
    let request = lists_requests.then(|| vec!["cancel".to_owned(), given.to_owned()]);
    let mut candidates =
        std::iter::once(joined).filter(|_| words[at - 1].starts_with("--")).chain(request).chain(flagged);
    match candidates.find(|words| line.is_right(words)) {
        Some(words) => format!("write: {}", shown(&words)),
        None => format!("`rescind {name}` takes no such word; {}", line.help()),
    }
}

/// Whether it looks like a file of settings.
fn is_file(word: &str) -> bool {
    word.contains(['/', '\\']) || [".json", ".jsonc", ".toml", ".yaml"].iter().any(|end| word.ends_with(end))
}

/// A flag without its dashes and its value, as ours are written.
fn plain(flag: &str) -> String {
    let name = flag.trim_start_matches('-');
    name.split('=').next().unwrap_or_default().replace('_', "-").to_lowercase()
}
