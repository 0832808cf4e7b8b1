//! server-everything, whose long operation ignores cancels: the recording shows what the client no longer hears.

use crate::expect::nothing_is_stray_or_missed;
use crate::parts::{Client, Server};
use crate::play::Scenario;

#[test]
fn server_everything_works_on_and_the_client_sees_nothing_more_of_it() {
    for client in [Client::McpTypeScript, Client::McpPython] {
        let Some(story) = Scenario::new("everything", client, Server::Everything).play() else {
            continue;
        };
        assert_eq!(story.outcomes("A").len(), 1, "{story:?}");
        assert_eq!(story.late_progress("A"), 0, "{story:?}");
        nothing_is_stray_or_missed(&story);
        assert_eq!(story.outcomes("C"), ["result Echo: still here"]);
    }
}
