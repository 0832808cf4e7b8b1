//! A busy link: what is drawn and kept is bounded, and the page still answers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rescind_feed::{Request, Settled, SettledHow, State};
use rescind_testkit::fake_shim::{asked, request};

use super::{
    driver::Browser,
    stage::{SECOND, Stage, meanwhile, on_stage, row},
};

/// Records of one event.
const BATCH: u64 = 500;

fn brief(id: u64, now: u64) -> Request {
    let mut brief = request(id, "tools/call", Some("echo"), now);
    brief.state = State::Ended;
    brief.settled = Some(Settled { at: now + 900, how: SettledHow::Result, code: None });
    brief
}

#[test]
fn more_in_flight_than_anybody_can_read_is_counted() {
    on_stage(|stage, browser| {
        let shim = stage.shim("6000", &["busy-server"]);
        shim.put([request(0, "tools/call", Some("slow"), 0)]);
        row(browser, "6000", "c0", "slow");
        for batch in 0..6 {
            shim.put((0..BATCH).map(|n| request(batch * BATCH + n, "tools/call", Some("slow"), batch * BATCH + n)));
        }
        browser.until("document.querySelector('.lane .alerts')?.textContent.includes('1,000 more in flight')");
        browser.until("document.getElementById('totals-calm').textContent.includes('3,000 in flight')");
        browser.until("document.getElementById('more').textContent.startsWith('1,900 more')");
        assert_eq!(browser.run("return document.querySelectorAll('#rows tr').length"), 100);
        assert!(browser.run("return document.querySelectorAll('.bar').length").as_u64().expect("bars") <= 100);
        // The oldest are shown, and one that is cancelled is, wherever it stands.
        shim.change("c2900", |request| request.cancel = Some(asked(3000, None)));
        browser.press(['/']);
        browser.write("cancelling");
        row(browser, "6000", "c2900", "cancelling…");
        browser.picture("busy-2-many-in-flight");
    });
}

#[test]
fn a_busy_link_is_drawn_within_bounds_and_answers_clicks() {
    let Some(browser) = Browser::start() else { return };
    let stage = Stage::open();
    let shims: Vec<_> = (0..2).map(|n| stage.shim(&format!("600{n}"), &["busy-server"])).collect();
    for shim in &shims {
        shim.put((0..10).map(|id| request(id, "tools/call", Some("slow"), id)));
    }
    browser.go(&format!("{}?frames", stage.page()));
    row(&browser, "6000", "c0", "slow");
    let over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    // Two links of 5,000 requests a second, each told of in ten events a second.
    let busy = meanwhile(move || {
        let mut round = 0;
        while !until.load(Ordering::Relaxed) {
            round += 1;
            for shim in &shims {
                shim.set_now(round * SECOND / 10);
                shim.put((0..BATCH).map(|n| brief(round * BATCH + n + 100, round * SECOND / 10)));
            }
            // The pace of a shim's events; nothing waits for it.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        drop(shims);
    });
    browser.until("frameTimes.count > 30");
    // Every request that is over is in memory or counted, and no more is in the page than is of use.
    assert!(browser.run("return document.querySelectorAll('#rows tr').length").as_u64().expect("rows") <= 110);
    assert!(browser.run("return document.querySelectorAll('.bar').length").as_u64().expect("bars") <= 500);
    browser.run("document.querySelector('#rows tr[data-uid=\"6000/c3\"] .c-method').click()");
    browser.until("document.getElementById('pane-sub').textContent.includes('6000/3')");
    let told = browser.run("return document.getElementById('frames').textContent");
    let heap = browser.run("return performance.memory.usedJSHeapSize / 1e6");
    let line = format!("{}, heap {:.0} MB\n", told.as_str().unwrap_or_default(), heap.as_f64().unwrap_or_default());
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    browser.picture("busy-1-ten-thousand-a-second");
    over.store(true, Ordering::Relaxed);
    busy.join().expect("the busy links");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
