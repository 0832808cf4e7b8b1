//! The keys of an issuer as they are fetched, on real sockets.

use rescind_http::shell::client::{ConnectConfig, IssuerKeys, Proxy};
use rescind_testkit::tokens::{SigningKey, key_set};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::raw_server::{RawServer, in_time};

/// Fetches keys from an issuer with these answers in turn, each to the request for its path.
async fn fetch(answers: impl FnOnce(&str) -> Vec<(&'static str, String)>) -> Result<String, String> {
    let server = RawServer::new().await;
    let issuer = format!("http://{}/t", server.address());
    let config = ConnectConfig { proxy: Proxy::Direct, ..ConnectConfig::default() };
    let keys = IssuerKeys::new(&issuer, config).unwrap();
    let answers = answers(&issuer);
    let fetched = tokio::spawn(async move { keys.fetch().await });
    for (path, answer) in answers {
        let mut request = server.request().await;
        assert_eq!(request.line, format!("GET {path} HTTP/1.1"));
        assert!(!request.headers.contains_key("authorization"));
        // Who asked may have heard enough.
        let _ = in_time(request.stream.write_all(answer.as_bytes())).await;
    }
    let fetched = in_time(fetched).await.unwrap();
    fetched.map(|keys| format!("{keys:?}")).map_err(|error| error.to_string())
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn page(issuer: &str, keys: &str) -> String {
    answer("200 OK", &json!({"issuer": issuer, "jwks_uri": keys}).to_string())
}

const FIRST: &str = "/.well-known/oauth-authorization-server/t";
const SECOND: &str = "/.well-known/openid-configuration/t";
const THIRD: &str = "/t/.well-known/openid-configuration";

fn missing() -> String {
    answer("404 Not Found", "<html>")
}

#[tokio::test]
async fn keys_are_found_wherever_the_page_of_the_issuer_is() {
    let document = key_set(&[&SigningKey::p256("e")]).to_string();
    for place in 0..3 {
        let fetched = fetch(|issuer| {
            let keys = format!("{}/keys", issuer.strip_suffix("/t").unwrap());
            let mut answers: Vec<_> =
                [FIRST, SECOND, THIRD].into_iter().take(place).map(|path| (path, missing())).collect();
            answers.push(([FIRST, SECOND, THIRD][place], page(issuer, &keys)));
            answers.push(("/keys", answer("200 OK", &document)));
            answers
        });
        assert_eq!(fetched.await.unwrap(), r#"[(Es256, Some("e"))]"#);
    }
}

#[tokio::test]
async fn pages_that_are_not_the_issuers_own_are_refused() {
    let nowhere: fn(&str) -> Vec<(&'static str, String)> =
        |_| vec![(FIRST, missing()), (SECOND, answer("200 OK", "{}")), (THIRD, missing())];
    for (answers, error) in [
        (nowhere, "it has no page about itself"),
        (|issuer| vec![(FIRST, page(&format!("{issuer}/"), "https://x/keys"))], "its page is about `http://"),
        (
            |_| vec![(FIRST, page("https://evil.test", "https://evil.test/keys"))],
            "its page is about `https://evil.test`",
        ),
        (|issuer| vec![(FIRST, page(issuer, "http://evil.test/keys"))], "its jwks_uri is not one of https"),
        (|issuer| vec![(FIRST, page(issuer, "file:///etc/passwd"))], "its jwks_uri is not"),
        (|issuer| vec![(FIRST, answer("200 OK", &json!({"issuer": issuer}).to_string()))], "it has no jwks_uri"),
        (|_| vec![(FIRST, answer("500 Internal Server Error", ""))], "it answered 500"),
        (
            |_| {
                vec![(
                    FIRST,
                    "HTTP/1.1 302 Found\r\nlocation: http://evil.test/\r\ncontent-length: 0\r\n\r\n".to_owned(),
                )]
            },
            "it answered 302",
        ),
        (|_| vec![(FIRST, answer("200 OK", &" ".repeat(300_000)))], "its answer is too long"),
        (|_| vec![(FIRST, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_owned())], "end of file"),
    ] {
        let error_of = fetch(answers).await.unwrap_err();
        assert!(error_of.contains(error), "{error_of} instead of {error}");
    }
}

#[tokio::test]
async fn what_is_no_list_of_keys_is_refused() {
    let none: fn() -> Value = || json!({"keys": [{"kty": "oct", "k": "AAAA"}]});
    for (document, error) in [
        (none().to_string(), "it has no key for RS256"),
        ("[]".to_owned(), "it is not a list of keys"),
        ("<html>".to_owned(), "it is not a list of keys"),
    ] {
        let fetched = fetch(|issuer| {
            let keys = format!("{}/keys", issuer.strip_suffix("/t").unwrap());
            vec![(FIRST, page(issuer, &keys)), ("/keys", answer("200 OK", &document))]
        });
        let error_of = fetched.await.unwrap_err();
        assert!(error_of.contains(error), "{error_of} instead of {error}");
    }
}
