//! How a link through `rescind run` begins and ends, on real processes.

use std::{
    fs,
    io::{Read, Write},
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::{Command, Stdio},
};

use rescind_testkit::puppet::{Rig, Shim, Streams, Transcript};
use rustix::process::{Pid, Signal, kill_process};

use crate::shim::{self, PROGRAM, error_of, process, terminal::Terminal};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn rig() -> Rig {
    Rig::start(PROGRAM)
}

/// A call passes, and so does its answer.
fn expect_answer(rig: &mut Rig) {
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.server.send(ANSWER);
    rig.client.expect(ANSWER);
}

#[test]
fn a_message_passes_each_way_byte_for_byte() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    let odd = r#" { "jsonrpc" : "2.0", "id" : "\u0031", "method":"x\u0041", "params" : [ 1,2 , 3 ] }  "#;
    rig.client.send(odd);
    rig.server.expect(odd);
    rig.server.send(r#"{"jsonrpc":"2.0", "id":"\u0031","result":null}"#);
    rig.client.expect(r#"{"jsonrpc":"2.0", "id":"\u0031","result":null}"#);
}

#[test]
fn the_client_may_be_on_sockets() {
    let mut rig = Rig::builder(PROGRAM).streams(Streams::Sockets).start();
    expect_answer(&mut rig);
    rig.client.close_output();
    rig.server.expect_end();
    rig.server.exit(0);
    rig.client.expect_end();
    rig.shim.expect_exit(0);
}

/// A client that is killed as its shim starts leaves a named pipe without a writer.
#[test]
fn a_named_pipe_whose_writer_has_gone_before_the_start_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("input");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let mut writer = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let reader = fs::File::open(&pipe).unwrap();
    for last_words in ["", "{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n"] {
        writer.write_all(last_words.as_bytes()).unwrap();
        let input = reader.try_clone().unwrap();
        drop(std::mem::replace(&mut writer, fs::File::open("/dev/null").unwrap()));
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--unlisted", "cat"]).stdin(input).stdout(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(0), last_words));
        writer = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    }
}

#[test]
fn the_end_of_the_clients_input_closes_the_servers() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.client.close_output();
    rig.server.expect(CALL);
    rig.server.expect_end();
    rig.server.send(ANSWER);
    rig.client.expect(ANSWER);
    rig.server.exit(0);
    rig.client.expect_end();
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
}

#[test]
fn everything_the_client_sent_reaches_the_server_before_its_end() {
    let mut rig = rig();
    let long = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "y".repeat(300_000));
    rig.client.send(&long);
    rig.client.send(CALL);
    rig.client.close_output();
    rig.server.expect(&long);
    rig.server.expect(CALL);
    rig.server.expect_end();
}

#[test]
fn a_last_line_without_a_line_break_is_still_sent() {
    let mut rig = rig();
    rig.client.send_bytes(CALL.as_bytes());
    rig.client.close_output();
    rig.server.expect(CALL);
    rig.server.expect_end();
}

/// D44; the tests of `process/shutdown.rs` go through it point by point. The work takes longer than `--finish` and the
/// ladder together: `--finish` counts from the end of the work.
#[test]
fn after_the_end_of_input_a_server_may_finish_what_is_in_flight_and_save() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved");
    let answer = format!("read -r call; sleep 3; echo '{ANSWER}'");
    let server = format!("{answer}; exec >&-; sleep 1; echo saved >{}; exit 7", file.display());
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "--finish", "1s", "sh", "-c", &server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut shim = command.spawn().unwrap();
    let mut stdin = shim.stdin.take().unwrap();
    stdin.write_all(format!("{CALL}\n").as_bytes()).unwrap();
    drop(stdin);
    let output = shim.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{ANSWER}\n"));
    assert_eq!((output.status.code(), output.stderr), (Some(7), Vec::new()));
    assert_eq!(fs::read_to_string(&file).unwrap(), "saved\n");
}

#[test]
fn after_the_end_of_input_clocks_run_and_progress_passes() {
    let mut rig = Rig::builder(PROGRAM).flags(["--timeout", "tools/call:slow=100ms"]).start();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.client.close_output();
    rig.server.expect_end();
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31001, "{error}");
    let news = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    rig.server.send(news);
    rig.client.expect(news);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

