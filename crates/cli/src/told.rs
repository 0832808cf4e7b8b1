//! Warnings of what stays as it is: given once a day.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::folders;

/// The longest warning that is remembered, and how many are, in bytes and lines.
const LONGEST: usize = 1024;
const MOST: usize = 64;

/// Whether this warning, one line, was not given before on this day. What cannot be remembered is news each time.
pub(crate) fn is_news(warning: &str) -> bool {
    let Ok(folder) = folders::state() else { return true };
    let path = folder.join("told");
    let known = rescind_wrap::file::text(&path).unwrap_or_default();
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let today = format!("{day} ");
    let line = format!("{today}{warning}");
    if known.lines().any(|known| known == line) {
        return false;
    }
    if line.len() <= LONGEST && fs::create_dir_all(&folder).is_ok() {
        let kept = known.lines().filter(|known| known.starts_with(&today)).take(MOST - 1);
        let text: String = [&*line].into_iter().chain(kept).flat_map(|line| [line, "\n"]).collect();
        let _ = fs::write(path, text);
    }
    true
}
