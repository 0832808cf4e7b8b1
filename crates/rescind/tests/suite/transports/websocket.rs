//! What only a WebSocket has: kinds of frames, fragments, a handshake at each end.

use rescind::peer::{CallError, CauseCode, ErrorObject, Params, Peer, dialect::mcp, filter::Pass, transport};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

use crate::{
    rig::{builder, cancel, request, result, secs, watch, with_work},
    transports::link::{self, Kind, Op, Raw, serve},
};

fn server() -> rescind::peer::Builder {
    builder(&mcp::LATEST_LEGACY)
        .on_request("echo", |Params(params): Params<Box<RawValue>>| async move { Ok::<_, ErrorObject>(params) })
}

fn close(code: u16) -> Vec<u8> {
    code.to_be_bytes().to_vec()
}

#[tokio::test]
async fn a_binary_message_is_refused_and_the_connection_goes_on() {
    let (mut seen, witness) = watch();
    let (mut raw, _served) = serve(Kind::WebSocket, with_work(server(), &witness)).await;
    raw.say(&request(1, "work", json!({}))).await;
    seen.started(1).await;
    raw.say_frame(Op::Binary, request(2, "echo", json!({})).to_string().as_bytes(), true).await;
    let refusal = raw.hear().await;
    assert_eq!(refusal["error"]["code"], -32700);
    assert!(refusal.get("id").is_none_or(Value::is_null), "it answers no request");
    raw.say(&request(3, "echo", json!({}))).await;
    assert_eq!(raw.hear().await["id"], 3);
    assert!(seen.is_quiet(), "the neighbour goes on");
}

/// Case 8.
#[tokio::test]
async fn filters_see_each_message_and_a_cancel_that_they_keep_back_stops_nothing() {
    let (mut seen, witness) = watch();
    let filtered = with_work(server(), &witness)
        .incoming(|message| match message.method().as_deref() {
            Some("notifications/cancelled" | "secret") => Pass::Vetoed,
            _ => Pass::Unchanged,
        })
        .outgoing(|message| Pass::Rewritten(String::from_utf8_lossy(message.json()).replace("odd", "even").into()));
    let (mut raw, _served) = serve(Kind::WebSocket, filtered).await;
    raw.say(&request(1, "work", json!({}))).await;
    seen.started(1).await;
    raw.say(&cancel(&mcp::LATEST_LEGACY, 1)).await;
    raw.say(&request(2, "secret", json!({}))).await;
    assert_eq!(raw.hear().await["error"]["code"], -32600);
    raw.say_frame(Op::Binary, b"{}", true).await;
    assert_eq!(raw.hear().await["error"]["code"], -32700);
    raw.say(&request(3, "echo", json!({ "number": "odd" }))).await;
    assert_eq!(raw.hear().await, result(&json!(3), json!({ "number": "even" })));
    assert!(seen.is_quiet(), "the work goes on");
}

#[tokio::test]
async fn a_ping_is_answered_within_a_message_too() {
    let (mut raw, _served) = serve(Kind::WebSocket, server()).await;
    let text = request(1, "echo", json!({})).to_string();
    let (first, second) = text.as_bytes().split_at(10);
    raw.say_frame(Op::Text, first, false).await;
    raw.say_frame(Op::Ping, b"alive?", true).await;
    assert_eq!(raw.hear_frame().await, (Op::Pong, b"alive?".to_vec()));
    raw.say_frame(Op::Continued, second, true).await;
    assert_eq!(raw.hear().await, result(&json!(1), json!({})));
}

#[tokio::test]
async fn line_breaks_within_a_message_are_white_space() {
    let (mut raw, _served) = serve(Kind::WebSocket, server()).await;
    let text = "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"echo\",\"params\":{\n\"a\": [1,\n2]}}\n";
    raw.say_frame(Op::Text, text.as_bytes(), true).await;
    assert_eq!(raw.hear().await, result(&json!(1), json!({ "a": [1, 2] })));
}

#[tokio::test]
async fn what_is_no_json_is_answered_and_empty_messages_too() {
    let (mut raw, _served) = serve(Kind::WebSocket, server()).await;
    for text in ["hello", "", "{"] {
        raw.say_frame(Op::Text, text.as_bytes(), true).await;
        assert_eq!(raw.hear().await["error"]["code"], -32700, "{text}");
    }
    raw.say(&request(1, "echo", json!({}))).await;
    assert_eq!(raw.hear().await["id"], 1);
}

