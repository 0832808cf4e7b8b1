//! A walk through a world: one choice after another, far beyond the explorer's depth.

use super::{
    chooser::Chooser,
    explore::{Counterexample, guarded, retell},
    world::World,
};

/// Walks until the choices or the possibilities end, or `most` steps are taken; then looks into the future.
///
/// # Errors
///
/// The way to a rule or an invariant that breaks.
pub fn walk<W: World>(
    start: &W,
    chooser: &mut impl Chooser,
    most: usize,
) -> Result<usize, Box<Counterexample<W::Action>>> {
    let mut world = start.clone();
    let mut taken = Vec::new();
    let mut actions = Vec::new();
    while taken.len() < most {
        actions.clear();
        world.actions(&mut actions);
        if actions.is_empty() {
            break;
        }
        let Some(choice) = chooser.choose(actions.len()) else { break };
        taken.push(actions[choice]);
        if let Err(broken) = guarded(|| world.step(actions[choice])) {
            return Err(Box::new(retell(start, taken, broken)));
        }
    }
    match guarded(|| world.check_future()) {
        Ok(()) => Ok(taken.len()),
        Err(broken) => Err(Box::new(retell(start, taken, broken))),
    }
}
