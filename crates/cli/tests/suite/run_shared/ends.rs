//! How shared servers end, and what is left when something was killed.

use std::{fs, os::unix::net::UnixStream, path::PathBuf};

use rescind_feed::Session;
use rescind_testkit::puppet::Sharing;
use rustix::process::{Pid, Signal, kill_process};

use super::{Sharer, accept, open};
use crate::shim::{admin::Admin, error_of, process::members};

/// What the sessions say of themselves that have not been killed.
pub(super) fn sessions(sharing: &Sharing) -> Vec<Session> {
    let sockets = fs::read_dir(&sharing.sockets).unwrap().map(|entry| entry.unwrap().path());
    let is_served = |path: &PathBuf| UnixStream::connect(path).is_ok();
    let sockets = sockets.filter(|path| path.extension().is_some_and(|suffix| suffix == "sock") && is_served(path));
    sockets.map(|path| Admin(path).get("/v1/session")).collect()
}

/// The session of the server itself.
pub(super) fn holder(sharing: &Sharing) -> Session {
    let mut holders: Vec<_> = sessions(sharing).into_iter().filter(|one| one.server_pid.is_some()).collect();
    assert_eq!(holders.len(), 1, "{holders:?}");
    holders.remove(0)
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn the_server_ends_when_the_last_session_has_left_and_a_client_that_comes_back_soon_finds_it() {
    let sharing = Sharing::new();
    let (sharers, mut server) = open(&sharing, &[&[]]);
    drop(sharers);
    // It has left, and the next one comes within the grace.
    let mut again = Sharer::join(&sharing, &[]);
    again.open();
    again.is_served(&mut server, "2");
    again.client.close_output();
    again.shim.expect_exit(0);
    server.expect_end();
    server.exit(0);
    let mut next = Sharer::join(&sharing, &[]);
    let mut server = accept(&sharing);
    next.open();
    next.is_served(&mut server, "2");
}

#[test]
fn a_session_that_ends_in_order_stops_its_work_and_nobody_elses() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = open(&sharing, &[&[], &[]]);
    let known: Vec<String> = sharers.iter_mut().map(|one| one.call(&mut server, "x")).collect();
    sharers[0].client.close_output();
    assert_eq!(super::stopped(&mut server), known[0]);
    sharers[0].shim.expect_exit(0);
    server.send(&super::result(&known[1], "{}"));
    sharers[1].client.expect(&super::result("1", "{}"));
}

#[test]
fn after_the_holder_was_killed_a_call_gets_an_answer_and_the_next_is_served_anew() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = open(&sharing, &[&[], &[]]);
    sharers[0].call(&mut server, "x");
    kill(holder(&sharing).pid);
    // Its server is killed with it.
    server.puppet.expect_death();
    let error = error_of(&sharers[0].client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    let asked = super::request("3", "resources/list");
    sharers[1].client.send(&asked);
    let mut server = accept(&sharing);
    let asked = server.receive();
    server.send(&super::result(&super::id_of(&asked), "{}"));
    sharers[1].client.expect(&super::result("3", "{}"));
    let mut next = Sharer::join(&sharing, &[]);
    next.open();
    next.is_served(&mut server, "2");
    assert!(!sharing.has_another());
}

#[test]
fn after_all_were_killed_nothing_runs_and_the_next_session_starts_a_server() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = open(&sharing, &[&[], &[], &[]]);
    sharers.iter_mut().for_each(|one| drop(one.call(&mut server, "x")));
    let holder = holder(&sharing);
    let group = rustix::process::getpgid(Pid::from_raw(server.puppet.id)).unwrap().as_raw_nonzero().get();
    let guarded = members(group);
    kill(holder.pid);
    sharers.iter().for_each(|one| one.shim.kill(Signal::KILL));
    server.puppet.expect_death();
    guarded.iter().for_each(crate::shim::process::Member::expect_death);
    let mut next = Sharer::join(&sharing, &[]);
    let mut server = accept(&sharing);
    next.open();
    next.is_served(&mut server, "2");
    assert!(!sharing.has_another());
}

#[test]
fn a_server_that_dies_is_started_again_and_sessions_go_on() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = open(&sharing, &[&[], &[]]);
    sharers[0].call(&mut server, "x");
    server.exit(3);
    let error = error_of(&sharers[0].client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    assert!(error["message"].as_str().unwrap().contains('3'), "{error}");
    let mut server = accept(&sharing);
    sharers.iter_mut().for_each(|one| one.is_served(&mut server, "2"));
}

/// A client that ends what its server has started looks for the children of the shim, and for its process group.
#[test]
fn the_holder_belongs_to_no_session() {
    let sharing = Sharing::new();
    let (sharers, _server) = open(&sharing, &[&[]]);
    let holder = i32::try_from(holder(&sharing).pid).unwrap();
    let stat = fs::read_to_string(format!("/proc/{holder}/stat")).unwrap();
    let fields: Vec<i32> =
        stat.rsplit(')').next().unwrap().split_whitespace().skip(1).take(3).map(|n| n.parse().unwrap()).collect();
    let [parent, group, session] = fields[..] else { panic!("{stat}") };
    assert_ne!(parent, sharers[0].shim.id);
    for of_holder in [group, session] {
        let own = rustix::process::getpgid(None).unwrap().as_raw_nonzero().get();
        assert!(of_holder != own && of_holder != sharers[0].shim.id, "{stat}");
    }
    let open = fs::read_dir(format!("/proc/{holder}/fd")).unwrap();
    let open: Vec<String> =
        open.filter_map(|one| Some(fs::read_link(one.ok()?.path()).ok()?.display().to_string())).collect();
    assert!(!open.iter().any(|to| to.ends_with(".members") && to.contains("deleted")), "{open:?}");
}
