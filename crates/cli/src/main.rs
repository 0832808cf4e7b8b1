//! The `rescind` command.

fn main() {}
