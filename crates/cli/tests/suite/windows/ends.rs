//! However a session ends, its server and what that has started end with it (D47).

use super::world::World;

#[test]
fn a_client_that_closes_its_end_ends_the_server_and_what_it_left() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&[]));
    let family = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.end_input();
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(0));
}

#[test]
fn a_shim_that_is_killed_takes_everything_with_it() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&["deaf"]));
    let family = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.shim.kill().unwrap();
    family.into_iter().for_each(super::world::Reporter::expect_end);
}

#[test]
fn a_server_that_hears_nothing_is_ended_with_its_job() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&["--finish", "0s"], &world.server(&["deaf"]));
    let family = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.end_input();
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(1));
}
