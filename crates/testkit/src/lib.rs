//! Sample and broken peers, and a simulated network, for tests.
