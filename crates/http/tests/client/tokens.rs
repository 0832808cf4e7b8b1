//! A client of the library whose server wants a sign-in: the short way.

use std::{fs, path::PathBuf, process};

use http::Uri;
use rescind::{mcp::Client, peer::Peer};
use rescind_http::{client::HttpClientConfig, shell::client::HttpTransport};
use rescind_sign_in::{Invitation, Vault};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    raw_server::{RawRequest, RawServer, in_time},
    rig::modern,
};

const JSON: &str = "content-type: application/json\r\nconnection: close\r\n";

/// Answers one request, as a server of MCP and as its issuer.
async fn answer(origin: &str, request: RawRequest) {
    let line = request.line.clone();
    let path = line.split(' ').nth(1).unwrap();
    let has_token = request.headers.get("authorization").is_some_and(|value| value == "Bearer given");
    let ok = match path {
        "/.well-known/oauth-protected-resource/mcp" => {
            json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]})
        }
        "/.well-known/oauth-authorization-server" => json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }),
        "/register" => json!({"client_id": "c", "redirect_uris": ["http://127.0.0.1/callback"]}),
        "/token" if request.body.contains("code=allowed") => json!({"access_token": "given", "token_type": "Bearer"}),
        "/mcp" if has_token => {
            let id = serde_json::from_str::<Value>(&request.body).unwrap()["id"].clone();
            json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
        }
        "/mcp" => {
            let challenge = format!("www-authenticate: Bearer resource_metadata=\"{origin}{META}\"\r\n");
            drop(request.respond("401 Unauthorized", &format!("{challenge}connection: close\r\n"), "").await);
            return;
        }
        _ => return drop(request.respond("404 Not Found", "connection: close\r\n", "").await),
    };
    drop(request.respond("200 OK", JSON, &ok.to_string()).await);
}

const META: &str = "/.well-known/oauth-protected-resource/mcp";

/// A browser whose person agrees at once: it goes back to where the page says.
async fn agree(page: String) {
    let page: Uri = page.parse().unwrap();
    let member = |name: &str| {
        let pairs = page.query().unwrap().split('&').filter_map(|pair| pair.split_once('='));
        pairs.clone().find(|(found, _)| *found == name).unwrap().1.to_owned()
    };
    let back: Uri = member("redirect_uri").replace("%3A", ":").replace("%2F", "/").parse().unwrap();
    let mut socket = TcpStream::connect(back.authority().unwrap().as_str()).await.unwrap();
    let target = format!("{}?code=allowed&state={}", back.path(), member("state"));
    socket.write_all(format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut rest).await;
}

#[tokio::test]
async fn a_client_signs_in_where_its_server_wants_it_and_is_signed_in_the_next_time() {
    let server = RawServer::new().await;
    let (url, origin) = (server.url(), format!("http://{}", server.address()));
    tokio::spawn(async move {
        loop {
            answer(&origin, server.request().await).await;
        }
    });
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sign-ins-{}", process::id()));
    let call = async |peer: &Peer| -> Result<Value, _> {
        let request: Value = serde_json::from_str(&modern(1, "tools/call", &json!({"name": "work"}))).unwrap();
        in_time(peer.request("tools/call", &request["params"])).await
    };
    for expected in [1, 0] {
        let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
        let person = move |invitation: &Invitation| {
            let Invitation::Page { url, .. } = invitation else { panic!("{invitation:?}") };
            asked.send(()).unwrap();
            tokio::spawn(agree(url.clone()));
        };
        let config = HttpClientConfig::new(&url).unwrap();
        let transport = HttpTransport::signing_in(config, Vault::new(folder.clone()), person).unwrap();
        let (peer, driver) = Client::peer_builder().connect(transport);
        driver.spawn();
        assert_eq!(call(&peer).await.unwrap(), json!({"content": []}));
        assert_eq!(std::iter::from_fn(|| asks.try_recv().ok()).count(), expected, "how often a person was asked");
    }
    fs::remove_dir_all(folder).unwrap();
}
