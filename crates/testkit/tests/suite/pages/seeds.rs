//! `docs/proof/seeds.md`: what became of each sentence of the source documents.

use std::{collections::BTreeSet, fs};

use rescind_proto::rule::Rule;

use super::sources;

fn text() -> String {
    fs::read_to_string(sources::page("proof/seeds.md")).unwrap()
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_page_names_exists() {
    let tests: BTreeSet<_> = sources::tests().into_iter().map(|test| format!("{}::{}", test.file, test.name)).collect();
    let text = text();
    let named: Vec<_> = code(&text).filter(|code| code.contains(".rs::")).collect();
    let missing: Vec<_> = named.iter().filter(|name| !tests.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(named.len() > 50, "the page names {} tests", named.len());
}

/// A test that nothing runs shows nothing.
#[test]
fn every_test_that_the_page_names_is_run() {
    let text = text();
    let named: BTreeSet<_> = code(&text).filter(|code| code.contains(".rs::")).collect();
    let checks = fs::read_to_string(sources::root().join(".ci/run")).unwrap();
    for test in sources::tests() {
        let name = format!("{}::{}", test.file, test.name);
        if !named.contains(&*name) {
            continue;
        }
        let module = test.file.split('/').nth(1).unwrap().trim_end_matches(".rs");
        let by_command = format!("--test suite {module}:: -- --ignored");
        assert!(!test.is_ignored || checks.contains(&by_command), "{name} is run by nothing");
    }
}

#[test]
fn every_rule_that_the_page_names_exists() {
    let text = text();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_rule = |word: &&str| {
        let number = word.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '-');
        ["MCP-C", "MCP-T", "MCP-I", "MCP-H", "ACP-", "LSP-", "TASK-"].iter().any(|family| word.starts_with(family))
            && number.len() == 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let unknown: Vec<_> =
        words.filter(is_rule).filter(|word| Rule::ALL.iter().all(|rule| rule.number() != *word)).collect();
    assert_eq!(unknown, [""; 0]);
}

/// A row without a rule, a test or a word on why not would be an empty promise.
#[test]
fn every_row_says_what_became_of_its_sentence() {
    let text = text();
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
    }
}
