//! Signing in, with real processes: a server that checks what it is shown, and a person whose browser is in the test's hands.

pub(crate) mod person;
mod service;

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use rescind_feed::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    serve::{MODERN, departures::receipt},
    shim::admin::Admin,
    shim::words::{cancelled, notification, request, request_with, result},
};
use person::{Person, Talk, authority, browse, command_lines, redirect, try_browse};
use service::{FAR, Service};

pub(crate) const GREETING: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until nothing listens there any more.
fn expect_closed(link: &str) {
    let begun = Instant::now();
    while TcpStream::connect(authority(link)).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it still listens");
        std::thread::yield_now();
    }
}

pub(crate) fn call(id: &str, tool: &str) -> String {
    request_with(id, "tools/call", &format!(r#"{{"name":"{tool}","arguments":{{}}}}"#))
}

/// A whole session: a sign-in, a token that expires, one that may do too little; and then all that was written is searched
/// for every secret that there was.
#[test]
fn a_session_signs_in_by_itself_and_no_secret_is_written_anywhere() {
    let (service, person) = (Service::start(), Person::new());
    let (log, record) = (person.file("log"), person.file("record.jsonl"));
    let url = service.url();
    let mut seen = String::new();
    let words = ["run", "--log", "trace", "--log-file", log.to_str().unwrap(), "--record", record.to_str().unwrap()];
    let mut run = person.start(&[&words[..], &["--url", &url]].concat());
    run.say(&request_with("1", "initialize", GREETING));
    let link = person.link();
    seen.push_str(&link);
    seen.push_str(&command_lines());
    seen.push_str(&person.run(&["ps", "--json"]).1);
    let shown = browse(&link);
    assert!(shown.contains("You are signed in."), "{shown}");
    seen.push_str(&shown);
    assert!(run.hear().contains(r#""name":"signed""#));
    expect_closed(&link);
    run.say(&notification("notifications/initialized", "{}"));
    run.say(&call("2", "read"));
    assert_eq!(run.hear(), result("2", r#"{"scope":"read"}"#));

    // Many are refused at once, and one token is asked for.
    service.expire();
    let before = service.count("/token");
    (10..20).for_each(|id: u32| run.say(&call(&id.to_string(), "read")));
    for _ in 10..20 {
        let answer = run.hear();
        assert!(answer.contains(r#""result":{"scope":"read"}"#), "{answer}");
    }
    assert_eq!(service.count("/token"), before + 1);

    run.say(&call("3", "write"));
    let link = person.link();
    seen.push_str(&browse(&link));
    assert_eq!(run.hear(), result("3", r#"{"scope":"read write"}"#));

    seen.push_str(&command_lines());
    for words in [&["ps", "--json"][..], &["ps", "--sessions"], &["whoami", &url], &["whoami", "--json", &url]] {
        let (code, stdout, stderr) = person.run(words);
        assert_eq!(code, 0, "{words:?} {stderr}");
        seen.push_str(&stdout);
        seen.push_str(&stderr);
    }
    assert_eq!(run.end(), 0);
    seen.push_str(&person.written());
    assert!(seen.contains("opens in the browser") && seen.contains("tools/call"), "{seen}");
    let secrets = service.secrets();
    // A secret of each client, two states, two codes, two verifiers, three pairs of tokens.
    assert!(secrets.len() >= 13, "{secrets:?}");
    for secret in secrets {
        assert!(!seen.contains(&secret), "{secret} was written");
    }
}

#[test]
fn a_cancel_during_a_sign_in_ends_exactly_that() {
    let (service, person) = (Service::start(), Person::new());
    let mut run = person.start(&["run", "--url", &service.url()]);
    run.say(&request_with("1", "tools/list", MODERN));
    let link = person.link();
    let page = redirect(&link);
    assert!(TcpStream::connect(authority(&link)).is_ok());
    run.say(&cancelled("1"));
    expect_closed(&link);
    assert_eq!((service.count("/token"), person.kept()), (0, 0));
    // The server's page leads nowhere; and the next request begins anew.
    let back = redirect(&page);
    assert!(TcpStream::connect(authority(&back)).is_err());
    run.say(&request_with("2", "tools/list", MODERN));
    browse(&person.link());
    assert_eq!(run.hear(), result("2", r#"{"scope":"read"}"#));
    assert_eq!(run.end(), 0);
}

/// The server has refused it, and did not get it again.
#[test]
fn a_call_that_is_cancelled_during_its_sign_in_was_never_sent() {
    let (service, person) = (Service::start(), Person::new());
    let mut run = person.start(&["run", "--url", &service.url()]);
    run.say(&request_with("1", "tools/list", MODERN));
    let link = person.link();
    let mut session = Admin(person.file("run").join(format!("{}.sock", run.child.id()))).subscribe(None);
    run.say(&cancelled("1"));
    let cancel = receipt(&mut session, "1");
    assert_eq!((cancel.outcome, cancel.written), (Outcome::NeverSent, None));
    expect_closed(&link);
    assert_eq!(service.count("/mcp"), 1);
    assert_eq!(run.end(), 0);
}

/// The second may not have begun to wait when the first is cancelled, which then ends the sign-in: it begins another.
#[test]
fn a_request_is_signed_in_for_after_another_was_cancelled() {
    let (service, person) = (Service::start(), Person::new());
    let mut run = person.start(&["run", "--url", &service.url()]);
    run.say(&request_with("1", "tools/list", MODERN));
    let link = person.link();
    run.say(&request_with("2", "tools/list", MODERN));
    while service.count("/mcp") < 2 {
        std::thread::yield_now();
    }
    run.say(&cancelled("1"));
    if try_browse(&link).is_err() {
        browse(&person.link());
    }
    assert_eq!(run.hear(), result("2", r#"{"scope":"read"}"#));
    assert_eq!(service.count("/token"), 1);
}

#[test]
fn the_end_of_a_client_ends_its_sign_in() {
    let (service, person) = (Service::start(), Person::new());
    let mut run = person.start(&["run", "--url", &service.url()]);
    run.say(&request_with("1", "initialize", GREETING));
    let link = person.link();
    assert_eq!(run.end(), 0);
    assert!(TcpStream::connect(authority(&link)).is_err());
    assert_eq!((service.count("/token"), person.kept()), (0, 0));
}

#[test]
fn where_nobody_is_asked_the_error_says_how_to_sign_in() {
    let (service, person) = (Service::start(), Person::new());
    let url = service.url();
    let mut run = person.start(&["run", "--url", &url, "--sign-in", "never", "--profile", "work"]);
    run.say(&request("1", "tools/list"));
    let answer: Value = serde_json::from_str(&run.hear()).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("nobody is signed in; run `rescind login {url} --profile work`")), "{message}");
    assert_eq!(answer["error"]["data"]["httpStatus"], 401);
    // A person signs in elsewhere meanwhile.
    let mut login = person.start(&["login", &url, "--profile", "work"]);
    browse(&person.link());
    assert!(login.hear().starts_with(&format!("signed in to {url} at ")));
    run.say(&request("2", "tools/list"));
    assert_eq!(run.hear(), result("2", r#"{"scope":"read"}"#));
}

#[test]
fn a_header_of_ones_own_is_used_as_it_is() {
    let (service, person) = (Service::start(), Person::new());
    let mut run = person.start(&["run", "--url", &service.url(), "--header", "Authorization: Bearer mine"]);
    run.say(&request("1", "tools/list"));
    let answer = run.hear();
    assert!(answer.contains("wants authorization (401") && !answer.contains("rescind login"), "{answer}");
    assert_eq!(service.count("/authorize") + service.count("/register"), 0);
}

#[test]
fn a_person_signs_in_is_shown_and_signs_out() {
    let (service, person) = (Service::start(), Person::new());
    let url = service.url();
    let (code, stdout, stderr) = person.run(&["whoami", &url]);
    assert_eq!((code, &*stdout), (1, ""));
    assert!(stderr.contains("nobody is signed in") && stderr.contains(&format!("rescind login {url}")), "{stderr}");

    // On a machine whose browser is elsewhere: the address of the page that did not load is pasted.
    let mut login = person.start(&["login", "--no-browser", "--scope", "read", &url]);
    let page = loop {
        let said = std::fs::read_to_string(person.file("stderr")).unwrap();
        if let Some(page) =
            said.lines().find_map(|line| line.trim().strip_prefix("http")).filter(|_| said.ends_with(".\n"))
        {
            break format!("http{page}");
        }
    };
    login.say("https://example.com/callback?code=x&state=y");
    login.say(&redirect(&page));
    assert_eq!(login.hear(), format!("signed in to {url} at http://{}", service.address));
    assert_eq!(login.end(), 0);

    let (code, stdout, _) = person.run(&["whoami", &url, "--json"]);
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &said["clientId"], &said["scopes"][0]), (0, &"client".into(), &"read".into()));
    assert_eq!((said["signedIn"].as_bool(), said["isExpired"].as_bool()), (Some(true), Some(false)));

    // Without a URL all are listed, and nothing secret of them.
    let (code, stdout, stderr) = person.run(&["whoami"]);
    assert_eq!((code, &*stderr, stdout.lines().count()), (0, "", 1), "{stdout}");
    assert!(stdout.starts_with(&format!("{url}  expires: ")), "{stdout}");
    let (_, stdout, _) = person.run(&["whoami", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), Value::from(vec![said]));
    assert_eq!(person.run(&["whoami", "--profile", "other"]).0, 1);

    let (code, stdout, stderr) = person.run(&["logout", &url]);
    assert_eq!((code, &*stdout, &*stderr), (0, &*format!("signed out of {url}\n"), ""));
    let (code, stdout, stderr) = person.run(&["whoami"]);
    assert_eq!((code, &*stdout), (1, ""));
    assert!(stderr.contains("nobody is signed in anywhere") && stderr.contains("rescind login https://"), "{stderr}");
    assert!(!service.has_tokens(), "the server has forgotten them");
    assert_eq!(person.kept(), 0);
    assert_eq!(person.run(&["logout", &url]).1, format!("nobody was signed in to {url}\n"));
}

#[test]
fn an_interrupt_ends_a_login() {
    let (service, person) = (Service::start(), Person::new());
    let mut login = person.start(&["login", &service.url()]);
    let link = person.link();
    kill_process(Pid::from_child(&login.child), Signal::INT).unwrap();
    assert_eq!(login.child.wait().unwrap().code(), Some(2));
    assert!(TcpStream::connect(authority(&link)).is_err());
    assert_eq!((service.count("/token"), person.kept()), (0, 0));
    let said = std::fs::read_to_string(person.file("stderr")).unwrap();
    assert!(said.contains("the sign-in was given up"), "{said}");
}

#[test]
fn what_cannot_be_signed_in_to_is_refused_in_words() {
    let person = Person::new();
    for (words, input, exit) in [
        (&["login", "not a url"][..], "not a url", 2),
        (&["login", "https://user:pw@example.com/"], "names a user", 2),
        (&["login", "http://127.0.0.1:1/mcp"], "cannot be reached|Connection refused", 2),
        (
            &["login", "http://127.0.0.1:1/", "--client-id", "x", "--client-secret-env", "RESCIND_NO_SUCH"],
            "RESCIND_NO_SUCH",
            2,
        ),
        (&["whoami", "x", "--profile", ""], "--profile", 2),
    ] {
        let (code, _, stderr) = person.run(words);
        assert_eq!(code, exit, "{stderr}");
        assert!(input.split('|').any(|input| stderr.contains(input)), "{words:?}: {stderr}");
    }
}

/// Three clients of one server that start at the same moment, as an editor's do.
#[test]
fn one_page_and_one_answer_serve_every_process_that_waits() {
    let (service, person) = (Service::start(), Person::new());
    let url = service.url();
    let mut runs = [(); 3].map(|()| person.start(&["run", "--url", &url]));
    runs.iter_mut().for_each(|run| run.say(&request_with("1", "initialize", GREETING)));
    let link = person.link();
    person.wait_for("which another program has begun: this one waits for it", 2);
    let (_, shown, said) = person.run(&["ps"]);
    for run in &runs {
        let note = format!("note: {}: waits for a person to sign in at {url}", run.child.id());
        assert!(said.contains(&note), "{shown}{said}");
    }
    let (_, listed, _) = person.run(&["ps", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.iter().filter(|one| one["session"]["signingIn"] == true).count(), 3, "{listed}");
    browse(&link);
    for run in &mut runs {
        let answer = run.hear();
        assert!(answer.contains(r#""name":"signed""#), "{answer}");
    }
    assert_eq!((person.tabs(), service.count("/authorize"), service.count("/token")), (1, 1, 1));
    let (_, shown, said) = person.run(&["ps", "--sessions"]);
    assert!(!said.contains("waits for a person") && shown.contains("idle"), "{shown}{said}");
    assert_eq!(runs.each_mut().map(Talk::end), [0; 3]);
}

#[test]
fn a_server_that_refuses_every_token_opens_one_page() {
    let (service, person) = (Service::start(), Person::new());
    service.refuse_all();
    let mut run = person.start(&["run", "--url", &service.url()]);
    for id in 1..=10 {
        run.say(&request_with(&id.to_string(), "tools/list", MODERN));
        if id == 1 {
            browse(&person.link());
        }
        let answer = run.hear();
        assert!(answer.contains("the server refuses the token that was just given"), "{answer}");
        assert!(answer.contains("within the hour") && answer.contains("run `rescind login http"), "{answer}");
    }
    assert_eq!((person.tabs(), service.count("/authorize")), (1, 1));
    assert_eq!(run.end(), 0);
}

/// Whoever carries it could read the token: here that is the proxy.
#[test]
fn no_token_is_asked_for_that_would_travel_in_the_clear() {
    let (service, person) = (Service::start(), Person::new());
    let url = format!("{FAR}/mcp");
    let mut run = person.start_behind(service.address, &["run", "--url", &url]);
    run.say(&request_with("1", "tools/list", MODERN));
    let answer = run.hear();
    assert!(answer.contains("http://far.test is not https, so that others could read a token"), "{answer}");
    assert_eq!(run.end(), 0);
    for words in [&["login", &url][..], &["login", "--no-browser", &url]] {
        assert_eq!(person.start_behind(service.address, words).end(), 2, "{words:?}");
    }
    person.wait_for("hint: use the URL of the server that begins with https://", 2);
    assert_eq!((person.tabs(), person.kept()), (0, 0));
    assert_eq!(service.count("/register") + service.count("/authorize") + service.count("/token"), 0);
}
