//! Partial results through a relay (LSP-04): a report of the work, as progress is.

use core::time::Duration;

use rescind_proto::{
    dialect::lsp,
    framing::Framing,
    link::{Clock, LateKind},
    relay::{ClockRule, RelayConfig, RelayEvent},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"workspace/symbol","params":{"query":"","workDoneToken":"w","partialResultToken":"p"}}"#;
const PARTIAL: &str = r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"p","value":[{"name":"a"}]}}"#;
const REPORT: &str =
    r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"w","value":{"kind":"report","percentage":40}}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;

fn rig(clocks: Vec<ClockRule>) -> RelayRig {
    let dialects = Sides { client: Some(&lsp::LSP), server: Some(&lsp::LSP) };
    RelayRig::new(RelayConfig { dialects, clocks, framing: Some(Framing::Headers), ..RelayConfig::default() })
}

#[test]
fn no_partial_result_reaches_a_client_whose_request_is_over() {
    let mut rig = rig(Vec::new());
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(PARTIAL);
    assert_eq!(rig.at_client(), [PARTIAL]);
    rig.from_client(CANCEL);
    rig.at_server();
    rig.from_server(PARTIAL);
    assert_eq!(rig.at_client(), [PARTIAL], "until the answer they may be used (LSP-04)");
    rig.from_server(CANCELLED);
    assert_eq!(rig.at_client(), [CANCELLED]);
    for _ in 0..54 {
        rig.from_server(PARTIAL);
    }
    assert_eq!(rig.at_client(), [""; 0]);
    let late = |event: &&RelayEvent| matches!(event, RelayEvent::Late { what: LateKind::Progress, .. });
    assert_eq!(rig.events.iter().filter(late).count(), 54);
}

#[test]
fn partial_results_reset_the_response_clock() {
    let limit = Duration::from_secs(1);
    let mut rig = rig(vec![ClockRule { clock: Clock::Response, method: None, name: None, limit }]);
    rig.from_client(CALL);
    rig.at_server();
    for _ in 0..50 {
        rig.pass(Duration::from_millis(900));
        rig.from_server(PARTIAL);
    }
    assert_eq!(rig.at_client(), [PARTIAL; 50]);
    rig.pass(limit);
    assert!(rig.at_client()[0].contains("-31001"));
}

#[test]
fn partial_results_are_signs_of_work_that_say_nothing_of_how_far_it_is() {
    let mut rig = rig(Vec::new());
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(REPORT);
    rig.pass(Duration::from_secs(1));
    rig.from_server(PARTIAL);
    let view = rig.relay.requests(Side::Client).next().expect("it is in flight");
    let progress = view.progress.expect("it has reported");
    assert_eq!((progress.count, progress.reading.and_then(|reading| reading.done)), (2, Some(40.0)));
}

#[test]
fn both_tokens_are_forgotten_with_their_request() {
    let mut rig = rig(Vec::new());
    for id in 0..100 {
        rig.from_client(&CALL.replace("\"id\":1", &format!("\"id\":{id}")).replace("\"p\"", &format!("\"p{id}\"")));
        let call = rig.at_server().remove(0);
        let upstream = call.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("it has an id");
        rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{upstream},"result":[]}}"#));
        rig.at_client();
    }
    rig.pass(Duration::from_secs(600));
    assert_eq!(rig.relay.residue(), 0);
}
