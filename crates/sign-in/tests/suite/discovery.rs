//! From the server to tokens, where all goes well; and where each thing is found.

use rescind_sign_in::{ClientChoice, Scopes, Secret, Settings};
use serde_json::{Value, json};

use crate::{
    browser::{send, visit},
    rig::{Rig, here},
    script::{Answer, ISSUER, ISSUER_PAGE, REGISTER, RESOURCE_PAGE, SERVER, TOKEN},
};

const GONE: fn() -> Answer = || Answer::Json(404, Value::Null);

#[tokio::test]
async fn a_person_signs_in() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        for (name, expected) in [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "client-1"),
            ("code_challenge_method", "S256"),
            ("resource", SERVER),
            ("scope", "read"),
        ] {
            assert_eq!(page.value(name).as_deref(), Some(expected), "{name}");
        }
        assert!(page.back.starts_with("http://127.0.0.1:") && page.back.ends_with("/callback"), "{}", page.back);
        let shown = page.agree(&rig.script).await;
        assert!(shown.contains("You are signed in.") && shown.contains("cache-control: no-store"), "{shown}");
        assert!(!shown.contains("code-") && !shown.contains(&page.value("state").unwrap()), "{shown}");
        let record = begun.await.unwrap().unwrap();
        assert_eq!((record.issuer(), record.client_id()), (ISSUER, "client-1"));
        assert_eq!(record.expires_at(), Some(1_003_600));
        assert_eq!(rig.script.urls(), [SERVER, RESOURCE_PAGE, ISSUER_PAGE, REGISTER, TOKEN]);
        let exchange = &rig.script.asked(TOKEN)[0];
        assert_eq!(exchange.value("resource").as_deref(), Some(SERVER));
        assert_eq!(rig.token().await.as_deref(), Some("access-2"));
        // Another process finds it.
        assert_eq!(rig.alone().token().await.unwrap().expose(), "access-2");
        assert!(!page.is_open().await);
    })
    .await;
}

