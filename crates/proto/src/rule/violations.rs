//! How often each rule was broken: nothing is kept of rules that were not.

use super::Rule;

/// How often one party broke which rules.
///
/// No allocation until the first violation; then one entry for each rule that was broken, so at most one for each
/// that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Violations {
    /// In the order of the catalogue, none of them zero.
    counts: Vec<(Rule, u64)>,
}

impl Violations {
    /// No rule was broken.
    pub const NONE: Self = Self { counts: Vec::new() };

    /// How often `rule` was broken.
    #[must_use]
    pub fn of(&self, rule: Rule) -> u64 {
        self.place(rule).map_or(0, |place| self.counts[place].1)
    }

    /// The rules that were broken and how often, in the order of the catalogue.
    pub fn iter(&self) -> impl Iterator<Item = (Rule, u64)> {
        self.counts.iter().copied()
    }

    /// How often any rule was broken.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }

    /// Whether no rule was broken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(crate) fn count(&mut self, rule: Rule) {
        match self.place(rule) {
            Ok(place) => self.counts[place].1 += 1,
            Err(place) => self.counts.insert(place, (rule, 1)),
        }
    }

    fn place(&self, rule: Rule) -> Result<usize, usize> {
        self.counts.binary_search_by_key(&rule, |(rule, _)| *rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_counted_by_itself_and_told_in_the_order_of_the_catalogue() {
        let mut violations = Violations::NONE;
        assert!(violations.is_empty());
        for rule in Rule::ALL.iter().rev() {
            violations.count(*rule);
        }
        violations.count(Rule::McpI02);
        assert_eq!(violations.iter().map(|(rule, _)| rule).collect::<Vec<_>>(), Rule::ALL);
        for rule in Rule::ALL {
            assert_eq!(violations.of(*rule), if *rule == Rule::McpI02 { 2 } else { 1 });
        }
        assert_eq!(violations.total(), Rule::ALL.len() as u64 + 1);
    }

    #[test]
    fn a_rule_that_was_not_broken_is_not_told() {
        let mut violations = Violations::NONE;
        violations.count(Rule::McpM01);
        assert_eq!(violations.of(Rule::McpC03), 0);
        assert_eq!(violations.iter().collect::<Vec<_>>(), [(Rule::McpM01, 1)]);
        assert!(!violations.is_empty());
    }
}
