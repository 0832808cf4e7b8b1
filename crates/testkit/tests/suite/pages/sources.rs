//! The tests of the workspace, as their source files have them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Whose tests count, in the order in which pages name them.
const CRATES: [&str; 5] = ["rescind", "tasks", "proto", "cli", "http"];

/// One test.
pub(crate) struct Test {
    /// From `crates/`, without the folders of tests: `rescind/peer/incoming.rs`.
    pub(crate) file: String,
    pub(crate) name: String,
    /// The comment above it.
    pub(crate) comment: String,
    /// It runs by command alone.
    pub(crate) is_ignored: bool,
    /// Its source.
    pub(crate) body: String,
    /// Its file's constants that name several dialects, and their source.
    pub(crate) lists: Vec<(String, String)>,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn page(name: &str) -> PathBuf {
    root().join("docs").join(name)
}

/// Every test in the folders of tests, by crate and file, in the order of its file.
pub(crate) fn tests() -> Vec<Test> {
    let mut found = Vec::new();
    for krate in CRATES {
        let folder = root().join("crates").join(krate).join("tests");
        let mut files = Vec::new();
        gather(&folder, &mut files);
        files.sort_unstable();
        // A list of dialects may be kept in the file that is there for the others.
        let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        for (file, text) in files.iter().zip(&texts) {
            let rig =
                file.ancestors().skip(1).find_map(|folder| files.iter().position(|it| *it == folder.join("rig.rs")));
            let lists = [Some(text), rig.map(|at| &texts[at])].into_iter().flatten().flat_map(|text| lists(text));
            let inner = file.strip_prefix(&folder).unwrap();
            let inner = inner.strip_prefix("suite").unwrap_or(inner).to_str().unwrap();
            found.extend(tests_of(&format!("{krate}/{inner}"), text, &lists.collect::<Vec<_>>()));
        }
    }
    found
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn tests_of(file: &str, text: &str, lists: &[(String, String)]) -> Vec<Test> {
    let mut found = Vec::new();
    let (mut comment, mut is_test, mut is_ignored) = (String::new(), false, false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if let Some(words) = code.strip_prefix("///").or_else(|| code.strip_prefix("//")) {
            comment.push_str(words.trim());
            comment.push(' ');
        } else if code.starts_with("#[") {
            is_test |= code.starts_with("#[test") || code.starts_with("#[tokio::test");
            is_ignored |= code.starts_with("#[ignore");
        } else {
            if is_test && let Some(name) = name_of(code) {
                let end = format!("{}}}", &line[..line.len() - code.len()]);
                let body = lines.by_ref().take_while(|line| *line != end).collect::<Vec<_>>().join("\n");
                let (file, comment) = (file.to_owned(), comment.clone());
                found.push(Test { file, name: name.to_owned(), comment, is_ignored, body, lists: lists.to_vec() });
            }
            (comment, is_test, is_ignored) = (String::new(), false, false);
        }
    }
    found
}

fn name_of(code: &str) -> Option<&str> {
    let (_, rest) = code.split_once("fn ")?;
    rest.split_once('(').map(|(name, _)| name)
}

/// `const NAME: [&Dialect; N] = …;`
fn lists(text: &str) -> Vec<(String, String)> {
    let consts = text.match_indices("const ").filter_map(|(at, _)| {
        let (item, _) = text[at + "const ".len()..].split_once("];")?;
        let (name, rest) = item.split_once(": [&Dialect;").or_else(|| item.split_once(": [&'static Dialect;"))?;
        Some((name.to_owned(), rest.to_owned()))
    });
    consts.filter(|(name, _)| !name.contains([' ', '\n'])).collect()
}

#[test]
fn tests_are_found_with_their_comments_and_sources() {
    let text = "const TWO: [&Dialect; 2] = [&mcp::LATEST, &lsp::LSP];\n\n/// Case 7.\n#[test]\nfn seven() {\n    assert!(true);\n}\n\
                \n/// Case 8.\nfn helper() {\n}\n";
    let found = tests_of("it.rs", text, &lists(text));
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].name, &*found[0].comment, &*found[0].body), ("seven", "Case 7. ", "    assert!(true);"));
    assert_eq!(found[0].lists[0].0, "TWO");
}
