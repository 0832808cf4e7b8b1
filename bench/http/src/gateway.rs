//! A contender under way: its processes, where it listens, and what it has used.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rescind_bench::process_tree::{ResidentField, descendants, resident_kib};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::contender::{Contender, Programs, Start};
use crate::marks::Marks;

/// How long it may take until it listens, and until it has ended.
const STARTS: Duration = Duration::from_secs(30);
const ENDS: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// The processes of a contender; dropped, they are told to end, and then made to.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) marks: Marks,
    process: Child,
    own: PathBuf,
    _folder: TempDir,
}

/// What processes have used: nanoseconds of CPU, and resident KiB of the gateway's now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) gateway_ns: u64,
    pub(crate) child_ns: u64,
    pub(crate) gateway_kib: u64,
}

impl Gateway {
    pub(crate) fn start(contender: Contender, programs: &Programs) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let marks = Marks::create(folder.path())?;
        let Start { mut command, port } = contender.start(programs, folder.path(), &marks.path)?;
        let log = File::create(folder.path().join("log"))?;
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or_default()));
        let mut gateway = Self { address, marks, process, own: programs.own.clone(), _folder: folder };
        gateway.address = gateway.listens(port.is_some())?;
        Ok(gateway)
    }

    /// Waits until it listens where it was told to, or says where it does.
    fn listens(&mut self, was_told: bool) -> io::Result<SocketAddr> {
        let folder = self._folder.path().to_owned();
        let until = Instant::now() + STARTS;
        loop {
            let found = if was_told {
                TcpStream::connect(self.address).ok().map(|_| self.address)
            } else {
                ["said", "log"].iter().find_map(|name| address_in(&folder.join(name)))
            };
            if let Some(found) = found {
                return Ok(found);
            }
            if let Some(status) = self.process.try_wait()? {
                let log = std::fs::read_to_string(folder.join("log"))?;
                return Err(io::Error::other(format!("{status}: {}", log.lines().last().unwrap_or_default())));
            }
            if Instant::now() > until {
                return Err(io::Error::other("it does not say where it listens"));
            }
            std::thread::sleep(POLL);
        }
    }

    /// What it and its child, or children, have used until now. Processes that have ended do not count.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        let mut usage = Usage::default();
        for pid in self.tree()? {
            let is_child = self.is_child(pid);
            let (Ok(ns), Ok(kib)) = (cpu_ns(pid), resident_kib(pid, ResidentField::All)) else { continue };
            if is_child {
                usage.child_ns += ns;
            } else {
                usage.gateway_ns += ns;
                usage.gateway_kib += kib;
            }
        }
        Ok(usage)
    }

    fn tree(&self) -> io::Result<Vec<u32>> {
        tree_of(self.process.id())
    }

    /// Whether it is the stdio server, not a shell that starts it.
    fn is_child(&self, pid: u32) -> bool {
        let words = command_line(pid);
        let mut words = words.split(|&byte| byte == 0);
        words.next() == Some(self.own.as_os_str().as_encoded_bytes())
            && words.next() == Some(b"peer")
            && words.next() == Some(b"child")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Killing it at once would leave some gateways' children behind.
        let tree: Vec<_> = self.tree().unwrap_or_default().into_iter().map(|pid| (pid, command_line(pid))).collect();
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let until = Instant::now() + ENDS;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        for (pid, command) in tree {
            let is_left = !command.is_empty() && command_line(pid) == command;
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| is_left) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.process.wait();
    }
}

/// A process and all that it has started.
fn tree_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut tree = descendants(pid)?;
    tree.push(pid);
    Ok(tree)
}

/// Nanoseconds of CPU that a process and what it has started have used, and their resident KiB.
pub(crate) fn usage_of_tree(pid: u32) -> io::Result<(u64, u64)> {
    let (mut ns, mut kib) = (0, 0);
    for pid in tree_of(pid)? {
        ns += cpu_ns(pid).unwrap_or_default();
        kib += resident_kib(pid, ResidentField::All).unwrap_or_default();
    }
    Ok((ns, kib))
}

/// The first address of the loopback that a file names.
fn address_in(file: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(file).ok()?;
    let (_, rest) = text.split_once("http://127.0.0.1:")?;
    let port = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into())
}

/// Words, each ended by a zero; empty if the process has ended.
fn command_line(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Nanoseconds on a CPU of all the threads of a process: `stat` counts in hundredths of a second.
fn cpu_ns(pid: u32) -> io::Result<u64> {
    let mut all = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let word = text.split(' ').next().unwrap_or_default();
        all += word.parse::<u64>().map_err(io::Error::other)?;
    }
    Ok(all)
}
