//! What a published crate is compiled from lies in its own folder: otherwise it compiles here and nowhere else. A page whose
//! code is tested is none of that (`cfg(doctest)`).

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::source::rust_files;

/// What names a file in source.
const NAMES_A_FILE: [&str; 4] = ["include_str!(", "include_bytes!(", "include!(", "#[path = "];

#[test]
fn no_published_crate_is_made_of_a_file_outside_of_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if manifest.contains("publish = false") {
            continue;
        }
        for file in rust_files(&folder.join("src")) {
            for named in files_named(&fs::read_to_string(&file).unwrap()) {
                seen += 1;
                let path = flat(&file.parent().unwrap().join(&named));
                let is_tested_page = named.ends_with(".md") && file.ends_with("lib.rs");
                assert!(path.starts_with(&folder) || is_tested_page, "{} is made of {named}", file.display());
            }
        }
    }
    assert!(seen > 10, "the page of the console is made of files");
}

#[test]
fn a_file_outside_is_found_however_it_is_named() {
    for source in ["include_str!(\"../../a\")", "include_bytes!( \"../../a\" )", "#[path = \"../../a\"]"] {
        assert_eq!(files_named(source), ["../../a"], "{source}");
    }
    assert!(flat(Path::new("/c/x/src/../../a")).starts_with("/c/a"));
}

fn files_named(source: &str) -> Vec<String> {
    let after = NAMES_A_FILE.iter().flat_map(|name| source.split(name).skip(1));
    let quoted = after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    quoted.map(str::to_owned).collect()
}

/// The path without `..`.
fn flat(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut flat, part| {
        if part == Component::ParentDir {
            flat.pop();
        } else {
            flat.push(part);
        }
        flat
    })
}
