//! Where the admin socket lies, who may connect, and what becomes of it, on real processes.

#![expect(clippy::print_stdout, reason = "a test that is left out says so")]

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use rescind_feed::Session;
use rescind_testkit::puppet::Rig;
use rustix::process::Signal;

use crate::shim::{
    PROGRAM,
    admin::{Admin, names},
    words::expect_alive,
};

fn rig(sockets: &Path) -> Rig {
    let mut rig = Rig::builder(PROGRAM).sockets(sockets).start();
    expect_alive(&mut rig);
    rig
}

/// A shim that has no socket there works all the same, and says why once on stderr and in its log.
fn expect_unlisted(sockets: &Path, why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let flags = ["--log", "warn", "--log-file", log.to_str().unwrap()];
    let mut rig = Rig::builder(PROGRAM).flags(flags).sockets(sockets).start();
    expect_alive(&mut rig);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let said = String::from_utf8(rig.shim.stderr.rest()).unwrap();
    let named = format!("warning: {} (RESCIND_RUNTIME_DIR): ", sockets.display());
    let is_said = said.starts_with(&named) && said.contains("; this session is not listed\nhint: ");
    assert!(is_said && said.lines().count() == 2, "{said}");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("WARN  no admin socket") && log.contains(why), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn the_socket_is_its_users_alone() {
    let mut rig = Rig::start(PROGRAM);
    expect_alive(&mut rig);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&rig.sockets), 0o700);
    assert_eq!(names(&rig.sockets), [format!("{}.sock", rig.shim.id)]);
    assert_eq!(mode(&Admin::of(&rig).0), 0o600);
}

#[test]
fn a_directory_that_is_open_to_others_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o701, 0o710, 0o770, 0o755, 0o777, 0o1777] {
        let loose = folder.path().join(format!("{mode:o}"));
        fs::create_dir(&loose).unwrap();
        fs::set_permissions(&loose, fs::Permissions::from_mode(mode)).unwrap();
        expect_unlisted(&loose, "is open to other users");
        assert_eq!(fs::metadata(&loose).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(names(&loose), [""; 0]);
    }
}

#[test]
fn a_directory_that_is_a_symbolic_link_or_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&real, &link).unwrap();
    expect_unlisted(&link, "symbolic link");
    symlink(folder.path().join("nowhere"), folder.path().join("dangling")).unwrap();
    expect_unlisted(&folder.path().join("dangling"), "symbolic link");
    fs::write(folder.path().join("file"), "").unwrap();
    expect_unlisted(&folder.path().join("file"), "not a directory");
    expect_unlisted(&folder.path().join("no/where"), "No such file");
    assert_eq!(names(&real), [""; 0]);
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&theirs, Some(NOBODY), None).is_err() {
        println!("left out: only root can give a directory to another user");
        return;
    }
    expect_unlisted(&theirs, "belongs to another user");
}

#[test]
fn sockets_of_shims_that_are_gone_are_removed_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    let mut killed = rig(&sockets);
    let living = rig(&sockets);
    killed.shim.kill(Signal::KILL);
    killed.shim.expect_death(Signal::KILL);
    drop(UnixListener::bind(sockets.join(".new-1-0")).unwrap());
    fs::write(sockets.join("notes.sock"), "no socket").unwrap();
    symlink(folder.path().join("elsewhere"), sockets.join("link.sock")).unwrap();
    let file = |rig: &Rig| format!("{}.sock", rig.shim.id);
    assert_eq!(names(&sockets).len(), 5);

    let newcomer = rig(&sockets);
    let mut expected = [file(&living), file(&newcomer), "link.sock".to_owned(), "notes.sock".to_owned()];
    expected.sort();
    assert_eq!(names(&sockets), expected);
    let session: Session = Admin::of(&living).get("/v1/session");
    assert_eq!(session.pid, living.shim.id as u32);
}

