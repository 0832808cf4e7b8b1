//! `rescind demo`: real processes, a few calls, and what became of each.

mod ms;
mod paint;
mod shim;
mod stop;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use paint::{Ink, Paint, wrapped};

/// See it work, on real processes, in two acts.
///
/// First an editor presses Stop. Its agent is in the middle of two tool calls and a question to the person; one tool
/// runs a process, which runs another. All of it stops, and each piece says when. Then six calls of six tools through
/// the shim, `rescind run`: one answers; one is cancelled and obeys; one is cancelled and ignores it; one is cancelled
/// while its answer is on its way; one never answers, until a timeout of the shim's; under the last one the server
/// dies. Takes about three seconds, needs nothing and leaves nothing behind.
///
/// Exit code: 0 if all went as it should, 1 if something did not (the output says what), 2 if it could not run.
#[derive(Debug, Args)]
#[command(after_long_help = JSON)]
pub(crate) struct Arguments {
    /// Print one JSON object instead of the picture (--help describes it).
    #[arg(long)]
    json: bool,
}

const JSON: &str = "\
The JSON object has an act in each of two members. Times are milliseconds since the act's first request was sent;
what was not observed is null.

  stop          the editor, the agent, the tool server and its processes
    mcp         the revision of MCP that was spoken
    stopMs      when Stop was pressed
    rows        one object a piece of the work:
      piece     prompt, build, make, compiler, search, permission
      parent    the piece that it is a part of
      askedMs, startedMs, toldMs (Stop had reached the work), stoppedMs, steps, stepsAfterTold
      cancels   notifications that cancelled it: method, atMs
      answers   what the requester was answered: atMs, answer
      receipt   what the requester knows of the cancel: outcome, afterMs
      exit      of the process: code, signal
    wentOnMs    how long another prompt took after that
    end         exitCode of the agent, leftBehind
    unexpected  sentences; empty if all went as it should

  shim          a client, the shim and a sample server
    protocol    the revision of MCP that was spoken
    calls       one object a call:
      id, tool, askedMs
      cancel    by (client, shim), atMs
      work      what the work itself marked: startedMs, toldMs (the server had read a cancel),
                answeringMs (half the answer was written), endedMs, end (stopped, finished, exited),
                progress (reports written), progressWhenTold
      client    what the client saw: progress, afterCancel (messages after its cancel),
                answers (atMs, error: null for a result)
      swallowed what came late and the shim kept to itself: progress, answers, answerMs
      receipt   the last that the shim recorded of the cancel (docs/recording.md): cause, outcome,
                askedMs, writtenMs, afterMs, answer
    pingMs      how long a ping took after the late answers
    end         exitCode of the shim, leftBehind
    unexpected  sentences; empty if all went as it should";

/// Both acts.
#[derive(Debug, Serialize)]
struct Demo {
    stop: stop::Story,
    shim: shim::Story,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let demo = match play() {
        Ok(demo) => demo,
        Err(error) => {
            Failure::new("rescind demo", error, "check the limits on processes and open files (ulimit -a)").say();
            return ExitCode::from(2);
        }
    };
    let text = if arguments.json { json(&demo) } else { picture(&demo, Paint::of_stdout()) };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader who has gone has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Failure::new("standard output", error, "write it to somewhere with room").say();
            ExitCode::from(2)
        }
        Ok(()) | Err(_) if demo.is_as_it_should_be() => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}

fn play() -> io::Result<Demo> {
    Ok(Demo { stop: stop::play()?, shim: shim::play()? })
}

impl Demo {
    const fn is_as_it_should_be(&self) -> bool {
        self.stop.unexpected.is_empty() && self.shim.unexpected.is_empty()
    }
}

fn json(demo: &Demo) -> String {
    serde_json::to_string_pretty(demo).unwrap_or_default() + "\n"
}

fn picture(demo: &Demo, paint: Paint) -> String {
    format!("{}\n{}", stop::picture(&demo.stop, paint), shim::picture(&demo.shim, paint))
}

/// How an act ends that did not go as it should.
fn disappointments(sentences: &[String], paint: Paint) -> String {
    let mut text = paint.text(Ink::Bad, "  not as it should be") + "\n";
    for sentence in sentences {
        text += &format!("  - {}\n", wrapped(sentence, 4, paint.width));
    }
    text
}
