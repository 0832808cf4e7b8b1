//! A named pipe. Other users may neither write to it nor read what is written.

use std::{
    ffi::OsString,
    fs::File,
    hash::{BuildHasher, RandomState},
    io, thread,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::windows::named_pipe::{NamedPipeServer, ServerOptions},
    runtime,
    sync::watch,
    task::JoinSet,
};

use super::Report;

/// How many processes can have it open at once: more than a demo starts.
const WRITERS: usize = 8;

/// The name of the pipe. As long as it is kept, processes can open it.
#[derive(Debug)]
pub(crate) struct Entrance {
    path: OsString,
    /// Dropping it tells the pipe's thread.
    _open: watch::Sender<()>,
}

/// Opens a pipe and calls `each` on another thread with every report. At the end of the pipe it drops `each`.
pub(crate) fn open(each: impl FnMut(Report) + Clone + Send + 'static) -> io::Result<Entrance> {
    let path: OsString = format!(r"\\.\pipe\rescind-demo-{:016x}", RandomState::new().hash_one(0)).into();
    let (open, entrance) = watch::channel(());
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let mut options = ServerOptions::new();
    options.access_outbound(false);
    let writers = runtime.block_on(async {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let pipe = options.first_pipe_instance(writer == 0).create(&path)?;
            writers.spawn(serve(pipe, entrance.clone(), each.clone()));
        }
        io::Result::Ok(writers)
    })?;
    thread::spawn(move || runtime.block_on(writers.join_all()));
    Ok(Entrance { path, _open: open })
}

impl Entrance {
    /// The path by which a process of this user opens it.
    pub(crate) fn path(&self) -> OsString {
        self.path.clone()
    }

    /// A writing end for this process.
    pub(crate) fn writer(&self) -> io::Result<File> {
        File::options().write(true).open(&self.path)
    }
}

/// Reads what one process writes, and then the next.
async fn serve(mut pipe: NamedPipeServer, mut entrance: watch::Receiver<()>, mut each: impl FnMut(Report)) {
    loop {
        tokio::select! {
            // Who has connected is in.
            biased;
            _ = pipe.connect() => {}
            _ = entrance.changed() => return,
        }
        let mut lines = BufReader::new(&mut pipe).split(b'\n');
        let mut last = Vec::new();
        while let Ok(Some(line)) = lines.next_segment().await {
            last.clone_from(&line);
            each(Report::Line(line));
        }
        each(Report::Closed { last });
        if pipe.disconnect().is_err() {
            return;
        }
    }
}
