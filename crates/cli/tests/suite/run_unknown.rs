//! Protocols that are not known here, through `rescind run` (D57): one that resembles Codex's app server, and that of a
//! debug adapter. The test is both ends of each.

use rescind_testkit::puppet::{Framing, Rig};
use serde_json::Value;

use crate::{
    operator::say,
    shim::{
        PROGRAM, error_of,
        words::{pass_to_client, pass_to_server},
    },
};

/// Begins as Codex and its editor do, but for a member of the answer without which it is not Codex.
fn almost_codex(flags: &[&str]) -> Rig {
    let mut rig = Rig::builder(PROGRAM).flags(flags).start();
    let info = r#"{"clientInfo":{"name":"codex_vscode","title":"Codex","version":"0.171.0"},"capabilities":{"experimentalApi":true}}"#;
    pass_to_server(&mut rig, &format!(r#"{{"method":"initialize","id":0,"params":{info}}}"#));
    pass_to_client(&mut rig, r#"{"id":0,"result":{"userAgent":"codex_vscode/0.1.0"}}"#);
    pass_to_server(&mut rig, r#"{"method":"initialized"}"#);
    rig
}

fn begin_turn(rig: &mut Rig) {
    pass_to_server(rig, r#"{"method":"turn/start","id":3,"params":{"threadId":"t","input":[]}}"#);
    pass_to_client(rig, r#"{"id":3,"result":{"turn":{"id":"u","status":"inProgress","items":[]}}}"#);
    pass_to_client(rig, r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#);
}

#[test]
fn a_turn_that_nobody_knows_passes_with_every_id_as_it_is() {
    let mut rig = almost_codex(&[]);
    begin_turn(&mut rig);
    pass_to_client(
        &mut rig,
        r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","turnId":"u"}}"#,
    );
    pass_to_server(&mut rig, r#"{"id":0,"result":{"decision":"accept"}}"#);
    pass_to_client(&mut rig, r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#);
    pass_to_client(&mut rig, r#"{"method":"item/fileChange/requestApproval","id":1,"params":{"threadId":"t"}}"#);
    // A cancel of another protocol is a message as any other: the server is the one to ignore it.
    pass_to_server(&mut rig, r#"{"method":"notifications/cancelled","params":{"requestId":3}}"#);
    pass_to_server(&mut rig, r#"{"method":"$/cancelRequest","params":{"id":3}}"#);
    // An id twice in flight is served twice.
    pass_to_server(&mut rig, r#"{"method":"model/list","id":4,"params":{}}"#);
    pass_to_server(&mut rig, r#"{"method":"model/list","id":4,"params":{}}"#);
    pass_to_client(&mut rig, r#"{"id":4,"result":{"data":[1]}}"#);
    pass_to_client(&mut rig, r#"{"id":4,"result":{"data":[2]}}"#);
    pass_to_server(&mut rig, r#"{"method":"turn/interrupt","id":5,"params":{"threadId":"t","turnId":""}}"#);
    pass_to_client(&mut rig, r#"{"id":5,"result":{}}"#);
    pass_to_client(&mut rig, r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":1}}"#);
    pass_to_client(&mut rig, r#"{"method":"turn/completed","params":{"turn":{"id":"u","status":"interrupted"}}}"#);
}

#[test]
fn a_cancel_that_cannot_be_sent_says_so_and_leaves_the_client_waiting() {
    let mut rig = almost_codex(&["--timeout", "1ms", "--total-timeout", "turn/start=1ms"]);
    pass_to_server(&mut rig, r#"{"method":"turn/start","id":3,"params":{"threadId":"t","input":[]}}"#);
    let said = say(&rig.sockets, &["cancel", "--all", "--yes"]);
    assert_eq!(said.code, 1, "{said:?}");
    let why = "not sent: rescind does not know this protocol; only the end of the server stops the work; the server was \
               not told";
    assert!(said.stdout.contains(why), "{said:?}");
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
    // The work goes on, and its answer arrives.
    pass_to_client(&mut rig, r#"{"id":3,"result":{"turn":{"id":"u"}}}"#);
}

#[test]
fn ps_says_that_the_work_of_an_unknown_protocol_cannot_be_seen() {
    let mut rig = almost_codex(&[]);
    begin_turn(&mut rig);
    let note = "rescind does not know its protocol: what its server works on cannot be seen, and only the end of the \
                server stops it";
    for arguments in [&["ps"][..], &["stop"]] {
        let said = say(&rig.sockets, arguments);
        assert!(said.stderr.contains(note), "{said:?}");
    }
    let said = say(&rig.sockets, &["ps", "--sessions"]);
    assert!(said.stdout.contains("unknown") && said.stdout.contains("cannot be seen"), "{said:?}");
    rig.expect_server_hears_nothing();
}

#[test]
fn the_end_of_its_server_is_what_releases_a_client_of_an_unknown_protocol() {
    let mut rig = almost_codex(&[]);
    pass_to_server(&mut rig, r#"{"method":"turn/start","id":3,"params":{"threadId":"t","input":[]}}"#);
    let said = say(&rig.sockets, &["stop", "--kill"]);
    assert_eq!(said.code, 0, "{said:?}");
    let error = error_of(&rig.client.receive(), "3");
    assert_eq!(error["code"], -31_002, "{error}");
}

#[test]
fn a_debug_adapter_behind_the_shim_is_alive() {
    let mut rig = Rig::start(PROGRAM);
    rig.client.frame(Framing::Headers);
    rig.server.frame(Framing::Headers);
    pass_to_server(
        &mut rig,
        r#"{"seq":1,"type":"request","command":"initialize","arguments":{"adapterID":"lldb","linesStartAt1":true}}"#,
    );
    pass_to_client(
        &mut rig,
        r#"{"seq":1,"type":"response","request_seq":1,"success":true,"command":"initialize","body":{}}"#,
    );
    pass_to_client(&mut rig, r#"{"seq":2,"type":"event","event":"initialized"}"#);
    pass_to_server(&mut rig, r#"{"seq":2,"type":"request","command":"launch","arguments":{"program":"a"}}"#);
    pass_to_client(&mut rig, r#"{"seq":3,"type":"request","command":"runInTerminal","arguments":{"args":["a"]}}"#);
    pass_to_server(
        &mut rig,
        r#"{"seq":3,"type":"response","request_seq":3,"success":true,"command":"runInTerminal","body":{"processId":7}}"#,
    );
    pass_to_server(&mut rig, r#"{"seq":4,"type":"request","command":"cancel","arguments":{"requestId":2}}"#);
    pass_to_server(&mut rig, r#"{"seq":5,"type":"request","command":"disconnect","arguments":{}}"#);
    pass_to_client(&mut rig, r#"{"seq":4,"type":"response","request_seq":5,"success":true,"command":"disconnect"}"#);
}

/// A user who names the protocol, or wants its eras joined, knows which it is.
#[test]
fn a_named_protocol_is_not_taken_for_unknown() {
    let first = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    for (flags, protocol) in [
        (&["--protocol", "mcp"][..], "mcp-2025-11-25"),
        (&["--protocol", "mcp-2025-06-18"], "mcp-2025-06-18"),
        (&["--protocol", "acp-v1"], "acp-v1"),
        (&["--protocol", "unknown"], "unknown"),
        (&[], "unknown"),
    ] {
        let mut rig = Rig::builder(PROGRAM).flags(flags).start();
        pass_to_server(&mut rig, first);
        let said = say(&rig.sockets, &["ps", "--sessions", "--json"]);
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(document["sessions"][0]["session"]["client"]["protocol"], protocol, "{document}");
    }
}