#[test]
fn the_socket_goes_with_its_shim_however_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    let ends: [&dyn Fn(&mut Rig); 3] = [&|rig| rig.server.exit(7), &|rig| rig.shim.kill(Signal::TERM), &|rig| {
        rig.client.close();
        rig.server.exit(0);
    }];
    for end in ends {
        let mut rig = rig(&sockets);
        assert_eq!(names(&sockets).len(), 1);
        end(&mut rig);
        rig.shim.wait();
        assert_eq!(sockets.read_dir().unwrap().count(), 0, "the socket and the record are gone");
    }
}

/// Shims in two containers that share a directory can have one process id.
#[test]
fn a_name_that_is_taken_gets_a_suffix() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o700)).unwrap();
    // The shell listens under its own number, so to say, and becomes the shim.
    let taken = r#"mkfifo "$1/go"; echo $$ > "$1/pid"; read go < "$1/go"; shift; exec "$@""#;
    let under = ["sh", "-c", taken, "sh", folder.path().to_str().unwrap()];
    let go = folder.path().to_owned();
    let directory = sockets.clone();
    let listening = std::thread::spawn(move || {
        let pid = loop {
            match fs::read_to_string(go.join("pid")) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                Ok(_) | Err(_) => std::thread::yield_now(),
            }
        };
        let listener = UnixListener::bind(directory.join(format!("{pid}.sock"))).unwrap();
        fs::write(go.join("go"), "go\n").unwrap();
        (pid, listener)
    });
    let mut rig = Rig::builder(PROGRAM).under(under).sockets(&sockets).start();
    expect_alive(&mut rig);
    let (pid, _listener) = listening.join().unwrap();
    assert_eq!(names(&sockets), [format!("{pid}-2.sock"), format!("{pid}.sock")]);
    let session: Session = Admin(sockets.join(format!("{pid}-2.sock"))).get("/v1/session");
    assert_eq!((session.name, session.pid.to_string()), (format!("{pid}-2"), pid));
}

/// The address of a socket holds 108 bytes.
#[test]
fn a_long_path_is_no_hindrance() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("x".repeat(200));
    let rig = rig(&sockets);
    assert_eq!(names(&sockets), [format!("{}.sock", rig.shim.id)]);
    // Whoever connects needs a short way, too.
    let directory = fs::File::open(&sockets).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let admin = Admin(format!("/proc/self/fd/{fd}/{}.sock", rig.shim.id).into());
    assert_eq!(admin.get::<Session>("/v1/session").pid, rig.shim.id as u32);
}

#[test]
fn an_unlisted_shim_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    let mut rig = Rig::builder(PROGRAM).flags(["--unlisted"]).sockets(&sockets).start();
    expect_alive(&mut rig);
    assert!(!sockets.exists());
}

/// A user that every system has and nobody is.
const NOBODY: u32 = 65534;

#[test]
fn another_user_is_turned_away() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    let rig = rig(&sockets);
    // As careless as can be, and only after the shim has looked.
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    open(folder.path());
    open(&sockets);
    open(&Admin::of(&rig).0);
    assert_eq!(fs::metadata(&sockets).unwrap().uid(), 0);
    let program = folder.path().join("stranger");
    // By another process: a child of another test that had this one's descriptor would keep the copy from being run.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
    assert!(copied.success());
    let mut stranger = Command::new(program);
    stranger
        .args(["--ignored", "--exact", "--nocapture", "run_admin_socket::as_a_stranger"])
        .env(STRANGERS_SOCKET, Admin::of(&rig).0);
    let output = stranger.uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("refused: 403"), "{output:?}");
    let session: Session = Admin::of(&rig).get("/v1/session");
    assert_eq!(session.pid, rig.shim.id as u32);
}

/// Tells the test above's second self where to connect.
const STRANGERS_SOCKET: &str = "RESCIND_TEST_STRANGERS_SOCKET";

#[test]
#[ignore = "another test runs it, as another user"]
fn as_a_stranger() {
    let Some(socket) = std::env::var_os(STRANGERS_SOCKET) else { return };
    let answer = Admin(socket.into()).ask("GET", "/v1/session", "");
    println!("refused: {}", answer.status);
    answer.expect_problem(403);
}
