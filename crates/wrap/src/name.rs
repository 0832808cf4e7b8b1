//! Names as people write them.

use crate::client::{CLIENTS, Client};

/// The client that a person means: by its id or its own name, whatever their case, spaces, hyphens and underscores.
#[must_use]
pub fn client(text: &str) -> Option<&'static Client> {
    let wanted = plain(text);
    CLIENTS.iter().find(|client| [client.id, client.name].iter().any(|name| plain(name) == wanted))
}

/// The ids of the clients that this may be a slip of.
#[must_use]
pub fn near_clients(text: &str) -> Vec<&'static str> {
    near(text, CLIENTS.iter().flat_map(|client| [(client.id, client.id), (client.name, client.id)]))
}

/// Those that this text may be a slip of, each a name and what to call it: the nearest, and all that are as near.
#[must_use]
pub fn near<'a>(text: &str, known: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<&'a str> {
    let wanted = plain(text);
    let (mut least, mut nearest) = (usize::MAX, Vec::new());
    for (name, called) in known {
        let Some(distance) = distance(&wanted, &plain(name)).filter(|distance| *distance <= least) else { continue };
        if distance < least {
            nearest.clear();
        }
        least = distance;
        if !nearest.contains(&called) {
            nearest.push(called);
        }
    }
    nearest
}

/// A name without what people write differently: case, spaces, hyphens and underscores.
#[must_use]
pub fn plain_text(name: &str) -> String {
    plain(name).into_iter().collect()
}

/// A name without what people write differently.
fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How many letters differ, unless that is more than one in three. A name that begins with the other one does not differ.
fn distance(one: &[char], other: &[char]) -> Option<usize> {
    let (shorter, longer) = if one.len() < other.len() { (one, other) } else { (other, one) };
    if shorter.len() >= 3 && longer.starts_with(shorter) {
        return Some(0);
    }
    if shorter.is_empty() || longer.len() > 3 * shorter.len() {
        return None;
    }
    let mut row: Vec<usize> = (0..=shorter.len()).collect();
    for (line, letter) in longer.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (place, found) in shorter.iter().enumerate() {
            let changed = diagonal + usize::from(letter != found);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().filter(|distance| distance * 3 <= longer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_any_way_of_writing_its_name() {
        for (text, id) in [
            ("Cursor", "cursor"),
            ("Claude Desktop", "claude-desktop"),
            ("claude_code", "claude-code"),
            ("ClaudeCode", "claude-code"),
            ("VS Code", "vscode"),
            ("vs-code", "vscode"),
            ("LM Studio", "lm-studio"),
            ("Roo Code", "roo"),
            ("Gemini CLI", "gemini"),
            ("FACTORY DROID", "droid"),
            ("mcporter", "mcporter"),
        ] {
            assert_eq!(client(text).map(|client| client.id), Some(id), "{text}");
        }
        for text in ["", "-", "claude", "emacs", "cursor2"] {
            assert_eq!(client(text), None, "{text}");
        }
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_name_and_a_stranger_with_none() {
        for (text, ids) in [
            ("curser", &["cursor"][..]),
            ("Curosr", &["cursor"]),
            ("codx", &["codex"]),
            ("claude", &["claude-desktop", "claude-code"]),
            ("gemini-cli2", &["gemini"]),
            ("windsrf", &["windsurf"]),
            ("opencoder", &["opencode"]),
            ("emacs", &[]),
            ("", &[]),
        ] {
            assert_eq!(near_clients(text), ids, "{text}");
        }
        let long = "x".repeat(100_000);
        assert_eq!(near_clients(&long), <[&str; 0]>::default());
    }
}
