//! A simulated network with a virtual clock, and what drives it.
//!
//! A [`World`](world::World) offers what can happen; whoever drives it chooses:
//! the [explorer](explore) everything in turn, a [walk](walk) what its
//! [chooser](chooser) says. One world and one reference model serve them all.

pub mod ask;
pub mod chooser;
pub mod digest;
pub mod explore;
pub mod hop;
pub mod relay_model;
pub mod relay_world;
pub mod scene;
pub mod scenes;
pub mod text;
pub mod walk;
pub mod world;
