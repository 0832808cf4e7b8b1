//! What a server runs in a container ends with its session (D47), with a stand-in for `docker` and with Podman.
//!
//! The puppet is in the container, so it is the work itself that tells how it ended.

mod engine;

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rescind_testkit::{
    container_engine::Mode,
    puppet::{Rig, Shim, Transcript},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shim::{
    PROGRAM, error_of,
    words::{greet_acp, pass_to_server, request},
};
use engine::Engine;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;

/// A call is in flight, and the server ignores SIGTERM.
fn busy(mut rig: Rig) -> Rig {
    pass_to_server(&mut rig, CALL);
    rig.server.puppet.survive(15);
    rig
}

/// It gets one SIGTERM, which it ignores, and then dies.
fn expect_ladder(rig: &mut Rig) {
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death_at_once();
    rig.server.close();
}

/// The same, after its shim was killed: the engine's command may have passed on the SIGTERM with which the guard ended it (D44).
fn expect_ladder_behind_guard(rig: &mut Rig) {
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
    rig.server.close();
}

#[test]
fn a_cancelled_call_that_on_stuck_kill_ends_leaves_no_container() {
    for engine in Engine::all() {
        let mut rig = engine.run(&["--grace", "10ms", "--on-stuck", "kill"], &["-i", "--rm"]);
        greet_acp(&mut rig, "", "");
        pass_to_server(&mut rig, &request("1", "session/load"));
        rig.server.puppet.survive(15);
        let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
        pass_to_server(&mut rig, cancel);
        assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
        expect_ladder(&mut rig);
        rig.shim.wait();
        assert_eq!(engine.containers(), []);
        let said = String::from_utf8(rig.shim.stderr.rest()).unwrap();
        assert!(said.ends_with("session/load, id 1; ending the server\n"), "{said}");
    }
}

#[test]
fn a_client_that_is_gone_leaves_no_container() {
    for engine in Engine::all() {
        let mut rig = busy(engine.run(&[], &["-i", "--rm"]));
        rig.client.close();
        expect_ladder(&mut rig);
        rig.shim.wait();
        assert_eq!(engine.containers(), []);
        rig.shim.expect_said_nothing();
    }
}

/// How long it takes is in the tests of `process/shutdown.rs`: clients do not wait for long.
#[test]
fn a_clients_sigterm_leaves_no_container() {
    for engine in Engine::all() {
        let mut rig = busy(engine.run(&[], &["-i", "--rm"]));
        rig.shim.kill(Signal::TERM);
        expect_ladder(&mut rig);
        rig.shim.wait();
        assert_eq!(engine.containers(), []);
        rig.shim.expect_said_nothing();
    }
}

#[test]
fn a_server_that_ends_by_itself_takes_its_container_with_it() {
    for engine in Engine::all() {
        let mut rig = engine.run(&[], &["-i", "--rm"]);
        pass_to_server(&mut rig, CALL);
        rig.client.close_output();
        rig.server.expect_end();
        rig.server.exit(7);
        rig.shim.expect_exit(7);
        assert_eq!(engine.containers(), []);
        rig.shim.expect_said_nothing();
    }
}

#[test]
fn a_container_without_rm_stays_as_its_owner_wanted_and_does_not_run() {
    for engine in Engine::all() {
        let mut rig = busy(engine.run(&[], &["-i"]));
        rig.client.close();
        expect_ladder(&mut rig);
        rig.shim.wait();
        let left = engine.containers();
        assert!(matches!(&left[..], [one] if !one.is_running() && !one.is_removed_at_end), "{left:?}");
        rig.shim.expect_said_nothing();
    }
}

/// `docker run` may end alone: then nothing has told the container.
#[test]
fn a_container_whose_command_passes_nothing_on_gets_the_whole_ladder() {
    for engine in Engine::all() {
        let mut rig = busy(engine.run(&[], &["-i", "--rm", "--sig-proxy=false"]));
        // Its command ends of it: Docker's by the signal, Podman's with 0.
        rig.shim.kill(Signal::TERM);
        expect_ladder(&mut rig);
        rig.shim.wait();
        assert_eq!(engine.containers(), []);
    }
}

/// A command that looks for this session.
fn looking(rig: &Rig, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("RESCIND_RUNTIME_DIR", &rig.sockets).stdin(Stdio::null());
    command
}

/// What such a command says.
fn rescind(rig: &Rig, arguments: &[&str]) -> String {
    let output = looking(rig, arguments).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The containers in a document that it prints.
fn listed(rig: &Rig, arguments: &[&str]) -> Vec<Value> {
    let output = looking(rig, arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["containers"].take().as_array().unwrap().clone()
}

#[test]
fn a_killed_shim_leaves_a_container_that_is_listed_and_reaped() {
    for engine in Engine::all() {
        let mut rig = busy(engine.run(&[], &["-i", "--rm"]));
        rig.shim.kill(Signal::KILL);
        rig.shim.expect_death(Signal::KILL);
        rig.server.expect_end();
        let left = engine.containers();
        let [one] = &left[..] else { panic!("{left:?}") };
        let shim = one.mark.split('-').next();
        assert_eq!((one.is_running(), shim), (true, Some(rig.shim.id.to_string().as_str())), "{one:?}");
        assert!(one.is_removed_at_end && one.created.starts_with("20"), "{one:?}");
        let listed = rescind(&rig, &["ps", "--orphans"]);
        assert!(listed.contains(one.short_id()) && listed.contains("left, running"), "{listed}");
        let reaped = rescind(&rig, &["reap", "--yes"]);
        assert!(reaped.contains(&format!("container {}  ended", one.short_id())), "{reaped}");
        expect_ladder_behind_guard(&mut rig);
        let nothing = rescind(&rig, &["ps", "--orphans"]);
        assert!(nothing.contains("no process of an ended session is left"), "{nothing}");
        assert_eq!(engine.containers(), []);
    }
}

#[test]
fn a_live_sessions_container_is_listed_under_it_and_not_called_left() {
    for engine in Engine::all() {
        let mut rig = busy(engine.run(&[], &["-i", "--rm", "--name", "house"]));
        let found = engine.containers();
        let [one] = &found[..] else { panic!("{found:?}") };
        let table = rescind(&rig, &["ps", "--processes"]);
        let words = format!("container {} house ({})", one.short_id(), one.image);
        let line = table.lines().find(|line| line.contains(&words)).unwrap_or_else(|| panic!("{table}"));
        assert!(line.starts_with("  ") && line.ends_with(" running"), "{table}");
        assert!(!table.contains("left") && table.lines().last() == Some(line), "{table}");
        let session = rig.shim.id.to_string();
        let entry = |left: bool, engine: &Value| {
            let own = json!({ "name": "house", "image": one.image, "state": "running" });
            let mut entry = json!({
                "session": session, "mark": one.mark, "engine": engine, "container": one.id, "left": left,
            });
            entry.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            entry
        };
        let live = listed(&rig, &["ps", "--processes", "--session", &session, "--json"]);
        assert_eq!(live, [entry(false, &live[0]["engine"])]);
        assert_eq!(listed(&rig, &["ps", "--orphans", "--json"]), Vec::<Value>::new());
        let refused = rescind(&rig, &["reap", "--yes", one.short_id()]);
        assert!(refused.contains("no session or process of this name has left anything"), "{refused}");
        assert!(rescind(&rig, &["reap", "--yes"]).contains("no process of an ended session is left"));
        assert!(engine.runs("house"));
        rig.shim.kill(Signal::KILL);
        rig.shim.expect_death(Signal::KILL);
        rig.server.expect_end();
        for asked in ["--processes", "--orphans"] {
            let left = listed(&rig, &["ps", asked, "--json"]);
            assert_eq!(left, [entry(true, &left[0]["engine"])], "{asked}");
            let table = rescind(&rig, &["ps", asked]);
            assert!(table.contains(&words) && table.contains("left, running"), "{table}");
        }
        assert!(rescind(&rig, &["reap", "--yes"]).contains(&format!("container {}  ended", one.short_id())));
        rig.server.puppet.expect_signal(15);
        // There may have been two: the engine's client passes on the one with which the guard ended it, if it lives so long.
        rig.server.puppet.expect_death();
        rig.server.close();
    }
}

/// An engine that is installed is asked for all that has a mark.
#[test]
fn what_is_left_is_told_from_what_is_live_in_the_same_engine() {
    let engine = Engine::stand_in();
    let mut rig = busy(engine.run(&[], &["-i", "--rm"]));
    let ask = |rig: &Rig, arguments: &[&str]| {
        let output = looking(rig, arguments).env("PATH", engine.first_in_path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let found = engine.containers();
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!(ask(&rig, &["ps", "--orphans"]) + &ask(&rig, &["reap", "--yes"]), "");
    assert_eq!(engine.containers(), found);
    rig.shim.kill(Signal::KILL);
    rig.shim.expect_death(Signal::KILL);
    rig.server.expect_end();
    // Without its record, its mark is enough.
    for entry in std::fs::read_dir(&rig.sockets).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|suffix| suffix == "session") {
            std::fs::remove_file(entry).unwrap();
        }
    }
    let named = ask(&rig, &["ps", "--orphans"]);
    assert!(named.contains(one.short_id()) && named.contains("left, running"), "{named}");
    let reaped = ask(&rig, &["reap", "--yes"]);
    assert!(reaped.contains(&format!("container {}  ended", one.short_id())), "{reaped}");
    expect_ladder_behind_guard(&mut rig);
}

#[test]
fn what_a_live_session_runs_by_exec_is_listed_by_its_container() {
    let engine = Engine::stand_in();
    engine.start_idle("house");
    let rig = busy(engine.exec(&[], "house"));
    let table = rescind(&rig, &["ps", "--processes"]);
    assert!(table.contains("  started by exec in container house") && !table.contains("left"), "{table}");
    let live = listed(&rig, &["ps", "--processes", "--json"]);
    assert_eq!((&live[0]["container"], &live[0]["left"], live.len()), (&json!("house"), &json!(false), 1));
    // Its owner's container has no mark.
    assert_eq!(listed(&rig, &["ps", "--orphans", "--json"]), Vec::<Value>::new());
}

#[test]
fn a_silent_engine_takes_ps_one_answers_time_and_only_where_a_session_uses_it() {
    let engine = Engine::stand_in();
    let rig = busy(engine.run(&[], &["-i", "--rm"]));
    let session = rig.shim.id.to_string();
    Mode::Silent.set(engine.folder.path()).unwrap();
    let begun = Instant::now();
    let table = rescind(&rig, &["ps", "--processes"]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let said = "docker ps did not answer within 5 s; its containers are not listed";
    assert!(table.contains(said) && table.contains(&session), "{table}");
    // It is installed, and no session of this folder works in a container.
    let other = Rig::builder(PROGRAM).start();
    let output = looking(&other, &["ps", "--processes"]).env("PATH", engine.first_in_path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Neither program passes signals on to what `exec` has started.
#[test]
fn what_exec_started_ends_and_its_container_does_not() {
    for engine in Engine::all() {
        engine.start_idle("house");
        for ends in [|rig: &mut Rig| rig.client.close(), |rig: &mut Rig| rig.shim.kill(Signal::TERM)] {
            let mut rig = busy(engine.exec(&[], "house"));
            let mut child = rig.grandchild();
            child.survive(15);
            ends(&mut rig);
            // An engine that gets stuck is asked again, and may have sent the signal before.
            for process in [&mut rig.server.puppet, &mut child] {
                process.expect_signal(15);
                process.expect_death();
            }
            rig.server.close();
            rig.shim.wait();
            assert!(engine.runs("house"));
            rig.shim.expect_said_nothing();
        }
    }
}

/// The work ignores SIGTERM, so there is a look before that and one after it.
#[test]
fn what_exec_started_ends_also_if_a_look_at_it_gets_stuck_or_is_not_whole() {
    for mode in [Mode::Stuck, Mode::Lost, Mode::Torn] {
        let engine = Engine::stand_in();
        engine.start_idle("house");
        let mut rig = busy(engine.exec(&[], "house"));
        mode.set(engine.folder.path()).unwrap();
        rig.client.close();
        rig.server.puppet.expect_signal(15);
        rig.server.puppet.expect_death();
        rig.server.close();
        rig.shim.wait();
        rig.shim.expect_said_nothing();
        assert!(!engine.folder.path().join("mode").exists(), "no look was {mode:?}");
    }
}

/// An engine that never answers delays the end of the shim by one command's time.
#[test]
fn an_engine_that_does_not_answer_is_reported_and_not_waited_for() {
    for (mode, said) in [
        (Mode::Silent, "docker ps did not answer within 5 s"),
        (Mode::Unreachable, "docker ps: Error: Cannot connect to the Docker daemon."),
    ] {
        let engine = Engine::stand_in();
        let mut rig = busy(engine.run(&[], &["-i", "--rm"]));
        mode.set(engine.folder.path()).unwrap();
        rig.client.close();
        // The command has passed it on.
        rig.server.puppet.expect_signal(15);
        let begun = Instant::now();
        // The container lives on, and has stderr open.
        let (error, hint) = (rig.shim.stderr.line(), rig.shim.stderr.line());
        assert!(error.contains(said) && hint.contains("rescind reap"), "{error}\n{hint}");
        rig.shim.wait();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}

/// The engine makes the container when its client was killed already.
#[test]
fn a_container_that_appears_after_its_command_was_killed_ends_too() {
    let engine = Engine::stand_in();
    Mode::Late.set(engine.folder.path()).unwrap();
    let lives = engine.folder.path().join("lives");
    let work = format!("trap 'echo asked >> {0}' TERM; echo up >> {0}; while :; do sleep 0.05; done", lives.display());
    cancel_while_it_is_made(&engine, &["sh", "-c", &work]);
    assert!(std::fs::read_to_string(lives).unwrap().starts_with("up\n"), "it was there");
}

/// Engines remove only what has run.
#[test]
fn a_container_with_rm_that_was_made_and_not_started_is_removed() {
    let engine = Engine::stand_in();
    Mode::Stalled.set(engine.folder.path()).unwrap();
    cancel_while_it_is_made(&engine, &["true"]);
}

/// The client sends SIGTERM before its server has begun; then there is no container.
fn cancel_while_it_is_made(engine: &Engine, work: &[&str]) {
    let (input, _kept) = std::io::pipe().unwrap();
    let (_output, stdout) = std::io::pipe().unwrap();
    let mut command = engine.shim(&[], &[&["run", "-i", "--rm", "image"], work].concat());
    command.stdin(input).stdout(stdout);
    let mut shim = Shim::start(command, &Transcript::default());
    let begun = Instant::now();
    while !engine.folder.path().join("making").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
    shim.kill(Signal::TERM);
    shim.wait();
    assert_eq!(engine.containers(), []);
    shim.expect_said_nothing();
}

/// What leaves on purpose is not hunted; its mark lists it.
#[test]
fn a_detached_container_is_left_and_listed() {
    let engine = Engine::stand_in();
    let words = ["run", "-d", "--rm", "image", "sleep", "1000"];
    let output = engine.shim(&[], &words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let left = engine.containers();
    assert!(matches!(&left[..], [one] if one.is_running()), "{left:?}");
}

#[test]
fn an_exec_in_a_container_without_a_shell_says_so() {
    let engine = Engine::stand_in();
    engine.start_idle("house");
    let mut rig = busy(engine.exec(&[], "house"));
    std::fs::write(engine.folder.path().join("no-shell"), "").unwrap();
    rig.client.close();
    let error = rig.shim.stderr.line();
    assert!(error.contains("there is no shell in the container house"), "{error}");
    rig.shim.wait();
}
