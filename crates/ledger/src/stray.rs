//! Processes that clients have started without a shim and left.

use crate::{
    snapshot::{Process, Snapshot},
    system,
};

/// A process without a parent, and its descendants.
#[derive(Clone, Debug)]
pub struct Stray {
    /// The process.
    pub process: Process,
    /// Its descendants.
    pub descendants: Vec<Process>,
}

/// Programs that start the package that they are given, as processes with other arguments.
const LAUNCHERS: [&str; 6] = ["npx", "bunx", "pnpx", "uvx", "npm", "uv"];

/// Words of launchers that are not a package.
const LAUNCHER_WORDS: [&str; 6] = ["exec", "x", "dlx", "tool", "run", "--"];

impl Stray {
    /// Finds the processes of this user that one of `commands` has started, that carry no mark, whose parent has ended,
    /// and whose input nothing can write any more.
    #[must_use]
    pub fn find(snapshot: &Snapshot, commands: &[Vec<String>]) -> Vec<Self> {
        let all = snapshot.processes.values().filter(|process| process.mark.is_none());
        let alone = all.filter(|process| system::is_own(process.id) && process.terminal.is_none());
        let strays = alone.filter_map(|process| {
            let adopter = snapshot.processes.get(&process.parent).filter(|parent| is_adopter(parent))?;
            let stray = Self { process: process.clone(), descendants: descendants(snapshot, process) };
            let started = stray.all().any(|process| {
                let arguments = process.arguments();
                commands.iter().any(|command| is_started_by(command, &arguments))
            });
            (started && system::is_left(&stray.process, &stray.descendants, adopter)).then_some(stray)
        });
        strays.collect()
    }

    /// The process and its descendants.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        std::iter::once(&self.process).chain(&self.descendants)
    }
}

fn is_adopter(process: &Process) -> bool {
    process.id.pid == 1 || process.name == "systemd"
}

fn descendants(snapshot: &Snapshot, of: &Process) -> Vec<Process> {
    let all = snapshot.processes.values().filter(|process| process.mark.is_none());
    all.filter(|process| snapshot.ancestors(process).any(|ancestor| ancestor.id == of.id)).cloned().collect()
}

/// Whether these are the arguments of a process that `command` has started: itself, as a script of an interpreter, or
/// through a launcher such as `npx`.
#[must_use]
pub fn is_started_by(command: &[String], arguments: &[String]) -> bool {
    let Some((program, rest)) = command.split_first() else { return false };
    if LAUNCHERS.contains(&base(program)) {
        let is_word = |word: &&String| word.starts_with('-') || LAUNCHER_WORDS.contains(&word.as_str());
        let skipped = rest.iter().take_while(is_word).count();
        return rest[skipped..].split_first().is_some_and(|(package, rest)| is_package(package, rest, arguments));
    }
    let is_program = |word: &String| word == program || (!program.contains('/') && base(word) == program);
    ends_with(arguments, is_program, rest)
}

/// Whether these are the arguments of a package that a launcher has started, or of that launcher.
fn is_package(package: &str, rest: &[String], arguments: &[String]) -> bool {
    // `@scope/name@1.2` and `name==1.2`.
    let at = package
        .char_indices()
        .skip(1)
        .find(|(_, letter)| matches!(letter, '@' | '='))
        .map_or(package.len(), |(at, _)| at);
    let package = &package[..at];
    let inside = format!("/node_modules/{package}/");
    let is_program = |word: &String| word.contains('/') && (word.contains(&inside) || base(word) == base(package));
    // npm calls itself so.
    let title = std::iter::once(package).chain(rest.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    ends_with(arguments, is_program, rest)
        || arguments.first().is_some_and(|first| first.strip_prefix("npm exec ") == Some(&title))
}

/// Whether the arguments are at most an interpreter with its flags, then the program, then `rest`.
fn ends_with(arguments: &[String], is_program: impl Fn(&String) -> bool, rest: &[String]) -> bool {
    let Some((program, before)) = arguments.strip_suffix(rest).and_then(<[String]>::split_last) else { return false };
    // An interpreter gets its script as a path.
    let is_alone = before.is_empty() || program.contains('/');
    is_program(program) && is_alone && before.iter().skip(1).all(|word| word.starts_with('-'))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(command: &str, arguments: &[&str]) -> bool {
        let words: Vec<String> = command.split_whitespace().map(Into::into).collect();
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).into()).collect();
        is_started_by(&words, &arguments)
    }

    #[test]
    fn a_process_is_known_by_the_command_that_started_it() {
        assert!(started("node server.js --port 1", &["node", "server.js", "--port", "1"]));
        assert!(started("node server.js", &["/usr/bin/node", "server.js"]));
        assert!(started("my-server --x", &["/usr/bin/python3", "-u", "/opt/bin/my-server", "--x"]));
        let bin = "/home/u/.npm/_npx/0f1e/node_modules/.bin/mcp-server-files";
        assert!(started("npx -y @scope/mcp-server-files@1.2 /data", &["node", bin, "/data"]));
        assert!(started(
            "npx -y @scope/pkg /data",
            &["node", "/c/_npx/1/node_modules/@scope/pkg/dist/index.js", "/data"]
        ));
        assert!(started("npx -y @scope/pkg@latest /data", &["npm exec @scope/pkg /data"]));
        assert!(started("uvx mcp-server-git", &["/c/uv/archive/bin/python", "/c/uv/archive/bin/mcp-server-git"]));
    }

    #[test]
    fn other_arguments_are_another_process() {
        assert!(!started("node server.js --port 1", &["node", "server.js", "--port", "2"]));
        assert!(!started("node server.js", &["node", "server.js", "more"]));
        assert!(!started("node server.js", &["node", "other.js"]));
        assert!(!started("node server.js", &["vim", "node", "server.js"]));
        assert!(!started("/opt/a/server", &["/opt/b/server"]));
        assert!(!started("npx -y pkg", &["node", "pkg"]));
        assert!(!started("npx", &["npx"]));
        assert!(!started("server", &[]));
    }
}
