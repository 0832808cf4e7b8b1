//! `relay::wrap` between scripted ends, over pipes in memory: no time passes but by the paused clock.

mod cancel;
mod clock;
mod end;
mod flow;
mod rig;
