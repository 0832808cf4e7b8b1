//! Every bound of the settings: what is refused beyond it, and that what is held stays below.

use rescind_http::server::HttpServerConfig;

use crate::rig::*;

#[test]
fn a_batch_does_not_pass_the_bound_of_requests_in_flight() {
    let mut rig = Rig::with(HttpServerConfig { max_in_flight: 2, ..config() });
    let client = rig.session("2025-03-26");
    let key = rig.post_to(&client, &format!("[{},{},{}]", call("1"), call("2"), call("3")));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (503, -31004));
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.post_to(&client, &format!("[{},{}]", call("1"), call("2")));
    assert_eq!(rig.at(client.link), [call("1"), call("2")]);
    rig.leaves_nothing();
}