#[test]
fn a_server_that_lives_on_with_nothing_in_flight_is_terminated_then_killed() {
    let mut rig = Rig::builder(PROGRAM).flags(["--finish", "100ms"]).start();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.server.puppet.survive(15);
    rig.client.close_output();
    rig.server.expect_end();
    // Whatever the clock says, what is in flight is waited for.
    rig.server.send(ANSWER);
    rig.client.expect(ANSWER);
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
    rig.server.close();
    rig.shim.expect_death(Signal::KILL);
}

#[test]
fn a_client_that_is_gone_has_its_server_terminated() {
    for streams in [Streams::Pipes, Streams::Sockets] {
        let mut rig = Rig::builder(PROGRAM).streams(streams).start();
        rig.client.send(CALL);
        rig.server.expect(CALL);
        rig.client.close();
        rig.server.puppet.expect_death();
        rig.server.close();
        rig.shim.expect_death(Signal::TERM);
    }
}

/// D44: though nothing is written, and its input stays open.
#[test]
fn a_client_that_no_longer_reads_is_gone_before_anything_is_written() {
    for streams in [Streams::Pipes, Streams::Sockets] {
        let mut rig = Rig::builder(PROGRAM).streams(streams).start();
        // It needs no longer than the ladder gives it, unless the machine is slow.
        rig.server.puppet.survive(15);
        rig.client.send(CALL);
        rig.server.expect(CALL);
        rig.client.close_input();
        rig.server.expect_end();
        rig.server.exit(0);
        rig.shim.expect_exit(0);
    }
}

/// An editor's language server is told to exit, and then its pipes are closed.
#[test]
fn what_a_client_says_before_it_goes_reaches_the_server() {
    let mut rig = rig();
    rig.server.puppet.survive(15);
    let last = r#"{"jsonrpc":"2.0","method":"exit"}"#;
    let long = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "y".repeat(500_000));
    rig.client.send_together(&[&long, last]);
    rig.client.close();
    rig.server.expect(&long);
    rig.server.expect(last);
    rig.server.expect_end();
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

/// D44: a file has no reader that could be watched, so it is the process that started the shim that counts.
#[test]
fn with_its_output_in_a_file_the_end_of_the_starting_process_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let starter = format!(r#"exec 3<&0; "$0" "$@" <&3 >{} & wait"#, folder.path().join("out").display());
    let mut rig = Rig::builder(PROGRAM).under(["sh", "-c", &starter]).start();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.client.close_output();
    rig.server.expect_end();
    // What the test knows as the shim is the shell that started it.
    rig.shim.kill(Signal::KILL);
    rig.shim.expect_death(Signal::KILL);
    rig.server.puppet.expect_death();
}

#[test]
fn signals_to_the_shim_reach_the_server_at_once() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        // In the background of a script, or under `nohup`, the tests themselves ignore signals; the shim would inherit that.
        let mut rig = Rig::builder(PROGRAM).under(["env", "--default-signal"]).start();
        let mut grandchild = rig.grandchild();
        rig.server.puppet.survive(signal.as_raw());
        grandchild.survive(signal.as_raw());
        if matches!(signal, Signal::HUP | Signal::QUIT) {
            // What comes 1.5 s later, on a slow machine.
            rig.server.puppet.survive(15);
            grandchild.survive(15);
        }
        rig.shim.kill(signal);
        rig.server.puppet.expect_signal(signal.as_raw());
        grandchild.expect_signal(signal.as_raw());
        // Until it ends, the server can still answer.
        expect_answer(&mut rig);
        rig.server.exit(5);
        rig.shim.expect_exit(5);
        grandchild.expect_death();
    }
}

