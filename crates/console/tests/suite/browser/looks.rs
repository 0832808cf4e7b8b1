//! The order of rows, and what text cannot do. `layout` looks at how all that looks.

use rescind_feed::{FrameView, Outcome, Request, Side, State};
use rescind_testkit::fake_shim::{FakeShim, asked, percent, request, session};

use super::stage::{SECOND, on_stage, row};

/// D54, D58: as `rescind ps` has it. What a later shim says in words that are not known here is shown as it is.
#[test]
fn parts_of_a_turn_stand_below_it_and_a_later_word_is_shown() {
    on_stage(|stage, browser| {
        let agent = stage.agent("4713");
        let part = |id, of: &str| Request { parent: Some(of.into()), ..request(id, "turn", None, id * SECOND) };
        let paused = Request { state: State::Later("paused".into()), ..request(9, "session/prompt", None, SECOND) };
        agent.put([request(1, "turn/start", None, SECOND), paused, part(3, "c1"), part(2, "c3"), part(4, "c2")]);
        agent.set_now(30 * SECOND);
        row(browser, "4713", "c9", "paused");
        let rows = browser.run(
            "return [...document.querySelectorAll('#rows tr')].map((row) => `${row.dataset.uid} ${row.classList.contains('is-part') ? row.style.getPropertyValue('--depth') : 0}`).join()",
        );
        assert_eq!(rows.as_str(), Some("4713/c1 0,4713/c3 1,4713/c2 2,4713/c4 3,4713/c9 0"));
        browser.run("document.querySelector('#rows tr[data-uid=\"4713/c2\"]').click()");
        browser.until("document.getElementById('kin').innerText.includes('Part of 3 turn')");
        browser.picture("parts");
    });
}

#[test]
fn text_stays_text_wherever_it_is_shown() {
    const HARM: &str = "<img src=x onerror=\"globalThis.owned=1\"><script>globalThis.owned=1</script>";
    on_stage(|stage, browser| {
        let mut facts = session("4716", &[HARM, "\u{1b}[2J"]);
        facts.client.name = Some(HARM.into());
        facts.server.name = Some("\u{202e}gnp.exe".into());
        let shim = FakeShim::open(&stage.sockets(), facts);
        let mut harmful = request(1, HARM, Some(HARM), 0);
        harmful.id = serde_json::to_string(HARM).expect("text");
        harmful.task = Some(HARM.into());
        harmful.progress = Some(percent(0, 40.0, HARM));
        let mut cancel = asked(SECOND, Some(HARM));
        cancel.cause = HARM.into();
        cancel.protocol = HARM.into();
        cancel.outcome = Outcome::Sent;
        harmful.cancel = Some(cancel.in_words(None));
        harmful.state = State::Stuck;
        shim.put([harmful]);
        let text = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": { "text": HARM } }).to_string();
        let frame = FrameView { at: 0, from: Side::Server, length: text.len() as u64, text, by_shim: false };
        shim.put_frames("c1", vec![frame]);

        row(browser, "4716", "c1", HARM);
        let before = browser.run("return document.querySelectorAll('img, script, iframe, svg, object, embed').length");
        browser.run("document.querySelector('#rows tr').click()");
        browser.click("#messages-show");
        browser.until("document.getElementById('messages').innerText.includes('</script>')");
        for place in ["receipt-facts", "facts", "progress", "pane-title", "lanes", "receipt-words"] {
            browser.until(&format!("document.getElementById('{place}').textContent.includes('<img src=x')"));
        }
        // What turns text round or hides it is spelled out.
        browser.until("document.getElementById('lanes').textContent.includes('\\\\u{202e}gnp.exe')");
        browser.picture("details-3-harmful-text");
        assert_eq!(browser.run("return globalThis.owned ?? null"), serde_json::Value::Null);
        assert_eq!(
            browser.run("return document.querySelectorAll('img, script, iframe, svg, object, embed').length"),
            before
        );
    });
}
