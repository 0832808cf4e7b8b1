//! No circle of imports, neither of modules in the engine nor of files in any crate.
//!
//! In the engine, at every level of its module tree, the modules beside each other, each with all that is below it, use
//! each other in one direction only. A module may use its parent, and a parent its children: they are one thing in several
//! files.
//!
//! In all crates a circle is a group of files each of which leads to each other one by paths in its code. A file that uses
//! the file of its parent, or of a parent above, adds no arrow; one that uses a child does.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write,
    fs,
    path::Path,
};

use crate::source::{crates, rust_files, tokens};

/// The circles of files that there may be: the crate, the module that holds them all, and how many files each has. There
/// is none, and none may come.
const CIRCLES: &[(&str, &str, usize)] = &[];

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// The modules beside each other below one module: which uses which, and through which path.
type Siblings = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_module_of_the_engine_uses_one_that_uses_it() {
    let mut found = Vec::new();
    for engine in ["wire", "parts", "proto"] {
        found.extend(circles(&sources(engine)).into_iter().map(|circle| format!("{engine}: {circle}")));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn no_file_uses_one_that_uses_it_but_in_the_circles_that_are_listed() {
    let found: BTreeMap<String, Vec<Vec<Module>>> =
        crates().into_iter().map(|one| (one.clone(), circles_of_files(&sources(&one)))).collect();
    let wrong = unlisted(CIRCLES, &found);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn files_that_lead_to_each_other_are_a_circle_but_a_child_may_use_its_parent() {
    let files = |all: &[(&str, &str)]| -> Vec<Vec<String>> {
        let circles = circles_of_files(&planted_sources(all));
        circles.iter().map(|circle| circle.iter().map(|file| file.join("::")).collect()).collect()
    };
    // A parent leads to its child by a path from where it stands, and a child to a file beside its parent.
    let all = [("", ""), ("a", "use b::B;"), ("a::b", "use super::A; use crate::c::C;"), ("c", "use crate::a::A;")];
    assert_eq!(files(&all), [["a", "a::b", "c"]]);
    let all =
        [("a", "use b::B;"), ("a::b", "use super::A; use crate::c;"), ("c", "fn f() { crate::d::g() }"), ("d", "")];
    assert_eq!(files(&all), Vec::<Vec<String>>::new());
    let two = [("a", "use crate::b;"), ("b", "use crate::a;"), ("c", "use crate::{a, d};"), ("d", "use crate::c::C;")];
    assert_eq!(files(&two), [["a", "b"], ["c", "d"]]);
    // A name in the middle of a path is not a child, and a test's imports do not count.
    let all = [("a", "fn f() { std::b::g() }"), ("a::b", "use crate::c;"), ("c", "#[cfg(test)]\nuse crate::a::b;")];
    assert_eq!(files(&all), Vec::<Vec<String>>::new());
}

#[test]
fn a_circle_that_is_not_listed_or_has_shrunk_is_found() {
    let circle = |files: &[&str]| files.iter().map(|file| module(file)).collect::<Vec<_>>();
    let found = |circles: Vec<Vec<Module>>| BTreeMap::from([("x".to_owned(), circles)]);
    let three = circle(&["a::b", "a::c", "a::d::e"]);
    let listed: &[_] = &[("x", "a", 3)];
    assert_eq!(unlisted(listed, &found(vec![three.clone()])), "");
    let new = unlisted(&[], &found(vec![three.clone()]));
    assert_eq!(new, "x: a new circle of 3 files in a: a::b, a::c, a::d::e\n");
    assert_eq!(unlisted(listed, &found(Vec::new())), "x: the circle of 3 files in a is gone: take it off the list\n");
    let fewer = unlisted(listed, &found(vec![circle(&["a::b", "a::c"])]));
    assert_eq!(fewer, "x: the circle of 3 files in a has 2 now: take it off the list, and list what is left\n");
    let more = unlisted(&[("x", "a", 2)], &found(vec![three]));
    assert_eq!(more, "x: the circle of 2 files in a has 3 now: a::b, a::c, a::d::e\n");
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
    circles(&planted_sources(sources))
}

fn planted_sources(sources: &[(&str, &str)]) -> Vec<(Module, String)> {
    sources.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect()
}

fn module(path: &str) -> Module {
    path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The files of a crate, without those of unit tests.
fn sources(package: &str) -> Vec<(Module, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package).join("src");
    let files = rust_files(&root).into_iter().filter(|file| !file.ends_with("tests.rs"));
    let sources: Vec<(Module, String)> =
        files.map(|file| (module_of(file.strip_prefix(&root).unwrap()), fs::read_to_string(&file).unwrap())).collect();
    assert!(sources.iter().any(|(module, _)| module.is_empty()), "no crate at {}", root.display());
    sources
}

/// The circles that are not as the list has them, a line each.
fn unlisted(listed: &[(&str, &str, usize)], found: &BTreeMap<String, Vec<Vec<Module>>>) -> String {
    let mut found: Vec<(&str, String, &Vec<Module>)> = found
        .iter()
        .flat_map(|(package, circles)| circles.iter().map(|circle| (&**package, place(circle).join("::"), circle)))
        .collect();
    let mut listed = listed.to_vec();
    listed.retain(|(package, place, files)| {
        let same = found.iter().position(|one| one.0 == *package && one.1 == *place && one.2.len() == *files);
        same.map(|at| found.remove(at)).is_none()
    });
    let mut wrong = String::new();
    let names = |circle: &[Module]| circle.iter().map(|file| file.join("::")).collect::<Vec<_>>().join(", ");
    for (package, place, files) in listed {
        let now = found.iter().position(|one| one.0 == package && one.1 == place).map(|at| found.remove(at).2);
        let which = format!("{package}: the circle of {files} files in {}", at(place));
        let _ = match now {
            None => writeln!(wrong, "{which} is gone: take it off the list"),
            Some(now) if now.len() < files => {
                writeln!(wrong, "{which} has {} now: take it off the list, and list what is left", now.len())
            }
            Some(now) => writeln!(wrong, "{which} has {} now: {}", now.len(), names(now)),
        };
    }
    for (package, place, files) in found {
        let _ = writeln!(wrong, "{package}: a new circle of {} files in {}: {}", files.len(), at(&place), names(files));
    }
    wrong
}

fn at(place: &str) -> &str {
    if place.is_empty() { "the crate's root" } else { place }
}

/// The module that holds all of these files.
fn place(files: &[Module]) -> &[String] {
    let (first, others) = files.split_first().unwrap();
    let is_in_all = |len: &usize| others.iter().all(|file| file.get(..*len) == Some(&first[..*len]));
    &first[..(0..first.len()).take_while(is_in_all).last().unwrap_or(0)]
}

/// The groups of files each of which leads to each other one.
fn circles_of_files(sources: &[(Module, String)]) -> Vec<Vec<Module>> {
    let files: BTreeSet<&Module> = sources.iter().map(|(file, _)| file).collect();
    let mut modules: BTreeSet<Module> = files.iter().map(|file| (*file).clone()).collect();
    let mut arrows: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
    for (file, text) in sources {
        let used = paths(file, &tokens(text), &mut modules).into_iter().map(|(_, mut to)| {
            while !files.contains(&to) && to.pop().is_some() {}
            to
        });
        arrows.insert(file, used.filter(|to| !file.starts_with(to)).collect());
    }
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        files.iter().map(|file| (*file, reach(file, &arrows))).collect();
    let circle = |file: &Module| {
        let all = files.iter().filter(|other| reached[file].contains(*other) && reached[**other].contains(file));
        all.map(|file| (*file).clone()).collect::<Vec<_>>()
    };
    let mut circles: Vec<Vec<Module>> = files.iter().map(|file| circle(file)).filter(|all| all.len() > 1).collect();
    circles.sort();
    circles.dedup();
    circles
}

/// The files to which this one leads, at once or over others.
fn reach<'a>(from: &Module, arrows: &'a BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = arrows[from].iter().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&arrows[file]);
        }
    }
    reached
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

