//! Calls of `echo` through a client's pipes to an HTTP server: how long one takes, how many there are in a second, and
//! what the program between costs.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rescind_bench::statistics::percentile;
use rescind_proto::frame::{self, Frame, ResponseBody, ResponseId};
use rescind_proto::id::RequestId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::calls::{self, Durations};
use crate::contender::Contender;
use crate::gateway::{Gateway, usage_of_tree};
use crate::message::{self, Era};
use crate::program::Running;
use crate::report::Figures;

/// Calls under way at once, over the one pipe.
const AT_ONCE: usize = 64;

/// Measures a client that speaks HTTP itself.
pub(crate) async fn measure_direct(
    gateway: &Gateway,
    era: Era,
    durations: Durations,
    figures: &mut Figures,
) -> io::Result<()> {
    let sessions = calls::open_sessions(gateway, Contender::Bridge, era).await?;
    let mut direct = Figures::new();
    calls::measure(gateway, &sessions, durations, &mut direct).await?;
    for (from, to) in [("p50 µs", "trip p50 µs"), ("p99 µs", "trip p99 µs"), ("calls/s", "trips/s")] {
        figures.insert(to, direct[from]);
    }
    Ok(())
}

/// Measures a program, and ends it.
pub(crate) async fn measure(running: Running, era: Era, durations: Durations, figures: &mut Figures) -> io::Result<()> {
    let Running { input, output, mut process, .. } = running;
    let pid = process.id();
    let mut pipes = Pipes::new(era, input.into(), output.into())?;
    let measured = async {
        pipes.open().await?;
        pipes.echo_for(1, durations.latency / 10).await?;
        let mut times = pipes.echo_for(1, durations.latency).await?;
        times.sort_unstable();
        figures.insert("trip p50 µs", f64::from(percentile(&times, 50)) / 1e3);
        figures.insert("trip p99 µs", f64::from(percentile(&times, 99)) / 1e3);
        pipes.echo_for(AT_ONCE, durations.throughput / 10).await?;
        let (before, begun) = (usage_of_tree(pid)?, Instant::now());
        let trips = pipes.echo_for(AT_ONCE, durations.throughput).await?.len();
        let (took, after) = (begun.elapsed(), usage_of_tree(pid)?);
        figures.insert("trips/s", trips as f64 / took.as_secs_f64());
        figures.insert("program µs", after.0.saturating_sub(before.0) as f64 / 1e3 / trips as f64);
        figures.insert("program MiB", after.1 as f64 / 1024.0);
        Ok(())
    }
    .await;
    drop(pipes);
    // Some do not end with their input.
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&process), rustix::process::Signal::TERM);
    process.wait()?;
    measured
}

/// The client's ends of a program's pipes.
struct Pipes {
    era: Era,
    to: Sender,
    from: Receiver,
    read: Vec<u8>,
    last_id: i64,
}

impl Pipes {
    fn new(era: Era, to: OwnedFd, from: OwnedFd) -> io::Result<Self> {
        let (to, from) = (Sender::from_owned_fd(to)?, Receiver::from_owned_fd(from)?);
        Ok(Self { era, to, from, read: Vec::new(), last_id: 0 })
    }

    async fn open(&mut self) -> io::Result<()> {
        if self.era == Era::Modern {
            return Ok(());
        }
        self.send(message::INITIALIZE).await?;
        let answer = self.line().await?;
        if id_of_result(&answer, "").is_none() {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        self.send(message::INITIALIZED).await
    }

    /// Calls for that long, so many at once; nanoseconds each.
    async fn echo_for(&mut self, at_once: usize, duration: Duration) -> io::Result<Vec<u32>> {
        let begun = Instant::now();
        let (mut times, mut sent) = (Vec::new(), std::collections::HashMap::new());
        for _ in 0..at_once {
            sent.insert(self.call().await?, Instant::now());
        }
        while !sent.is_empty() {
            let line = self.line().await?;
            let id = id_of_result(&line, "echoed").ok_or_else(|| {
                io::Error::other(String::from_utf8_lossy(&line).chars().take(160).collect::<String>())
            })?;
            let Some(at) = sent.remove(&id) else { return Err(io::Error::other(format!("{id} was not asked"))) };
            times.push(u32::try_from(at.elapsed().as_nanos()).unwrap_or(u32::MAX));
            if begun.elapsed() < duration {
                sent.insert(self.call().await?, Instant::now());
            }
        }
        Ok(times)
    }

    async fn call(&mut self) -> io::Result<i64> {
        self.last_id += 1;
        let work = format!("echoed{:0>58}", self.last_id);
        let call = message::call(self.era, "", self.last_id, "echo", &work);
        self.send(&call).await?;
        Ok(self.last_id)
    }

    async fn send(&mut self, message: &str) -> io::Result<()> {
        self.to.write_all(format!("{message}\n").as_bytes()).await
    }

    /// The next message that is an answer.
    async fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            while let Some(end) = memchr::memchr(b'\n', &self.read) {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                if matches!(frame::parse(&line), Ok(Frame::Response(_))) {
                    return Ok(line);
                }
            }
            if self.from.read_buf(&mut self.read).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the program has ended"));
            }
        }
    }
}

/// The id of a result that has `text` in it.
fn id_of_result(line: &[u8], text: &str) -> Option<i64> {
    let Ok(Frame::Response(response)) = frame::parse(line) else { return None };
    let ResponseBody::Result(result) = response.body else { return None };
    memchr::memmem::find(result, text.as_bytes())?;
    let Some(ResponseId::Exact(id)) = response.id else { return None };
    RequestId::as_integer(&id)
}
