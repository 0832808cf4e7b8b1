//! `ARCHITECTURE.md` and `docs/proof/tests.md`: what they name exists, and the first stays short. All links lead somewhere.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::sources::root;
use crate::source::{rust_files, tokens};

/// More than that nobody reads in one go.
const ARCHITECTURE_BYTES: usize = 14_000;

const PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/proof/tests.md"];

fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

#[test]
fn architecture_is_read_in_one_go() {
    let len = text("ARCHITECTURE.md").len();
    assert!(len <= ARCHITECTURE_BYTES, "ARCHITECTURE.md has {len} bytes, and may have {ARCHITECTURE_BYTES}");
}

#[test]
fn every_file_that_these_pages_name_exists() {
    for page in PAGES {
        let text = text(page);
        let (paths, missing) = missing_paths(&text, &root());
        assert!(paths > 30, "{page} names {paths} files");
        assert!(missing.is_empty(), "{page} names what does not exist: {missing:#?}");
    }
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let mut dead = Vec::new();
    for folder in ["", "docs", "docs/proof"] {
        let folder = root().join(folder);
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for page in entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
            let text = fs::read_to_string(&page).unwrap();
            dead.extend(links(&text).filter(|link| !folder.join(link).exists()).map(|link| (page.clone(), link)));
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Who does not find a page does not read it.
#[test]
fn the_map_of_the_pages_has_each_of_them_on_one_line() {
    let docs = root().join("docs");
    let map = text("docs/README.md");
    let named: Vec<_> = map.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("](")).collect();
    let mut pages = Vec::new();
    for folder in ["", "proof/"] {
        let entries = fs::read_dir(docs.join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}{name}")));
    }
    pages.retain(|page| page != "README.md");
    for page in &pages {
        let lines = named.iter().filter(|(name, link)| name == page && link.starts_with(&format!("{page})"))).count();
        assert_eq!(lines, 1, "docs/README.md must have {page} on one line");
    }
    assert_eq!(named.len(), pages.len(), "{named:?}");
}

#[test]
fn architecture_names_every_crate() {
    let text = text("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = format!("`crates/{}`", entry.unwrap().file_name().to_str().unwrap());
        assert!(text.contains(&name), "{name}");
    }
}

/// A name that was changed would send its reader searching.
#[test]
fn every_name_of_the_code_in_architecture_exists() {
    let sources: Vec<_> =
        rust_files(&root().join("crates")).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let known: BTreeSet<_> = sources.iter().flat_map(|source| tokens(source)).collect();
    // A name on the wire is a literal.
    let is_literal = |name: &str| sources.iter().any(|source| source.contains(&format!("\"{name}\"")));
    let text = text("ARCHITECTURE.md");
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_name =
        |name: &&str| is_word(name) && (name.contains('_') || name.starts_with(|c: char| c.is_ascii_uppercase()));
    let names = code(&text).flat_map(|code| code.split("::")).filter(is_name);
    let unknown: Vec<_> = names.filter(|name| !known.contains(*name) && !is_literal(name)).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn a_file_that_is_missing_is_found_in_whatever_form_it_is_named() {
    let page = "`crates/wire/src/frame.rs` and `id.rs`, `gone.rs`; `crates/wire/src/`: `id.rs`; `crates/testkit/src/no*.rs`, \
                `crates/none`, `cargo test crates/none`, `Relay::with`, `fuzz`";
    let (paths, missing) = missing_paths(page, &root());
    assert_eq!((paths, missing), (8, vec!["gone.rs", "crates/testkit/src/no*.rs", "crates/none"]));
}

/// How many paths a page names, and those that lead nowhere. A file name without a folder is in the folder named last.
fn missing_paths<'a>(page: &'a str, root: &Path) -> (usize, Vec<&'a str>) {
    let tops = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let tops: BTreeSet<_> = tops.collect();
    let (mut folder, mut paths, mut missing) = (root.to_owned(), 0, Vec::new());
    for name in code(page).filter(|name| !name.contains(char::is_whitespace)) {
        let is_from_root = tops.contains(name.split('/').next().unwrap_or_default());
        let path = match is_from_root {
            true => root.join(name),
            false if name.ends_with(".rs") => folder.join(name),
            false => continue,
        };
        paths += 1;
        if exists(&path) {
            folder = if path.is_dir() { path } else { path.parent().unwrap().to_owned() };
        } else {
            missing.push(name);
        }
    }
    (paths, missing)
}

/// Whether there is such a file; one `*` of its name stands for anything.
fn exists(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let Some((before, after)) = name.split_once('*') else { return path.exists() };
    let entries = fs::read_dir(path.parent().unwrap()).into_iter().flatten();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.starts_with(before) && name.ends_with(after))
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Where links to files of the repository lead.
fn links(text: &str) -> impl Iterator<Item = PathBuf> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://")).map(PathBuf::from)
}
