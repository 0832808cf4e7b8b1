//! Over TLS, and HTTP/2 where the server offers it.

use std::{convert::Infallible, sync::Arc};

use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rescind_http::{
    client::HttpClientConfig,
    shell::client::{ConnectConfig, HttpTransport},
};
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::TlsAcceptor;

use crate::{
    raw_server::{Local, direct, in_time},
    rig::{call, cancel, modern_call, result},
};

/// What the server has seen.
#[derive(Debug)]
enum Seen {
    Connection,
    Request(Version, String),
    /// A request whose client is gone.
    Dropped,
}

/// Tells when it is dropped.
struct OnDrop(mpsc::UnboundedSender<Seen>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(Seen::Dropped);
    }
}

/// A server that answers each request but those whose id is 1, and what its clients trust.
async fn serve(offers_h2: bool) -> (String, ClientConfig, mpsc::UnboundedReceiver<Seen>) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = || Arc::new(ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = if offers_h2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { Vec::new() };
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
    let (seen, sees) = mpsc::unbounded_channel();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, seen) = (acceptor.clone(), seen.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let _ = seen.send(Seen::Connection);
                let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let service = service_fn(move |request| answer(request, seen.clone()));
                let io = TokioIo::new(stream);
                if is_h2 {
                    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    // As few at once as may be.
                    server.max_concurrent_streams(1);
                    let _ = server.serve_connection(io, service).await;
                } else {
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                }
            });
        }
    });
    (url, client, sees)
}

async fn answer(
    request: Request<Incoming>,
    seen: mpsc::UnboundedSender<Seen>,
) -> Result<Response<BoxBody<bytes::Bytes, Infallible>>, Infallible> {
    let version = request.version();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    seen.send(Seen::Request(version, body["id"].to_string())).unwrap();
    if body["id"] == 1 {
        let _dropped = OnDrop(seen);
        std::future::pending::<()>().await;
    }
    let body = Full::from(result(body["id"].clone()).to_string()).boxed();
    Ok(Response::builder().header("content-type", "application/json").body(body).unwrap())
}

#[tokio::test]
async fn over_http_2_a_cancel_resets_its_stream_and_leaves_the_connection() {
    let (url, tls, mut sees) = serve(true).await;
    let connect = ConnectConfig { tls: Some(tls), ..direct() };
    let mut local = Local(HttpTransport::new(HttpClientConfig::new(&url).unwrap(), connect).unwrap());
    local.say(&modern_call(1));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Connection)));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Request(Version::HTTP_2, id)) if id == "1"));
    local.say(&cancel(1));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Dropped)));
    for id in 2..5 {
        local.say(&modern_call(id));
        assert!(matches!(in_time(sees.recv()).await, Some(Seen::Request(Version::HTTP_2, _))), "no new connection");
        assert_eq!(local.hear().await, result(id));
    }
}

#[tokio::test]
async fn a_server_without_http_2_is_spoken_to_as_it_can() {
    let (url, tls, mut sees) = serve(false).await;
    let connect = ConnectConfig { tls: Some(tls), ..direct() };
    let mut local = Local(HttpTransport::new(HttpClientConfig::new(&url).unwrap(), connect).unwrap());
    local.say(&modern_call(1));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Connection)));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Request(Version::HTTP_11, _))));
    local.say(&cancel(1));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Dropped)));
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_spoken_to() {
    let (url, _, _sees) = serve(true).await;
    let mut local = Local(HttpTransport::new(HttpClientConfig::new(&url).unwrap(), direct()).unwrap());
    local.say(&modern_call(1));
    let heard = local.hear().await;
    let text = heard["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("cannot reach https://localhost:") && text.contains("certificate"), "{text}");
    assert_eq!(heard["error"]["data"]["mayHaveRun"], false);
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_its_request_where_a_connection_carries_only_one() {
    let (url, tls, mut sees) = serve(true).await;
    let connect = ConnectConfig { tls: Some(tls), ..direct() };
    let mut local = Local(HttpTransport::new(HttpClientConfig::new(&url).unwrap(), connect).unwrap());
    local.say(&call(1));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Connection)));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Request(_, id)) if id == "1"));
    local.say(&cancel(1));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Connection)));
    assert!(matches!(in_time(sees.recv()).await, Some(Seen::Request(_, id)) if id == "null"));
}