/// D44: a client that is killed by its group's signal leaves a shim that finds its signal and the end of its input at once.
/// Its server hears of the signal first, as it would without the shim.
#[test]
fn a_signal_before_the_end_of_the_input_reaches_the_server_before_that_end() {
    let folder = tempfile::tempdir().unwrap();
    let ended = folder.path().join("ended");
    for _ in 0..20 {
        let mut shim = Command::new(PROGRAM)
            .args(["run", "--", "sh", "-c", "echo ready >&2; read line; echo > ended"])
            .current_dir(&folder)
            .env("RESCIND_RUNTIME_DIR", folder.path().join("run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        shim.stderr.as_mut().unwrap().read_exact(&mut [0; "ready\n".len()]).unwrap();
        let id = Pid::from_child(&shim);
        // As a machine that has no time for it just now.
        kill_process(id, Signal::STOP).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        drop(shim.stdin.take());
        kill_process(id, Signal::CONT).unwrap();
        assert_eq!(shim.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        assert!(!ended.exists(), "the server read the end of its input and only then died of the signal");
    }
}

/// D44: Ctrl-C in a client that reads lines ends a turn and not the session.
#[test]
fn after_sigint_the_session_goes_on_and_the_ladder_begins_at_the_end_of_its_input() {
    let [mut rig, mut other] = [(); 2].map(|()| Rig::builder(PROGRAM).under(["env", "--default-signal"]).start());
    for signal in [Signal::INT, Signal::USR1, Signal::TERM] {
        rig.server.puppet.survive(signal.as_raw());
    }
    other.server.puppet.survive(Signal::HUP.as_raw());
    other.server.puppet.survive(Signal::TERM.as_raw());
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.shim.kill(Signal::INT);
    rig.server.puppet.expect_signal(Signal::INT.as_raw());
    // Of another session, that a client ends later, the ladder reaches SIGTERM. This one's would have, too.
    other.shim.kill(Signal::HUP);
    other.server.puppet.expect_signal(Signal::HUP.as_raw());
    other.server.puppet.expect_signal(Signal::TERM.as_raw());
    rig.shim.kill(Signal::USR1);
    rig.server.puppet.expect_signal(Signal::USR1.as_raw());
    rig.server.send(ANSWER);
    rig.client.expect(ANSWER);
    // The client ends the session now, with a call in flight: it had asked for the end already.
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.client.close_output();
    rig.server.expect_end();
    rig.server.puppet.expect_signal(Signal::TERM.as_raw());
    rig.server.puppet.expect_death();
    rig.server.close();
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["data"], serde_json::json!({"signal": 9, "endedBy": "client", "clientSignal": 2}));
    rig.shim.expect_death(Signal::KILL);
}

/// D44: what they mean is the server's affair.
#[test]
fn signals_with_a_meaning_of_the_servers_own_reach_it_and_the_session_goes_on() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    for signal in [Signal::USR1, Signal::USR2, Signal::WINCH] {
        rig.server.puppet.survive(signal.as_raw());
        grandchild.survive(signal.as_raw());
        rig.shim.kill(signal);
        rig.server.puppet.expect_signal(signal.as_raw());
        grandchild.expect_signal(signal.as_raw());
    }
    expect_answer(&mut rig);
    rig.client.close_output();
    rig.server.expect_end();
    rig.server.exit(5);
    rig.shim.expect_exit(5);
}

#[test]
fn a_server_that_such_a_signal_ends_was_ended_by_its_client() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.shim.kill(Signal::USR1);
    rig.server.puppet.expect_death();
    rig.server.close();
    let error = error_of(&rig.client.receive(), "1");
    let signal = Signal::USR1.as_raw();
    assert_eq!(error["data"], serde_json::json!({"signal": signal, "endedBy": "client", "clientSignal": signal}));
    rig.shim.expect_death(Signal::USR1);
}

