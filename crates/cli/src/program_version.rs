//! The versions of programs of ours, by asking them.

use std::{
    cmp::Ordering,
    io::Read,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The version of this program.
pub(crate) const OWN: &str = env!("CARGO_PKG_VERSION");

/// Runs a program with `--version`, and returns the version that it prints within this time.
pub(crate) fn ask(path: &Path, patience: Duration) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take()?;
    let (done, answer) = mpsc::channel();
    // Ends with the pipe, which a child of the child may keep open: this thread is not joined.
    thread::spawn(move || {
        let mut text = String::new();
        let read = output.take(4096).read_to_string(&mut text);
        let _ = done.send(read.ok().map(|_| text));
    });
    let text = answer.recv_timeout(patience).ok().flatten();
    let _ = child.kill();
    let _ = child.wait();
    Some(text?.trim().strip_prefix("rescind ")?.to_owned())
}

/// Compares two versions by their numbers; a version comes after its own pre-releases. `None` if one is no version, or both
/// are pre-releases of one version.
pub(crate) fn compare(one: &str, other: &str) -> Option<Ordering> {
    let ((one, one_is_final), (other, other_is_final)) = (numbers(one)?, numbers(other)?);
    let order = one.cmp(&other).then(one_is_final.cmp(&other_is_final));
    if order == Ordering::Equal && !one_is_final { None } else { Some(order) }
}

/// The three numbers of a version, and whether nothing follows them.
fn numbers(version: &str) -> Option<([u64; 3], bool)> {
    let plain = version.split('+').next()?;
    let (numbers, is_final) = plain.split_once('-').map_or((plain, true), |(numbers, _)| (numbers, false));
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some((three, is_final))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers_and_not_by_their_letters() {
        assert_eq!(compare("0.10.0", "0.9.0"), Some(Ordering::Greater));
        assert_eq!(compare("0.1.0-alpha.1", "0.1.0"), Some(Ordering::Less));
        assert_eq!(compare("1.0.0+of-debian", "1.0.0"), Some(Ordering::Equal));
        assert_eq!(compare("0.1.0-a", "0.1.0-b"), None);
        for wrong in ["", "1.0", "1.0.0.0", "one", "99999999999999999999.0.0"] {
            assert_eq!(compare(wrong, "1.0.0"), None, "{wrong}");
        }
    }
}
