//! A simulated network with a virtual clock, and what drives it.
//!
//! A [`World`](world::World) offers what can happen; whoever drives it chooses:
//! the [explorer](explore) everything in turn, a [walk] what its
//! [chooser] says. One world and one reference model serve them all.

pub mod ask;
pub mod bridge_world;
pub mod call;
pub mod chain_world;
pub mod child_world;
pub mod chooser;
pub mod digest;
pub mod endpoint;
pub mod endpoint_model;
pub mod ends_world;
mod eras;
pub mod explore;
pub mod flood;
pub mod follower_world;
pub mod handshake;
pub mod hop;
pub mod late_task_world;
pub mod meeting;
pub mod pair_world;
pub mod post;
pub mod relay_model;
pub mod relay_world;
pub mod scene;
pub mod scenes;
pub mod session_world;
pub mod solo_world;
pub mod stage;
pub mod task_world;
pub mod text;
pub mod thread_world;
pub mod turn_world;
pub mod walk;
pub mod watcher;
pub mod witness;
pub mod world;
