//! Containers that have a mark.

use std::{ffi::OsStr, thread, time::Instant};

use serde::Deserialize;

use super::{
    MARK_LABEL,
    engine::{COMMAND_LIMIT, Engine, EngineError, limit},
};

/// A container that a shim has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The engine that has it.
    pub engine: Engine,
    /// Its id in full.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its image, as it was named.
    pub image: String,
    /// When it was made, in RFC 3339.
    pub created: String,
    /// Its state, in the engine's word: `running`, `exited`.
    pub state: String,
    /// The mark of its session.
    pub mark: String,
    /// Its engine removes it once it has ended (`--rm`).
    pub is_removed_at_end: bool,
}

impl Container {
    /// Whether something in it may run, now or again.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.state.as_str(), "running" | "paused" | "restarting" | "stopping")
    }

    /// The beginning of its id, as engines show it.
    #[must_use]
    pub fn short_id(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// The containers of these engines that have this mark, or any, running or not; and which engines did not say. They are
/// asked at once, and each has ten seconds at most.
#[must_use]
pub fn list(engines: &[Engine], mark: Option<&str>) -> (Vec<Container>, Vec<EngineError>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let until = Instant::now() + 2 * COMMAND_LIMIT;
    let answers: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> = engines.iter().map(|engine| scope.spawn(move || engine.containers(mark, until))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()).collect()
    });
    for answer in answers {
        match answer {
            // `docker` may be Podman, and two programs may have one engine.
            Ok(containers) => containers.into_iter().for_each(|one| {
                if !found.iter().any(|known: &Container| known.id == one.id) {
                    found.push(one);
                }
            }),
            Err(error) => errors.push(error),
        }
    }
    (found, errors)
}

impl Engine {
    /// The containers with this mark, or any.
    pub(super) fn containers(&self, mark: Option<&str>, until: Instant) -> Result<Vec<Container>, EngineError> {
        let filter = mark.map_or_else(|| format!("label={MARK_LABEL}"), |mark| format!("label={MARK_LABEL}={mark}"));
        let ids = self.run(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter], limit(until))?;
        let ids: Vec<&str> = ids.split_whitespace().collect();
        let mut found = Vec::new();
        if !ids.is_empty() {
            self.inspect(&ids, until, &mut found)?;
        }
        Ok(found)
    }

    /// Adds what is known of these containers. With one that is gone meanwhile the whole command fails, so then each is
    /// asked for by itself.
    pub(super) fn inspect(&self, ids: &[&str], until: Instant, found: &mut Vec<Container>) -> Result<(), EngineError> {
        let words: Vec<&OsStr> = ["inspect", "--type", "container"].iter().chain(ids).map(OsStr::new).collect();
        match (self.run(&words, limit(until)), ids) {
            (Ok(text), _) => {
                let inspected: Vec<Inspected> = serde_json::from_str(&text).unwrap_or_default();
                found.extend(inspected.into_iter().map(|one| one.of(self)));
                Ok(())
            }
            (Err(EngineError::Failed { .. }), [_]) => Ok(()),
            (Err(EngineError::Failed { .. }), ids) => ids.iter().try_for_each(|id| self.inspect(&[id], until, found)),
            (Err(error), _) => Err(error),
        }
    }
}

/// What both programs print, in the same words.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    created: String,
    state: State,
    config: Config,
    host_config: HostConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    image: String,
    labels: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    #[serde(default)]
    auto_remove: bool,
}

impl Inspected {
    fn of(self, engine: &Engine) -> Container {
        let Self { id, name, created, state, config, host_config } = self;
        let mark = config.labels.and_then(|mut labels| labels.remove(MARK_LABEL)).unwrap_or_default();
        Container {
            engine: engine.clone(),
            id,
            name: name.trim_start_matches('/').to_owned(),
            image: config.image,
            created,
            state: state.status.to_ascii_lowercase(),
            mark,
            is_removed_at_end: host_config.auto_remove,
        }
    }
}
