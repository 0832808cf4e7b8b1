//! What is left of a session is found and ended, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rescind_ledger::{
    family::Family,
    identity::ProcessId,
    mark::{MARK_VARIABLE, Mark, Place},
    reap::{Ending, reap},
    snapshot::Snapshot,
};

/// A mark whose shim has ended.
fn of_a_dead_shim() -> Mark {
    let mark = Mark::next().unwrap();
    Mark { shim: ProcessId { start: mark.shim.start - 1, ..mark.shim }, ..mark }
}

/// A shell in a session of its own that prints a line when it is ready, and lives until its input ends or it is killed.
fn shell(script: &str, mark: Option<Mark>) -> Child {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", script, "worker"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(mark) = mark {
        command.env(MARK_VARIABLE, mark.to_string());
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn family(snapshot: &Snapshot, mark: Mark) -> Vec<ProcessId> {
    let all = Family::find(snapshot, Vec::new(), Place::here());
    let found = all.into_iter().find(|family| family.mark == mark && family.is_orphaned());
    found.map(|family| family.members.iter().map(|member| member.process.id).collect()).unwrap_or_default()
}

#[test]
fn what_is_left_is_ended_and_its_doubles_live_on() {
    const POLITE: &str = "exec 9<&0; (setsid sh -c 'read line <&9' &); echo ready; read line";
    const DEAF: &str = "trap '' TERM INT HUP; exec 9<&0; (read line <&9) & echo ready; read line; wait";
    let mark = of_a_dead_shim();
    let mut ours = [shell(POLITE, Some(mark)), shell(DEAF, Some(mark))];
    let mut doubles = [shell(POLITE, None), shell(DEAF, None), shell(POLITE, Some(of_a_dead_shim()))];
    let found = family(&Snapshot::take(), mark);
    assert!(ours.iter().all(|child| found.iter().any(|id| id.pid == child.id())) && found.len() >= 4, "{found:?}");

    let reaped = reap(Duration::from_millis(200), |snapshot| family(snapshot, mark));
    let all: BTreeSet<ProcessId> = reaped.iter().map(|one| one.process.id).collect();
    assert!(found.iter().all(|id| all.contains(id) && !id.is_alive()), "{reaped:#?}");
    let how = |pid: u32| reaped.iter().find(|one| one.process.id.pid == pid).unwrap().how;
    assert_eq!((how(ours[0].id()), how(ours[1].id())), (Ending::Terminated, Ending::Killed));
    assert_eq!(family(&Snapshot::take(), mark), []);
    for double in &mut doubles {
        assert!(double.try_wait().unwrap().is_none(), "a process of no session was ended");
        double.kill().unwrap();
        double.wait().unwrap();
    }
    ours.iter_mut().for_each(|child| drop(child.wait()));
}

/// Each time that it is asked to end, it starts another that has left it.
#[test]
fn what_is_started_meanwhile_is_ended_too() {
    const HYDRA: &str = r#"trap 'HEADS=$((HEADS-1)); export HEADS; [ $HEADS -gt 0 ] && setsid sh -c "$HYDRA" worker & exit' TERM
        echo ready; while :; do read line || sleep 1; done"#;
    let mark = of_a_dead_shim();
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", HYDRA, "worker"]).env("HYDRA", HYDRA).env("HEADS", "5");
    let mut child =
        command.env(MARK_VARIABLE, mark.to_string()).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let reaped = reap(Duration::from_secs(1), |snapshot| family(snapshot, mark));
    // The second may be ended before it has set its trap, and starts no third.
    assert!(reaped.len() >= 2, "{reaped:#?}");
    assert_eq!(family(&Snapshot::take(), mark), []);
    child.wait().unwrap();
}
