//! What a simulated world must offer so that anything can drive it.

use core::fmt::Debug;

use rescind_proto::relay::Relay;

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

    /// What has happened.
    fn transcript(&mut self) -> &mut Transcript;
}

/// What has happened, line by line, once it is kept.
#[derive(Clone, Debug, Default)]
pub struct Transcript(Option<Vec<String>>);

impl Transcript {
    /// From now on lines are kept.
    pub fn keep(&mut self) {
        self.0 = Some(Vec::new());
    }

    /// The lines kept.
    pub fn lines(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Adds a line.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }
}

/// A rule was broken: these words say which.
///
/// # Errors
///
/// Always.
pub fn broken<T>(words: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(words.into()))
}

/// The rule in these words is broken if this is so.
///
/// # Errors
///
/// That it is.
pub fn never(is_so: bool, words: impl FnOnce() -> String) -> Result<(), Broken> {
    if is_so { Err(Broken(words())) } else { Ok(()) }
}

/// The rule in these words is broken if there is such a thing.
///
/// # Errors
///
/// That there is.
pub fn none<T>(found: Option<T>, words: impl FnOnce(T) -> String) -> Result<(), Broken> {
    found.map_or(Ok(()), |found| Err(Broken(words(found))))
}

/// Goes on round by round until one moves nothing.
///
/// # Errors
///
/// What broke in a round, or that there is always something that moves.
pub fn to_rest(mut round: impl FnMut() -> Result<bool, Broken>) -> Result<(), Broken> {
    for _ in 0..MOST_ROUNDS {
        if !round()? {
            return Ok(());
        }
    }
    broken("nothing ever comes to rest")
}

/// More rounds than any small world needs to come to rest.
const MOST_ROUNDS: usize = 1000;

/// Nothing is left in a relay when everything is over (invariant 6).
///
/// # Errors
///
/// How much is left.
pub fn check_residue(relay: &Relay) -> Result<(), Broken> {
    match relay.residue() {
        0 => Ok(()),
        some => broken(format!("{some} entries are left in the relay when everything is over (invariant 6)")),
    }
}
