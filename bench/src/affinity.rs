//! Pinning every process of a run to one CPU.
//!
//! Unpinned, a round trip through two pipes is mostly wake-ups across cores,
//! which hides what the shim adds.

use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process_tree;

/// The CPU with the highest number this process may run on.
///
/// # Errors
/// When the kernel does not tell the affinity.
pub fn last_allowed_cpu() -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)).ok_or_else(|| io::Error::other("no CPU is allowed"))
}

/// Pins the calling thread, and all it spawns from here on, to `cpu`.
///
/// # Errors
/// When the kernel refuses, or afterwards reports another affinity.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("there is no CPU {cpu}")));
    }
    let mut wanted = CpuSet::new();
    wanted.set(cpu);
    sched_setaffinity(None, &wanted)?;
    if sched_getaffinity(None)? != wanted {
        return Err(io::Error::other(format!("asked for CPU {cpu}, the kernel reports another affinity")));
    }
    Ok(())
}

/// Asks the kernel whether every thread of every descendant of this process
/// may run on `cpu` alone; returns how many processes it asked about.
///
/// # Errors
/// Names the first process that may run elsewhere.
pub fn confirm_descendants(cpu: usize) -> io::Result<usize> {
    let wanted = cpu.to_string();
    let descendants = process_tree::descendants(std::process::id())?;
    for &pid in &descendants {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let allowed = cpus_allowed(&thread?.path())?;
            if allowed != wanted {
                return Err(io::Error::other(format!(
                    "process {pid} may run on CPUs {allowed}, not on {wanted} alone"
                )));
            }
        }
    }
    Ok(descendants.len())
}

fn cpus_allowed(process: &Path) -> io::Result<String> {
    process_tree::status_field(process, "Cpus_allowed_list")
}
