//! What `/proc` says about the processes a run started.

use std::collections::HashMap;
use std::io;
use std::path::Path;

/// The processes that descend from `ancestor`, without itself, in no order
/// that matters.
///
/// # Errors
/// When `/proc` cannot be listed; a process that ended meanwhile is left out.
pub fn descendants(ancestor: u32) -> io::Result<Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Some(parent) = status_field(&entry.path(), "PPid").ok().and_then(|parent| parent.parse().ok()) else {
            continue;
        };
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut queue = vec![ancestor];
    while let Some(parent) = queue.pop() {
        let born = children.remove(&parent).unwrap_or_default();
        found.extend_from_slice(&born);
        queue.extend(born);
    }
    Ok(found)
}

/// Resident memory of a process in KiB.
///
/// # Errors
/// When the process is gone or is a kernel thread.
pub fn resident_kib(pid: u32, field: ResidentField) -> io::Result<u64> {
    let name = match field {
        ResidentField::All => "VmRSS",
        ResidentField::Anonymous => "RssAnon",
    };
    let text = status_field(Path::new(&format!("/proc/{pid}")), name)?;
    text.trim_end_matches(" kB").parse().map_err(|_| io::Error::other(format!("{name} is no number: {text}")))
}

/// Which part of the resident memory is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidentField {
    /// Everything resident, the file pages of the program included.
    All,
    /// Heap, stacks and written data: what the file cache does not share.
    Anonymous,
}

/// One field of a process's or thread's `status` file, trimmed.
///
/// # Errors
/// When there is no such process or no such field.
pub fn status_field(process: &Path, name: &str) -> io::Result<String> {
    let status = std::fs::read_to_string(process.join("status"))?;
    status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.trim().to_owned())
        .ok_or_else(|| io::Error::other(format!("no {name} in {}", process.display())))
}
