//! Families as data: what `rescind ps --processes --json` prints and the console reads.

use rescind_feed::Request;
use serde::Serialize;

use crate::{
    container::{
        contained::{Contained, ContainerScan, Standing, What},
        ending::EndingError,
    },
    family::{ClientState, Family, Kept, Member},
    reap::{Ending, Reaped},
    record::Client,
    turn::{Began, Turns},
};

/// All families that were asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// One entry a session.
    pub sessions: Vec<SessionEntry>,
    /// What they have in containers, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<Vec<ContainerEntry>>,
}

/// What sessions have in containers.
#[derive(Clone, Debug, Serialize)]
pub struct ContainersDocument {
    /// One entry a container, or a command that may have something in one.
    pub containers: Vec<ContainerEntry>,
    /// Why engines did not say what they have.
    pub silent: Vec<String>,
}

/// A container, or a command whose work in a container may still run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEntry {
    /// The name of the session.
    pub session: String,
    /// The session's mark.
    pub mark: String,
    /// The program that is asked, such as `docker`.
    pub engine: String,
    /// The container: its id, or for `exec` its name as the command has it.
    pub container: String,
    /// Whether its session has ended, and has left it.
    pub left: bool,
    /// Its name, image and state, if it is the session's own.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnContainer>,
}

/// A container of a session's own.
#[derive(Clone, Debug, Serialize)]
pub struct OwnContainer {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its state, in the engine's word.
    pub state: String,
}

/// The processes of one session.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEntry {
    /// Its name, as in `SESSION/ID`.
    pub session: String,
    /// The mark that its processes carry.
    pub mark: String,
    /// Its shim.
    pub shim: ShimEntry,
    /// The process that started the shim, if there is a record of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientEntry>,
    /// The server's command, if there is a record of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// When it began, in microseconds since 1970 (UTC), if there is a record of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// Its processes without the shim, each parent before its children.
    pub processes: Vec<ProcessEntry>,
    /// The requests during which some of them began, or may have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Request>,
}

/// The shim of a session.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShimEntry {
    /// Its number.
    pub pid: u32,
    /// Whether it runs. If not, the session's processes are orphans.
    pub alive: bool,
}

/// The process that started a shim.
#[derive(Clone, Debug, Serialize)]
pub struct ClientEntry {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
    /// Whether it runs.
    pub alive: bool,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEntry {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the system did.
    pub start: u64,
    /// The number of its parent.
    pub parent: u32,
    /// How many of its ancestors belong to the session, too.
    pub depth: usize,
    /// The name of its program.
    pub name: String,
    /// Its arguments, the first being the name it was called by.
    pub arguments: Vec<String>,
    /// Its age, in microseconds.
    pub age: u64,
    /// The processor time that it has used, in microseconds.
    pub cpu: u64,
    /// The memory that it holds, in bytes, with what it shares with others.
    pub memory: u64,
    /// Whether it was stopped by a signal.
    pub stopped: bool,
    /// Why `rescind reap` leaves it unless it is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<&'static str>,
    /// During which request of its client it began, if its shim was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<BeganEntry>,
}

/// During which request a process began (D59).
#[derive(Clone, Debug, Serialize)]
pub struct BeganEntry {
    /// `during` the one that is named, `one_of` them, `perhaps` one of them, `outside` of all, or `unknown`.
    pub when: &'static str,
    /// The keys of the requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
}

/// How processes and containers ended.
#[derive(Clone, Debug, Serialize)]
pub struct ReapedDocument {
    /// One entry a process.
    pub processes: Vec<ReapedEntry>,
    /// One entry a container.
    pub containers: Vec<ReapedContainer>,
}

/// How one container ended, or what `exec` had started in it.
#[derive(Clone, Debug, Serialize)]
pub struct ReapedContainer {
    /// The session's mark.
    pub mark: String,
    /// The container, as it was listed.
    pub container: String,
    /// Whether it has ended.
    pub ended: bool,
    /// How, in words.
    pub how: String,
}

/// How one process ended.
#[derive(Clone, Debug, Serialize)]
pub struct ReapedEntry {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the system did.
    pub start: u64,
    /// The name of its program.
    pub name: String,
    /// Its arguments, the first being the name it was called by.
    pub arguments: Vec<String>,
    /// Whether it has ended.
    pub ended: bool,
    /// How, in words.
    pub how: &'static str,
}

impl ReapedDocument {
    /// The document of these processes and containers.
    #[must_use]
    pub fn of(reaped: Vec<Reaped>, containers: Vec<ReapedContainer>) -> Self {
        let entry = |Reaped { process, arguments, how }: Reaped| ReapedEntry {
            pid: process.id.pid,
            start: process.id.start,
            name: process.name,
            arguments,
            ended: Ending::is_end(how),
            how: how.words(),
        };
        Self { processes: reaped.into_iter().map(entry).collect(), containers }
    }
}

impl Document {
    /// The document of these families.
    #[must_use]
    pub fn of(families: &[Family]) -> Self {
        Self { sessions: families.iter().map(SessionEntry::of).collect(), containers: None }
    }

