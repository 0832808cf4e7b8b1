//! Rust sources as tests of the workspace read them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Names, `::` and single characters; no comments, and nothing of literals.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(len) = literal(rest) {
            len
        } else if first.is_alphanumeric() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..len].to_owned());
            len
        } else {
            let len = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(rest[..len].to_owned());
            }
            len
        };
        rest = &rest[len..];
    }
    tokens
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        let step = match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a string or character literal that the text starts with; a lifetime is none.
fn literal(text: &str) -> Option<usize> {
    let body = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - body.len();
    let raw = body.strip_prefix('r').map_or(body, |raw| raw.trim_start_matches('#'));
    let hashes = body.len().saturating_sub(raw.len() + 1);
    if prefix <= 1 && raw.starts_with('"') && body.starts_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(raw[1..].find(&end).map_or(text.len(), |at| text.len() - raw.len() + 1 + at + end.len()));
    }
    let quote = body.chars().next().filter(|quote| prefix <= 1 && matches!(quote, '"' | '\''))?;
    let is_lifetime =
        quote == '\'' && !body[1..].starts_with('\\') && body[1..].chars().nth(1).is_none_or(|c| c != '\'');
    if is_lifetime {
        return None;
    }
    let mut escaped = false;
    let end = body[1..].find(|c| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some(end.map_or(text.len(), |end| prefix + 1 + end + 1))
}

/// The folders of our crates.
pub(crate) fn crates() -> Vec<String> {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates are readable");
    let names = folders.map(|entry| entry.expect("the crates are readable").file_name());
    names.map(|name| name.into_string().expect("a crate's name is text")).collect()
}

/// The sources of our crates, each with its path below `crates/`.
pub(crate) fn in_crates() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = crates().into_iter().flat_map(|one| rust_files(&root.join(one).join("src")));
    let path = |file: &Path| {
        let names = file.strip_prefix(&root).expect("it is below").iter().map(|name| name.to_string_lossy());
        names.collect::<Vec<_>>().join("/")
    };
    files.map(|file| (path(&file), file)).collect()
}

/// The Rust files below a folder.
pub(crate) fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("the sources are readable") {
        let path = entry.expect("the sources are readable").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
