//! Raw frames against SDK servers: what no SDK client can be made to send.

use serde_json::json;

use super::parts::{Client, Server};
use super::play::Scenario;

const SERVERS: [(&str, Server); 4] = [
    ("mcp", Server::McpTypeScript),
    ("mcp", Server::McpPython),
    ("acp", Server::AcpTypeScript),
    ("lsp", Server::VscodeJsonrpc),
];

/// Some of these servers take 0 for no id, or 5 for "5": through the shim they never see two such ids.
#[test]
fn cancels_of_0_and_5_and_the_text_5_hit_exactly_their_own() {
    for (protocol, server) in SERVERS {
        let Some(story) = Scenario::new("ids", Client::Raw(protocol), server).play() else {
            continue;
        };
        let ids = [json!(0), json!(5), json!("5")];
        for (id, (cancelled, stopped)) in ids.iter().zip(story.hits()) {
            assert_eq!(id, cancelled);
            assert_eq!(*stopped, json!([id]), "{story:?}");
        }
        let answers: Vec<_> = story.answers().into_iter().map(|(id, code)| json!([id, code])).collect();
        let expected = match protocol {
            "mcp" => Vec::new(),
            _ => ids.iter().map(|id| json!([id, -32800])).collect(),
        };
        assert_eq!(answers, expected, "{story:?}");
    }
}

#[test]
fn a_request_and_its_cancel_in_one_write_leave_no_work_running() {
    for (protocol, server) in SERVERS {
        let Some(story) = Scenario::new("same-write", Client::Raw(protocol), server).play() else {
            continue;
        };
        assert_eq!(story.running(), Vec::<&str>::new(), "{story:?}");
        assert_eq!(story.works(), Vec::<&str>::new(), "{story:?}");
        assert_eq!(story.recording().outcomes(), ["never_sent"], "{story:?}");
    }
}

/// Sticky cancels (D9): without the shim every SDK runs the request.
#[test]
fn a_cancel_that_overtook_its_request_still_cancels_it() {
    for (protocol, server) in SERVERS {
        let Some(story) = Scenario::new("cancel-first", Client::Raw(protocol), server).play() else {
            continue;
        };
        assert_eq!(story.running(), Vec::<&str>::new(), "{story:?}");
        assert_eq!(story.works(), Vec::<&str>::new(), "{story:?}");
        assert_eq!(story.recording().outcomes(), ["never_sent"], "{story:?}");
    }
}
