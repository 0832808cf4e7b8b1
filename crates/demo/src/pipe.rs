//! A pipe to which several processes write lines, and which ends with the last of them.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::{BufRead, BufReader, Read};

#[cfg(unix)]
pub(crate) use unix::{Entrance, open};
#[cfg(windows)]
pub(crate) use windows::{Entrance, open};

/// What comes through a pipe.
#[derive(Debug)]
pub(crate) enum Report {
    Line(Vec<u8>),
    /// The process that has written this line last has closed the pipe or has ended. Where all share one pipe, this is not
    /// known before the pipe ends.
    #[cfg_attr(unix, expect(dead_code, reason = "all share one pipe"))]
    Closed {
        last: Vec<u8>,
    },
}

/// Returns the lines of a reader, until it ends or fails.
pub(crate) fn lines(reader: impl Read) -> impl Iterator<Item = Vec<u8>> {
    BufReader::new(reader).split(b'\n').map_while(Result::ok)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, sync::mpsc};

    use super::*;

    #[test]
    fn it_ends_once_its_entrance_is_closed_and_the_last_writer_has_ended() {
        let (sender, lines) = mpsc::channel();
        let report = move |report| match report {
            Report::Line(line) => sender.send(line).unwrap(),
            Report::Closed { .. } => {}
        };
        let entrance = open(report).unwrap();
        let writer = || File::options().write(true).open(entrance.path()).unwrap();
        let (mut first, mut second) = (writer(), writer());
        first.write_all(b"one\n").unwrap();
        assert_eq!(lines.recv().unwrap(), b"one");
        drop(entrance);
        second.write_all(b"two\n").unwrap();
        drop(second);
        assert_eq!(lines.recv().unwrap(), b"two");
        first.write_all(b"half a line").unwrap();
        assert!(lines.try_recv().is_err());
        drop(first);
        assert_eq!(lines.iter().collect::<Vec<_>>(), [b"half a line"]);
    }
}
