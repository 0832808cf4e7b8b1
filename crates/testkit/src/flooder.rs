//! An adversarial peer on a real link: one thread says what a flood says, another reads slowly, not at all, or as fast
//! as it can.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::sim::{
    chooser::{Chooser, EndlessChooser},
    flood,
};

/// How long it reads in one way.
const PHASE: Duration = Duration::from_millis(200);

/// A peer at work.
#[derive(Debug)]
pub struct Flooder {
    is_over: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    reader: JoinHandle<()>,
    writer: JoinHandle<u64>,
}

impl Flooder {
    /// Begins to flood.
    ///
    /// # Panics
    ///
    /// Where no thread can be started.
    pub fn start(seed: u64, input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Self {
        let (is_over, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (told, count) = (Arc::clone(&is_over), Arc::clone(&read));
        let reader = thread::spawn(move || read_now_and_then(EndlessChooser(seed), input, &told, &count));
        let told = Arc::clone(&is_over);
        let writer = thread::spawn(move || write_on(EndlessChooser(!seed), output, &told));
        Self { is_over, read, reader, writer }
    }

    /// Says nothing more and closes its output; from now on it reads as fast as it can.
    pub fn finish(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// How many bytes it has read until now.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Waits until the link has closed its end too; how many bytes it has said.
    ///
    /// # Panics
    ///
    /// Where one of its threads has.
    pub fn join(self) -> u64 {
        self.reader.join().expect("the reader does not panic");
        self.writer.join().expect("the writer does not panic")
    }
}

fn write_on(mut chooser: EndlessChooser, mut output: impl Write, is_over: &AtomicBool) -> u64 {
    let (mut next_id, mut written) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let words = flood::say(&mut chooser, &mut next_id);
        if output.write_all(&words).is_err() {
            break;
        }
        written += words.len() as u64;
    }
    written
}

fn read_now_and_then(mut chooser: EndlessChooser, mut input: impl Read, is_over: &AtomicBool, count: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let (most, pause) = match chooser.choose(4) {
            // Not to the end of a frame: so one has nearly always begun.
            Some(0) => (1999, Duration::from_micros(100)),
            Some(1) => (1, PHASE),
            _ => (buffer.len(), Duration::ZERO),
        };
        let begun = Instant::now();
        while begun.elapsed() < PHASE {
            let is_fast = is_over.load(Ordering::Relaxed);
            let most = if is_fast { buffer.len() } else { most };
            match input.read(&mut buffer[..most]) {
                Ok(0) | Err(_) => return,
                Ok(read) => count.fetch_add(read as u64, Ordering::Relaxed),
            };
            if !is_fast {
                thread::sleep(pause);
            }
        }
    }
}