#[test]
fn a_server_that_survives_a_signal_to_the_shim_is_killed() {
    let mut rig = rig();
    rig.server.puppet.survive(15);
    rig.shim.kill(Signal::TERM);
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
    rig.server.close();
    rig.shim.expect_death(Signal::KILL);
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let mut rig = Rig::builder(PROGRAM).under(["sh", "-c", r#"trap "" HUP; exec "$0" "$@""#]).start();
    rig.shim.kill(Signal::HUP);
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.client.close_output();
    rig.server.expect_end();
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

/// Case 79.
#[test]
fn a_killed_shim_leaves_nothing_in_the_servers_group() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    assert_eq!(grandchild.group, rig.server.puppet.group, "{grandchild:?}");
    let group = process::members(rig.server.puppet.group);
    assert!(group.len() >= 3, "the server, its child and the guard: {group:?}");
    rig.shim.kill(Signal::KILL);
    rig.shim.expect_death(Signal::KILL);
    rig.server.puppet.expect_death();
    grandchild.expect_death();
    for member in group {
        member.expect_death();
    }
}

/// Case 79, where the server does its best to get away.
#[test]
fn a_killed_shim_takes_a_server_along_that_survives_what_can_be_survived() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    for signal in [1, 2, 3, 10, 12, 13, 14, 15] {
        rig.server.puppet.survive(signal);
        grandchild.survive(signal);
    }
    // A server may signal its own group: the guard must survive that.
    let group = rig.server.puppet.group;
    for signal in [1, 2, 3, 10, 12, 13, 14, 15] {
        process::signal_group(group, signal);
        rig.server.puppet.expect_signal(signal);
        grandchild.expect_signal(signal);
    }
    rig.shim.kill(Signal::KILL);
    grandchild.expect_death();
    rig.server.puppet.expect_death();
}

/// D44. It may have put work into a session of its own, which it alone can end.
#[test]
fn a_killed_shim_leaves_what_its_server_has_started_the_time_to_end_its_own_work() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    grandchild.survive(15);
    rig.shim.kill(Signal::KILL);
    grandchild.expect_signal(15);
    grandchild.expect_death();
    rig.server.puppet.expect_death();
}

/// Case 79. `killall -9 rescind` and `pkill -9 rescind` take whatever goes by that name, at once.
#[test]
fn killing_all_that_is_called_rescind_leaves_nothing_in_the_servers_group() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    let group = process::members(rig.server.puppet.group);
    assert!(group.len() >= 3, "the server, its child and the guard: {group:?}");
    // The guard first, if its name matches: then nothing is left to notice the end of the shim.
    for member in &group {
        assert!(!member.command_line().contains("rescind\0"), "{}", member.command_line());
        if member.name().contains("rescind") {
            member.kill();
        }
    }
    rig.shim.kill(Signal::KILL);
    rig.server.puppet.expect_death();
    grandchild.expect_death();
    for member in group {
        member.expect_death();
    }
}

/// One stands beside each server for as long as it runs: a runtime would lie in the memory of each.
#[test]
fn a_guard_has_no_runtime() {
    let rig = rig();
    let members = process::members(rig.server.puppet.group);
    let guard = members.iter().find(|member| member.name() == "shim-guard").expect("a guard");
    let open = guard.descriptors();
    assert!(!open.iter().any(|one| one.contains("eventpoll")), "{open:?}");
}

#[test]
fn a_clean_end_leaves_nothing_in_the_servers_group_and_no_zombie() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    let group = process::members(rig.server.puppet.group);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    grandchild.expect_death();
    for member in group {
        member.expect_death();
    }
}

/// D44. Where the system tells that anything is left.
#[cfg(target_os = "linux")]
#[test]
fn what_a_server_leaves_behind_has_the_time_to_end_its_own_work() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    grandchild.survive(15);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    grandchild.expect_signal(15);
    grandchild.expect_death();
}

#[test]
fn the_exit_code_is_the_servers() {
    for code in [0, 1, 3, 255] {
        let mut rig = rig();
        rig.server.exit(code);
        rig.client.expect_end();
        rig.shim.expect_exit(code);
    }
}

/// D45.
#[test]
fn the_shim_dies_of_its_servers_signal_and_dumps_no_core() {
    let folder = tempfile::tempdir().unwrap();
    let fatal = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::ABORT, Signal::KILL, Signal::SEGV, Signal::PIPE];
    for signal in fatal.into_iter().chain([Signal::USR1, Signal::TERM]) {
        let mut command = Command::new("sh");
        command.args(["-c", r#"ulimit -c "$(ulimit -Hc)"; exec "$0" "$@""#, PROGRAM, "run"]);
        command.args(["env", "--default-signal", "sh", "-c", &format!("kill -{} $$", signal.as_raw())]);
        command.current_dir(&folder);
        let mut shim = Shim::start(command, &Transcript::default());
        let status = shim.wait();
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal.as_raw()), false));
        shim.expect_said_nothing();
    }
}

/// D45.
#[test]
fn a_signal_ignored_by_the_shim_is_died_of_all_the_same() {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" HUP; exec "$0" "$@""#, PROGRAM, "run"]);
    command.args(["env", "--default-signal=HUP", "sh", "-c", "kill -HUP $$"]);
    let mut shim = Shim::start(command, &Transcript::default());
    shim.expect_death(Signal::HUP);
}

