//! Recognises commands that run something in a container.

use std::{ffi::OsString, path::Path};

use super::{MARK_LABEL, engine::Engine};
use crate::system::mark::MARK_VARIABLE;

/// A `docker` or `podman` command, `run` or `exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerCommand {
    /// The program, and where it finds its engine.
    pub engine: Engine,
    /// What it does.
    pub action: Action,
    /// It leaves what it starts running, as it was told to (`--detach`).
    pub is_detached: bool,
    /// The words up to the subcommand, that included.
    head: usize,
}

/// What a command does with a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Makes one.
    Run,
    /// Starts a process in one.
    Exec {
        /// Its name or id.
        container: String,
        /// As whom the process runs, if not as the container's own user.
        user: Option<String>,
    },
}

impl ContainerCommand {
    /// Reads a command; `None` if it is another one, or has a global option that is not known here: then nobody knows
    /// which word is the subcommand. Neither `docker compose` nor a wrapper such as `sudo` or `sh -c` is recognised.
    #[must_use]
    pub fn recognise(words: &[OsString]) -> Option<Self> {
        let (program, rest) = words.split_first()?;
        let name = Path::new(program).file_name()?.to_str()?.to_ascii_lowercase();
        if !PROGRAMS.contains(&name.strip_suffix(".exe").unwrap_or(&name)) {
            return None;
        }
        let (_, count) = read(rest, &GLOBAL)?;
        let mut head = 1 + count;
        let mut options = words[1..head].to_vec();
        if words.get(head)? == "container" {
            head += 1;
        }
        let subcommand = words.get(head)?.to_str()?;
        head += 1;
        let table = match subcommand {
            "run" => &RUN,
            "exec" => &EXEC,
            _ => return None,
        };
        let (found, count) = read(&words[head..], table)?;
        let last = |names: [&str; 2]| found.iter().rfind(|option| names.contains(&option.name.as_str()));
        let action = match subcommand {
            "run" => Action::Run,
            _ if last(["latest", "l"]).is_some() => return None,
            _ => Action::Exec {
                container: words.get(head + count)?.to_str()?.to_owned(),
                user: last(["user", "u"]).and_then(|option| option.value.clone()),
            },
        };
        let is_detached = last(["detach", "d"]).is_some_and(SubOption::is_on);
        options.extend(found.iter().filter(|option| PLACES.contains(&option.name.as_str())).map(SubOption::word));
        Some(Self { engine: Engine { program: program.clone(), options }, action, is_detached, head })
    }

    /// The words with the mark, directly after the subcommand: none of the others are moved or changed.
    #[must_use]
    pub fn marked(&self, words: &[OsString], mark: &str) -> Vec<OsString> {
        let addition = match self.action {
            Action::Run => format!("--label={MARK_LABEL}={mark}"),
            Action::Exec { .. } => format!("--env={MARK_VARIABLE}={mark}"),
        };
        let (head, rest) = words.split_at(self.head.min(words.len()));
        head.iter().cloned().chain([addition.into()]).chain(rest.iter().cloned()).collect()
    }
}

const PROGRAMS: [&str; 2] = ["docker", "podman"];

/// Options of one level of a command: long and short names, with a space between.
struct Table {
    /// Those without a value.
    switches: &'static str,
    /// Those with one; `None`: all others.
    valued: Option<&'static str>,
}

/// Options before the subcommand: Docker's, then Podman's. Those of both programs are in one table, since `docker` may be
/// Podman, and none has two meanings. From `--help` of Docker 28 and Podman 4.3, and the manual of Podman 5.
const GLOBAL: Table = Table {
    switches: "debug D tls tlsverify \
        remote r syslog noout transient-store trace",
    valued: Some(
        "config context c host H log-level l tlscacert tlscert tlskey \
        cdi-spec-dir cgroup-manager conmon connection cpu-profile db-backend events-backend hooks-dir identity imagestore \
        log-level memory-profile module namespace network-cmd-path network-config-dir out pull-option root runroot runtime \
        runtime-flag ssh storage-driver storage-opt tls-ca tls-cert tls-key tmpdir url volumepath",
    ),
};

/// Of `run`, only the switches: it has a hundred options with values, and a new option mostly has one.
const RUN: Table = Table {
    switches: "detach d disable-content-trust env-host help http-proxy init interactive i no-healthcheck no-hostname \
        no-hosts oom-kill-disable passwd privileged publish-all P quiet q read-only read-only-tmpfs remote replace rm rmi \
        rootfs sig-proxy tls-verify tty t unsetenv-all use-api-socket",
    valued: None,
};

const EXEC: Table =
    Table { switches: "detach d help interactive i latest l no-session privileged remote tty t", valued: None };

/// Options that say which engine is meant, and which Podman takes after the subcommand as well.
const PLACES: [&str; 9] =
    ["connection", "identity", "imagestore", "remote", "root", "runroot", "storage-driver", "tmpdir", "url"];

/// One option of a subcommand.
#[derive(Debug, PartialEq, Eq)]
struct SubOption {
    name: String,
    value: Option<String>,
}

