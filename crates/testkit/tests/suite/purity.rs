//! The engine and the machines of HTTP have no I/O, clock, threads or environment, in their tests neither.
//!
//! `clippy.toml` of both crates forbids calls; this reads the source, and so finds imports too.

use std::{fs, path::Path};

use crate::source::rust_files;

/// Modules of `std` that reach outside the process or start something.
const IMPURE_MODULES: [&str; 6] = ["env", "fs", "io", "net", "process", "thread"];

/// Text that has no business in the engine, however it was imported.
const IMPURE_TEXT: [&str; 7] = ["Instant::now", "SystemTime", "tokio", "println!", "print!", "dbg!", "extern crate"];

#[test]
fn the_engine_is_pure() {
    let mut files = Vec::new();
    for engine in ["../wire/src", "../parts/src", "../proto/src", "../http/src"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(engine);
        let found = rust_files(&source);
        assert!(found.iter().any(|file| file.ends_with("lib.rs")), "no engine at {}", source.display());
        files.extend(found.into_iter().filter(|file| !file.starts_with(source.join("shell"))));
    }
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            impurities(&text).into_iter().map(|what| format!("{}: {what}", file.display()))
        })
        .collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn each_impurity_is_found() {
    for (source, found) in [
        ("let now = Instant::now();", "Instant::now"),
        ("use std::time::SystemTime;", "SystemTime"),
        ("std::thread::spawn(work);", "std::thread"),
        ("use std::io::Write;", "std::io"),
        ("use std::{\n    fmt,\n    fs::File,\n};", "std::fs"),
        ("use std::{collections::{btree_map, BTreeMap}, env};", "std::env"),
        ("use ::std::net;", "std::net"),
        ("use tokio::sync;", "tokio"),
        ("eprintln!(\"here\");", "println!"),
    ] {
        assert!(impurities(source).contains(&found.to_owned()), "{source}: {:?}", impurities(source));
    }
}

#[test]
fn comments_and_pure_parts_of_std_are_let_through() {
    for source in [
        "/// Never `Instant::now`: see std::thread.\nfn later() {}",
        "use std::{collections::BTreeMap, fmt, time::Duration};",
        "let environment = envelope.io; // println! nothing",
        "use crate::{io, thread};",
    ] {
        assert_eq!(impurities(source), Vec::<String>::new(), "{source}");
    }
}

/// What in this source is not pure, comments aside.
fn impurities(source: &str) -> Vec<String> {
    let code: String = source.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let text = IMPURE_TEXT.into_iter().filter(|text| code.contains(text)).map(str::to_owned);
    let modules = code
        .split("std::")
        .skip(1)
        .flat_map(first_segments)
        .filter(|segment| IMPURE_MODULES.contains(segment))
        .map(|module| format!("std::{module}"));
    text.chain(modules).collect()
}

/// The line up to a comment; a `//` within a string ends it early, which hides little and breaks nothing.
fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// The modules that a path after `std::` starts with: one, or each of a `{…}` group.
fn first_segments(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![identifier(path)];
    };
    let mut depth = 0_u32;
    let mut segments = vec![identifier(group)];
    for (place, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => segments.push(identifier(&group[place + 1..])),
            _ => {}
        }
    }
    segments
}

fn identifier(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
