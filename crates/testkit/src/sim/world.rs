//! What a simulated world must offer so that anything can drive it.

use core::fmt::Debug;

/// A rule was broken; the words say which, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

/// Machines, the links between them, a clock, and a model that judges what passes.
pub trait World: Clone {
    /// One thing that can happen.
    type Action: Copy + Debug + Eq;

    /// Everything that can happen now, in a fixed order.
    fn actions(&self, out: &mut Vec<Self::Action>);

    /// Whether it ends so much that a long walk should seldom do it.
    fn is_rare(action: Self::Action) -> bool;

    /// Lets it happen.
    ///
    /// # Errors
    ///
    /// The rule that was broken by what came of it. Invariants of a machine panic instead.
    fn step(&mut self, action: Self::Action) -> Result<(), Broken>;

    /// Whether what must happen in the end does, from here, when nobody acts any more.
    ///
    /// # Errors
    ///
    /// What did not happen, or what happened against a rule.
    fn check_future(&self) -> Result<(), Broken>;

    /// The canonical hash of everything that decides the future, times relative.
    fn digest(&self) -> u128;

    /// From now on, keep a transcript of frames, for [`transcript`](World::transcript).
    fn keep_transcript(&mut self);

    /// The lines kept.
    fn transcript(&self) -> &[String];
}
