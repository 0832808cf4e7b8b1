//! What a person saw in containers, and wants ended.

use std::time::Instant;

use serde::Deserialize;

use super::{
    contained::{Contained, ContainerScan, Scope, Standing},
    engine::{COMMAND_LIMIT, EngineError},
    listing::Container,
};
use crate::{
    record::Record,
    system::mark::{Mark, Place},
};

/// Something in a container, as a person saw it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SeenContainer {
    /// The mark of its session.
    pub mark: Mark,
    /// The container: its id in full, or its name as `exec` has it.
    pub container: String,
}

/// Why what was seen must not be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeenError {
    /// Its shim runs.
    #[error("the session of container {0} is still running")]
    Running(String),
    /// It belongs to another session, or to none.
    #[error("container {0} is not one that this session has left")]
    Foreign(String),
    /// Whose it is cannot be known.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl SeenContainer {
    /// What is still left of what a person saw, with the engines asked again.
    ///
    /// # Errors
    ///
    /// [`SeenError`], if something of it must not be ended.
    pub fn find(seen: &[Self], records: &[Record], place: Place) -> Result<Vec<Contained>, SeenError> {
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(live) = seen.iter().find(|one| Standing::of(one.mark) == Standing::Live) {
            return Err(SeenError::Running(short(&live.container).to_owned()));
        }
        let mut scan = ContainerScan::of(records, place, Scope::Recorded(None));
        let is_found = |one: &&Self| scan.all.iter().any(|contained| one.is(contained));
        let missing: Vec<&str> = seen.iter().filter(|one| !is_found(one)).map(|one| one.container.as_str()).collect();
        let foreign = |name: &str| SeenError::Foreign(short(name).to_owned());
        if let Some(name) = missing.iter().find(|name| !is_id(name)) {
            return Err(foreign(name));
        }
        if !missing.is_empty()
            && let Some(error) = scan.silent.pop()
        {
            return Err(error.into());
        }
        let until = Instant::now() + 2 * COMMAND_LIMIT;
        let mut others = Vec::new();
        for engine in scan.engines.iter().filter(|_| !missing.is_empty()) {
            engine.inspect(&missing, until, &mut others)?;
        }
        let has_ended =
            |other: &Container| seen.iter().any(|one| one.container == other.id && one.mark.to_string() == other.mark);
        if let Some(other) = others.iter().find(|other| !has_ended(other)) {
            return Err(foreign(&other.id));
        }
        scan.all.retain(|contained| seen.iter().any(|one| one.is(contained)));
        Ok(scan.all)
    }

    fn is(&self, contained: &Contained) -> bool {
        self.mark == contained.mark && self.container == contained.container()
    }
}

/// Whether this is a container's id in full, and so no option or name.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name as it is shown.
fn short(text: &str) -> &str {
    if is_id(text) { &text[..12] } else { text }
}
