//! The demo behind `rescind demo`: real processes, a few cancels, and a picture of what became of each.
//!
//! The demo has two acts. In the first, a person presses Stop in an editor, and the work stops in [an agent, its tool
//! server and the processes of a tool](hops). In the second, a client calls the tools of a [sample
//! server](sample_server) through the shim. The work itself marks when it starts and stops, beside the protocol. So
//! the demo checks what it shows.
//!
//! # Contract with the program
//!
//! Every process of the demo is the running executable, started again. Its command line must offer three commands:
//!
//! | command | runs |
//! | --- | --- |
//! | `run --record FILE --timeout RULE -- COMMAND…` | the shim |
//! | [`hops::SUBCOMMAND`] and a [role](hops::Role) | [`hops::run`] |
//! | [`sample_server::SUBCOMMAND`] | [`sample_server::serve`] |

#![warn(missing_docs)]

mod act;
mod axis;
pub mod hops;
mod marks;
mod moment;
mod ms;
mod paint;
mod pipe;
pub mod sample_server;
mod shim;
mod stop;

use std::io;

use serde::Serialize;

pub use paint::Paint;

/// The story of both acts.
#[derive(Debug, Serialize)]
pub struct Demo {
    stop: stop::Story,
    shim: shim::Story,
}

impl Demo {
    /// Plays both acts and waits until every process has ended. Takes about two seconds.
    ///
    /// # Errors
    ///
    /// Fails if a process, a pipe or a runtime cannot be created. Whatever goes wrong later is part of the story.
    pub fn play() -> io::Result<Self> {
        Ok(Self { stop: stop::play()?, shim: shim::play()? })
    }

    /// Whether both acts went as expected.
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

/// A description of the object that [`Demo::to_json`] writes, for the help of a command.
pub const JSON_FORMAT: &str = "\
The JSON object has a member for each act. Times are in milliseconds since the first request of the act was sent,
except afterMs, wentOnMs and pingMs, which are durations in milliseconds. What was not observed is null.

  stop          the editor, the agent, the tool server and its processes
    mcp         the MCP revision of agent and tool server
    stopMs      when Stop was pressed
    rows        one object for each piece of the work:
      piece     prompt, build, make, compiler, search, permission
      parent    the piece that it is part of
      askedMs, startedMs, toldMs (when Stop reached the work), stoppedMs
                (a process that was not asked to end, for want of a console, has no toldMs)
      steps     how many short portions of work were completed; stepsAfterTold: how many of them after toldMs
      cancels   notifications that cancelled it: method, atMs
      answers   answers that its requester received: atMs, answer
      receipt   what its requester knows of the cancel: outcome, afterMs (from the cancel to the answer)
      exit      of the process: code, signal
    wentOnMs    how long another prompt took afterwards
    end         exitCode of the agent, leftBehind (true if a process of the act was left running)
    unexpected  a list with a sentence for each thing that was not as expected; normally empty

  shim          a client, the shim and a sample server
    protocol    the MCP revision
    calls       one object for each call:
      id, tool, askedMs
      cancel    by (client, shim), atMs
      work      what the work itself marked: startedMs, toldMs (when the server read the cancel),
                answeringMs (when half the answer was written), endedMs, end (stopped, finished, exited),
                progress (reports written), progressWhenTold (those written before toldMs)
      client    what the client received: progress, afterCancel (messages after its cancel),
                answers (atMs, error: null for a result)
      swallowed what came late and the shim did not pass on: progress, answers, answerMs (of the last answer)
      receipt   the last receipt that the shim recorded: cause, outcome,
                askedMs, writtenMs, afterMs (from the cancel to the answer), answer
    pingMs      how long a ping took after the late answers
    end         exitCode of the shim, leftBehind (true if a process of the act was left running)
    unexpected  a list with a sentence for each thing that was not as expected; normally empty";
