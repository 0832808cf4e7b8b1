//! A person with a desktop: what opens links there tells the test, which then goes where a browser would.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    time::Instant,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::PATIENCE;
use crate::shim::PROGRAM;

pub(crate) struct Person {
    folder: TempDir,
}

/// A command that talks on its standard streams. It is killed when it is dropped.
pub(crate) struct Talk {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Person {
    pub(crate) fn new() -> Self {
        let person = Self { folder: tempfile::tempdir().unwrap() };
        mknodat(CWD, person.file("links"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::create_dir(person.file("bin")).unwrap();
        let opener = person.file("bin").join("xdg-open");
        // Whoever reads has the link: so the opener lasts until then, and stands in the list of processes.
        let script = "#!/bin/sh\nprintf '%s\\n' \"$1\" >> \"$RESCIND_TEST_LINKS.all\"\n\
                      printf '%s\\n' \"$1\" > \"$RESCIND_TEST_LINKS\"\n";
        fs::write(&opener, script).unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
        person
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(words)
            .env("PATH", format!("{}:{path}", self.file("bin").display()))
            .env("DISPLAY", ":77")
            .env("RESCIND_TEST_LINKS", self.file("links"))
            .env("RESCIND_SIGN_IN_DIR", self.file("vault"))
            .env("RESCIND_RUNTIME_DIR", self.file("run"));
        command
    }

    /// Runs a command to its end, with nothing on stdin.
    pub(crate) fn run(&self, words: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(words).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    /// Starts a command; what it says on stderr goes to the file `stderr`, after what others have said.
    pub(crate) fn start(&self, words: &[&str]) -> Talk {
        Self::talk(self.command(words).stderr(self.stderr()))
    }

    fn stderr(&self) -> fs::File {
        fs::OpenOptions::new().create(true).append(true).open(self.file("stderr")).unwrap()
    }

    /// As [`start`](Self::start), behind a proxy at this address that is used for plain http.
    pub(crate) fn start_behind(&self, proxy: SocketAddr, words: &[&str]) -> Talk {
        let mut command = self.command(words);
        for variable in ["http_proxy", "HTTP_PROXY"] {
            command.env(variable, format!("http://{proxy}"));
        }
        Self::talk(command.stderr(self.stderr()))
    }

    fn talk(command: &mut Command) -> Talk {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Talk { child, stdin, stdout }
    }

    /// The link that is opened next.
    pub(crate) fn link(&self) -> String {
        let link = fs::read_to_string(self.file("links")).unwrap();
        link.trim_end().to_owned()
    }

    /// How many pages were opened so far.
    pub(crate) fn tabs(&self) -> usize {
        fs::read_to_string(self.file("links.all")).unwrap_or_default().lines().count()
    }

    /// Waits until this was said on stderr so often.
    pub(crate) fn wait_for(&self, words: &str, often: usize) {
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(self.file("stderr")).unwrap();
            if said.matches(words).count() >= often {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{said}");
            std::thread::yield_now();
        }
    }

    /// The files with sign-ins.
    pub(crate) fn kept(&self) -> usize {
        let files = fs::read_dir(self.file("vault")).into_iter().flatten();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "json")).count()
    }
}

impl Talk {
    pub(crate) fn say(&mut self, message: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it has ended");
        line.trim_end().to_owned()
    }

    /// Says nothing more, and waits for its end.
    pub(crate) fn end(&mut self) -> i32 {
        self.stdin = None;
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Goes where a browser would, and gives what it shows in the end.
pub(crate) fn browse(url: &str) -> String {
    try_browse(url).unwrap()
}

/// The same; an error if nobody listens there any more.
pub(crate) fn try_browse(url: &str) -> io::Result<String> {
    let mut url = url.to_owned();
    loop {
        let shown = try_get(&url)?;
        match location(&shown) {
            Some(next) => url = next,
            None => return Ok(shown),
        }
    }
}

/// The redirect that the browser is sent back to in the end, without going there.
pub(crate) fn redirect(url: &str) -> String {
    location(&get(url)).unwrap()
}

/// The address that a link leads to.
pub(crate) fn authority(url: &str) -> &str {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap()
}

fn location(response: &str) -> Option<String> {
    response.lines().find_map(|line| line.strip_prefix("location: ")).map(|line| line.trim_end().to_owned())
}

fn get(url: &str) -> String {
    try_get(url).unwrap()
}

fn try_get(url: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(authority(url))?;
    let target = &url["http://".len() + authority(url).len()..];
    write!(stream, "GET {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", authority(url))?;
    let mut response = String::new();
    let mut reader = BufReader::new(stream);
    // The service keeps its connections.
    while !response.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut response)? > 0, "{response}");
    }
    let length = response.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|text| text.trim());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    Ok(response + &String::from_utf8(body).unwrap())
}

/// Every command line that can be seen.
pub(crate) fn command_lines() -> String {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| fs::read(path.join("cmdline")).unwrap_or_default();
    processes.map(|path| String::from_utf8_lossy(&read(path)).replace('\0', " ") + "\n").collect()
}

/// All that is written below a folder, but not in the one where secrets are kept.
pub(crate) fn written(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("vault") {
            text.push_str(&written(&path));
        } else if path.is_file() {
            text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
        }
    }
    text
}

impl Person {
    /// All that was written in the person's folder.
    pub(crate) fn written(&self) -> String {
        written(self.folder.path())
    }
}
