//! The files of the page, compiled into the binary.

/// The page itself.
pub(crate) const INDEX: &str = include_str!("page/index.html");

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// The files that the page loads: name, content type, text.
const ASSETS: [(&str, &str, &str); 24] = [
    ("console.css", CSS, include_str!("page/console.css")),
    ("icon.svg", ICON, include_str!("page/icon.svg")),
    ("arguments.js", SCRIPT, include_str!("page/arguments.js")),
    ("bar.js", SCRIPT, include_str!("page/bar.js")),
    ("console.js", SCRIPT, include_str!("page/console.js")),
    ("details.js", SCRIPT, include_str!("page/details.js")),
    ("end.js", SCRIPT, include_str!("page/end.js")),
    ("feed.js", SCRIPT, include_str!("page/feed.js")),
    ("filter.js", SCRIPT, include_str!("page/filter.js")),
    ("frames.js", SCRIPT, include_str!("page/frames.js")),
    ("json.js", SCRIPT, include_str!("page/json.js")),
    ("keys.js", SCRIPT, include_str!("page/keys.js")),
    ("lanes.js", SCRIPT, include_str!("page/lanes.js")),
    ("messages.js", SCRIPT, include_str!("page/messages.js")),
    ("mine.js", SCRIPT, include_str!("page/mine.js")),
    ("orders.js", SCRIPT, include_str!("page/orders.js")),
    ("past.js", SCRIPT, include_str!("page/past.js")),
    ("processes.js", SCRIPT, include_str!("page/processes.js")),
    ("stop.js", SCRIPT, include_str!("page/stop.js")),
    ("store.js", SCRIPT, include_str!("page/store.js")),
    ("table.js", SCRIPT, include_str!("page/table.js")),
    ("text.js", SCRIPT, include_str!("page/text.js")),
    ("timeline.js", SCRIPT, include_str!("page/timeline.js")),
    ("words.js", SCRIPT, include_str!("page/words.js")),
];

/// The content type and the text of the file `name`.
pub(crate) fn asset(name: &str) -> Option<(&'static str, &'static str)> {
    ASSETS.iter().find(|(known, ..)| *known == name).map(|(_, kind, text)| (*kind, *text))
}
