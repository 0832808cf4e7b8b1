//! No import circle in the engine: at every level of its module tree, the modules beside each other, each with all
//! that is below it, use each other in one direction only.
//!
//! A module may use its parent, and a parent its children: they are one thing in several files.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::Path,
};

use crate::source::{rust_files, tokens};

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// The modules beside each other below one module: which uses which, and through which path.
type Siblings = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_module_of_the_engine_uses_one_that_uses_it() {
    let mut found = Vec::new();
    for engine in ["wire", "parts", "proto"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(engine).join("src");
        let sources: Vec<(Module, String)> = rust_files(&root)
            .into_iter()
            .map(|file| (module_of(file.strip_prefix(&root).unwrap()), fs::read_to_string(&file).unwrap()))
            .collect();
        assert!(sources.iter().any(|(module, _)| module.is_empty()), "no engine at {}", root.display());
        found.extend(circles(&sources).into_iter().map(|circle| format!("{engine}: {circle}")));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_planted_circle_is_found() {
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use crate::{c, b::{self, B}};", "fn f() { super::a::f() }"),
        ("mod inner { use super::super::b::B; }", "use super::{c::C, a};"),
        ("fn f<'a>(x: &'a str) -> crate::b::B<'a> {}", "const A: u8 = crate::a::A;"),
    ] {
        assert_eq!(planted(&[("a", a), ("b", b), ("c", "")]), ["a uses b (b), b uses a (a)"], "{a} {b}");
    }
}

#[test]
fn a_circle_is_found_at_every_level_and_over_several_modules() {
    let deep = [("x::a", "use super::b::B;"), ("x::b::c", "use super::super::a::A;")];
    assert_eq!(planted(&deep), ["in x: a uses b (x::b), b uses a (x::a)"]);
    let long = [("a", "use crate::b::x::X;"), ("b", ""), ("b::x", "use crate::c;"), ("c", "use crate::a;")];
    assert_eq!(planted(&long), ["a uses b (b::x), b uses c (c), c uses a (a)"]);
}

#[test]
fn comments_strings_tests_and_parents_make_no_circle() {
    for b in [
        "// use crate::a;\n/* crate::a /* nested */ crate::a */\n/// [`crate::a`]\n//! crate::a",
        r##"const A: &str = "use crate::a; \" crate::a"; const B: &[u8] = br#"crate::a " crate::a"#;"##,
        "const QUOTE: char = '\"'; const A: &str = \"crate::a\"; const TICK: char = '\\'';",
        "#[cfg(test)]\n#[expect(dead_code)]\nmod tests { use crate::a; fn f() {} }",
        "#[cfg(test)]\nuse crate::a;",
        "use super::A; use crate::Other; pub(crate) struct X;",
    ] {
        assert_eq!(planted(&[("a", "use crate::b;"), ("b", b)]), Vec::<String>::new(), "{b}");
    }
    let parent = [("", "use a::A;"), ("a", "use b::B; use crate::a::b;"), ("a::b", "use super::A; use crate::X;")];
    assert_eq!(planted(&parent), Vec::<String>::new());
}

fn planted(sources: &[(&str, &str)]) -> Vec<String> {
    let module = |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    circles(&sources.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect::<Vec<_>>())
}

/// Describes every circle, shortest first at each level.
fn circles(sources: &[(Module, String)]) -> Vec<String> {
    let ancestors = |module: &Module| (0..=module.len()).map(|len| module[..len].to_vec()).collect::<Vec<_>>();
    let mut modules: BTreeSet<Module> = sources.iter().flat_map(|(module, _)| ancestors(module)).collect();
    let used: Vec<(Module, Module)> =
        sources.iter().flat_map(|(module, text)| paths(module, &tokens(text), &mut modules)).collect();
    let mut levels: BTreeMap<Module, Siblings> = BTreeMap::new();
    for (from, mut to) in used {
        while !modules.contains(&to) {
            to.pop();
        }
        let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
        if let (Some(user), Some(other)) = (from.get(shared), to.get(shared)) {
            let siblings = levels.entry(from[..shared].to_vec()).or_default();
            siblings.entry(user.clone()).or_default().entry(other.clone()).or_insert_with(|| to.join("::"));
        }
    }
    levels.iter().flat_map(|(parent, siblings)| circles_among(parent, siblings)).collect()
}

fn circles_among(parent: &Module, siblings: &Siblings) -> Vec<String> {
    let place = if parent.is_empty() { String::new() } else { format!("in {}: ", parent.join("::")) };
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for start in siblings.keys() {
        let Some(circle) = way_back(start, siblings).filter(|circle| !known.contains(circle[0])) else { continue };
        known.extend(circle.iter().copied());
        let steps = circle.iter().zip(circle.iter().cycle().skip(1));
        let steps: Vec<String> =
            steps.map(|(from, to)| format!("{from} uses {to} ({})", siblings[*from][*to])).collect();
        found.push(format!("{place}{}", steps.join(", ")));
    }
    found
}

/// The shortest way from a module to itself, without its end.
fn way_back<'a>(start: &'a String, siblings: &'a Siblings) -> Option<Vec<&'a String>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for next in way.last().and_then(|last| siblings.get(*last)).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back([&way[..], &[next]].concat());
            }
        }
    }
    None
}

