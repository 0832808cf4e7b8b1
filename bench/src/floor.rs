//! What the shim promises, relative to L0 in the same run.

use serde::Serialize;

/// One promise about a ratio to L0.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// What is promised.
    pub name: &'static str,
    /// The least that must hold.
    pub floor: f64,
    /// What is aimed at.
    pub goal: f64,
    /// Whether less is better.
    pub sense: Sense,
}

/// Which way a figure is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// A cost.
    AtMost,
    /// A rate.
    AtLeast,
}

/// Where a figure stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The goal is reached.
    Goal,
    /// The floor is reached, the goal is not.
    Floor,
    /// Not even the floor.
    Below,
}

impl Promise {
    /// A cost that is to stay under its bounds.
    #[must_use]
    pub const fn at_most(name: &'static str, floor: f64, goal: f64) -> Self {
        Self { name, floor, goal, sense: Sense::AtMost }
    }

    /// A rate that is to stay over its bounds.
    #[must_use]
    pub const fn at_least(name: &'static str, floor: f64, goal: f64) -> Self {
        Self { name, floor, goal, sense: Sense::AtLeast }
    }

    /// Where `measured` stands.
    #[must_use]
    pub fn judge(&self, measured: f64) -> Verdict {
        let reaches = |bound: f64| match self.sense {
            Sense::AtMost => measured <= bound,
            Sense::AtLeast => measured >= bound,
        };
        let standing = if reaches(self.goal) {
            Standing::Goal
        } else if reaches(self.floor) {
            Standing::Floor
        } else {
            Standing::Below
        };
        Verdict { name: self.name, measured, floor: self.floor, goal: self.goal, standing }
    }
}

/// A promise and what was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Verdict {
    /// What was promised.
    pub name: &'static str,
    /// What was measured, in the unit of the bounds.
    pub measured: f64,
    /// The least that must hold.
    pub floor: f64,
    /// What is aimed at.
    pub goal: f64,
    /// Where the figure stands.
    pub standing: Standing,
}

impl Verdict {
    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let standing = match self.standing {
            Standing::Goal => "goal reached",
            Standing::Floor => "floor reached",
            Standing::Below => "BELOW THE FLOOR",
        };
        format!(
            "{:<46} {:>8.2}   floor {:>6.2}   goal {:>6.2}   {standing}",
            self.name, self.measured, self.floor, self.goal
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_below_its_floor_when_it_is_higher() {
        let promise = Promise::at_most("cost", 1.5, 1.2);
        assert_eq!(promise.judge(1.2).standing, Standing::Goal);
        assert_eq!(promise.judge(1.4).standing, Standing::Floor);
        assert_eq!(promise.judge(1.6).standing, Standing::Below);
    }

    #[test]
    fn a_rate_is_below_its_floor_when_it_is_lower() {
        let promise = Promise::at_least("rate", 0.5, 0.75);
        assert_eq!(promise.judge(0.8).standing, Standing::Goal);
        assert_eq!(promise.judge(0.5).standing, Standing::Floor);
        assert_eq!(promise.judge(0.4).standing, Standing::Below);
    }
}
