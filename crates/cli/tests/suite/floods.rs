//! What a link and a peer hold in memory while adversarial peers flood them, as the machine counts it: at most what is
//! documented (invariant 8). Alone in its process, whose memory it measures.

#![cfg(target_os = "linux")]

use std::{
    env, fs, io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    thread,
    time::Duration,
};

use rescind::{
    peer::{ErrorObject, Peer, RawParams},
    relay::{self, EntryName, Link, LinkClient, LinkServer},
};
use rescind_proto::{
    connection,
    dialect::mcp,
    relay::{End, RelayConfig},
    side::Side,
};
use rescind_testkit::{
    flooder::Flooder,
    sim::flood::{narrow_endpoint, narrow_relay},
};
use rustix::fs::{CWD, Mode};

use crate::shim::{PROGRAM, process::peak_memory};

/// The most that a link reads at once.
const READ: usize = 256 * 1024;

/// What the process has beside: its program, the threads, and what the flooders are about to say.
const REST: usize = 32 << 20;

/// How much more may be resident than in the first third of the time: what a rare coincidence of floods adds.
const SLACK: usize = 16 << 20;

/// Relays between this flooder's pipes and that one's, which two copies of `cat` hold as the server.
fn link(folder: &Path) -> (thread::JoinHandle<End>, [Flooder; 2]) {
    let paths = ["from-test", "to-test"].map(|name| folder.join(name));
    for path in &paths {
        rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    }
    let (client_input, to_link) = io::pipe().unwrap();
    let (from_link, client_output) = io::pipe().unwrap();
    let [from_test, to_test] = paths.each_ref().map(|path| path.to_str().unwrap());
    let command = ["sh", "-c", r#"cat <"$0" & exec cat >"$1""#, from_test, to_test];
    let link = Link {
        client: LinkClient::Descriptors { input: client_input.into(), output: client_output.into() },
        server: LinkServer::Command { command: command.map(Into::into).to_vec(), launcher: PROGRAM.into() },
        entry: EntryName::default(),
        config: narrow_relay(RelayConfig::default()),
        finish: None,
        recording: None,
        log: None,
        on_stuck: None,
        on_stop: None,
        stderr_in_errors: true,
        admin: vec![folder.join("sockets")],
        history: None,
        welcome: None,
    };
    let running = thread::spawn(move || relay::run(link).unwrap().server);
    let client = Flooder::start(1, from_link, to_link);
    let to_server = fs::File::options().write(true).open(&paths[0]).unwrap();
    let from_server = fs::File::open(&paths[1]).unwrap();
    (running, [client, Flooder::start(2, from_server, to_server)])
}

/// A peer that answers what it is asked, on a socket whose other end floods it.
fn peer() -> (thread::JoinHandle<()>, Flooder) {
    let (near, far) = UnixStream::pair().unwrap();
    let running = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            near.set_nonblocking(true).unwrap();
            let near = tokio::net::UnixStream::from_std(near).unwrap();
            let work = |RawParams(params)| async move { Ok::<_, ErrorObject>(params) };
            let server = Peer::builder(&mcp::REVISION_2025_03_26)
                .configure(|config| *config = narrow_endpoint(config.clone()))
                .on_request("work", work);
            let (_peer, driver) = server.accept(near);
            let _ = driver.await;
        });
    });
    let far = OwnedFd::from(far);
    let output = Hanging(fs::File::from(far.try_clone().unwrap()));
    (running, Flooder::start(3, fs::File::from(far), output))
}

/// A socket whose end of output is told when it is dropped, though another descriptor of it lives.
struct Hanging(fs::File);

impl io::Write for Hanging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
    }
}

/// For as long as `RESCIND_SOAK_SECONDS` says, a minute without.
///
/// `cargo test --release -p rescind-cli --test suite floods:: -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute, or as long as it is told"]
#[expect(clippy::print_stdout, reason = "what is held is what this test is read for")]
fn a_link_and_a_peer_hold_what_is_documented_while_they_are_flooded() {
    let seconds = env::var("RESCIND_SOAK_SECONDS").map_or(60, |seconds| seconds.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let bound = narrow_relay(RelayConfig::default()).most_held(READ)
        + narrow_endpoint(connection::ConnectionConfig::new(Side::Server)).most_held(READ);
    let (linked, [client, server]) = link(folder.path());
    let (peered, asker) = peer();
    let own = std::process::id().cast_signed();
    let mut early = 0;
    for second in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        assert!(!linked.is_finished() && !peered.is_finished(), "a link has ended under the flood");
        let peak = peak_memory(own);
        assert!(peak < bound + REST, "{peak} bytes are resident; the bound is {bound} and {REST}");
        early = if second <= seconds / 3 { peak } else { early };
        assert!(peak < early + SLACK, "{peak} bytes are resident, after {early} in the first third");
    }
    for flooder in [&client, &server, &asker] {
        flooder.finish();
    }
    let passed = [&client, &server, &asker].map(Flooder::bytes_read);
    let said = [client, server, asker].map(Flooder::join);
    assert_eq!(linked.join().unwrap(), End::Exited(0));
    peered.join().unwrap();
    println!("said by client, server and asker: {said:?} bytes; read: {passed:?}");
    println!("resident at most: {} bytes; the bound is {bound} and {REST} for the rest", peak_memory(own));
    assert!(passed.iter().all(|&passed| passed > 0), "nothing passed");
}
