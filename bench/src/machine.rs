//! Where and under which load a run was made.

use std::fmt;
use std::io;

use serde::Serialize;

/// What a reader must know before comparing two runs.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the CPU.
    pub cpu: String,
    /// CPUs this process could run on before it pinned itself.
    pub cpus: usize,
    /// Kernel release.
    pub kernel: String,
    /// The CPU everything was pinned to.
    pub pinned_to: usize,
    /// One-minute load average when the run began.
    pub load_before: f64,
    /// One-minute load average when it ended; the run itself counts for about 1.
    pub load_after: f64,
}

impl Machine {
    /// Describes this machine; call before pinning.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn describe(pinned_to: usize) -> io::Result<Self> {
        let cpu = std::fs::read_to_string("/proc/cpuinfo")?
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == "model name")
            .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let load = load_average()?;
        Ok(Self {
            cpu,
            cpus: std::thread::available_parallelism()?.get(),
            kernel: kernel.trim().to_owned(),
            pinned_to,
            load_before: load,
            load_after: load,
        })
    }

    /// Notes the load at the end of the run.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn finish(&mut self) -> io::Result<()> {
        self.load_after = load_average()?;
        Ok(())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}, {} CPUs, Linux {}; all on CPU {}; load {:.2} before, {:.2} after",
            self.cpu, self.cpus, self.kernel, self.pinned_to, self.load_before, self.load_after
        )
    }
}

fn load_average() -> io::Result<f64> {
    std::fs::read_to_string("/proc/loadavg")?
        .split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/loadavg holds no number"))
}