#[tokio::test]
async fn a_close_stops_the_work_and_is_answered() {
    let (mut seen, witness) = watch();
    let (mut raw, served) = serve(Kind::WebSocket, with_work(server(), &witness)).await;
    raw.say(&request(1, "work", json!({}))).await;
    seen.started(1).await;
    raw.say_frame(Op::Close, &close(1000), true).await;
    assert_eq!(raw.hear_frame().await, (Op::Close, close(1000)));
    seen.stopped(1, CauseCode::Disconnect).await;
    assert_eq!(raw.rest().await, b"");
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_in_flight_end_when_the_server_closes_and_say_why() {
    let (mut raw, transport) = link::connect(Kind::WebSocket).await;
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(transport);
    let driven = driver.spawn();
    let call = tokio::spawn(peer.request::<Value>("work", &json!({})));
    raw.hear().await;
    raw.say_frame(Op::Close, &[&close(1012)[..], b"restart\x1b"].concat(), true).await;
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed)));
    let error = driven.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "the peer closed with code 1012: restart\u{fffd}");
}

#[tokio::test]
async fn an_ordered_end_says_goodbye_and_waits_for_the_answer() {
    let (mut raw, transport) = link::connect(Kind::WebSocket).await;
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(transport);
    let driven = driver.spawn();
    drop(peer);
    assert_eq!(raw.hear_frame().await.0, Op::Close);
    assert!(!driven.is_finished());
    raw.say_frame(Op::Close, &close(1000), true).await;
    driven.await.unwrap().unwrap();
    assert_eq!(raw.rest().await, b"");
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_that_nobody_answers_is_not_waited_for_longer_than_the_linger() {
    let (raw, transport) = link::connect(Kind::WebSocket).await;
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).linger(secs(2)).connect(transport);
    let start = tokio::time::Instant::now();
    drop(peer);
    driver.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 2);
    drop(raw);
}

#[tokio::test]
async fn a_message_over_the_limit_closes_with_code_1009() {
    for fragments in [1, 4] {
        let (mut seen, witness) = watch();
        let (mut raw, served) = serve(Kind::WebSocket, with_work(server(), &witness).max_message(1000)).await;
        raw.say(&request(1, "work", json!({}))).await;
        seen.started(1).await;
        let part = vec![b' '; 2000 / fragments];
        for at in 0..fragments {
            let op = if at == 0 { Op::Text } else { Op::Continued };
            raw.say_frame(op, &part, at + 1 == fragments).await;
        }
        let (op, payload) = raw.hear_frame().await;
        assert_eq!((op, &payload[..2]), (Op::Close, &close(1009)[..]), "in {fragments}");
        assert_eq!(String::from_utf8_lossy(&payload[2..]), "max length: 1000");
        seen.stopped(1, CauseCode::Disconnect).await;
        let _ = raw.stream.shutdown().await;
        drop(raw);
        served.await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn a_page_of_a_browser_is_turned_away_unless_its_origin_is_allowed() {
    let listener = transport::Listener::websocket("127.0.0.1:0").await.unwrap().allow_origin("https://ours.example");
    let address = listener.address().unwrap();
    tokio::spawn(listener.serve(server));
    let page = async |origin| {
        let mut raw = Raw::client(TcpStream::connect(address).await.unwrap());
        raw.open(Some(origin)).await;
        raw.say(&request(1, "echo", json!({}))).await;
        raw.hear_frame().await
    };
    let (op, payload) = page("https://evil.example").await;
    assert_eq!((op, &payload[..2]), (Op::Close, &close(1008)[..]));
    assert_eq!(page("https://ours.example").await.0, Op::Text);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_open_is_not_waited_for_and_holds_nobody_up() {
    let listener = transport::Listener::websocket("127.0.0.1:0").await.unwrap();
    let address = listener.address().unwrap();
    tokio::spawn(listener.serve(server));
    let mut silent = Raw::client(TcpStream::connect(address).await.unwrap());
    let mut endless = Raw::client(TcpStream::connect(address).await.unwrap());
    let (peer, driver) =
        Peer::builder(&mcp::LATEST_LEGACY).connect(transport::websocket(&format!("ws://{address}")).await.unwrap());
    driver.spawn();
    peer.request::<Value>("ping", &()).await.unwrap();
    let start = tokio::time::Instant::now();
    let endless_head = vec![b'x'; 1 << 20];
    let _ = endless.stream.write_all(b"GET / HTTP/1.1\r\nx: ").await;
    let _ = endless.stream.write_all(&endless_head).await;
    endless.rest().await;
    assert!(start.elapsed() < secs(1), "too much, and not too late");
    assert_eq!(silent.rest().await, b"");
    assert!((secs(9)..secs(11)).contains(&start.elapsed()));
}

#[tokio::test]
async fn what_is_no_websocket_is_said_to_be_none() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").await;
    });
    transport::websocket(&url).await.unwrap_err();
    let error = transport::websocket("wss://localhost/").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