impl SubOption {
    fn is_on(&self) -> bool {
        self.value.as_deref().is_none_or(|value| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    fn word(&self) -> OsString {
        let Self { name, value } = self;
        value.as_ref().map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")).into()
    }
}

/// The options at the beginning of these words, and how many words they are; `None` if one of them is not known.
fn read(words: &[OsString], table: &Table) -> Option<(Vec<SubOption>, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        let word = word.to_string_lossy();
        let Some(option) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else { break };
        at += 1;
        let next = || words.get(at).map(|word| word.to_string_lossy().into_owned());
        let Some(long) = option.strip_prefix('-') else {
            at += usize::from(read_short(option, table, next, &mut found)?);
            continue;
        };
        if long.is_empty() {
            break;
        }
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
        let takes_value = table.takes_value(name)? && value.is_none();
        let value = if takes_value { next() } else { value };
        found.push(SubOption { name: name.to_owned(), value });
        at += usize::from(takes_value);
    }
    // An option at the end may lack its value: the command will say so.
    Some((found, at.min(words.len())))
}

/// Reads a word such as `-it` or `-uroot`; `true` if the next word belongs to it.
fn read_short(
    letters: &str,
    table: &Table,
    next: impl FnOnce() -> Option<String>,
    found: &mut Vec<SubOption>,
) -> Option<bool> {
    for (at, letter) in letters.char_indices() {
        let rest = &letters[at + letter.len_utf8()..];
        let name = letter.to_string();
        let given = rest.strip_prefix('=');
        if table.takes_value(&name)? {
            let is_next = rest.is_empty();
            let value = if is_next { next() } else { Some(given.unwrap_or(rest).to_owned()) };
            found.push(SubOption { name, value });
            return Some(is_next);
        }
        found.push(SubOption { name, value: given.map(str::to_owned) });
        if given.is_some() {
            break;
        }
    }
    Some(false)
}

impl Table {
    /// `None` if the option is not known.
    fn takes_value(&self, name: &str) -> Option<bool> {
        let has = |names: &str| names.split(' ').any(|known| known == name);
        if has(self.switches) {
            return Some(false);
        }
        self.valued.is_none_or(has).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    /// What is started, in words.
    fn marked(line: &str) -> Option<String> {
        let words = words(line);
        let marked = ContainerCommand::recognise(&words)?.marked(&words, "M");
        Some(marked.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_mark_comes_directly_after_the_subcommand_and_nothing_else_changes() {
        for (line, expected) in [
            ("docker run -i --rm image", "docker run --label=rescind.mark=M -i --rm image"),
            ("/usr/bin/podman run image run", "/usr/bin/podman run --label=rescind.mark=M image run"),
            ("Docker.EXE container run image", "Docker.EXE container run --label=rescind.mark=M image"),
            ("docker -H tcp://x -D run image", "docker -H tcp://x -D run --label=rescind.mark=M image"),
            ("docker -Dc run exec -i name sh", "docker -Dc run exec --env=RESCIND_MARK=M -i name sh"),
            ("docker --context=x --tls run image", "docker --context=x --tls run --label=rescind.mark=M image"),
            ("podman --root run --noout run image", "podman --root run --noout run --label=rescind.mark=M image"),
            ("podman -r container exec name sh", "podman -r container exec --env=RESCIND_MARK=M name sh"),
            ("docker run --label a=b image", "docker run --label=rescind.mark=M --label a=b image"),
        ] {
            assert_eq!(marked(line).as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in [
            "docker",
            "docker run-it",
            "docker ps",
            "docker compose run service",
            "docker --context",
            "dockerd run x",
            "docker --unknown run image",
            "docker -x run image",
            "docker --help run",
            "sudo docker run image",
            "podman start -a x",
            "docker exec",
            "docker exec -i",
            "podman exec -l sh",
            "docker container ls",
            "node run",
        ] {
            assert_eq!(marked(line), None, "{line}");
        }
        assert_eq!(ContainerCommand::recognise(&[]), None);
    }

    #[test]
    fn options_of_the_program_in_the_container_are_its_own() {
        for (line, is_detached) in [
            ("docker run -d image", true),
            ("docker run -itd image", true),
            ("docker run --detach=true image", true),
            ("docker run --detach=false image", false),
            ("docker run -d=false image", false),
            ("docker run image -d", false),
            ("docker run --name -d image", false),
            ("docker run -e -d image", false),
            ("docker run -eX=d image", false),
            ("docker run --new-option value image -d", false),
            ("docker run --name=x -- image -d", false),
            ("docker exec -d name sh", true),
            ("docker exec name sh -d", false),
        ] {
            assert_eq!(ContainerCommand::recognise(&words(line)).unwrap().is_detached, is_detached, "{line}");
        }
    }

    #[test]
    fn exec_names_its_container_and_its_user() {
        for (line, named) in [
            ("docker exec -i name sh", ("name", None)),
            ("docker exec -it -u root name sh -u x", ("name", Some("root"))),
            ("docker exec -iuroot name", ("name", Some("root"))),
            ("docker exec --user=1:2 -e A=b -w / name", ("name", Some("1:2"))),
        ] {
            let (container, user) = (named.0.to_owned(), named.1.map(str::to_owned));
            let command = ContainerCommand::recognise(&words(line)).unwrap();
            assert_eq!(command.action, Action::Exec { container, user }, "{line}");
        }
    }

    #[test]
    fn the_engine_is_asked_where_the_command_was() {
        for (line, options) in [
            ("docker --host x -D run --host-not y image --url z", "--host x -D"),
            ("podman --root a run --url b --runroot=c --name d image --root e", "--root a --url=b --runroot=c"),
        ] {
            let command = ContainerCommand::recognise(&words(line)).unwrap();
            assert_eq!(command.engine.options, words(options), "{line}");
        }
    }
}
