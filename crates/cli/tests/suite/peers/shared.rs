//! Real SDKs through `rescind run --shared`, in both eras: the Stop of a client stops the work in a process that is not its
//! own.

use super::{
    expect::settled_once_and_the_session_goes_on,
    parts::{Client, Server},
    play::Scenario,
};

/// Each run has marks of its own, and so a server of its own.
const SHARED: &[&str] = &["--shared", "peer", "--shared-env", "RESCIND_MARKS", "--shared-env", "RESCIND_PATIENCE_MS"];

#[test]
fn a_cancel_stops_the_work_of_a_shared_server_and_the_session_goes_on() {
    for (client, server) in [
        (Client::McpTypeScript, Server::McpTypeScript),
        (Client::McpPythonLegacy, Server::McpPython),
        (Client::McpPython, Server::McpPython),
    ] {
        let Some(story) = Scenario::new("cancel-in-flight", client, server).with(SHARED).play() else { continue };
        assert_eq!(story.events("A"), ["started", "stopped"]);
        settled_once_and_the_session_goes_on(&story, "");
    }
}
