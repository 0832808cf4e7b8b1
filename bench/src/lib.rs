//! What the shim costs, measured beside what it is compared with.
//!
//! The programs in `src/bin` measure; this library holds what they share: the
//! traffic, the driver that speaks over two pipes, the contenders that stand
//! between it and an echo server, and the report.

#![warn(missing_docs)]

pub mod affinity;
pub mod contender;
pub mod driver;
pub mod echo_server;
pub mod floor;
pub mod forwarder;
pub mod machine;
pub mod peer;
pub mod process_tree;
pub mod programs;
pub mod report;
pub mod session;
pub mod statistics;
pub mod traffic;
pub mod watchdog;
