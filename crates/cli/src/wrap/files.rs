//! The files of clients on this machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use rescind_wrap::{
    advice,
    client::{CLIENTS, Client, Folders, Shape, fits, fits_name, shape_of, shape_of_content},
    config::Config,
    entry::{Entry, Launch},
    file::{self, FileError, Snapshot},
    managed,
    oddity::{Form, Oddity},
    remote::{self, Refusal},
    strict,
    verdict::Verdict,
    words,
};

use super::{server::Server, shown};
use crate::{
    failure::Failure,
    fleet::report,
    folders::{self, variable},
    run::own_words,
};

/// A file to look into.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) client: Option<&'static Client>,
    pub(crate) path: PathBuf,
    pub(crate) shape: Shape,
    /// Others may have the same file on machines of their own.
    pub(crate) is_shared: bool,
}

/// A file and what is in it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) target: Target,
    pub(super) servers: Vec<Server>,
    /// Why the file may not be replaced, if it may not.
    pub(super) blocked: Option<FileError>,
    /// What is odd about it, in words.
    pub(super) remarks: Vec<String>,
}

impl Found {
    pub(crate) fn read(target: Target, managed: &Managed) -> Result<Self, Failure> {
        let (snapshot, config) = read(&target)?;
        let servers = servers(&config, &target, managed);
        let mut remarks = refused(&target, &config);
        if remarks.is_empty() && config.is_empty() {
            remarks.push("has nothing in it".to_owned());
        }
        Ok(Self { target, servers, blocked: snapshot.check_writable().err(), remarks })
    }
}

/// What the client of a file is known to refuse of it, in words.
pub(crate) fn refused(target: &Target, config: &Config) -> Vec<String> {
    let Some(client) = target.client else { return Vec::new() };
    let words = |Oddity { form, line }: Oddity| match form {
        Form::Empty => format!("has {}, which {} refuses", form.as_str(), client.name),
        Form::ByteOrderMark | Form::Comment | Form::TrailingComma | _ => {
            let what = form.as_str();
            format!("has {what} in line {line}, which {} refuses: it starts none of these servers", client.name)
        }
    };
    strict::refused(client.id, config).into_iter().map(words).collect()
}

/// Reads a file as it is now.
pub(crate) fn read(target: &Target) -> Result<(Snapshot, Config), Failure> {
    let left = "it is left as it is";
    let snapshot = Snapshot::read(&target.path).map_err(|error| Failure::new(shown(&target.path), &error, left))?;
    let config = Config::read(snapshot.bytes(), target.shape.syntax, target.shape.servers)
        .map_err(|error| Failure::new(shown(&target.path), &error, left))?;
    Ok((snapshot, config))
}

/// The servers of a file, and what can be done with each.
pub(super) fn servers(config: &Config, target: &Target, managed: &Managed) -> Vec<Server> {
    let client = target.client.map(|client| client.id);
    let of = |entry: &Entry| {
        let is_managed = client == Some("claude-code") && managed.names_launches;
        let refused = || if is_managed { Err(Refusal::Managed) } else { remote::check(entry, remote::style(client)) };
        let verdict = Verdict::of(entry, own_words, &managed.commands);
        let refusal = (verdict == Verdict::Remote).then(refused).and_then(Result::err);
        let names = words::names(entry.name(), client);
        let is_misnamed = match (&entry.launch, verdict) {
            (Launch::Command(command), Verdict::Wrapped(_) | Verdict::WrappedUrl) => {
                command.words.get(words::named(&command.words)) != Some(&*names)
            }
            _ => false,
        };
        let advice = client.and_then(advice::of).filter(|advice| advice.fits(entry, config));
        Server { verdict, entry: entry.clone(), refusal, names, is_misnamed, advice }
    };
    config.entries().iter().map(of).collect()
}

/// The files that are there: those that were named, or those of these clients, or of all.
pub(crate) fn targets(clients: &[String], files: &[PathBuf]) -> Result<Vec<Target>, Failure> {
    if !files.is_empty() {
        return files.iter().map(|path| named(path)).collect();
    }
    let folders = folders::of_this_user()?;
    let mut targets: Vec<Target> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for client in CLIENTS.iter().filter(|client| clients.is_empty() || clients.iter().any(|id| id == client.id)) {
        for file in client.files {
            for path in expand(&file.pattern(&folders, variable)) {
                let Ok(real) = fs::canonicalize(&path) else { continue };
                if seen.contains(&real) {
                    continue;
                }
                seen.push(real);
                targets.push(Target { client: Some(client), path, shape: file.shape, is_shared: false });
            }
        }
    }
    Ok(targets)
}

/// Whether any server of any client has a shim; `None` if not all files could be read, and none of the others has.
pub(crate) fn is_any_wrapped() -> Option<bool> {
    let managed = Managed::read();
    let is_wrapped =
        |server: &Server| matches!(server.verdict, Verdict::Wrapped(_) | Verdict::WrappedUrl | Verdict::WrappedByHand);
    let mut is_known = true;
    for target in targets(&[], &[]).ok()?.into_iter().chain(projects()) {
        match Found::read(target, &managed) {
            Ok(found) if found.servers.iter().any(is_wrapped) => return Some(true),
            Ok(_) => {}
            Err(_) => is_known = false,
        }
    }
    is_known.then_some(false)
}

