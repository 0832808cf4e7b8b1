use super::*;

const SEED: Seed = Seed::new(7);
const TOOLS: &ListForm = &mcp::LATEST_LEGACY.lists[0];

const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{},"sampling":{}},"clientInfo":{"name":"c","version":"1"}}"#;

fn arrival(params: &str) -> Option<Arrival> {
    Arrival::of(&mcp::LATEST_LEGACY, "initialize", params.as_bytes())
}

fn welcome(answer: &str, lists: &[(&str, &str)]) -> Welcome {
    let mut welcome = Welcome::new(arrival(HELLO).unwrap(), answer.as_bytes().into());
    lists.iter().for_each(|(method, list)| welcome.set_list(method, list.as_bytes().into()));
    welcome
}

fn known(welcome: Welcome) -> Welcomes {
    let mut welcomes = Welcomes::default();
    welcomes.keep(SEED, welcome);
    welcomes
}

fn pages(results: &[&str]) -> Page {
    let mut pages = Pages::new(TOOLS);
    let mut last = Page::Unfit;
    for result in results {
        last = pages.add(result.as_bytes());
    }
    last
}

#[test]
fn a_document_is_read_as_it_was_written_whatever_is_in_it() {
    let lists = [("tools/list", r#"{"tools":[{"name":"é\n"}]}"#), ("prompts/list", r#"{"prompts":[]}"#)];
    let mut welcomes = known(welcome(r#"{"protocolVersion":"2025-06-18"}"#, &lists));
    let other = Arrival::of(&mcp::LATEST_LEGACY, "initialize", br#"{"protocolVersion":"2025-03-26"}"#).unwrap();
    welcomes.keep(SEED, Welcome::new(other, br#"{"a":[{}]}"#.as_slice().into()));
    let document = welcomes.write();
    assert_eq!(Welcomes::read(&document), welcomes);
    assert_eq!(document.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    assert_eq!(Welcomes::read(&Welcomes::default().write()), Welcomes::default());
}

#[test]
fn what_is_no_whole_document_of_this_form_holds_nothing() {
    let whole = known(welcome("{}", &[("tools/list", r#"{"tools":[]}"#)])).write();
    assert!(!Welcomes::read(&whole).is_empty());
    for cut in 0..whole.len() - 1 {
        assert!(Welcomes::read(&whole[..cut]).is_empty(), "cut after {cut} bytes");
    }
    let text = String::from_utf8(whole).unwrap();
    let spoilt = [
        text.replace(r#""format":1"#, r#""format":2"#),
        text.replace(r#""format":1,"#, ""),
        text.replace(r#""answer":{}"#, r#""answer":[]"#),
        text.replace(r#""answer":{}"#, r#""answer":{}}"#),
        text.replace(r#""lists":{"#, r#""lists":["#),
        text.replace(r#"{"tools":[]}"#, "7"),
        text.replace(r#""client""#, r#""cli""#),
        text.replace(',', ",\n"),
        text.replace(':', ":\r"),
        format!("{}{}", text.trim_end(), " ".repeat(MAX_DOCUMENT)),
        "[]".into(),
        "null".into(),
        r#"{"jsonrpc":"2.0","method":"x"}"#.into(),
    ];
    for one in spoilt {
        assert!(Welcomes::read(one.as_bytes()).is_empty(), "{}", &one[..one.len().min(200)]);
    }
}

#[test]
fn what_a_client_says_of_itself_decides_and_its_version_and_the_spelling_do_not() {
    let welcomes = known(welcome("{}", &[]));
    let is_known = |params: &str| welcomes.of(SEED, &arrival(params).unwrap()).is_some();
    assert!(is_known(HELLO));
    assert!(is_known(&HELLO.replace(r#""version":"1""#, r#""version":"2""#)));
    assert!(is_known(&HELLO.replace(r#""roots":{},"sampling":{}"#, r#" "sampling":{}, "roots":{}"#)));
    for (from, to) in [("2025-06-18", "2025-03-26"), (r#""roots":{},"#, ""), (r#""name":"c""#, r#""name":"d""#)] {
        assert!(!is_known(&HELLO.replace(from, to)), "{to}");
    }
    let huge = HELLO.replace("\"c\"", &format!("\"{}\"", "c".repeat(MAX_CLIENT)));
    for params in ["{}", r#"{"protocolVersion":1}"#, "[]", &*huge] {
        assert_eq!(arrival(params), None);
    }
    let stateless = |params: &str| Arrival::of(&mcp::LATEST, "server/discover", params.as_bytes());
    assert_eq!(stateless(HELLO), None);
    let meta = |version: &str| format!(r#"{{"_meta":{{"{}":"{version}"}}}}"#, mcp::VERSION_IN_META);
    assert_ne!(stateless(&meta("2026-07-28")).unwrap(), stateless(&meta("2027-01-01")).unwrap());
}

#[test]
fn a_document_stays_in_its_bound_and_leaves_out_what_finds_no_room() {
    let large = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(MAX_DOCUMENT));
    let read = Welcomes::read(&known(welcome("{}", &[("tools/list", &large), ("a/list", "{}")])).write());
    let read = read.0.first().expect("the rest has room");
    assert_eq!((read.list("tools/list"), read.list("a/list")), (None, Some(b"{}".as_slice())));
    let answer = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_DOCUMENT));
    assert!(Welcomes::read(&known(welcome(&answer, &[])).write()).is_empty());
    let mut many = Welcomes::default();
    for number in 0..100 {
        let client = arrival(&HELLO.replace("2025-06-18", &number.to_string())).unwrap();
        many.keep(SEED, Welcome::new(client, br#"{}"#.as_slice().into()));
    }
    assert_eq!(many.0.len(), MAX_WELCOMES);
}

#[test]
fn pages_become_one_list_and_half_a_list_none() {
    let one = r#"{"_meta":{"a":1},"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"2","ttlMs":5}"#;
    assert_eq!(pages(&[one]), Page::Next(b"\"2\"".as_slice().into()));
    let whole = br#"{"_meta":{"a":1},"ttlMs":5,"tools":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#;
    for last in [r#"{"tools":[{"name":"c"}]}"#, r#"{"x":1,"nextCursor":null,"tools": [ {"name":"c"} ] }"#] {
        assert_eq!(pages(&[one, last]), Page::Last(whole.as_slice().into()));
    }
    let empty = r#"{"tools":[],"nextCursor":"x"}"#;
    assert_eq!(pages(&[empty, empty, r#"{"tools":[]}"#]), Page::Last(br#"{"tools":[]}"#.as_slice().into()));
    for unfit in ["{}", "[]", r#"{"tools":{}}"#, r#"{"prompts":[]}"#] {
        assert_eq!(pages(&[unfit]), Page::Unfit, "{unfit}");
    }
    assert_eq!(pages(&[empty; MAX_PAGES + 1]), Page::Unfit);
    let large = format!(r#"{{"tools":["{}"],"nextCursor":"x"}}"#, "x".repeat(MAX_DOCUMENT / 2));
    assert_eq!(pages(&[&large, &large, &large]), Page::Unfit);
}

#[test]
fn a_server_lacks_what_was_told_of_it_and_is_no_more() {
    let lacks = |told: &str, real: &str| -> Vec<String> {
        let of = |capabilities: &str| format!(r#"{{"capabilities":{capabilities}}}"#);
        lacking(of(told).as_bytes(), of(real).as_bytes()).map(String::from).collect()
    };
    let told = r#"{"tools":{"listChanged":true},"prompts":{},"logging":null,"x":{"y":false}}"#;
    assert_eq!(lacks(told, told), [""; 0]);
    assert_eq!(lacks(told, r#"{"x":{},"prompts":{"listChanged":true},"tools":{"a":1,"listChanged":true}}"#), [""; 0]);
    assert_eq!(lacks(told, r#"{"tools":{"listChanged":false},"x":{}}"#), ["tools", "prompts"]);
    assert_eq!(lacks(told, "null"), ["tools", "prompts", "x"]);
    let deep = |inner: &str| format!(r#"{{"x":{}{inner}{}}}"#, r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    assert_eq!(lacks(&deep("1"), &deep("1")), [""; 0]);
    assert_eq!(lacks(&deep("1"), &deep("2")), ["x"]);
}

#[test]
fn what_the_server_has_not_said_itself_may_not_be_kept() {
    let kept = |text: &str| String::from_utf8(not_to_be_kept(text.as_bytes())).unwrap();
    assert_eq!(kept(r#"{"ttlMs":3600000,"tools":[]}"#), r#"{"ttlMs":0,"tools":[]}"#);
    assert_eq!(kept(r#"{"tools":[{"ttlMs":5}]}"#), r#"{"tools":[{"ttlMs":5}]}"#);
}

#[test]
fn a_request_of_ours_asks_for_no_progress() {
    let mut out = Vec::new();
    write_without_token(br#"{"progressToken":5,"a":1,"b":{"progressToken":2}}"#, &mut out);
    assert_eq!(out, br#"{"a":1,"b":{"progressToken":2}}"#);
}

#[test]
fn only_an_error_about_an_unknown_request_is_a_refusal() {
    let meta = format!(r#"{{"_meta":{{"{}":"2026-07-28"}}}}"#, mcp::VERSION_IN_META);
    let modern = Arrival::of(&mcp::LATEST, DISCOVER, meta.as_bytes()).unwrap();
    let error = |code: i32| format!(r#"{{"code":{code},"message":"no"}}"#);
    let refusal = |code: i32| Welcome::refusal(modern.clone(), error(code).as_bytes());
    let welcomes = known(refusal(-32601).expect("it does not know it"));
    let mut read = Welcomes::read(&welcomes.write());
    assert_eq!(read, welcomes);
    assert!(read.of(SEED, &modern).is_some_and(|welcome| welcome.refuses));
    read.forget_refusals();
    assert!(read.is_empty());
    for code in [-32603, -32022, -31002, 0] {
        assert_eq!(refusal(code), None, "{code}");
    }
    assert_eq!(Welcome::refusal(arrival(HELLO).unwrap(), error(-32601).as_bytes()), None, "a handshake is tried again");
}
