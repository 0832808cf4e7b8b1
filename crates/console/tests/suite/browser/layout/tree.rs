//! The page as programs read it that speak or drive it: Chromium's tree of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::driver::Browser;

/// Roles that say nothing without a name.
const NAMED: &[&str] = &[
    "alertdialog",
    "button",
    "checkbox",
    "combobox",
    "dialog",
    "DisclosureTriangle",
    "link",
    "radio",
    "region",
    "row",
    "searchbox",
    "tab",
    "table",
    "textbox",
];

/// What is wrong with it: what has no name, headings and landmarks in disorder, rows and cells outside of their tables.
pub(super) fn faults(browser: &Browser) -> Vec<String> {
    let tree = read(browser);
    let nodes: Vec<Node<'_>> = tree["nodes"].as_array().into_iter().flatten().map(Node).collect();
    let by_id: BTreeMap<&str, Node<'_>> = nodes.iter().map(|node| (node.id(), *node)).collect();
    let shown: Vec<Node<'_>> = nodes.iter().copied().filter(|node| !node.is_ignored()).collect();
    // What lies behind an open dialog, or behind details that cover the page, is not in the tree.
    let is_covered = browser.run("return Boolean(document.querySelector('main[inert]'))") == true;
    let is_modal = is_covered || shown.iter().any(|node| node.role() == "dialog" && node.has("modal"));

    let mut found = Vec::new();
    for node in &shown {
        let role = node.role();
        if NAMED.contains(&role) && node.name().is_empty() && (role != "row" || node.has("focusable")) {
            found.push(format!("names: a {role} has none{}", within(*node, &by_id)));
        }
        let above = above(*node, &by_id).map(|above| above.role());
        let fits = match role {
            "row" => above.is_some_and(|above| ["rowgroup", "table", "grid", "treegrid"].contains(&above)),
            "cell" | "gridcell" | "columnheader" | "rowheader" => above == Some("row"),
            "listitem" => above == Some("list"),
            _ => true,
        };
        if !fits {
            found.push(format!("roles: a {role} “{}” stands in {}", node.name(), above.unwrap_or("nothing")));
        }
    }
    headings(&shown, is_modal, &mut found);
    if !is_modal {
        landmarks(&shown, &mut found);
    }
    found
}

/// The tree, once there is one: right after a page has loaded it may be its root alone.
fn read(browser: &Browser) -> Value {
    for _ in 0..1_000 {
        let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
        let is_text = |node: &Value| node["role"]["value"] == "StaticText" && node["ignored"] == false;
        if tree["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(is_text)) {
            return tree;
        }
        browser.next_frame();
    }
    panic!("no text in the tree");
}

/// One is the first, and none skips a level. A dialog begins with the second.
fn headings(shown: &[Node<'_>], is_modal: bool, found: &mut Vec<String>) {
    let mut last = u64::from(is_modal);
    let mut first = 0;
    for heading in shown.iter().filter(|node| node.role() == "heading") {
        let level = heading.property("level").and_then(Value::as_u64).unwrap_or(0);
        first += u32::from(level == 1);
        if level > last + 1 {
            found.push(format!("headings: “{}” of level {level} follows one of level {last}", heading.name()));
        }
        last = level;
    }
    if !is_modal && first != 1 {
        found.push(format!("headings: {first} of the first level"));
    }
}

/// There is one main part, one banner at most, and no two of a kind with the same name.
fn landmarks(shown: &[Node<'_>], found: &mut Vec<String>) {
    let main = named(shown, "main").len();
    if main != 1 {
        found.push(format!("landmarks: {main} of main"));
    }
    for role in ["banner", "complementary", "contentinfo", "form", "navigation", "region", "search"] {
        let names = named(shown, role);
        if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
            found.push(format!("landmarks: two of {role} have one name"));
        }
    }
}

fn named<'a>(shown: &[Node<'a>], role: &str) -> Vec<&'a str> {
    shown.iter().filter(|node| node.role() == role).map(|node| node.name()).collect()
}

/// Where a node is, for people: the next one above it with a name.
fn within<'a>(node: Node<'a>, by_id: &BTreeMap<&str, Node<'a>>) -> String {
    let mut at = node;
    while let Some(above) = above(at, by_id) {
        if !above.name().is_empty() {
            return format!(", in the {} “{}”", above.role(), above.name());
        }
        at = above;
    }
    String::new()
}

/// The next node above it that is in the tree.
fn above<'a>(node: Node<'a>, by_id: &BTreeMap<&str, Node<'a>>) -> Option<Node<'a>> {
    let mut at = node;
    loop {
        at = *by_id.get(at.0["parentId"].as_str()?)?;
        if !at.is_ignored() && !["generic", "none"].contains(&at.role()) {
            return Some(at);
        }
    }
}

/// A node as Chromium tells it.
#[derive(Clone, Copy)]
struct Node<'a>(&'a Value);

impl<'a> Node<'a> {
    fn id(self) -> &'a str {
        self.0["nodeId"].as_str().unwrap_or_default()
    }

    fn is_ignored(self) -> bool {
        self.0["ignored"] == true
    }

    fn role(self) -> &'a str {
        self.0["role"]["value"].as_str().unwrap_or_default()
    }

    fn name(self) -> &'a str {
        self.0["name"]["value"].as_str().unwrap_or_default().trim()
    }

    fn property(self, name: &str) -> Option<&'a Value> {
        self.0["properties"].as_array()?.iter().find(|one| one["name"] == name).map(|one| &one["value"]["value"])
    }

    fn has(self, property: &str) -> bool {
        self.property(property).is_some_and(|value| *value == true)
    }
}
