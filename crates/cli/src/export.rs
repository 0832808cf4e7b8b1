//! `rescind export FILE --to FORMAT`: a recording for other programs.

use std::path::PathBuf;

use clap::Args;
use rescind_console::Recording;

use crate::{
    completion::Completion,
    console::{open_recording, report_remarks},
    failure::Failure,
    named::{Named, value_of},
    redact::{not_written, write_to},
};

/// Write a recording in a format that other programs read.
///
/// `har` is HAR 1.2, for the network panel of a browser's developer tools ("Import HAR"): an entry for each request, with
/// `rescind://server/tools/call/NAME` as its address, or `rescind://client/…` for a request of the server. An error is shown
/// with status 500, a cancelled request with 499, one without an answer with 0.
///
/// `otlp` is OTLP in JSON, for OpenTelemetry: one trace, a span for each request below that of its session, with cancels and
/// their receipts as events. A collector takes it with
/// curl -H content-type:application/json --data-binary @OUT http://localhost:4318/v1/traces
///
/// A HAR holds what the recording holds. If it is for others, give it a recording that `rescind redact` has written.
///
/// At most 20,000 requests are written: those that never ended, and the last that did.
///
/// Exit code: 0 if it is written; 2 if not.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The recording (`rescind run --record`)
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = value_of(FORMATS))]
    to: Format,

    /// Write to OUT (mode 0600), which must not exist; without it, to stdout
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Har,
    Otlp,
}

/// The values of `--to`.
const FORMATS: &[Named<Format>] = &[
    (Format::Har, "har", "HAR 1.2, for the developer tools of browsers"),
    (Format::Otlp, "otlp", "OTLP/JSON, for OpenTelemetry"),
];

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let Arguments { recording, to, output } = arguments;
    let opened: Recording = open_recording(recording, &crate::console::plain(recording))?;
    report_remarks(recording, &opened);
    write_to(output.as_deref(), |out| {
        let written = match to {
            Format::Har => opened.write_har(out),
            Format::Otlp => opened.write_otlp(out),
        };
        written.map_err(|error| not_written(output.as_deref(), &error))
    })?;
    Ok(Completion::Whole)
}
