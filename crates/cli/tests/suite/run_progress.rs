//! Progress through `rescind run`: a client gets none that it could take for unknown (D62).

use rescind_testkit::puppet::Rig;

use crate::shim::{
    PROGRAM,
    words::{expect_alive, greet_mcp, pass_to_client, pass_to_server, progress, request_with, result, with_token},
};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[test]
fn progress_in_one_piece_with_its_answer_does_not_reach_the_client() {
    for revision in REVISIONS {
        let mut rig = Rig::start(PROGRAM);
        greet_mcp(&mut rig, revision);
        pass_to_server(&mut rig, &request_with("1", "tools/call", &with_token("7")));
        pass_to_client(&mut rig, &progress("7", 1));
        rig.server.send_together(&[&progress("7", 2), &progress("7", 3), &result("1", "{}")]);
        rig.client.expect(&result("1", "{}"));
        rig.expect_client_hears_nothing();
        expect_alive(&mut rig);
    }
}

#[test]
fn progress_under_a_token_that_no_request_gave_does_not_reach_the_client() {
    for revision in REVISIONS {
        let mut rig = Rig::builder(PROGRAM).flags(["--log", "warn"]).start();
        greet_mcp(&mut rig, revision);
        pass_to_server(&mut rig, &request_with("1", "tools/call", &with_token("7")));
        for token in ["8", r#""7""#, "null", "7.5"] {
            rig.server.send(&progress(token, 1));
            let logged = rig.shim.stderr.line();
            assert!(logged.contains("MCP-P01"), "{logged}");
        }
        rig.expect_client_hears_nothing();
        pass_to_client(&mut rig, &result("1", "{}"));
        rig.server.send(&progress("7", 1));
        rig.expect_client_hears_nothing();
        expect_alive(&mut rig);
    }
}
