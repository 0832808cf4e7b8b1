//! Programs that may not be started yet.

use std::{collections::BTreeSet, time::Duration};

use rescind_proto::time::Instant;

use super::back_off::BackOff;
use crate::server::{door::Refusal, keys::LinkKey};

/// Requests wait so long for a program that is to be started again; if it takes longer, they are refused.
const HELD_FOR: Duration = Duration::from_secs(2);

/// When programs may be started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts {
    /// The program of several clients.
    pub(crate) back_off: BackOff,
    /// Links whose program may not be started yet, by when it may.
    pub(crate) resting: BTreeSet<(Instant, LinkKey)>,
}

impl Starts {
    /// Takes a link whose program may be started now.
    pub(crate) fn wake(&mut self, now: Instant) -> Option<LinkKey> {
        let (at, _) = self.resting.first()?;
        if *at > now {
            return None;
        }
        self.resting.pop_first().map(|(_, link)| link)
    }

    /// Removes a link whose program is not wanted any more; `false` if it did not rest.
    pub(crate) fn forget(&mut self, link: LinkKey) -> bool {
        let before = self.resting.len();
        self.resting.retain(|(_, resting)| *resting != link);
        self.resting.len() < before
    }

    /// Whether the program of this link may not be started yet.
    pub(crate) fn is_resting(&self, link: LinkKey) -> bool {
        self.until(link).is_some()
    }

    fn until(&self, link: LinkKey) -> Option<Instant> {
        self.resting.iter().find(|(_, resting)| *resting == link).map(|(at, _)| *at)
    }

    /// Refuses a request that would wait for long until its program is started.
    pub(crate) fn check(&self, now: Instant, link: LinkKey) -> Result<(), Refusal> {
        let wait = self.until(link).map(|at| at.since(now)).filter(|wait| *wait > HELD_FOR);
        let Some(wait) = wait else { return Ok(()) };
        let seconds = wait.as_secs() + 1;
        let text = format!("the server has ended again and again; it is started in {seconds} s");
        Err(Refusal::unavailable(seconds, text))
    }

    /// When the next program may be started.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.resting.first().map(|(at, _)| *at)
    }
}
