//! Servers, browsers and others that mean no good, or do nothing at all.

use rescind_sign_in::{Challenge, Effort, MAX_BODY, Refused, Settings};
use serde_json::{Value, json};

use crate::{
    browser::visit,
    rig::{Rig, here},
    script::{Answer, ISSUER_PAGE, REGISTER, RESOURCE_PAGE, SERVER, TOKEN},
};

/// Why nobody is signed in, before a person was asked.
async fn unasked(rig: &mut Rig) -> String {
    let error = rig.sign_in.sign_in().await.unwrap_err().to_string();
    assert!(!rig.was_asked(), "{error}");
    rig.assert_nothing_kept();
    error
}

#[tokio::test]
async fn a_server_that_calls_itself_otherwise_gets_no_token() {
    for named in ["https://bank.test/mcp", "https://mcp.test/v1/mcp2", "http://mcp.test/v1/mcp"] {
        let mut rig = Rig::new();
        rig.script.change(RESOURCE_PAGE, |page| page["resource"] = json!(named));
        let error = unasked(&mut rig).await;
        assert!(error.contains(named), "{error}");
    }
}

#[tokio::test]
async fn issuers_are_not_mixed_up() {
    let mut rig = Rig::new();
    rig.script.change(ISSUER_PAGE, |page| page["issuer"] = json!("https://bank.test"));
    let error = unasked(&mut rig).await;
    assert!(error.contains("it is about `https://bank.test`"), "{error}");

    here(async {
        for (promises, query) in [
            (false, "code=stolen&iss=https%3A%2F%2Fbank.test"),
            (true, "code=stolen&iss=https%3A%2F%2Fas.test%2Ftenant%2F"),
            (true, "code=stolen"),
            (true, "error=access_denied&iss=https%3A%2F%2Fbank.test"),
        ] {
            let mut rig = Rig::new();
            rig.script.change(ISSUER_PAGE, |page| {
                page["authorization_response_iss_parameter_supported"] = json!(promises);
            });
            let error = rig.refused(async |_, page| page.back_with(query).await).await;
            assert!(error.contains("the redirect is not from https://as.test/tenant"), "{error}");
            assert_eq!(rig.script.asked(TOKEN).len(), 0, "the code went to nobody");
        }
    })
    .await;
}

#[tokio::test]
async fn without_pkce_nobody_is_asked() {
    let mut rig = Rig::new();
    rig.script.change(ISSUER_PAGE, |page| page["code_challenge_methods_supported"] = json!(["plain"]));
    assert!(unasked(&mut rig).await.contains("PKCE"));
}

