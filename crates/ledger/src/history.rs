//! What has ended in a user's sessions, on disk: how and when, without any payload.
//!
//! A session writes events of the feed, one a line, into files of its own. There are at most [`SLOTS`] files of at most
//! [`SLOT_SIZE`] bytes, so all sessions together never have more than 8 MiB, whatever each of them knows of the others:
//! a file's name is a number, and only one process can create it. A session locks the file that it writes to. The lock ends
//! with its process, also by `kill -9`; no process waits for one, and a file that is locked is not removed. So no session
//! waits for another, and none loses its file while it lives.
//!
//! A journal has no thread and no file until something has ended. Then a thread writes, and ends once nothing has come for
//! [a second](journal::LINGER). It takes what waits at most ten times a second, and a queue that is full leaves out what
//! comes and counts it: the session never waits for the disk.
//!
//! Files make room, the oldest first, when one more is needed: those of a session itself once it has 32, else those whose
//! session has ended, or has begun a later one. A file that was not written to for [`MAX_AGE`] goes, too, at most
//! [`MAX_EXPIRED`] whenever a session begins one: a clock that is far in the future takes no more than that with each.
//! A file whose time lies in the future was written under a wrong clock, and is the first to make room.

mod file;
mod folder;
pub mod journal;
pub mod past;

use std::time::Duration;

/// The most files.
pub const SLOTS: u32 = 256;

/// The most bytes of a file.
pub const SLOT_SIZE: u64 = 32 << 10;

/// The most files of one session.
pub const SESSION_SLOTS: usize = 32;

/// How long a file is kept that is not written to.
pub const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most files that are removed for their age when a session begins one of its own.
pub const MAX_EXPIRED: usize = 4;
