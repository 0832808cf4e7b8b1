//! Which known word a mistyped one is nearest to.

/// The nearest word, if it is near: a third of its letters may be wrong, and one in any case. Two that are next to each other
/// and have changed places count as one.
pub(super) fn of<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|one| (distance(word, one), one));
    let near = distances.filter(|(distance, one)| *distance <= (one.len() / 3).max(1) && one.len() > 1);
    near.min_by_key(|(distance, _)| *distance).map(|(_, one)| one)
}

/// How many letters to add, take out, change or swap with the next.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().take(64).collect(), other.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other_letter) in other.iter().enumerate() {
            let changed = last[column] + usize::from(letter != other_letter);
            let mut least = changed.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && one[row - 1] == *other_letter && *letter == other[column - 1] {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_recognised_and_another_word_is_not() {
        let commands = || ["run", "ps", "stop", "cancel", "whoami", "end"].into_iter();
        for (word, meant) in [
            ("rnu", Some("run")),
            ("urn", Some("run")),
            ("rum", Some("run")),
            ("cancle", Some("cancel")),
            ("whoiam", Some("whoami")),
            ("stpo", Some("stop")),
            ("psx", Some("ps")),
            ("npx", None),
            ("python", None),
            ("", None),
        ] {
            assert_eq!(of(word, commands()), meant, "{word}");
        }
    }
}
