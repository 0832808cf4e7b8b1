//! A job, which ends with its last handle, and with it all of its processes.
//!
//! `process-wrap` creates a process suspended, puts it into a job of its own and resumes it. In 9.1 that job outlives its
//! handle, and other flags of the creation are lost, whatever is asked for. So the process is put into this job first, while
//! it is suspended, and the flags are set last.

use std::{io, sync::Arc};

use process_wrap::tokio::{ChildWrapper, CommandWrap, CommandWrapper, JobObject};
use tokio::process::Command;
use win32job::ExtendedLimitInfo;
use windows::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};

/// Dropping the last of its clones ends it, with the exit code 0.
#[derive(Clone, Debug)]
pub(crate) struct Job(Arc<win32job::Job>);

impl Job {
    pub(crate) fn new() -> io::Result<Self> {
        let mut limits = ExtendedLimitInfo::new();
        limits.limit_kill_on_job_close();
        win32job::Job::create_with_limit_info(&limits).map(|job| Self(Arc::new(job))).map_err(io::Error::other)
    }

    /// Has the process that this command starts, and all that it starts, be in the job.
    pub(crate) fn contain(&self, mut command: CommandWrap) -> CommandWrap {
        command.wrap(Entry(Some(self.clone()))).wrap(JobObject).wrap(Flags);
        command
    }
}

/// Puts the suspended process into the job.
#[derive(Debug)]
struct Entry(Option<Job>);

impl CommandWrapper for Entry {
    fn wrap_child(&mut self, child: Box<dyn ChildWrapper>, _: &CommandWrap) -> io::Result<Box<dyn ChildWrapper>> {
        let handle = child.inner_child().raw_handle().ok_or(io::ErrorKind::NotFound)?;
        if let Some(Job(job)) = self.0.take() {
            job.assign_process(handle as isize).map_err(io::Error::other)?;
        }
        Ok(child)
    }
}

/// Gives the process a console group of its own: without it an event would reach this process, too.
#[derive(Debug)]
struct Flags;

impl CommandWrapper for Flags {
    fn pre_spawn(&mut self, command: &mut Command, _: &CommandWrap) -> io::Result<()> {
        command.creation_flags((CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP).0);
        Ok(())
    }
}
