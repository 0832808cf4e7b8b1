//! The shell on real sockets.

use std::time::Duration;

use rescind_http::{
    client::HttpClientConfig,
    shell::client::{ConnectConfig, HttpTransport, Proxy},
};
use rustix::net::sockopt;
use serde_json::json;

use crate::{
    raw_server::{Local, RawRequest, RawServer},
    rig::{LEGACY, call, cancel, initialize, modern_call, progress, result},
};

#[tokio::test]
async fn calls_are_answered_over_one_connection() {
    let server = RawServer::new().await;
    let mut local = Local::to(&server.url());
    local.say(&modern_call(1));
    let post = server.request().await;
    assert_eq!((&*post.line, &*post.body), ("POST /mcp HTTP/1.1", &*modern_call(1)));
    assert_eq!(post.headers["host"], server.address().to_string());
    assert_eq!(post.headers["mcp-name"], "work");
    let connection = post.respond_json(&result(1)).await;
    assert_eq!(local.hear().await, result(1));
    local.say(&modern_call(2));
    let mut post = RawRequest::read(connection).await;
    post.stream().await;
    post.event(&progress(2)).await;
    assert_eq!(local.hear().await, progress(2));
    post.event(&result(2)).await;
    post.write("0\r\n\r\n").await;
    assert_eq!(local.hear().await, result(2));
    local.say(&modern_call(3));
    let post = RawRequest::read(post.stream).await;
    assert_eq!(post.body, modern_call(3));
}

#[tokio::test]
async fn outside_a_session_a_cancel_closes_the_connection_before_the_head_and_after() {
    for has_head in [false, true] {
        let server = RawServer::new().await;
        let mut local = Local::to(&server.url());
        local.say(&modern_call(1));
        let mut post = server.request().await;
        if has_head {
            post.stream().await;
            post.event(&progress(1)).await;
            local.hear().await;
        }
        local.say(&cancel(1));
        post.closed().await;
        // Others are not touched, and nothing was POSTed.
        local.say(&modern_call(2));
        let post = server.request().await;
        assert_eq!(post.body, modern_call(2));
        post.respond_json(&result(2)).await;
        assert_eq!(local.hear().await, result(2));
    }
}