/// Somebody else's code has another challenge, and one that was used is used up.
#[tokio::test]
async fn a_code_that_was_stolen_or_used_gives_nothing() {
    here(async {
        let mut rig = Rig::new();
        let error = rig
            .refused(async |script, page| {
                let theirs = page.query.replace("code_challenge=", "code_challenge=x");
                page.back_with(&format!("code={}", script.code(&theirs))).await
            })
            .await;
        assert!(error.contains("invalid_grant"), "{error}");

        let mut rig = Rig::new();
        let error = rig.refused(async |_, page| page.back_with("code=code-0").await).await;
        assert!(error.contains("invalid_grant"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_taken_once() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        let back = page.agreed(&rig.script);
        visit(&back).await;
        begun.await.unwrap().unwrap();
        assert!(!page.is_open().await);
        assert_eq!(rig.script.asked(TOKEN).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_person_who_says_no_is_told_so_and_nothing_is_kept() {
    here(async {
        let mut rig = Rig::new();
        let mut shown = String::new();
        let error = rig
            .refused(async |_, page| {
                shown = page.back_with("error=access_denied").await;
                shown.clone()
            })
            .await;
        assert_eq!(error, "access was denied");
        assert!(shown.contains("Access was denied"), "{shown}");
    })
    .await;
}

#[tokio::test]
async fn tokens_of_another_kind_are_refused() {
    here(async {
        for answer in [
            json!({"access_token": "a", "token_type": "mac"}),
            json!({"access_token": "a b", "token_type": "Bearer"}),
            json!({}),
            json!([]),
        ] {
            let mut rig = Rig::new();
            rig.script.answer(TOKEN, Answer::Json(200, answer));
            let error = rig.refused(async |script, page| page.agree(script).await).await;
            assert!(error.contains("the token cannot be used"), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn redirects_elsewhere_and_in_circles_are_not_followed() {
    for to in ["https://bank.test/page", "//bank.test/page", "http://as.test/page", "https://as.test:444/page"] {
        let mut rig = Rig::new();
        rig.script.answer(ISSUER_PAGE, Answer::Redirect(to));
        let error = unasked(&mut rig).await;
        assert!(error.contains("its redirect to http") || error.contains("its redirect to elsewhere"), "{error}");
        let asked = rig.script.urls().pop().unwrap();
        assert_eq!(asked, ISSUER_PAGE);
    }
    let mut rig = Rig::new();
    rig.script.answer(ISSUER_PAGE, Answer::Redirect("/a"));
    rig.script.answer("https://as.test/a", Answer::Redirect("https://as.test/a"));
    assert!(unasked(&mut rig).await.contains("is not followed"));
    assert_eq!(rig.script.urls().len(), 2 + 4);

    here(async {
        let mut rig = Rig::new();
        rig.script.answer(TOKEN, Answer::Redirect("https://as.test/other"));
        let error = rig.refused(async |script, page| page.agree(script).await).await;
        assert!(error.contains("is not followed"), "{error}");
        assert_eq!(rig.script.urls().pop().unwrap(), TOKEN);
    })
    .await;
}

#[tokio::test]
async fn pages_that_are_huge_or_nonsense_are_no_pages() {
    for url in [RESOURCE_PAGE, ISSUER_PAGE, REGISTER] {
        let mut rig = Rig::new();
        rig.script.answer(url, Answer::Huge(MAX_BODY + 1));
        assert!(unasked(&mut rig).await.contains("longer than"), "{url}");
    }
    let mut rig = Rig::new();
    rig.script.answer(REGISTER, Answer::Huge(MAX_BODY));
    assert!(unasked(&mut rig).await.contains("cannot be read"));
    let mut rig = Rig::new();
    rig.script.answer(ISSUER_PAGE, Answer::Huge(100));
    assert!(unasked(&mut rig).await.contains("has no page about itself"));
}

/// Its time is that of the paused clock.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    for url in [SERVER, RESOURCE_PAGE, ISSUER_PAGE, REGISTER] {
        let mut rig = Rig::new();
        rig.script.answer(url, Answer::Never);
        assert!(unasked(&mut rig).await.contains("no answer within 30s"), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_who_does_not_come_back_is_given_up() {
    let mut rig = Rig::with(Settings::default());
    let error = rig.sign_in.sign_in().await.unwrap_err().to_string();
    assert_eq!(error, "nobody signed in within 10 minutes");
    assert!(rig.was_asked());
    rig.assert_nothing_kept();
}

#[tokio::test]
async fn a_server_that_asks_nobody_to_sign_in_is_left_alone() {
    let mut rig = Rig::new();
    rig.script.answer(SERVER, Answer::Json(200, json!({"jsonrpc": "2.0", "id": 1, "result": {}})));
    assert_eq!(unasked(&mut rig).await, "the server asks nobody to sign in");
    assert_eq!(rig.script.urls(), [SERVER]);
}

#[tokio::test]
async fn a_server_that_says_nothing_of_sign_ins_is_told_so() {
    let mut rig = Rig::new();
    rig.script.answer(RESOURCE_PAGE, Answer::Json(404, Value::Null));
    assert_eq!(unasked(&mut rig).await, "the server does not say how to sign in");
}

/// What servers say is cut, and cannot draw on a terminal.
#[tokio::test]
async fn what_a_server_says_is_harmless() {
    let mut rig = Rig::new();
    let said = format!("\u{1b}[31m{}", "no ".repeat(10_000));
    rig.script.answer(REGISTER, Answer::Json(400, json!({"error": "x", "error_description": said})));
    let error = unasked(&mut rig).await;
    assert!(error.len() < 500 && !error.contains('\u{1b}'), "{error}");
}

#[tokio::test]
async fn a_sign_in_that_is_given_up_leaves_nothing() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        assert!(page.is_open().await);
        begun.abort();
        assert!(begun.await.unwrap_err().is_cancelled());
        assert!(!page.is_open().await, "nothing listens any more");
        assert_eq!(rig.script.asked(TOKEN).len(), 0);
        rig.assert_nothing_kept();
    })
    .await;
}

/// A token would be read by whoever is on the way, whatever else is encrypted.
#[tokio::test]
async fn no_server_is_signed_in_to_in_the_clear() {
    let metadata = |page: &str| Challenge { resource_metadata: Some(page.to_owned()), ..Challenge::default() };
    for server in [
        "http://mcp.test/v1/mcp",
        "http://mcp.test:8443/v1/mcp",
        "HTTP://MCP.test/v1/mcp",
        "http://192.0.2.1/v1/mcp",
        "http://[2001:db8::1]/v1/mcp",
        "http://localhost.test/v1/mcp",
        "http://127.0.0.1.test/v1/mcp",
    ] {
        for uses_device in [false, true] {
            for challenge in [Challenge::default(), metadata("https://as.test/about"), metadata(RESOURCE_PAGE)] {
                let mut rig = Rig::at(server, Settings { uses_device, ..Settings::default() });
                let origin = server.rsplit_once("/v1").unwrap().0;
                rig.script.be(origin);
                let refused = Refused { token: None, challenge, effort: Effort::Person, attempt: 0 };
                let sign_in = rig.sign_in.clone();
                let error = tokio::select! {
                    refused = sign_in.renew(&refused) => refused.unwrap_err(),
                    _ = rig.invitation() => panic!("{server}: the person was asked"),
                };
                assert!(error.to_string().contains("is not https"), "{server}: {error}");
                assert!(unasked(&mut rig).await.contains("is not https"), "{server}");
                assert_eq!(rig.script.urls(), [""; 0], "{server}");
            }
        }
    }
}

/// As an older version has kept it.
#[tokio::test]
async fn a_token_that_is_kept_does_not_travel_in_the_clear() {
    here(async {
        let mut rig = Rig::at("http://127.0.0.1:9/v1/mcp", Settings::default());
        rig.script.be("http://127.0.0.1:9");
        let begun = rig.begin();
        rig.page().await.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
        assert!(rig.token().await.is_some(), "on this machine it may");
        rig.move_to("http://mcp.test/v1/mcp");
        assert!(rig.sign_in.record().unwrap().is_some());
        assert_eq!(rig.token().await, None);
    })
    .await;
}
