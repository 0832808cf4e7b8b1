//! Walks through the explorer's worlds, by bytes.

use crate::sim::{
    chooser::{ByteChooser, Chooser},
    relay_world::RelayWorld,
    scene::Scene,
    scenes,
    walk::walk,
    world::World,
};

/// Steps of one walk at most.
const LONGEST: usize = 2000;

/// Walks through a scene of a relay, played as `play` says, or babbles: the first choice says which.
///
/// # Panics
///
/// Where a rule or an invariant breaks.
pub(super) fn through_a_relay(
    bytes: &[u8],
    play: fn(Scene) -> Scene,
    babble: impl FnOnce(&mut ByteChooser<'_>) -> Option<()>,
) {
    let mut chooser = ByteChooser::new(bytes);
    let mut scenes = scenes::relay();
    let Some(choice) = chooser.choose(2 * scenes.len()) else { return };
    if choice < scenes.len() {
        through(&RelayWorld::new(play(scenes.swap_remove(choice).adversarial())), &mut chooser);
    } else {
        let _ = babble(&mut chooser);
    }
}

/// Walks through a world.
///
/// # Panics
///
/// Where a rule or an invariant breaks.
pub(super) fn through(world: &impl World, chooser: &mut ByteChooser<'_>) {
    if let Err(found) = walk(world, chooser, LONGEST) {
        panic!("{}", found.to_text());
    }
}
