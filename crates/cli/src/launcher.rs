//! The launcher of the npm package. Where Node cannot become this program it stays as its parent, and names itself in
//! `RESCIND_LAUNCHER`.

/// A launcher that is killed takes this process with it, as if that had been killed. Where the system cannot promise this,
/// the session ends when its client closes its pipes.
///
/// Another parent than the launcher has no such effect: what a session starts inherits the variable.
pub(crate) fn die_with_it() {
    #[cfg(target_os = "linux")]
    if let Some(launcher) = std::env::var_os("RESCIND_LAUNCHER")
        && let Some(parent) = rustix::process::getppid()
        && launcher.to_str() == Some(&parent.to_string())
    {
        // Without it the pipes still tell.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}