/// D45. Skipped where this user may not make a process 1.
#[test]
#[expect(clippy::print_stdout, reason = "says that it is skipped")]
fn as_process_1_which_no_signal_ends_the_shim_exits_with_128_and_the_signal() {
    const ONE: [&str; 6] = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new("unshare").args(ONE).arg("true").status().is_ok_and(|status| status.success()) {
        println!("left out: this user may not make a process 1");
        return;
    }
    // It takes itself for root, whose place it must not take.
    let sockets = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = Command::new("unshare");
        command.args(ONE).args([PROGRAM, "run", "sh", "-c", &format!("kill -{} $$", signal.as_raw())]);
        command.env("RESCIND_RUNTIME_DIR", sockets.path().join("own")).stdin(Stdio::null()).stdout(Stdio::null());
        let mut shim = Shim::start(command, &Transcript::default());
        shim.expect_exit(128 + signal.as_raw());
    }
}

/// D45: the socket is gone by then.
#[test]
fn a_shim_that_dies_of_its_servers_signal_has_cleaned_up() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    rig.server.puppet.raise(15);
    rig.server.puppet.expect_death();
    rig.server.close();
    rig.shim.expect_death(Signal::TERM);
    grandchild.expect_death();
    assert_eq!(shim::admin::names(&rig.sockets), [""; 0]);
}

/// Case 65, and the exit status that D35 asks for.
#[test]
fn what_is_in_flight_when_the_server_exits_is_answered_with_its_exit_code() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.server.exit(3);
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    assert_eq!(error["data"]["exitCode"], 3, "{error}");
    rig.client.expect_end();
    rig.shim.expect_exit(3);
}

#[test]
fn what_is_in_flight_when_the_server_is_killed_is_answered_with_the_signal() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.server.puppet.raise(9);
    rig.server.puppet.expect_death();
    rig.server.close();
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    assert_eq!(error["data"]["signal"], 9, "{error}");
    rig.shim.expect_death(Signal::KILL);
}

/// D44.
#[test]
fn what_is_answered_says_who_ended_the_server() {
    let ended = |end: fn(&mut Rig)| {
        let mut rig = Rig::builder(PROGRAM).under(["env", "--default-signal"]).start();
        rig.client.send(CALL);
        rig.server.expect(CALL);
        end(&mut rig);
        error_of(&rig.client.receive(), "1")
    };
    let error = ended(|rig| rig.server.exit(0));
    let words = |error: &serde_json::Value| error["message"].as_str().unwrap().split_once(") ").unwrap().1.to_owned();
    assert_eq!(words(&error), "exited with code 0 before it answered");
    assert_eq!(error["data"], serde_json::json!({"exitCode": 0, "endedBy": "server"}));

    let error = ended(|rig| {
        rig.server.puppet.raise(9);
        rig.server.puppet.expect_death();
        rig.server.close();
    });
    assert_eq!(error["data"], serde_json::json!({"signal": 9, "endedBy": "server"}));

    let error = ended(|rig| {
        rig.shim.kill(Signal::INT);
        rig.server.puppet.expect_death();
        rig.server.close();
    });
    assert_eq!(words(&error), "was ended by signal 2 (SIGINT) before it answered: its client had sent signal 2");
    assert_eq!(error["data"], serde_json::json!({"signal": 2, "endedBy": "client", "clientSignal": 2}));
}

/// Case 78.
#[test]
fn answers_written_just_before_the_exit_are_not_lost() {
    let mut rig = rig();
    let mut answers = String::new();
    for id in 1..=500 {
        let call = CALL.replace("\"id\":1", &format!("\"id\":{id}"));
        rig.client.send(&call);
        rig.server.expect(&call);
        answers += &ANSWER.replace("\"id\":1", &format!("\"id\":{id}"));
        answers += "\n";
    }
    rig.server.send_bytes(answers.as_bytes());
    rig.server.exit(0);
    for line in answers.lines() {
        rig.client.expect(line);
    }
    rig.client.expect_end();
    rig.shim.expect_exit(0);
}

