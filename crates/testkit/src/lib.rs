//! Sample and broken peers, and a simulated network, for tests.

pub mod container_engine;
pub mod drive;
pub mod fake_shim;
pub mod flooder;
pub mod monitor_rig;
pub mod puppet;
pub mod relay_rig;
pub mod sim;
pub mod tamper;
pub mod tokens;
