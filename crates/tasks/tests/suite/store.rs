//! What every store does: each test runs on the store in memory and on the one in a file.

mod bounds;
mod cancel;
mod input;
mod life;
mod race;
mod recovery;
mod rig;
