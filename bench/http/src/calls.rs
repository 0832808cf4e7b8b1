//! Calls of `echo`: how long one takes, how many there are in a second, and what they cost.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rescind_bench::statistics::percentile;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::contender::Contender;
use crate::gateway::Gateway;
use crate::message::{Era, Requests};
use crate::report::Figures;

/// Sessions of the legacy era, over which connections are spread.
pub(crate) const SESSIONS: usize = 8;
const CONNECTIONS: usize = 64;

/// How long each part takes; a tenth of it more is not measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durations {
    pub(crate) latency: Duration,
    pub(crate) throughput: Duration,
}

impl Durations {
    pub(crate) const FULL: Self = Self { latency: Duration::from_secs(2), throughput: Duration::from_secs(3) };
    pub(crate) const QUICK: Self = Self { latency: Duration::from_millis(100), throughput: Duration::from_millis(200) };
}

/// Opens the sessions in which all that follows is done.
pub(crate) async fn open_sessions(gateway: &Gateway, contender: Contender, era: Era) -> io::Result<Vec<Rc<Requests>>> {
    let requests = |session: Option<&str>| Requests::new(era, gateway.address, contender, session);
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        if era == Era::Modern || contender == Contender::BareSse {
            sessions.push(Rc::new(requests(None)));
            continue;
        }
        let mut connection = Connection::open(gateway.address).await?;
        connection.send(&requests(None).initialize()).await?;
        let answer = connection.receive().await?;
        if answer.status != 200 {
            return Err(io::Error::other(answer.describe()));
        }
        let session = requests(answer.session.as_deref());
        connection.send(&session.initialized()).await?;
        connection.receive().await?;
        sessions.push(Rc::new(session));
    }
    Ok(sessions)
}

/// One connection, its calls one after the other.
pub(crate) struct Caller {
    connection: Connection,
    requests: Rc<Requests>,
    number: usize,
    last_id: i64,
}

impl Caller {
    /// The ids of two callers are the same unless they share a session.
    pub(crate) async fn connect(gateway: &Gateway, sessions: &[Rc<Requests>], number: usize) -> io::Result<Self> {
        let connection = Connection::open(gateway.address).await?;
        let requests = Rc::clone(&sessions[number % sessions.len()]);
        Ok(Self { connection, requests, number, last_id: ((number / sessions.len()) << 24) as i64 })
    }

    pub(crate) async fn echo(&mut self) -> io::Result<()> {
        self.last_id += 1;
        let work = format!("{:0>32}{:0>32}", self.number, self.last_id);
        self.connection.send(&self.requests.call(self.last_id, "echo", &work)).await?;
        let answer = self.connection.receive().await?;
        if answer.status == 200 && answer.is_result(self.last_id, &work) {
            return Ok(());
        }
        Err(io::Error::other(answer.describe()))
    }

    /// Calls for that long; nanoseconds each.
    async fn echo_for(&mut self, duration: Duration) -> io::Result<Vec<u32>> {
        let begun = Instant::now();
        let (mut times, mut last) = (Vec::new(), Duration::ZERO);
        while last < duration {
            self.echo().await?;
            let now = begun.elapsed();
            times.push(u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX));
            last = now;
        }
        Ok(times)
    }
}

/// Measures one connection, then many.
pub(crate) async fn measure(
    gateway: &Gateway,
    sessions: &[Rc<Requests>],
    durations: Durations,
    figures: &mut Figures,
) -> io::Result<()> {
    let mut caller = Caller::connect(gateway, sessions, 0).await?;
    caller.echo_for(durations.latency / 10).await?;
    let mut times = caller.echo_for(durations.latency).await?;
    times.sort_unstable();
    figures.insert("p50 µs", f64::from(percentile(&times, 50)) / 1e3);
    figures.insert("p99 µs", f64::from(percentile(&times, 99)) / 1e3);

    let mut callers = Vec::new();
    for number in 1..=CONNECTIONS {
        callers.push(Caller::connect(gateway, sessions, number).await?);
    }
    let (callers, _) = echo_together(callers, durations.throughput / 10).await?;
    let (before, begun) = (gateway.usage()?, Instant::now());
    let (_callers, calls) = echo_together(callers, durations.throughput).await?;
    let (took, after) = (begun.elapsed(), gateway.usage()?);
    let per_call = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1e3 / calls as f64;
    figures.insert("calls/s", calls as f64 / took.as_secs_f64());
    figures.insert("gateway µs", per_call(before.gateway_ns, after.gateway_ns));
    figures.insert("child µs", per_call(before.child_ns, after.child_ns));
    Ok(())
}

async fn echo_together(callers: Vec<Caller>, duration: Duration) -> io::Result<(Vec<Caller>, usize)> {
    let mut calling = JoinSet::new();
    for mut caller in callers {
        calling.spawn_local(async move {
            let calls = caller.echo_for(duration).await?.len();
            Ok::<_, io::Error>((caller, calls))
        });
    }
    let (mut callers, mut calls) = (Vec::new(), 0);
    while let Some(called) = calling.join_next().await {
        let (caller, count) = called.map_err(io::Error::other)??;
        callers.push(caller);
        calls += count;
    }
    Ok((callers, calls))
}
