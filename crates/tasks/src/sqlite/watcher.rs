//! The thread that watches the file for changes of other processes.
//!
//! It sleeps until the doorbell rings. While there are subscribers it also checks at intervals the change counter that
//! SQLite keeps: a doorbell message may be lost, and a process may die between its write and its message.

use std::sync::{Arc, atomic::Ordering};

use rusqlite::Connection;

use crate::sqlite::{Core, rows};

pub(super) struct Watcher {
    core: Arc<Core>,
    database: Connection,
    /// The last change that was published.
    seen: i64,
    /// SQLite's `data_version`, which the commits of others change.
    version: i64,
}

impl Watcher {
    pub(super) fn new(core: Arc<Core>, database: Connection) -> rusqlite::Result<Self> {
        let (version, seen) = (version(&database)?, rows::last_change(&database)?);
        Ok(Self { core, database, seen, version })
    }

    /// Runs until the store is dropped.
    pub(super) fn watch(mut self) {
        while !self.core.closing.load(Ordering::SeqCst) {
            let rang = match self.sleep() {
                Ok(rang) => rang,
                Err(_) => {
                    // The doorbell is broken: only the slow check is left.
                    std::thread::sleep(self.core.slow_check);
                    false
                }
            };
            // After an error the next check reads the same updates: `seen` moves only when they are published.
            let _ = self.check(rang);
        }
    }

    /// Sleeps, and returns whether the doorbell rang.
    fn sleep(&self) -> std::io::Result<bool> {
        let Core { asleep, subscribers, runners, slow_check, .. } = &*self.core;
        // A new subscriber registers before it reads `asleep`. So either it is seen here, or it sees `asleep`.
        asleep.store(true, Ordering::SeqCst);
        let at_most = if subscribers.is_empty() { None } else { Some(*slow_check) };
        if at_most.is_some() {
            asleep.store(false, Ordering::SeqCst);
        }
        if self.core.closing.load(Ordering::SeqCst) {
            return Ok(true);
        }
        runners.wait(at_most)
    }

    fn check(&mut self, rang: bool) -> rusqlite::Result<()> {
        let version = version(&self.database)?;
        if version == self.version && !rang {
            return Ok(());
        }
        // Read before the check for subscribers: one that comes later loads its task after this change.
        let last = rows::last_change(&self.database)?;
        if self.core.subscribers.is_empty() {
            self.seen = last;
        } else {
            let (last, updates) = rows::updates_after(&self.database, self.seen)?;
            for update in &updates {
                self.core.subscribers.publish(update);
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
