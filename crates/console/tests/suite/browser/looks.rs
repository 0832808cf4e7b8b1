//! How it looks, and what text cannot do.

use rescind_feed::{Answer, FrameView, Late, Outcome, Request, Settled, SettledHow, Side, State};
use rescind_testkit::fake_shim::{FakeShim, asked, percent, request, session};

use super::stage::{SECOND, Stage, on_stage, row, stopped};

/// A little of everything.
fn everything(stage: &Stage) -> Vec<FakeShim> {
    let agent = stage.agent("4713");
    agent.set_now(30 * SECOND);
    let mut prompt = request(1, "session/prompt", None, 2 * SECOND);
    prompt.progress = Some(percent(29 * SECOND, 0.0, "reading src/link.rs"));
    let mut permission = request(4, "session/request_permission", None, 20 * SECOND);
    (permission.key, permission.from, permission.parent) = ("s4".into(), Side::Server, Some("c1".into()));
    let mut earlier = request(0, "session/prompt", None, SECOND / 2);
    let mut cancel = asked(SECOND, None);
    (cancel.written, cancel.outcome) = (Some(SECOND), Outcome::Confirmed);
    (cancel.confirms, cancel.protocol, cancel.after) = (true, "ACP".into(), Some(SECOND / 4));
    cancel.cause = "caller".into();
    earlier.cancel = Some(cancel.in_words(None));
    over(&mut earlier, 5 * SECOND / 4);
    agent.put([earlier, prompt, permission]);
    let everything = stage.shim("4712", &["npx", "-y", "@modelcontextprotocol/server-everything"]);
    everything.set_now(30 * SECOND);
    let mut stuck = request(1, "tools/call", Some("longRunningOperation"), 3 * SECOND);
    stuck.progress = Some(percent(30 * SECOND, 62.0, ""));
    stuck.late = Some(Late { at: 30 * SECOND, answers: 0, notices: 12 });
    let mut cancel = asked(14 * SECOND, Some("took too long"));
    (cancel.written, cancel.outcome) = (Some(14 * SECOND), Outcome::Sent);
    stopped(&mut stuck, cancel, 14 * SECOND);
    stuck.state = State::Stuck;
    let mut index = request(2, "tools/call", Some("rebuild_index"), 9 * SECOND);
    index.progress = Some(percent(30 * SECOND, 35.0, "shard 5 of 12"));
    index.deadline = Some(100 * SECOND);
    let mut late = request(3, "tools/call", Some("read_graph"), 16 * SECOND);
    let mut cancel = asked(19 * SECOND, None);
    cancel.cause = "caller".into();
    (cancel.written, cancel.outcome) = (Some(19 * SECOND), Outcome::AnsweredAfter);
    (cancel.after, cancel.answer) = (Some(4 * SECOND), Some(Answer::Result));
    late.late = Some(Late { at: 23 * SECOND, answers: 1, notices: 0 });
    stopped(&mut late, cancel, 19 * SECOND);
    late.settled = Some(Settled { at: 19 * SECOND, how: SettledHow::Silent, code: None });
    let mut quick = request(4, "tools/call", Some("echo"), 25 * SECOND);
    over(&mut quick, 27 * SECOND);
    everything.put([stuck, index, late, quick]);
    vec![agent, everything]
}

/// It was answered with a result.
fn over(request: &mut Request, at: u64) {
    request.state = State::Ended;
    request.settled = Some(Settled { at, how: SettledHow::Result, code: None });
}

#[test]
fn at_phone_width_nothing_reaches_out_of_sight() {
    on_stage(|stage, browser| {
        let _shims = everything(stage);
        browser.resize(360, 780);
        row(browser, "4712", "c2", "35 %");
        let wide = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth";
        browser.until("document.querySelector('.bar:not([hidden])')");
        assert!(browser.run(&format!("return {wide}")).as_f64().expect("a width") <= 0.0);
        browser.picture("narrow-1-timeline");
        browser.run("document.getElementById('rows').scrollIntoView()");
        browser.picture("narrow-2-table");
        browser.run("document.querySelector('#rows tr[data-uid=\"4712/c1\"]').click()");
        browser.until("!document.getElementById('pane').hidden");
        assert!(browser.run(&format!("return {wide}")).as_f64().expect("a width") <= 0.0);
        browser.picture("narrow-3-details");
    });
}

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
fn light_and_dark_can_both_be_read() {
    on_stage(|stage, browser| {
        let _shims = everything(stage);
        row(browser, "4712", "c2", "35 %");
        browser.run("document.querySelector('#rows tr[data-uid=\"4712/c1\"]').click()");
        for scheme in ["light", "dark"] {
            browser.scheme(scheme);
            browser.until(&format!("matchMedia('(prefers-color-scheme: {scheme})').matches"));
            browser.picture(&format!("everything-{scheme}"));
            let faint = browser.run(CONTRAST);
            assert_eq!(faint, serde_json::json!([]), "{scheme}");
        }
    });
}

/// The texts whose contrast with what lies behind them is under 4.5 to 1.
const CONTRAST: &str = r"
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, [r, g, b, a]) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a)), [255, 255, 255]);
  };
  const light = (color) => {
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('.lane.is-over, .only-read')) continue;
    const [one, other] = [light(rgba(getComputedStyle(node).color).slice(0, 3)), light(behind(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) faint.push(`${node.className || node.id || node.tagName}: ${node.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return faint;
";

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
