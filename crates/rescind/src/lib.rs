//! The library of Rescind.