/// Case 78, with more than any pipe on the way holds.
#[test]
fn a_long_answer_written_just_before_the_exit_is_not_lost() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{}"}}}}"#, "y".repeat(3_000_000));
    rig.server.send(&long);
    rig.server.exit(0);
    rig.client.expect(&long);
    rig.client.expect_end();
    rig.shim.expect_exit(0);
}

#[test]
fn output_that_outlives_the_server_is_drained_but_not_waited_for() {
    let mut rig = rig();
    let mut grandchild = rig.grandchild();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    // The server's stdout stays open in the test, as it would in a process the server started.
    rig.server.puppet.exit(4);
    rig.server.puppet.expect_death();
    rig.server.send(ANSWER);
    rig.client.expect(ANSWER);
    rig.client.expect_end();
    rig.shim.expect_exit(4);
    grandchild.expect_death();
}

#[test]
fn a_server_that_closes_its_output_and_lives_is_gone_and_may_finish() {
    let mut rig = rig();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.server.close_output();
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    rig.server.expect_end();
    rig.client.close_output();
    rig.client.expect_end();
    rig.server.exit(4);
    rig.shim.expect_exit(4);
}

#[test]
fn a_server_that_closes_its_input_and_lives_is_gone() {
    let mut rig = Rig::builder(PROGRAM).flags(["--finish", "1ms"]).start();
    rig.client.send(CALL);
    rig.server.expect(CALL);
    rig.server.close_input();
    rig.client.send(&CALL.replace("\"id\":1", "\"id\":2"));
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31002, "{error}");
    let error = error_of(&rig.client.receive(), "2");
    assert_eq!(error["code"], -31002, "{error}");
    rig.server.puppet.expect_death();
    rig.server.close_output();
    rig.shim.expect_death(Signal::TERM);
}

/// D44. Without a signal the client would have ten minutes: see `run_backlog.rs`.
#[test]
fn after_the_servers_exit_a_signal_ends_the_wait_for_a_client_that_does_not_read_and_the_loss_is_said() {
    let mut rig = Rig::builder(PROGRAM).under(["env", "--default-signal"]).start();
    let long = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "y".repeat(1_000_000));
    rig.server.send(&long);
    rig.server.exit(0);
    rig.server.puppet.expect_death();
    rig.shim.kill(Signal::TERM);
    let said = rig.shim.stderr.line();
    assert!(said.starts_with("error: the client does not read: the rest of the server's output is lost"), "{said}");
    rig.shim.expect_exit(125);
}

/// D45: what the server's own failure says is not hidden.
#[test]
fn a_server_that_failed_keeps_its_exit_code_where_its_client_does_not_read() {
    let mut rig = Rig::builder(PROGRAM).under(["env", "--default-signal"]).start();
    let long = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "y".repeat(1_000_000));
    rig.server.send(&long);
    rig.server.exit(3);
    rig.server.puppet.expect_death();
    rig.shim.kill(Signal::TERM);
    assert!(rig.shim.stderr.line().contains("the rest of the server's output is lost"));
    rig.shim.expect_exit(3);
}

/// D44: it did not want the rest.
#[test]
fn a_client_that_closes_its_end_ends_the_shim_after_the_servers_exit_without_a_word() {
    let mut rig = rig();
    let long = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "y".repeat(1_000_000));
    rig.server.send(&long);
    rig.server.exit(0);
    rig.server.puppet.expect_death();
    rig.client.close_input();
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
}

