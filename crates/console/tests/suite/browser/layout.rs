//! Whether the page can be read and used in each of its [`STATES`], at each size, in light and dark.
//!
//! What is checked is in `layout/checks.js` and `layout/tree.rs`; `layout/broken.rs` shows of each check that it finds what
//! it is for.

mod broken;
mod tree;

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    driver::{Browser, key},
    states::{IN_README, NOW, STATES},
};

const CHECKS: &str = include_str!("layout/checks.js");

/// The least width and height of what a finger has to hit, in pixels.
const FINGER: u32 = 44;

struct Size {
    name: &'static str,
    width: u32,
    height: u32,
    is_phone: bool,
}

const SIZES: [Size; 3] = [
    Size { name: "1440x900", width: 1440, height: 900, is_phone: false },
    Size { name: "1024x600", width: 1024, height: 600, is_phone: false },
    Size { name: "390x844", width: 390, height: 844, is_phone: true },
];

/// What was found: of each kind of fault the first, and where the others are.
#[derive(Default)]
struct Faults(BTreeMap<String, (String, Vec<String>)>);

impl Faults {
    fn add(&mut self, found: Vec<String>, place: &str) {
        for fault in found {
            // Without the texts and figures in which faults of one kind differ.
            let quoted = |(n, part): (usize, &str)| if n % 2 == 0 { part.to_owned() } else { String::new() };
            let mut kind: String = fault.split(['“', '”']).enumerate().map(quoted).collect();
            kind.retain(|one| !one.is_ascii_digit());
            self.0.entry(kind).or_insert_with(|| (fault, Vec::new())).1.push(place.to_owned());
        }
    }

    fn in_words(&self) -> String {
        let mut text = format!("{} kinds of faults:\n", self.0.len());
        for (fault, places) in self.0.values() {
            let others = if places.len() > 1 { format!(" and {} more", places.len() - 1) } else { String::new() };
            let _ = writeln!(text, "  {fault}\n      {}{others}", places[0]);
        }
        text
    }
}

/// Runs a check of `checks.js`, and adds what it finds.
fn check(browser: &Browser, call: &str, faults: &mut Vec<String>) {
    let found = browser.run(&format!("return layout.{call}"));
    let name = call.split('(').next().unwrap_or(call);
    let found = found.as_array().into_iter().flatten().filter_map(|one| one.as_str());
    faults.extend(found.map(|one| format!("{name}: {one}")));
}

/// Goes through the page with Tab, so that `order` and `rings` can say what came of it.
fn walk(browser: &Browser) {
    let steps = browser.run("return layout.begin()").as_u64().expect("a number of steps");
    browser.press((0..steps).map(|_| key::TAB));
}

/// What is wrong with the page as it is shown, whatever it shows.
fn look(browser: &Browser, is_phone: bool) -> Vec<String> {
    let mut faults = tree::faults(browser);
    browser.run(CHECKS);
    for call in ["overlaps()", "cut()", "sideways()"] {
        check(browser, call, &mut faults);
    }
    if is_phone {
        check(browser, &format!("targets({FINGER})"), &mut faults);
    }
    walk(browser);
    check(browser, "order()", &mut faults);
    faults
}

/// What is wrong with its colours.
fn look_at_colours(browser: &Browser) -> Vec<String> {
    let mut faults = Vec::new();
    for call in ["contrast()", "borders()", "rings()"] {
        check(browser, call, &mut faults);
    }
    faults
}

/// What is wrong with the page as it is shown, for tests that have brought it where no state is.
pub(crate) fn all(browser: &Browser, is_phone: bool) -> Vec<String> {
    let mut faults = look(browser, is_phone);
    faults.extend(look_at_colours(browser));
    faults
}

/// What is wrong if the user has made all text twice as large.
fn look_at_large_text(browser: &Browser) -> Vec<String> {
    let mut faults = Vec::new();
    browser.run("layout.remember()");
    browser.text_size(32);
    browser.rest();
    for call in ["grown()", "overlaps()", "cut()", "sideways()"] {
        check(browser, call, &mut faults);
    }
    browser.text_size(16);
    faults.into_iter().map(|fault| format!("text of 200 %: {fault}")).collect()
}

#[test]
fn the_page_has_no_fault_of_layout_in_any_state_at_any_size() {
    let Some(mut browser) = Browser::start() else { return };
    browser.stand_still(NOW);
    let mut faults = Faults::default();
    for state in &STATES {
        for size in &SIZES {
            browser.resize_as(size.width, size.height, size.is_phone);
            // A phone's fade away, each time a little later.
            browser.scroll_bars(!size.is_phone);
            browser.scheme("light");
            let _scene = state.open(&browser);
            let place = format!("{} at {}", state.name, size.name);
            let picture = |scheme: &str| browser.picture(&format!("{}-{}-{scheme}", state.name, size.name));
            picture("light");
            faults.add(look(&browser, size.is_phone), &place);
            if size.is_phone && state.begins_with_a_request {
                let mut found = Vec::new();
                check(&browser, "firstScreen()", &mut found);
                faults.add(found, &place);
            }
            faults.add(look_at_colours(&browser), &format!("{place}, light"));
            browser.scheme("dark");
            browser.rest();
            picture("dark");
            faults.add(look_at_colours(&browser), &format!("{place}, dark"));
            faults.add(look_at_large_text(&browser), &place);
        }
    }
    assert!(faults.0.is_empty(), "{}", faults.in_words());
}

/// Otherwise the pictures of the README would differ although they show the same.
#[test]
fn the_pictures_of_the_readme_are_the_same_each_time() {
    let Some(mut browser) = Browser::start() else { return };
    browser.stand_still(NOW);
    browser.resize(1440, 900);
    browser.scroll_bars(false);
    let state = STATES.iter().find(|state| state.name == IN_README).expect("that state");
    let [once, again] = [(); 2].map(|()| {
        browser.scheme("light");
        let _scene = state.open(&browser);
        ["light", "dark"].map(|scheme| {
            browser.scheme(scheme);
            browser.rest();
            browser.picture(&format!("readme-{scheme}"));
            browser.screenshot()
        })
    });
    assert!(once == again, "two pictures of one state differ");
}
