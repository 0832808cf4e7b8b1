//! The page: files in the binary, and what they are.

/// The page itself.
pub(crate) const INDEX: &str = include_str!("page/index.html");

/// What it loads, by name: the content type and the text.
const ASSETS: [(&str, &str, &str); 2] = [
    ("console.css", "text/css; charset=utf-8", include_str!("page/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("page/console.js")),
];

/// The asset of that name: its content type and its text.
pub(crate) fn asset(name: &str) -> Option<(&'static str, &'static str)> {
    ASSETS.iter().find(|(known, ..)| *known == name).map(|(_, kind, text)| (*kind, *text))
}
