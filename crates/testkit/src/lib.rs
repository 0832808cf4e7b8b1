//! Sample and broken peers, and a simulated network, for tests.

#[cfg(unix)]
pub mod container_engine;
pub mod drive;
#[cfg(unix)]
pub mod fake_shim;
#[cfg(unix)]
pub mod flooder;
pub mod monitor_rig;
#[cfg(unix)]
pub mod puppet;
pub mod relay_rig;
pub mod sim;
pub mod spoil;
pub mod tamper;
pub mod tokens;
pub mod valid;