#[tokio::test]
async fn in_a_session_a_cancel_is_posted_while_its_request_stays_open() {
    for has_head in [false, true] {
        let server = RawServer::new().await;
        let mut config = HttpClientConfig::new(&server.url()).unwrap();
        config.end_within = Duration::ZERO;
        let mut local = Local::with(config);
        local.open_session(&server).await;
        local.say(&call(1));
        let mut post = server.request().await;
        if has_head {
            post.stream().await;
            post.event(&progress(1)).await;
            local.hear().await;
        }
        local.say(&cancel(1));
        let cancelled = server.request().await;
        assert_eq!(cancelled.body, cancel(1));
        assert_eq!(cancelled.headers["mcp-session-id"], "s1");
        assert_eq!(post.stream.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        cancelled.respond("202 Accepted", "", "").await;
        post.closed().await;
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_request_that_waits_for_its_connection_is_taken_back_with_its_cancel() {
    let server = RawServer::new().await;
    // It says nothing, and so TLS does not begin.
    let url = format!("https://{}/mcp", server.address());
    for message in [modern_call(1), call(1)] {
        let mut local = Local::to(&url);
        local.say(&message);
        let connection = server.accept().await;
        local.say(&cancel(1));
        drop(local);
        drop(connection);
    }
    let mut local = Local::to(&server.url());
    local.say(&modern_call(2));
    assert_eq!(server.request().await.body, modern_call(2), "nothing else came before");
}

#[tokio::test]
async fn a_connection_that_is_half_closed_or_reset_loses_its_request() {
    for is_reset in [false, true] {
        for has_head in [false, true] {
            let server = RawServer::new().await;
            let mut local = Local::to(&server.url());
            local.say(&modern_call(1));
            let mut post = server.request().await;
            if has_head {
                post.stream().await;
                post.event(&progress(1)).await;
                local.hear().await;
            }
            if is_reset {
                sockopt::set_socket_linger(&post.stream, Some(Duration::ZERO)).unwrap();
                drop(post);
            } else {
                use tokio::io::AsyncWriteExt;
                post.stream.shutdown().await.unwrap();
                post.closed().await;
            }
            let heard = local.hear().await;
            assert_eq!((&heard["id"], &heard["error"]["code"]), (&json!(1), &json!(-31002)));
            assert_eq!(heard["error"]["data"]["mayHaveRun"], true, "{heard}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be() {
    let url = RawServer::new().await.url();
    let mut local = Local::to(&url);
    local.say(&initialize(LEGACY));
    let heard = local.hear().await;
    let text = heard["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("cannot reach http://127.0.0.1:") && text.contains("refused"), "{text}");
    assert_eq!(heard["error"]["data"]["mayHaveRun"], false);
}

#[tokio::test]
async fn a_connection_that_does_not_open_is_given_up() {
    let server = RawServer::new().await;
    let connect =
        ConnectConfig { patience: Duration::from_millis(50), ..through(&format!("http://{}", server.address())) };
    let config = HttpClientConfig::new("https://mcp.test/mcp").unwrap();
    let mut local = Local(HttpTransport::new(config, connect).unwrap());
    local.say(&modern_call(1));
    let heard = local.hear().await;
    let text = heard["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("cannot reach https://mcp.test: "), "{text}");
}

#[tokio::test]
async fn dropping_the_transport_closes_every_connection() {
    let server = RawServer::new().await;
    let mut local = Local::to(&server.url());
    local.say(&modern_call(1));
    local.say(&modern_call(2));
    let (mut silent, mut streaming) = (server.request().await, server.request().await);
    streaming.stream().await;
    drop(local);
    silent.closed().await;
    streaming.closed().await;
}

#[tokio::test]
async fn closing_ends_the_session_and_waits_for_the_server() {
    let server = RawServer::new().await;
    let mut local = Local::to(&server.url());
    local.open_session(&server).await;
    local.say(&call(1));
    let mut post = server.request().await;
    let serve = async {
        let delete = server.request().await;
        assert!(delete.line.starts_with("DELETE "));
        assert_eq!(delete.headers["mcp-session-id"], "s1");
        delete.respond("204 No Content", "", "").await;
    };
    tokio::join!(local.close(), serve);
    post.closed().await;
}

#[tokio::test]
async fn a_redirect_takes_no_secret_along() {
    let (server, other) = (RawServer::new().await, RawServer::new().await);
    let config = HttpClientConfig::new(&server.url()).unwrap().header("Authorization: Bearer t").unwrap();
    let mut local = Local::with(config);
    local.say(&modern_call(1));
    let post = server.request().await;
    assert_eq!(post.headers["authorization"], "Bearer t");
    post.respond("307 Temporary Redirect", &format!("location: {}\r\n", other.url()), "").await;
    let post = other.request().await;
    assert_eq!((post.headers.get("authorization"), &*post.body), (None, &*modern_call(1)));
    post.respond_json(&result(1)).await;
    assert_eq!(local.hear().await, result(1));
}

fn through(proxy: &str) -> ConnectConfig {
    ConnectConfig { proxy: Proxy::Through(proxy.to_owned()), ..ConnectConfig::default() }
}

#[tokio::test]
async fn a_proxy_is_told_where_to_go_and_by_whom() {
    let proxy = RawServer::new().await;
    let connect = through(&format!("http://Aladdin:opensesame@{}", proxy.address()));
    let config = HttpClientConfig::new("http://mcp.test/mcp").unwrap();
    let mut local = Local(HttpTransport::new(config, connect.clone()).unwrap());
    local.say(&modern_call(1));
    let post = proxy.request().await;
    assert_eq!(post.line, "POST http://mcp.test/mcp HTTP/1.1");
    assert_eq!(
        (&*post.headers["host"], &*post.headers["proxy-authorization"]),
        ("mcp.test", "Basic QWxhZGRpbjpvcGVuc2VzYW1l")
    );
    post.respond_json(&result(1)).await;
    assert_eq!(local.hear().await, result(1));
    // Over TLS it only leads there.
    #[cfg(feature = "tls")]
    {
        let config = HttpClientConfig::new("https://mcp.test/mcp").unwrap();
        let mut local = Local(HttpTransport::new(config, connect).unwrap());
        local.say(&modern_call(1));
        let post = proxy.request().await;
        assert_eq!(post.line, "CONNECT mcp.test:443 HTTP/1.1");
        assert_eq!(post.headers["proxy-authorization"], "Basic QWxhZGRpbjpvcGVuc2VzYW1l");
        post.respond("407 Proxy Authentication Required", "", "").await;
        let heard = local.hear().await;
        let text = heard["error"]["message"].as_str().unwrap();
        assert!(text.starts_with("cannot reach https://mcp.test: ") && text.contains("proxy"), "{text}");
    }
}

#[tokio::test]
async fn what_is_on_this_machine_needs_no_proxy() {
    let (server, proxy) = (RawServer::new().await, RawServer::new().await);
    let config = HttpClientConfig::new(&server.url()).unwrap();
    let mut local = Local(HttpTransport::new(config, through(&format!("http://{}", proxy.address()))).unwrap());
    local.say(&modern_call(1));
    assert_eq!(server.request().await.line, "POST /mcp HTTP/1.1");
}

#[tokio::test]
async fn a_local_client_that_does_not_read_stops_the_server() {
    use tokio::io::AsyncWriteExt;

    let server = RawServer::new().await;
    let mut config = HttpClientConfig::new(&server.url()).unwrap();
    config.max_unread = 64 << 10;
    let mut local = Local::with(config);
    local.say(&modern_call(1));
    let mut post = server.request().await;
    post.stream().await;
    let message = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "y".repeat(16 << 10)}});
    let event = format!("data: {message}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let mut sent = 0_usize;
    // As long as buffers take it; far less than this fits into them.
    let (all, stop) = (4_096, Duration::from_millis(300));
    while sent < all && tokio::time::timeout(stop, post.stream.write_all(chunk.as_bytes())).await.is_ok() {
        sent += 1;
    }
    assert!(sent < all, "nothing stopped the server");
    // A cancel still goes through.
    local.say(&modern_call(2));
    local.say(&cancel(2));
    for _ in 0..sent {
        assert_eq!(local.hear().await["method"], "notifications/x");
    }
}
