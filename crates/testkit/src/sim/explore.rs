//! The exhaustive explorer: every reachable state of a world, breadth first.

use core::fmt::Debug;
use std::{
    collections::HashSet,
    fmt::Write,
    hash::{BuildHasherDefault, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use super::world::{Broken, World};

/// How much was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Different states, the first included.
    pub states: usize,
    /// Steps taken.
    pub transitions: usize,
    /// The longest sequence of events.
    pub depth: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the world ended before the depth: deeper there is nothing new.
    pub exhausted: bool,
}

/// The shortest way to something broken.
#[derive(Clone, Debug)]
pub struct Counterexample<A> {
    /// What was broken.
    pub broken: Broken,
    /// The actions that lead there.
    pub actions: Vec<A>,
    /// The actions and the frames that passed, line by line.
    pub transcript: Vec<String>,
}

impl<A: Debug> Counterexample<A> {
    /// The whole story as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("broken after {} events: {}\n", self.actions.len(), self.broken.0);
        for line in &self.transcript {
            let _ = writeln!(text, "  {line}");
        }
        let _ = writeln!(text, "actions: {:?}", self.actions);
        text
    }
}

/// Visits every state that `depth` actions can reach, and looks from each into its future.
///
/// # Errors
///
/// The shortest way to a rule or an invariant that breaks.
pub fn explore<W: World>(start: &W, depth: usize) -> Result<Counts, Box<Counterexample<W::Action>>> {
    let began = Instant::now();
    let mut seen: HashSet<u128, BuildHasherDefault<Fold>> = HashSet::default();
    seen.insert(start.digest());
    // For each state, in the order of discovery: where it came from, and by what.
    let mut origin: Vec<Option<(u32, W::Action)>> = vec![None];
    let mut layer = vec![(0_u32, start.clone())];
    let mut counts = Counts { states: 1, depth, ..Counts::default() };
    let mut actions = Vec::new();
    for level in 0..depth {
        let mut next = Vec::new();
        for (place, world) in layer {
            actions.clear();
            world.actions(&mut actions);
            for &action in &actions {
                counts.transitions += 1;
                let mut after = world.clone();
                let outcome = guarded(|| {
                    after.step(action)?;
                    let digest = after.digest();
                    if seen.contains(&digest) {
                        return Ok(None);
                    }
                    after.check_future()?;
                    Ok(Some(digest))
                });
                match outcome {
                    Ok(None) => {}
                    Ok(Some(digest)) => {
                        seen.insert(digest);
                        let name = u32::try_from(origin.len()).unwrap_or(u32::MAX);
                        origin.push(Some((place, action)));
                        if level + 1 < depth {
                            next.push((name, after));
                        }
                    }
                    Err(broken) => {
                        let mut way = path(&origin, place);
                        way.push(action);
                        return Err(Box::new(retell(start, way, broken)));
                    }
                }
            }
        }
        counts.states = seen.len();
        layer = next;
        if layer.is_empty() {
            counts.exhausted = level + 1 < depth;
            break;
        }
    }
    counts.elapsed = began.elapsed();
    Ok(counts)
}

/// Runs `step`; a panic, as of an invariant, counts as broken.
pub(super) fn guarded<T>(step: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Broken(text.unwrap_or("panicked").to_owned()))
    })
}

/// Runs the same actions again, and keeps what passed.
pub(super) fn retell<W: World>(start: &W, actions: Vec<W::Action>, broken: Broken) -> Counterexample<W::Action> {
    let mut world = start.clone();
    world.transcript().keep();
    for &action in &actions {
        if guarded(|| world.step(action)).is_err() {
            break;
        }
    }
    let transcript = world.transcript().lines().to_vec();
    Counterexample { broken, actions, transcript }
}

fn path<A: Copy>(origin: &[Option<(u32, A)>], mut place: u32) -> Vec<A> {
    let mut way = Vec::new();
    while let Some(Some((from, action))) = origin.get(place as usize) {
        way.push(*action);
        place = *from;
    }
    way.reverse();
    way
}

/// Digests are hashes already.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            self.0 ^= u64::from(*byte) << (at % 8 * 8);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = (value >> 64) as u64 ^ value as u64;
    }
}