#[tokio::test]
async fn the_link_leads_to_the_page_once_and_says_nothing_of_it() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        assert!(!page.link.contains(&page.value("state").unwrap()), "{}", page.link);
        let led = visit(&page.link).await;
        assert!(led.starts_with("HTTP/1.1 302") && led.contains(&format!("location: {}\r\n", page.url)), "{led}");
        let again = visit(&page.link).await;
        assert!(again.starts_with("HTTP/1.1 410") && !again.contains("state"), "{again}");
        page.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn whatever_else_comes_to_the_port_ends_nothing() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        let code = rig.script.code(&page.query);
        let state = page.value("state").unwrap();
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404"),
            (format!("GET /callback?code={code} HTTP/1.1\r\n\r\n"), "400"),
            (format!("GET /callback?code={code}&state=guessed HTTP/1.1\r\n\r\n"), "400"),
            (format!("GET /callback?state={state} HTTP/1.1\r\n\r\n"), "400"),
            (format!("POST /callback?code={code}&state={state} HTTP/1.1\r\n\r\n"), "404"),
            ("GET /start?guessed HTTP/1.1\r\n\r\n".to_owned(), "404"),
            ("\u{0}\r\n\r\n".to_owned(), "404"),
        ] {
            let answer = send(&page.back, &request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
        // Longer than any request; and one that never begins.
        assert_eq!(send(&page.back, &"x".repeat(20_000)).await, "");
        let _silent = tokio::net::TcpStream::connect(page.back.split('/').nth(2).unwrap()).await.unwrap();
        page.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_silent_connections_keeps_no_browser_out() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        let mut flood = Vec::new();
        for _ in 0..200 {
            flood.push(tokio::net::TcpStream::connect(page.back.split('/').nth(2).unwrap()).await.unwrap());
        }
        page.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_address_of_the_page_that_did_not_load_can_be_pasted() {
    here(async {
        let mut rig = Rig::new();
        let begun = rig.begin();
        let page = rig.page().await;
        begun.abort();
        let _ = begun.await;
        // Of another sign-in, and no address at all; then the right one.
        let begun = {
            let old = page.agreed(&rig.script);
            rig.browser.pasted.lock().unwrap().extend(["hello".to_owned(), old]);
            rig.begin()
        };
        let page = rig.page().await;
        while rig.browser.refused.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        page.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_page_about_the_server_is_looked_for_beside_its_path_and_at_its_root() {
    here(async {
        let at_root = "https://mcp.test/.well-known/oauth-protected-resource";
        let mut rig = Rig::new();
        rig.script.answer(RESOURCE_PAGE, GONE());
        rig.script.answer(
            at_root,
            Answer::Json(
                200,
                json!({
                    "resource": "https://mcp.test/", "authorization_servers": [ISSUER],
                }),
            ),
        );
        let begun = rig.begin();
        let page = rig.page().await;
        assert_eq!(page.value("resource").as_deref(), Some("https://mcp.test/"));
        assert_eq!(page.value("scope"), None);
        page.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
        assert_eq!(rig.script.urls()[1..3], [RESOURCE_PAGE, at_root]);
    })
    .await;
}

#[tokio::test]
async fn a_token_that_can_be_renewed_is_asked_for_where_that_has_a_scope() {
    here(async {
        for (set, scope, prompt) in [("", "offline_access read", Some("consent")), ("own", "own", None)] {
            let mut rig = Rig::with(Settings { scopes: Scopes::parse(set), ..Settings::default() });
            rig.script.change(ISSUER_PAGE, |page| page["scopes_supported"] = json!(["openid", "offline_access"]));
            let begun = rig.begin();
            let page = rig.page().await;
            let asked = (page.value("scope"), page.value("prompt"));
            assert_eq!((asked.0.as_deref(), asked.1.as_deref()), (Some(scope), prompt));
            page.agree(&rig.script).await;
            begun.await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn an_issuer_may_have_the_page_of_openid() {
    here(async {
        for at in [
            "https://as.test/.well-known/openid-configuration/tenant",
            "https://as.test/tenant/.well-known/openid-configuration",
        ] {
            let mut rig = Rig::new();
            let mut page = Value::Null;
            rig.script.change(ISSUER_PAGE, |right| page = right.clone());
            rig.script.answer(ISSUER_PAGE, Answer::Redirect("/moved"));
            rig.script.answer("https://as.test/moved", GONE());
            rig.script.answer(at, Answer::Json(200, page));
            rig.signed_in().await;
        }
    })
    .await;
}

/// A server of 2025-03-26 has no page about itself; some have none about their authorization server either.
#[tokio::test]
async fn without_any_page_the_servers_own_origin_is_the_issuer() {
    here(async {
        let mut rig = Rig::new();
        rig.script.answer(RESOURCE_PAGE, GONE());
        rig.script.answer("https://mcp.test/register", Answer::Json(201, json!({"client_id": "old"})));
        rig.script.answer(
            "https://mcp.test/token",
            Answer::Json(
                200,
                json!({
                    "access_token": "old-token", "token_type": "bearer",
                }),
            ),
        );
        let begun = rig.begin();
        let page = rig.page().await;
        assert!(page.url.starts_with("https://mcp.test/authorize?"), "{}", page.url);
        assert_eq!(page.value("resource"), None);
        page.agree(&rig.script).await;
        let record = begun.await.unwrap().unwrap();
        assert_eq!((record.issuer(), record.expires_at()), ("https://mcp.test", None));
        assert_eq!(rig.token().await.as_deref(), Some("old-token"));
    })
    .await;
}

#[tokio::test]
async fn a_known_client_is_not_registered_and_shows_its_secret_to_its_server_alone() {
    here(async {
        let client = ClientChoice::known("known".into(), Some(Secret::new("s e".into())));
        let settings = Settings { client, scopes: Scopes::parse("own"), ..Settings::default() };
        let mut rig = Rig::with(settings);
        rig.script.answer(TOKEN, Answer::Json(200, json!({"access_token": "a", "token_type": "Bearer"})));
        let begun = rig.begin();
        let page = rig.page().await;
        assert_eq!((page.value("client_id").as_deref(), page.value("scope").as_deref()), (Some("known"), Some("own")));
        page.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
        assert_eq!(rig.script.asked(REGISTER).len(), 0);
        let exchange = &rig.script.asked(TOKEN)[0];
        // `known:s%20e`
        assert_eq!(exchange.authorization.as_deref(), Some("Basic a25vd246cyUyMGU="));
        assert!(!exchange.body.contains("client_secret"), "{exchange:?}");
    })
    .await;
}

#[tokio::test]
async fn the_url_of_a_document_is_a_client_only_where_the_server_takes_that() {
    here(async {
        let id = "https://app.test/client.json";
        let client = ClientChoice::known(id.into(), None);
        let settings = || Settings { client: client.clone(), ..Settings::default() };
        let rig = Rig::with(settings());
        let refused = rig.sign_in.sign_in().await.unwrap_err().to_string();
        assert!(refused.contains("does not take the URL of a document"), "{refused}");
        let mut rig = Rig::with(settings());
        rig.script.change(ISSUER_PAGE, |page| page["client_id_metadata_document_supported"] = json!(true));
        let begun = rig.begin();
        assert_eq!(rig.page().await.value("client_id").as_deref(), Some(id));
        begun.abort();
    })
    .await;
}
