//! The thread that learns what other processes did.
//!
//! It sleeps until the doorbell rings. As long as somebody here waits or works it also looks now and then by itself,
//! at a number that SQLite keeps for that: a doorbell may be lost, and a process that wrote may have died before it
//! rang.

use std::sync::{Arc, atomic::Ordering};

use rusqlite::Connection;

use crate::sqlite::{Core, rows};

pub(super) struct Watcher {
    core: Arc<Core>,
    database: Connection,
    /// The last change that was told.
    seen: i64,
    /// SQLite's own count of what others committed.
    version: i64,
}

impl Watcher {
    pub(super) fn new(core: Arc<Core>, database: Connection) -> rusqlite::Result<Self> {
        let (version, seen) = (version(&database)?, rows::last_change(&database)?);
        Ok(Self { core, database, seen, version })
    }

    /// Ends when the store does.
    pub(super) fn watch(mut self) {
        while !self.core.closing.load(Ordering::SeqCst) {
            let rang = match self.sleep() {
                Ok(rang) => rang,
                Err(_) => {
                    // Without a doorbell: by the slow check alone.
                    std::thread::sleep(self.core.slow_check);
                    false
                }
            };
            // What could not be read is read next time: nothing counts as seen before it was told.
            let _ = self.look(rang);
        }
    }

    /// Sleeps; says whether the doorbell rang.
    fn sleep(&self) -> std::io::Result<bool> {
        let Core { asleep, hub, runners, slow_check, .. } = &*self.core;
        // Whoever comes to wait looks at `asleep` after being in the hub: either is seen by the other.
        asleep.store(true, Ordering::SeqCst);
        let at_most = if hub.is_idle() { None } else { Some(*slow_check) };
        if at_most.is_some() {
            asleep.store(false, Ordering::SeqCst);
        }
        if self.core.closing.load(Ordering::SeqCst) {
            return Ok(true);
        }
        runners.wait(at_most)
    }

    fn look(&mut self, rang: bool) -> rusqlite::Result<()> {
        let version = version(&self.database)?;
        if version == self.version && !rang {
            return Ok(());
        }
        // The order matters: who comes to the hub after it was found idle looks at the file after this change.
        let last = rows::last_change(&self.database)?;
        if self.core.hub.is_idle() {
            self.seen = last;
        } else {
            let (last, news) = rows::news(&self.database, self.seen)?;
            for news in &news {
                self.core.hub.tell(news);
            }
            self.seen = last;
        }
        self.version = version;
        Ok(())
    }
}

fn version(database: &Connection) -> rusqlite::Result<i64> {
    database.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
