//! An endpoint mounted elsewhere than it thinks: the answer says so.

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use rescind_http::{server::HttpServerConfig, shell::Endpoint};
use tower_service::Service as _;

/// What a POST to this path of the application is answered.
async fn post(mut application: Router, path: &str) -> (StatusCode, serde_json::Value) {
    let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let response = application.call(request.body(Body::from(ping)).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    (head.status, serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap())
}

fn endpoint(path: Option<&str>) -> Endpoint {
    Endpoint::new(HttpServerConfig { path: path.map(Into::into), ..HttpServerConfig::default() })
}

#[tokio::test]
async fn mounted_elsewhere_it_says_which_path_it_serves_and_how_another_is_set() {
    for wrong in [
        Router::new().route_service("/tools", endpoint(Some("/mcp"))),
        Router::new().route_service("/{*rest}", endpoint(Some("/mcp"))),
        Router::new().nest_service("/tools", endpoint(Some("/mcp"))),
        Router::new().fallback_service(endpoint(Some("/mcp"))),
    ] {
        let (status, body) = post(wrong, "/tools").await;
        assert_eq!(
            (status, &body["jsonrpc"], &body["id"]),
            (StatusCode::NOT_FOUND, &"2.0".into(), &().into()),
            "{body}"
        );
        let text = body["error"]["message"].as_str().unwrap();
        assert!(text.contains("/mcp ") && text.contains("HttpServerConfig::path"), "{text}");
    }
}

#[tokio::test]
async fn mounted_elsewhere_it_serves_the_path_that_it_was_told_or_all() {
    for right in [
        Router::new().route_service("/tools/mcp", endpoint(Some("/tools/mcp"))),
        Router::new().route_service("/tools/mcp", endpoint(None)),
        Router::new().nest_service("/tools", endpoint(Some("/mcp"))),
        Router::new().fallback_service(endpoint(None)),
    ] {
        let (status, body) = post(right, "/tools/mcp").await;
        let text = body["error"]["message"].as_str().unwrap();
        assert!(status == StatusCode::BAD_REQUEST && text.starts_with("no session"), "{status} {text}");
    }
}
