//! A walk through a world: one choice after another, far beyond the explorer's depth.

use super::{
    chooser::Chooser,
    explore::{Counterexample, guarded, retell},
    world::{Broken, World},
};

/// Walks until the choices or the possibilities end, or `most` steps are taken; then looks into the future.
///
/// # Errors
///
/// A short way to a rule or an invariant that breaks: what of the walk is not needed for it is left out.
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
        if W::is_rare(actions[choice]) && chooser.choose(RARE).is_some_and(|chance| chance > 0) {
            continue;
        }
        taken.push(actions[choice]);
        if guarded(|| world.step(actions[choice])).is_err() {
            return Err(Box::new(shortened(start, taken)));
        }
    }
    match guarded(|| world.check_future()) {
        Ok(()) => Ok(taken.len()),
        Err(_) => Err(Box::new(shortened(start, taken))),
    }
}

/// What is rare happens in one of so many cases.
const RARE: usize = 64;

/// Leaves out whatever can be left out of a way that leads to something broken.
fn shortened<W: World>(start: &W, mut way: Vec<W::Action>) -> Counterexample<W::Action> {
    let mut piece = way.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < way.len() {
            let mut shorter = way.clone();
            shorter.drain(at..(at + piece).min(way.len()));
            if follow(start, &mut shorter).is_some() {
                way = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    let broken = follow(start, &mut way).unwrap_or_else(|| Broken("only once".into()));
    retell(start, way, broken)
}

/// Takes those of the steps that are possible, up to the one that breaks something, and says what it breaks.
fn follow<W: World>(start: &W, way: &mut Vec<W::Action>) -> Option<Broken> {
    let mut world = start.clone();
    let mut possible = Vec::new();
    let mut taken = Vec::new();
    let mut broken = None;
    for &action in &*way {
        possible.clear();
        world.actions(&mut possible);
        if !possible.contains(&action) {
            continue;
        }
        taken.push(action);
        if let Err(found) = guarded(|| world.step(action)) {
            broken = Some(found);
            break;
        }
    }
    *way = taken;
    broken.or_else(|| guarded(|| world.check_future()).err())
}
