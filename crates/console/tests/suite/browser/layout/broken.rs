//! Small pages that each break one thing, and nothing else: each check finds its own.

use std::collections::BTreeSet;

use base64::Engine as _;

use super::{super::driver::Browser, CHECKS, check, look, look_at_colours, look_at_large_text};

/// A page without a fault.
const SOUND: &str = "<!doctype html><html lang='en'><meta name='viewport' content='width=device-width'><title>Sound</title>
<style>
  * { box-sizing: border-box; }
  html { scroll-padding: 6px; }
  body { margin: 0; background: #fff; color: #111; }
  main { padding: 16px; }
  button, input { font: inherit; min-width: 48px; min-height: 48px; padding: 0 8px; background: #fff; color: #111; border: 1px solid #555; }
  :focus-visible { outline: 2px solid #00f; outline-offset: 1px; }
</style>
<body><main>
<h1>A title</h1>
<table role='table' aria-label='Requests'><tbody role='rowgroup' id='rows'><tr role='row'><td role='cell'>A request</td></tr></tbody></table>
<p>Words of a page, with <a href='#'>a link</a> in them.</p>
<p><button>One</button> <button>Two</button></p>
<!-- here -->
</main></body></html>";

/// What breaks it; the check that finds that; and words that it says.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        "<div style='position: relative; height: 40px'><p style='position: absolute'>one text</p><p style='position: absolute'>another</p></div>",
        "overlaps",
        "overlap by",
    ),
    (
        "<p style='height: 60px'><button>Three</button><button style='margin-left: -20px'>Four</button></p>",
        "overlaps",
        "Four",
    ),
    ("<div style='width: 60px; overflow: hidden; white-space: nowrap'>longer than its box</div>", "cut", "longer than"),
    (
        "<div style='width: 60px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis'>longer than its box</div>",
        "cut",
        "longer than",
    ),
    (
        "<div style='width: 60px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis' title='another text'>longer than its box</div>",
        "cut",
        "longer than",
    ),
    ("<div style='height: 24px; overflow: hidden'>one line<br>another line<br>the last line</div>", "cut", "line"),
    ("<div style='width: 60px; white-space: nowrap'>longer than its box</div>", "cut", "reaches out by"),
    ("<div style='width: 30px; overflow-wrap: anywhere'>letters among themselves</div>", "cut", "letters in a line"),
    ("<div style='height: 10px'>one line<br>another line</div><br><br>", "cut", "reaches out below"),
    (
        "<label>A field <input placeholder='a text with more letters than there is room for' style='width: 90px'></label>",
        "cut",
        "placeholder",
    ),
    ("<div style='width: 3000px; height: 10px'></div>", "sideways", "3016"),
    ("<div style='position: relative; left: -40px; height: 10px; width: 60px'></div>", "sideways", "from -24"),
    (
        "<section style='overflow-x: auto' tabindex='0'><div style='width: 3000px; height: 10px'></div></section>",
        "sideways",
        "scrolls sideways",
    ),
    ("<button style='min-height: 30px; height: 30px'>Three</button>", "targets", "30 px"),
    ("<p><a href='#' style='display: inline-block; padding: 2px 20px'>alone</a></p>", "targets", "alone"),
    ("<p style='color: #999'>faint words</p>", "contrast", "contrast 2.85"),
    ("<p style='color: #555; opacity: .5'>faint words</p>", "contrast", "faint words"),
    (
        "<p style='background: linear-gradient(90deg, #fff, #222)'>words on more than one colour</p>",
        "contrast",
        "more than one",
    ),
    (
        "<div style='position: relative; height: 30px'><i style='position: absolute; inset: 0; background: #222'></i><span style='position: absolute; left: 4px'>on a dark bar</span></div>",
        "contrast",
        "dark bar",
    ),
    ("<button style='border-color: #ddd'>Three</button>", "borders", "Three"),
    ("<label>A field <input style='border: 0'></label>", "borders", "1.00"),
    ("<style>#rows td { padding-top: 780px; }</style>", "firstScreen", "A request"),
    (
        "<p style='display: flex; flex-direction: row-reverse; justify-content: flex-end; gap: 8px'><button>Three</button><button>Four</button></p>",
        "order",
        "Four",
    ),
    (
        "<p><label>A field <input onkeydown=\"event.key === 'Tab' && event.preventDefault()\"></label></p><p><button>Three</button></p>",
        "order",
        "not reached by Tab",
    ),
    ("<style>button:focus-visible { outline: none; }</style>", "rings", "no focus ring"),
    (
        "<div style='overflow: hidden; width: 160px'><button style='width: 160px'>Three</button></div>",
        "rings",
        "are cut by",
    ),
    ("<button style='position: absolute; left: 0; top: 400px'>Three</button>", "rings", "out of the window"),
    ("<button style='outline-color: #eee'>Three</button>", "rings", "contrast of its focus ring"),
    (
        "<p style='height: 3000px'></p><p><button>Three</button></p><div style='position: fixed; bottom: 0; left: 0; right: 0; height: 200px; background: #eee'></div>",
        "rings",
        "is covered",
    ),
    (
        "<div style='position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden'><button>Three</button></div>",
        "rings",
        "cannot be seen",
    ),
    ("<p style='font-size: 16px'>words of one size</p>", "text of 200 %", "stays as small"),
    ("<p style='height: 24px; overflow: hidden'>one line</p>", "text of 200 %", "one line"),
    ("<p><button><i aria-hidden='true'>×</i></button></p>", "names", "a button"),
    ("<p><input></p>", "names", "a textbox"),
    ("<h3>A heading</h3>", "headings", "level 3"),
    ("<h1>A second title</h1>", "headings", "2 of the first"),
    ("<section role='main'>Words</section>", "landmarks", "2 of main"),
    ("<nav>Words</nav><nav>Words</nav>", "landmarks", "navigation"),
    ("<div role='row'><span role='cell'>alone</span></div>", "roles", "a row"),
];

const LARGE: &str = "text of 200 %";

/// Everything that the checks find on a page, at a phone's size.
fn all(browser: &Browser, page: &str) -> Vec<String> {
    let page = base64::engine::general_purpose::STANDARD.encode(page);
    browser.go(&format!("data:text/html;charset=utf-8;base64,{page}"));
    let mut faults = look(browser, true);
    check(browser, "firstScreen()", &mut faults);
    faults.extend(look_at_colours(browser));
    faults.extend(look_at_large_text(browser));
    faults
}

#[test]
fn each_check_finds_what_it_is_for_and_nothing_else() {
    let Some(browser) = Browser::start() else { return };
    assert!(CHECKS.contains("use strict"));
    browser.resize_as(390, 844, true);
    assert_eq!(all(&browser, SOUND), Vec::<String>::new());
    let mut wrong = Vec::new();
    for (broken, name, words) in BROKEN {
        let faults = all(&browser, &SOUND.replace("<!-- here -->", broken));
        // What is wrong at once is wrong in large text, too.
        let by = faults.iter().filter_map(|fault| fault.split(':').next());
        let by: BTreeSet<&str> = by.filter(|by| by == name || *by != LARGE).collect();
        let is_found = faults.iter().any(|fault| fault.starts_with(name) && fault.contains(words));
        if !is_found || by != BTreeSet::from([*name]) {
            wrong.push(format!("{name}, of {broken}\n  found: {faults:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
