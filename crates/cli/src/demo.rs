//! `rescind demo`: real processes, a few calls, and what became of each.

mod client;
#[cfg(test)]
mod example;
mod expectations;
mod paint;
mod receipts;
mod recording;
mod script;
mod source;
mod story;
mod timeline;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;

use crate::failure::Failure;
use client::Client;
use paint::{Ink, Paint, wrapped};
use recording::Recording;
use story::Story;

/// See it work: a client, the shim and a slow tool server, as real processes.
///
/// Six calls of six tools: one answers; one is cancelled and obeys; one is cancelled and ignores it; one is
/// cancelled while its answer is on its way; one never answers, until a timeout of the shim's; under the last
/// one the server dies. Takes about two seconds, needs nothing and leaves nothing behind.
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
The JSON object. Times are milliseconds since the first call was sent; what was not observed is null.
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

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let story = match play() {
        Ok(story) => story,
        Err(error) => {
            Failure::new("rescind demo", error, "check the limits on processes and open files (ulimit -a)").say();
            return ExitCode::from(2);
        }
    };
    let text = if arguments.json { json(&story) } else { picture(&story, Paint::of_stdout()) };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader who has gone has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Failure::new("standard output", error, "write it to somewhere with room").say();
            ExitCode::from(2)
        }
        Ok(()) | Err(_) if story.unexpected.is_empty() => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}

fn play() -> io::Result<Story> {
    let mut client = Client::start(&script::FLAGS)?;
    let played = script::play(&mut client);
    let (seen, ending) = client.finish();
    let recording = Recording::read(&seen.recorded);
    let mut story = Story::new(&seen, &recording, ending);
    story.unexpected = match played {
        Ok(()) => expectations::of_calls(&story),
        // What comes after that follows from it.
        Err(stopped) => vec![stopped.to_string()],
    };
    story.unexpected.extend(expectations::of_session(&story, &seen, &recording));
    Ok(story)
}

fn json(story: &Story) -> String {
    serde_json::to_string_pretty(story).unwrap_or_default() + "\n"
}

fn picture(story: &Story, paint: Paint) -> String {
    let arrow = paint.glyphs.arrow;
    let parts = format!("a client {arrow} rescind run {arrow} a sample tool server");
    let mut text = format!("{}, speaking MCP {}\n\n", paint.text(Ink::Name, parts), story.protocol);
    text += &timeline::draw(story, paint);
    text += "\n";
    text += &receipts::write(story, paint);
    text += "\n";
    text += &closing(story, paint);
    text
}

fn closing(story: &Story, paint: Paint) -> String {
    if story.unexpected.is_empty() {
        let code = story.end.exit_code.unwrap_or_default();
        let said =
            format!("As it should be. The shim left with the server's exit code, {code}; nothing is left behind.");
        return format!("  {}\n", wrapped(&said, 2, paint.width));
    }
    let mut text = paint.text(Ink::Bad, "  not as it should be") + "\n";
    for sentence in &story.unexpected {
        text += &format!("  - {}\n", wrapped(sentence, 4, paint.width));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_where_all_went_well_is_told_at_a_glance() {
        assert_eq!(picture(&example::story(), Paint::PLAIN), include_str!("demo/example.txt"));
    }

    #[test]
    fn what_was_not_as_it_should_be_is_said() {
        let mut story = example::story();
        story.unexpected.push("obeys: the work must stop by the cancel".to_owned());
        let text = picture(&story, Paint::PLAIN);
        assert!(text.ends_with("  not as it should be\n  - obeys: the work must stop by the cancel\n"), "{text}");
    }

    #[test]
    fn without_colour_there_are_no_escape_codes_and_with_it_the_same_text() {
        let plain = picture(&example::story(), Paint::PLAIN);
        let painted = picture(&example::story(), Paint { has_colour: true, ..Paint::PLAIN });
        assert!(!plain.contains('\x1b'));
        let stripped: String = painted
            .split('\x1b')
            .enumerate()
            .map(|(index, part)| match index {
                0 => part,
                _ => part.split_once('m').unwrap().1,
            })
            .collect();
        assert_eq!(stripped, plain);
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in [80, 88, 96] {
            let text = picture(&example::story(), Paint { width, ..Paint::PLAIN });
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{widest:?} of {width}:\n{text}");
        }
    }
}