/// Every path in a module's code that starts at `crate`, `super` or `self`, with the module that it stands in. Modules
/// within the file are added to `modules`; what is compiled for tests only is passed over.
fn paths(file: &Module, tokens: &[String], modules: &mut BTreeSet<Module>) -> Vec<(Module, Module)> {
    let (mut found, mut module, mut depth, mut inline) = (Vec::new(), file.clone(), 0, Vec::new());
    let mut rest = tokens;
    while let Some(token) = rest.first() {
        match token.as_str() {
            "#" if rest.starts_with(&["#", "[", "cfg", "(", "test", ")", "]"].map(str::to_owned)) => {
                rest = after_item(&rest[7..]);
                continue;
            }
            "mod" if rest.get(2).is_some_and(|token| token == "{") => {
                module.push(rest[1].clone());
                modules.insert(module.clone());
                inline.push(depth);
                depth += 1;
                rest = &rest[3..];
                continue;
            }
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if inline.pop_if(|opened| *opened == depth).is_some() {
                    module.pop();
                }
            }
            "crate" | "super" | "self" if rest.get(1).is_some_and(|token| token == "::") => {
                let targets = &mut |target| found.push((module.clone(), target));
                rest = path(rest, &module, targets);
                continue;
            }
            _ => {}
        }
        rest = &rest[1..];
    }
    found
}

/// Resolves one path, or each of a `{…}` group, and returns what follows it.
fn path<'a>(mut rest: &'a [String], base: &Module, found: &mut dyn FnMut(Module)) -> &'a [String] {
    let mut at = base.clone();
    while let Some(token) = rest.first() {
        match token.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            "{" => {
                rest = &rest[1..];
                while rest.first().is_some_and(|token| token != "}") {
                    rest = if is_name(&rest[0]) { path(rest, &at, found) } else { &rest[1..] };
                }
                return rest.get(1..).unwrap_or_default();
            }
            name if is_name(name) => at.push(name.to_owned()),
            _ => break,
        }
        rest = &rest[1..];
        match rest.first() {
            Some(token) if token == "::" => rest = &rest[1..],
            _ => break,
        }
    }
    // An import under another name, or all of a module's names.
    while rest.first().is_some_and(|token| token == "as" || token == "*") {
        rest = &rest[if rest[0] == "as" { 2 } else { 1 }..];
    }
    found(at);
    rest
}

/// Skips further attributes and one item.
fn after_item(tokens: &[String]) -> &[String] {
    let mut depth = 0_u32;
    for (place, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 && token == "}" && tokens.get(place + 1).is_none_or(|next| next != ";") {
                    return &tokens[place + 1..];
                }
            }
            ";" if depth == 0 => return &tokens[place + 1..],
            _ => {}
        }
    }
    &[]
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The module that a file holds: `a.rs` and `a/mod.rs` are `a`, `lib.rs` is the root.
fn module_of(file: &Path) -> Module {
    let names = file.with_extension("");
    names.iter().map(|name| name.to_str().unwrap().to_owned()).filter(|name| name != "lib" && name != "mod").collect()
}
