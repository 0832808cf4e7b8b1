//! A client of the library over HTTP, and a server of the library: what becomes of the work is said by the work itself.

use std::future::pending;

use rescind::{
    mcp::{Client, Revision, Server},
    peer::{AnyError, Context},
};
use rescind_http::{
    client::HttpClientConfig,
    server::{HttpServerConfig, Stateless},
    shell::{Endpoint, Listener, ListenerConfig, client::HttpTransport},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc};

use crate::raw_server::{direct, in_time};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    name: String,
}

/// Marks the end of work, however it ends.
struct Working {
    name: String,
    marks: mpsc::UnboundedSender<String>,
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.marks.send(format!("ended {}", self.name));
    }
}

/// The URL of a server, and what its work says.
async fn serve(revision: Revision) -> (String, mpsc::UnboundedReceiver<String>) {
    let (sender, marks) = mpsc::unbounded_channel();
    let describe = move || {
        let sender = sender.clone();
        let work = move |Work { name }, cx: Context| {
            let working = Working { name, marks: sender.clone() };
            async move {
                let _ = working.marks.send(format!("started {}", working.name));
                if working.name.starts_with("endless") {
                    cx.unless_cancelled(pending::<()>()).await?;
                }
                Ok::<_, AnyError>(format!("{} is done", working.name))
            }
        };
        Server::new("worker", "1.0").revisions(&[revision]).tool("work", "Works", work)
    };
    let config = HttpServerConfig { stateless: Stateless::Ask, ..HttpServerConfig::default() };
    let endpoint = Endpoint::new(config);
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    let served = endpoint.clone();
    tokio::spawn(async move { served.serve(describe).await });
    tokio::spawn(Listener::new(socket, endpoint, ListenerConfig::default()).serve(pending()));
    (url, marks)
}

async fn mark(marks: &mut mpsc::UnboundedReceiver<String>) -> String {
    in_time(marks.recv()).await.expect("the server is there")
}

#[tokio::test]
async fn a_client_of_the_library_works_and_stops_over_http_in_both_eras() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let (url, mut marks) = serve(revision).await;
        let transport = HttpTransport::new(HttpClientConfig::new(&url).unwrap(), direct()).unwrap();
        let client = in_time(Client::connect(transport, "test", "1.0")).await.unwrap();
        assert_eq!(client.server().unwrap().revision, revision);
        let done = in_time(client.call_tool("work", &json!({"name": "short"}))).await.unwrap();
        assert!(format!("{done:?}").contains("short is done"));
        assert_eq!([mark(&mut marks).await, mark(&mut marks).await], ["started short", "ended short"]);
        // Dropped, a call stops; another runs on.
        let other = tokio::spawn(client.call_tool("work", &json!({"name": "endless other"})).into_future());
        assert_eq!(mark(&mut marks).await, "started endless other");
        let call = tokio::spawn(client.call_tool("work", &json!({"name": "endless"})).into_future());
        assert_eq!(mark(&mut marks).await, "started endless");
        call.abort();
        assert_eq!(mark(&mut marks).await, "ended endless");
        assert!(!other.is_finished());
        // Closed, the session stops what it has left.
        in_time(client.close()).await;
        assert_eq!(mark(&mut marks).await, "ended endless other");
        other.abort();
    }
}
