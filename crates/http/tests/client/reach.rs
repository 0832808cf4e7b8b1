//! What single requests on behalf of a server reach: nothing on this machine, unless the server is on it.

use std::{
    net::{TcpListener, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use http::{Request, Uri};
use rescind_http::shell::client::{ConnectConfig, Proxy, RequestError, Requests};

use crate::raw_server::{RawServer, direct, in_time};

/// A service of this machine that hangs up on everybody, and counts them.
struct Service {
    port: u16,
    met: Arc<AtomicUsize>,
}

impl Service {
    /// On every address of this machine.
    fn start() -> Self {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let met = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&met);
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        Self { port, met }
    }

    fn met(&self) -> usize {
        self.met.load(Ordering::SeqCst)
    }
}

async fn ask(server: &str, url: &str) -> Result<(), RequestError> {
    let requests = Requests::new(&server.parse().unwrap(), direct()).unwrap();
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = url.parse().unwrap();
    in_time(requests.send(request, 10)).await.map(drop)
}

/// An address of an interface of this machine, if it has one beside loopback. No packet is sent to find it.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().unwrap().ip().to_string())
}

/// Whatever its name looks like: judged is where it leads. Each is tried on behalf of a server of this machine, too: what
/// leads nowhere from here shows nothing.
#[tokio::test]
async fn a_server_elsewhere_leads_nobody_to_this_machine() {
    let service = Service::start();
    let mut hosts: Vec<String> = [
        "127.0.0.1",
        "127.0.0.2",
        "127.1.2.3",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0X7F.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0.0.0.0",
        "0",
        "0.0",
        "0x0",
        "localhost",
        "LocalHost",
        "localhost.",
        "ip6-localhost",
        "a.localhost",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[0::0]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:127.1.2.3]",
        "[::ffff:0.0.0.0]",
    ]
    .map(ToOwned::to_owned)
    .into();
    hosts.extend(own_address());
    let mut led_here = Vec::new();
    for host in hosts {
        let url = format!("http://{host}:{}/", service.port);
        let before = service.met();
        let refused = ask("https://192.0.2.1/mcp", &url).await.unwrap_err().to_string();
        assert_eq!(service.met(), before, "{host}: {refused}");
        let near = ask("https://127.0.0.1/mcp", &url).await.unwrap_err().to_string();
        assert!(!near.contains("leads to this machine"), "{host}: {near}");
        // It had the time to be counted: the service has hung up on the other.
        if service.met() > before {
            assert!(refused.contains("leads to this machine, on which the server is not"), "{host}: {refused}");
            led_here.push(host);
        }
    }
    assert!(led_here.len() >= if cfg!(target_os = "linux") { 20 } else { 1 }, "{led_here:?}");
}

/// A name of this machine is one that leads here.
#[tokio::test]
async fn a_server_of_this_machine_is_known_by_where_its_name_leads() {
    let service = Service::start();
    let url = format!("http://127.0.0.1:{}/", service.port);
    for (server, is_here) in [
        ("http://127.0.0.1:1/mcp", true),
        ("http://[::ffff:127.0.0.1]:1/mcp", true),
        ("http://0.0.0.0:1/mcp", true),
        ("http://localhost:1/mcp", true),
        ("https://192.0.2.1/mcp", false),
        ("https://[2001:db8::1]/mcp", false),
        // It leads nowhere (RFC 6761).
        ("https://mcp.invalid/mcp", false),
    ] {
        let error = ask(server, &url).await.unwrap_err().to_string();
        assert_eq!(!error.contains("leads to this machine"), is_here, "{server}: {error}");
    }
}

/// A proxy on this machine is the person's own choice.
#[tokio::test]
async fn a_proxy_of_this_machine_is_used_for_a_server_elsewhere() {
    for name in ["127.0.0.1", "localhost"] {
        let proxy = RawServer::new().await;
        let through = format!("http://{name}:{}", proxy.address().port());
        let connect = ConnectConfig { proxy: Proxy::Through(through), ..ConnectConfig::default() };
        let server: Uri = "http://192.0.2.1/mcp".parse().unwrap();
        let requests = Requests::new(&server, connect).unwrap();
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = server;
        let answer = async {
            let request = proxy.request().await;
            assert!(request.line.contains("http://192.0.2.1/mcp"), "{}", request.line);
            request.respond("200 OK", "connection: close\r\n", "ok").await;
        };
        let (response, ()) = tokio::join!(in_time(requests.send(request, 10)), answer);
        assert_eq!(response.unwrap().into_body(), "ok");
    }
}
