//! What `rescind demo` plays: real processes, a few calls, and what became of each.
//!
//! The demo has two acts. In the first, an editor presses Stop, and the work stops in an [agent, its tool server and
//! the processes of a tool](hops). In the second, a client calls a [sample tool server](sample_server) through the
//! shim. The work itself marks when it starts and stops, so the demo can check each step and not only show it.
//!
//! # What it asks of the program
//!
//! Every process of the demo is the running executable again, so its command line has to offer three commands:
//!
//! | command | does |
//! | --- | --- |
//! | `run --record FILE FLAGS… -- COMMAND…` | the shim |
//! | [`hops::SUBCOMMAND`] and a [role](hops::Role) | [`hops::run`] |
//! | [`sample_server::SUBCOMMAND`] | [`sample_server::serve`] |

#![warn(missing_docs)]

pub mod hops;
mod marks;
mod moment;
mod ms;
mod paint;
mod program;
pub mod sample_server;
mod shim;
mod stop;

use std::io;

use serde::Serialize;

pub use paint::Paint;
use paint::{Ink, wrapped};

/// Both acts, played to their end.
#[derive(Debug, Serialize)]
pub struct Demo {
    stop: stop::Story,
    shim: shim::Story,
}

impl Demo {
    /// Plays both acts, which takes about three seconds, and waits for the end of every process.
    ///
    /// # Errors
    ///
    /// A process, a pipe or a runtime could not be made. What goes wrong later is in the story.
    pub fn play() -> io::Result<Self> {
        Ok(Self { stop: stop::play()?, shim: shim::play()? })
    }

    /// Whether everything was as expected.
    pub const fn is_as_expected(&self) -> bool {
        self.stop.unexpected.is_empty() && self.shim.unexpected.is_empty()
    }

    /// Draws both acts for a person.
    pub fn picture(&self, paint: Paint) -> String {
        format!("{}\n{}", stop::picture(&self.stop, paint), shim::picture(&self.shim, paint))
    }

    /// Writes both acts as one JSON object, which [`JSON_FORMAT`] describes.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The format of [`Demo::to_json`], for the help of a command.
pub const JSON_FORMAT: &str = "\
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

/// How an act ends that did not go as it should.
fn disappointments(sentences: &[String], paint: Paint) -> String {
    let mut text = paint.text(Ink::Bad, "  not as it should be") + "\n";
    for sentence in sentences {
        text += &format!("  - {}\n", wrapped(sentence, 4, paint.width));
    }
    text
}
