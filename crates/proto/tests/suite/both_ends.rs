//! Both ends of a relay in the test's hands: messages that pass, and those that are the relay's own.

use rescind_proto::{relay::RelayConfig, side::Side};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::Value;

/// The message goes to the other side as it is, and nothing comes back.
#[track_caller]
pub(crate) fn passes(rig: &mut RelayRig, from: Side, message: &str) {
    rig.send(from, message);
    assert_eq!(rig.read(from.other()), [message], "{message}");
    assert_eq!(rig.read(from), [""; 0], "{message}");
}

/// The client's message passes.
#[track_caller]
pub(crate) fn client(rig: &mut RelayRig, message: &Value) {
    passes(rig, Side::Client, &message.to_string());
}

/// The server's message passes.
#[track_caller]
pub(crate) fn server(rig: &mut RelayRig, message: &Value) {
    passes(rig, Side::Server, &message.to_string());
}

/// What waits for the server.
pub(crate) fn sent(rig: &mut RelayRig) -> Vec<Value> {
    rig.at_server().iter().map(|message| serde_json::from_str(message).expect("it is JSON")).collect()
}

/// The one message of the relay's own that waits for the server: method, id and params.
#[track_caller]
pub(crate) fn own_request(rig: &mut RelayRig) -> (String, Value, Value) {
    let found = sent(rig);
    let [message] = &found[..] else { panic!("{found:?}") };
    let has_version = message.get("jsonrpc").is_some();
    assert_eq!(
        has_version,
        rig.relay.dialect(Side::Server).threads.is_none(),
        "no message of Codex has one: {message}"
    );
    (message["method"].as_str().expect("it has a method").to_owned(), message["id"].clone(), message["params"].clone())
}

/// The server answers a request of the relay's own, which no one else is to see.
#[track_caller]
pub(crate) fn answer_own(rig: &mut RelayRig, message: &Value) {
    rig.from_server(&message.to_string());
    assert_eq!(rig.at_client(), [""; 0], "the answer goes no further");
}

/// A client and an agent of ACP that speak this version, after their handshake; the client has declared this, too.
pub(crate) fn greeted(version: &str, declared: &str, config: RelayConfig) -> RelayRig {
    let mut rig = RelayRig::new(config);
    let params = format!(r#"{{"protocolVersion":{version}{declared}}}"#);
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#));
    rig.at_server();
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":{version}}}}}"#));
    rig.at_client();
    rig
}

/// A request about a session; `id` is JSON.
pub(crate) fn request(id: &str, method: &str, session: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"sessionId":"{session}"}}}}"#)
}

/// A result; `id` and `result` are JSON.
pub(crate) fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The cancel of a session.
pub(crate) fn cancel(session: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{session}"}}}}"#)
}
