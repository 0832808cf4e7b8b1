//! The limit on the size of files (`ulimit -f`).

use crate::failure::Failure;

/// Has a write beyond the limit fail, where it would end this process in the middle of its work.
pub(super) fn survive_limit() -> Result<(), Failure> {
    #[cfg(unix)]
    {
        let taken = std::sync::Arc::default();
        signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), taken).map_err(|error| {
            Failure::new("the limit on the size of files", error, "check the limits of this shell (ulimit -a)")
        })?;
    }
    Ok(())
}