/// A file given by its path.
fn named(path: &Path) -> Result<Target, Failure> {
    let name = shown(path);
    let absolute = std::path::absolute(path).map_err(|error| Failure::new(&name, error, "name a file"))?;
    if !absolute.exists() {
        return Err(Failure::new(name, FileError::Missing, "`rescind wrap --list` shows the files of all clients"));
    }
    let read = Snapshot::read(&absolute);
    let by_content = read.ok().and_then(|read| shape_of_content(&absolute, read.bytes()));
    let shape = by_content.or_else(|| shape_of(&absolute)).ok_or_else(|| {
        Failure::new(&name, "is neither JSON, TOML nor YAML by its name", "files of other kinds cannot be changed")
    })?;
    let project = |client: &&Client| client.project.iter().any(|file| fits(&absolute, file.path));
    let real = fs::canonicalize(&absolute).ok();
    let own = |client: &&Client| {
        folders::of_this_user()
            .is_ok_and(|folders| own_files(client, &folders).into_iter().any(|file| Some(file) == real))
    };
    let owner = CLIENTS.iter().find(own);
    let sharer = CLIENTS.iter().find(project).filter(|_| owner.is_none());
    Ok(Target { client: owner.or(sharer), path: absolute, shape, is_shared: sharer.is_some() })
}

/// What lists say of a file of a project.
pub(crate) const SHARED: &str = "a file of a project, which others may share: changed only if --file names it";

/// The files of the project: from the current directory up to the root of its repository, if it is in one.
pub(crate) fn projects() -> Vec<Target> {
    let (Ok(here), Ok(folders)) = (env::current_dir(), folders::of_this_user()) else { return Vec::new() };
    let own: Vec<PathBuf> = CLIENTS.iter().flat_map(|client| own_files(client, &folders)).collect();
    let root = here.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&here);
    let within = here.ancestors().take_while(|folder| folder.starts_with(root));
    let in_folder = |folder: &Path| {
        let files = CLIENTS.iter().flat_map(|client| client.project.iter().map(move |file| (client, file)));
        let targets = files.flat_map(|(client, file)| {
            let paths = expand(&folder.join(file.path)).into_iter();
            paths.map(|path| Target { client: Some(client), path, shape: file.shape, is_shared: true })
        });
        targets.collect::<Vec<_>>()
    };
    let is_shared = |target: &Target| {
        target.path.is_file() && !fs::canonicalize(&target.path).is_ok_and(|path| own.contains(&path))
    };
    within.flat_map(in_folder).filter(is_shared).collect()
}

/// Reports which files of the project were left alone.
pub(crate) fn report_projects() {
    for Target { path, .. } in projects() {
        let name = env::current_dir().ok().and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
        let (path, name) = (shown(&path), shown(&name.unwrap_or_else(|| path.clone())));
        report(&format!("note: {path} is left alone, since others may share it; --file {name} selects it"));
    }
}

/// The files of a client that are there, without links.
fn own_files(client: &Client, folders: &Folders) -> Vec<PathBuf> {
    let paths = client.files.iter().flat_map(|file| expand(&file.pattern(folders, variable)));
    paths.filter_map(|path| fs::canonicalize(path).ok()).collect()
}

/// Where Claude Code keeps its settings.
pub(crate) fn claude_code(folders: &Folders) -> PathBuf {
    let set = variable("CLAUDE_CONFIG_DIR").filter(|path| path.is_absolute());
    set.unwrap_or_else(|| folders.home.join(".claude"))
}

/// The paths that a pattern is of: one `*` stands for one name, or for its beginning.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for part in pattern.components() {
        let next = paths.into_iter().flat_map(|path| {
            if !part.as_os_str().as_encoded_bytes().starts_with(b"*") {
                return vec![path.join(part)];
            }
            let names = fs::read_dir(&path).into_iter().flatten().flatten();
            let names = names.filter(|name| fits_name(&name.file_name(), part.as_os_str()));
            let mut all: Vec<PathBuf> = names.map(|name| name.path()).collect();
            all.sort();
            all
        });
        paths = next.collect();
    }
    paths.into_iter().filter(|path| path.exists()).collect()
}

/// What lists of administrators, or of the user, name.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    /// The commands that they name exactly.
    pub(crate) commands: Vec<Vec<String>>,
    /// Whether they name any server by its URL or command.
    pub(super) names_launches: bool,
}

impl Managed {
    pub(crate) fn read() -> Self {
        let own = folders::of_this_user().map(|folders| claude_code(&folders).join("settings.json")).ok();
        let files = [Some(PathBuf::from(managed::managed_file())), own];
        let texts: Vec<String> = files.into_iter().flatten().filter_map(|file| file::text(&file).ok()).collect();
        Self {
            commands: texts.iter().flat_map(|text| managed::commands(text)).collect(),
            names_launches: texts.iter().any(|text| managed::names_launches(text)),
        }
    }
}