/// Every path in a module's code that starts at `crate`, `super`, `self` or a module below, with the module that it stands
/// in. Modules within the file are added to `modules`; what is compiled for tests only is passed over.
fn paths(file: &Module, tokens: &[String], modules: &mut BTreeSet<Module>) -> Vec<(Module, Module)> {
    let (mut found, mut module, mut depth, mut inline) = (Vec::new(), file.clone(), 0, Vec::new());
    let mut rest = tokens;
    let mut before = "";
    while let Some(token) = rest.first() {
        let is_in_path = before == "::";
        before = token;
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
            name if !is_in_path
                && rest.get(1).is_some_and(|token| token == "::")
                && is_below(name, &module, modules) =>
            {
                rest = path(rest, &module, &mut |target| found.push((module.clone(), target)));
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

fn is_below(name: &str, module: &Module, modules: &BTreeSet<Module>) -> bool {
    is_name(name) && modules.contains(&[module, &[name.to_owned()][..]].concat())
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

/// The module that a file holds: `a.rs` and `a/mod.rs` are `a`, `lib.rs` and `main.rs` are the root.
fn module_of(file: &Path) -> Module {
    let names = file.with_extension("");
    names
        .iter()
        .map(|name| name.to_str().unwrap().to_owned())
        .filter(|name| !["lib", "main", "mod"].contains(&&**name))
        .collect()
}