    /// With the requests of these families during which their processes began. `asked` gives the requests of a session.
    #[must_use]
    pub fn with_turns<'a>(
        mut self,
        families: &[Family],
        asked: impl Fn(&Family) -> Option<(&'a Turns, &'a [Request])>,
    ) -> Self {
        for (session, family) in self.sessions.iter_mut().zip(families) {
            let Some((turns, requests)) = asked(family) else { continue };
            for (entry, member) in session.processes.iter_mut().zip(&family.members) {
                entry.began = Some(BeganEntry::of(turns, &turns.began(member.process.id)));
            }
            let named = |request: &&Request| {
                let of = |entry: &ProcessEntry| entry.began.as_ref().map(|began| began.requests.contains(&request.key));
                session.processes.iter().any(|entry| of(entry) == Some(true))
            };
            session.requests = requests.iter().filter(named).cloned().collect();
        }
        self
    }

    /// With what sessions have in containers.
    #[must_use]
    pub fn with_containers(self, contained: &[Contained]) -> Self {
        Self { containers: Some(contained.iter().map(ContainerEntry::of).collect()), ..self }
    }
}

impl ContainersDocument {
    /// The document of a scan.
    #[must_use]
    pub fn of(scan: &ContainerScan) -> Self {
        let containers = scan.all.iter().map(ContainerEntry::of).collect();
        Self { containers, silent: scan.silent.iter().map(ToString::to_string).collect() }
    }
}

impl ReapedContainer {
    /// How this ended.
    #[must_use]
    pub fn of(contained: &Contained, how: &Result<(), EndingError>) -> Self {
        Self {
            mark: contained.mark.to_string(),
            container: contained.container().to_owned(),
            ended: how.is_ok(),
            how: how.as_ref().map_or_else(|error| format!("not ended: {error}"), |()| "ended".into()),
        }
    }
}

impl ContainerEntry {
    fn of(contained: &Contained) -> Self {
        let (engine, own) = match &contained.what {
            What::Container(one) => {
                let own = OwnContainer { name: one.name.clone(), image: one.image.clone(), state: one.state.clone() };
                (&one.engine, Some(own))
            }
            What::Processes { command, .. } => (&command.engine, None),
        };
        Self {
            session: contained.session.clone(),
            mark: contained.mark.to_string(),
            engine: engine.program.to_string_lossy().into_owned(),
            container: contained.container().to_owned(),
            left: contained.standing == Standing::Left,
            own,
        }
    }
}

impl SessionEntry {
    fn of(family: &Family) -> Self {
        let record = family.record.as_ref();
        let client = |Client { id, name }: &Client| ClientEntry {
            pid: id.pid,
            name: name.clone(),
            alive: family.client == ClientState::Alive,
        };
        Self {
            session: family.session(),
            mark: family.mark.to_string(),
            shim: ShimEntry { pid: family.mark.shim.pid, alive: family.shim.is_some() },
            client: record.and_then(|record| record.client.as_ref()).map(client),
            command: record.map(|record| record.command.clone()),
            started: record.map(|record| record.started),
            processes: family.members.iter().map(ProcessEntry::of).collect(),
            requests: Vec::new(),
        }
    }
}

impl ProcessEntry {
    fn of(member: &Member) -> Self {
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let Member { process, depth, kept } = member;
        Self {
            pid: process.id.pid,
            start: process.id.start,
            parent: process.parent,
            depth: *depth,
            name: process.name.clone(),
            arguments: process.arguments(),
            age: micros(process.age),
            cpu: micros(process.cpu),
            memory: process.memory,
            stopped: process.is_stopped,
            kept: kept.map(Kept::as_str),
            began: None,
        }
    }
}

impl BeganEntry {
    fn of(turns: &Turns, began: &Began) -> Self {
        let keys = |some: &[usize]| some.iter().map(|one| turns.spans()[*one].key.clone()).collect();
        let (when, requests) = match began {
            Began::During(one) => ("during", keys(&[*one])),
            Began::OneOf(some) => ("one_of", keys(some)),
            Began::Perhaps(some) => ("perhaps", keys(some)),
            Began::Outside => ("outside", Vec::new()),
            Began::Unknown => ("unknown", Vec::new()),
        };
        Self { when, requests }
    }
}
