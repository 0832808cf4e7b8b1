//! Names that were given up stay given up: `docs/proof/names.md` lists them, with what took their place.

use std::{fs, path::Path};

use crate::source::{rust_files, tokens};

/// A row of the page.
struct GivenUp {
    /// The folder in which nothing has the name any more.
    folder: String,
    name: String,
}

#[test]
fn no_name_that_was_given_up_is_used_again() {
    let rows = rows(&fs::read_to_string(root().join("docs/proof/names.md")).unwrap());
    assert!(rows.len() > 50, "the page is not read");
    let mut found = Vec::new();
    for file in rust_files(&root().join("crates")) {
        let path = file.strip_prefix(root()).unwrap();
        let tokens = tokens(&fs::read_to_string(&file).unwrap());
        let used = rows.iter().filter(|row| path.starts_with(&row.folder) && tokens.contains(&row.name));
        found.extend(used.map(|row| format!("{}: {}", path.display(), row.name)));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_row_gives_its_folder_and_each_of_its_old_names() {
    let rows = rows(
        "| folder | old | times | new |\n| --- | --- | --- | --- |\n| `crates/proto` | `deaf`, `haunt` | 3 | `x` |\n",
    );
    let found: Vec<_> = rows.iter().map(|row| (&*row.folder, &*row.name)).collect();
    assert_eq!(found, [("crates/proto", "deaf"), ("crates/proto", "haunt")]);
}

/// The rows of all tables of the page whose first column is a folder.
fn rows(page: &str) -> Vec<GivenUp> {
    let lines = page.lines().filter(|line| line.starts_with("| `crates"));
    let rows = lines.flat_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let folder = cells[1].trim_matches('`').to_owned();
        let names: Vec<_> = cells[2].split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
        names.into_iter().map(move |name| GivenUp { folder: folder.clone(), name })
    });
    rows.collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
