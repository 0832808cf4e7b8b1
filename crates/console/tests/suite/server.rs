//! The server of the page, spoken to byte by byte, with scripted shims behind it.

mod attacks;
mod containers;
mod events;
mod metrics;
mod processes;
mod rig;
