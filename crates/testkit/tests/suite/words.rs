//! Comments in plain English: words that make a sentence hard to read have a bound in each crate, which may only fall.
//!
//! They are counted in all comments of a crate's `src`, text in backticks aside, for each 1,000 lines of comment.
//!
//! - Who acts has a role, such as driver, caller, peer, client, operator or owner: no `whoever`, `nobody` or `no one`.
//! - A machine reports, emits, receives and shows: it does not tell, hear or say.
//! - "It is not a `T`", and not "it is no `T`".
//! - No chain of `of which` or `for which`: two sentences.
//! - Programs and people alike are "it", "the client", "its owner": no `he`, `him`, `his`.

use std::{collections::BTreeMap, fs};

use crate::source::in_crates;

const WORDS: [&str; 14] =
    ["whoever", "nobody", "tell", "tells", "told", "hear", "hears", "heard", "say", "says", "said", "he", "him", "his"];

/// Words in a row.
const PAIRS: [(&str, &str); 7] =
    [("no", "one"), ("of", "which"), ("for", "which"), ("is", "no"), ("are", "no"), ("was", "no"), ("were", "no")];

/// The most of them for 1,000 lines of comment, by the start of a file's path below `crates/`: the longest that fits counts.
const BOUNDS: &[(&str, usize)] = &[
    ("cli", 90),
    ("console", 25),
    ("demo", 40),
    ("feed", 15),
    ("http", 60),
    ("ledger", 70),
    ("operator", 35),
    ("parts", 45),
    ("proto", 55),
    ("proto/src/bridge", 40),
    ("rescind", 35),
    ("sign-in", 10),
    ("tasks", 20),
    ("testkit", 130),
    ("wire", 80),
    ("wrap", 70),
];

#[test]
fn words_that_make_comments_hard_to_read_stay_within_their_bounds() {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for (path, file) in in_crates() {
        let bounds = BOUNDS.iter().filter(|(prefix, _)| path.starts_with(prefix));
        let (prefix, _) =
            bounds.max_by_key(|(prefix, _)| prefix.len()).unwrap_or_else(|| panic!("{path} has no bound"));
        counts.entry(prefix).or_default().add(&fs::read_to_string(file).unwrap());
    }
    let mut found = Vec::new();
    for (prefix, most) in BOUNDS {
        let Count { words, lines } = counts.get(prefix).unwrap_or_else(|| panic!("no sources of {prefix}"));
        if words * 1000 > most * lines {
            let each = words * 1000 / lines;
            found.push(format!("{prefix}: {each} for 1,000 lines ({words} in {lines}), and {most} are the most"));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn words_are_counted_in_comments_only_and_over_the_ends_of_their_lines() {
    let count = |text: &str| {
        let mut count = Count::default();
        count.add(text);
        (count.words, count.lines)
    };
    assert_eq!(
        count("/// Nobody is told, and `nobody` of no one.\n//! He says it is\n// no number\nlet said = 1;\n"),
        (6, 3)
    );
    assert_eq!(count("// It is\nlet x = 1;\n// no number of\n// which\n"), (1, 3));
    assert_eq!(count("let told = \"he said // not this\"; // told\n"), (0, 0));
}

#[derive(Default)]
struct Count {
    words: usize,
    lines: usize,
}

impl Count {
    /// Adds the comments of one file; those that follow code in their line are left out.
    fn add(&mut self, text: &str) {
        let mut before = String::new();
        for line in text.lines() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                before.clear();
                continue;
            };
            self.lines += 1;
            // Every second part is code.
            for prose in comment.split('`').step_by(2) {
                for word in prose.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
                    let word = word.to_lowercase();
                    self.words += usize::from(WORDS.contains(&&*word) || PAIRS.contains(&(&*before, &*word)));
                    before = word;
                }
            }
        }
    }
}
