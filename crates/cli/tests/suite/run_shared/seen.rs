//! What an operator sees of sessions that share a server, and does about them.

use rescind_testkit::puppet::Sharing;

use super::{Sharer, accept, ends::holder, open, stopped};
use crate::{operator::say, shim::error_of};

fn named(client: &str) -> [String; 2] {
    ["--name=tools".to_owned(), format!("--client-name={client}")]
}

fn two(sharing: &Sharing) -> (Vec<Sharer>, rescind_testkit::puppet::Server) {
    let [one, other] = [named("cursor"), named("zed")];
    let flags = [&one, &other].map(|names| names.each_ref().map(String::as_str));
    open(sharing, &[&flags[0], &flags[1]])
}

#[test]
fn sessions_are_listed_with_their_clients_and_the_server_as_what_it_is() {
    let sharing = Sharing::new();
    let (_sharers, _server) = two(&sharing);
    let said = say(&sharing.sockets, &["ps", "--sessions"]);
    let lines: Vec<&str> = said.stdout.lines().filter(|line| line.contains("tools")).collect();
    assert_eq!(lines.len(), 3, "{}", said.stdout);
    for client in ["cursor", "zed"] {
        let line = lines.iter().find(|line| line.contains(client)).unwrap();
        assert!(line.contains("idle, shares its server"), "{line}");
    }
    let own = lines.iter().find(|line| !line.contains("cursor") && !line.contains("zed")).unwrap();
    assert!(own.contains("idle, shared, 2 sessions"), "{own}");
}

#[test]
fn a_stop_of_one_session_stops_its_requests_only() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = two(&sharing);
    let known: Vec<String> = sharers.iter_mut().map(|one| one.call(&mut server, "x")).collect();
    let said = say(&sharing.sockets, &["stop", "--session", "cursor:tools", "--within", "100ms"]);
    assert!(said.stdout.contains(&sharers[0].shim.id.to_string()), "{said:?}");
    assert!(!said.stdout.contains(&sharers[1].shim.id.to_string()), "{said:?}");
    assert_eq!(stopped(&mut server), known[0]);
    server.send(&super::result(&known[1], "{}"));
    sharers[1].client.expect(&super::result("1", "{}"));
}

#[test]
fn the_end_of_one_session_is_refused_and_that_of_the_server_is_for_all() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = two(&sharing);
    let number = sharers[0].shim.id.to_string();
    let own = holder(&sharing).name;
    let said = say(&sharing.sockets, &["end", &number, "--yes"]);
    let expected = format!(
        "error: {number}: its server is shared, and ends when the last session has left it\nhint: `rescind end {own}` ends \
         it for all who share it\n"
    );
    assert_eq!((&*said.stderr, said.code), (&*expected, 2));
    sharers[1].call(&mut server, "x");
    server.puppet.survive(rustix::process::Signal::TERM.as_raw());
    let said = say(&sharing.sockets, &["end", &own, "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.starts_with(&format!("{own}: ended")), "{said:?}");
    let error = error_of(&sharers[1].client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    // The next call of each starts it anew.
    let asked = super::request("3", "resources/list");
    sharers[0].client.send(&asked);
    let mut server = accept(&sharing);
    let asked = server.receive();
    server.send(&super::result(&super::id_of(&asked), "{}"));
    sharers[0].client.expect(&super::result("3", "{}"));
}