/// Whatever is missing, it is said, and by no panic.
#[test]
fn with_too_few_descriptors_the_shim_says_so() {
    for limit in 4..=24 {
        let mut command = Command::new("sh");
        command.args(["-c", &format!(r#"ulimit -n {limit}; exec "$0" run true"#), PROGRAM]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut shim = Shim::start(command, &Transcript::default());
        let said = String::from_utf8(shim.stderr.rest()).unwrap();
        let fine = match shim.wait().code() {
            Some(0) => said.is_empty(),
            Some(125) => {
                said.starts_with("error: ") && said.contains("Too many open files") && said.contains("\nhint: ")
            }
            _ => false,
        };
        assert!(fine, "{limit}: {said}");
    }
}

#[test]
fn the_servers_stderr_passes_through() {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "sh", "-c", "echo hello >&2"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut shim = Shim::start(command, &Transcript::default());
    assert_eq!(shim.stderr.rest(), b"hello\n");
    shim.expect_exit(0);
}

#[test]
fn a_command_that_does_not_exist_is_127_and_says_what_to_do() {
    let (said, code) = shim::run_to_end(&["run", "no-such-command"]);
    assert_eq!(code, 127);
    assert_eq!(
        said,
        "error: no-such-command: command not found\n\
         hint: check the spelling and PATH, or give the command's full path\n"
    );
}

#[test]
fn a_command_that_cannot_be_run_is_126() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "not a program").unwrap();
    let (said, code) = shim::run_to_end(&["run", file.to_str().unwrap()]);
    assert_eq!(code, 126);
    assert!(said.starts_with(&format!("error: {}: Permission denied", file.display())), "{said}");
    assert!(said.contains("\nhint: "), "{said}");
}

#[test]
fn a_usage_error_of_run_is_125() {
    for arguments in [&["run"][..], &["run", "--"], &["run", "--no-such-flag", "--", "true"]] {
        let (said, code) = shim::run_to_end(arguments);
        assert_eq!(code, 125, "{arguments:?}: {said}");
        assert!(said.contains("error: "), "{said}");
    }
}

#[test]
fn a_usage_error_of_anything_else_is_2() {
    let (said, code) = shim::run_to_end(&["no-such-subcommand"]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn the_server_starts_with_the_default_for_signals_that_the_shim_survives() {
    let folder = tempfile::tempdir().unwrap();
    let status = folder.path().join("status");
    let copy = format!("cp /proc/self/status {}", status.display());
    let mut command = Command::new("env");
    command.args(["--default-signal", PROGRAM, "run", "sh", "-c", &copy]).stdin(Stdio::null());
    assert!(command.status().unwrap().success());
    let status = fs::read_to_string(status).unwrap();
    for set in ["SigIgn:", "SigBlk:"] {
        let mask = status.lines().find_map(|line| line.strip_prefix(set)).unwrap().trim();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        for signal in [Signal::PIPE, Signal::XFSZ, Signal::TTIN, Signal::TTOU] {
            assert_eq!(mask & (1 << (signal.as_raw() - 1)), 0, "{set} {mask:x} {signal:?}");
        }
    }
}

#[test]
fn stdin_may_be_a_file_and_stdout_too() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    fs::write(&input, format!("{notification}\n")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "cat"]).stdin(fs::File::open(&input).unwrap()).stdout(fs::File::create(&output).unwrap());
    let mut shim = Shim::start(command, &Transcript::default());
    shim.expect_exit(0);
    assert_eq!(fs::read_to_string(&output).unwrap(), format!("{notification}\n"));
}

#[test]
fn stdin_and_stdout_may_be_nothing() {
    let (said, code) = shim::run_to_end(&["run", "cat"]);
    assert_eq!((said.as_str(), code), ("", 0));
}

/// Other processes may have the same pipe open, and must not find it changed: neither during the run nor after it.
#[test]
fn the_flags_of_the_clients_pipes_are_left_as_they_were() {
    for streams in [Streams::Pipes, Streams::Sockets] {
        let mut rig = Rig::builder(PROGRAM).streams(streams).keep_theirs().start();
        rig.client.send(CALL);
        rig.server.expect(CALL);
        let theirs = rig.theirs.take().unwrap();
        for fd in [&theirs.0, &theirs.1] {
            let flags = rustix::fs::fcntl_getfl(fd.as_fd()).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{streams:?}");
        }
        drop(theirs);
        rig.server.exit(0);
        rig.shim.expect_exit(0);
    }
}

#[test]
fn a_terminal_keeps_its_flags_and_is_read() {
    let terminal = Terminal::open();
    let before = terminal.flags();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "cat"]).stdin(terminal.end()).stdout(terminal.end());
    let mut shim = Shim::start(command, &Transcript::default());
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/message"}"#;
    terminal.type_in(&format!("{notification}\n"));
    assert_eq!(terminal.shows(), notification);
    assert_eq!(terminal.flags(), before);
    // Control-D on an empty line.
    terminal.type_in("\x04");
    shim.expect_exit(0);
    assert_eq!(terminal.flags(), before);
}
