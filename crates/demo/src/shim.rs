//! The second act: six calls through the shim.

mod client;
#[cfg(test)]
mod example;
mod expectations;
mod receipts;
mod recording;
mod script;
mod story;
mod timeline;

use std::io;

use crate::paint::{Ink, Paint, wrapped};
use client::Client;
use recording::Recording;
pub(crate) use story::Story;

pub(crate) fn play() -> io::Result<Story> {
    let mut client = Client::start(&script::FLAGS)?;
    let played = script::play(&mut client);
    let (seen, ending) = client.finish();
    let recording = Recording::read(&seen.recorded);
    let mut story = Story::new(&seen, &recording, ending);
    story.unexpected = match played {
        Ok(()) => expectations::of_calls(&story),
        // What else is missing follows from it.
        Err(error) => vec![error.to_string()],
    };
    story.unexpected.extend(expectations::of_session(&story, &seen, &recording));
    Ok(story)
}

pub(crate) fn picture(story: &Story, paint: Paint) -> String {
    let arrow = paint.glyphs.arrow;
    let parts = format!("a client {arrow} rescind run {arrow} a sample tool server");
    let mut text = format!("{} (MCP {})\n\n", paint.text(Ink::Name, parts), story.protocol);
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
        let summary =
            format!("All as expected: the shim exited with the server's code, {code}, and no process is left.");
        return format!("  {}\n", wrapped(&summary, 2, paint.width));
    }
    crate::failures(&story.unexpected, paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_that_went_as_expected_is_drawn_as_in_the_example() {
        assert_eq!(picture(&example::story(), Paint::PLAIN), include_str!("shim/example.txt"));
    }

    #[test]
    fn what_was_not_expected_is_listed() {
        let mut story = example::story();
        story.unexpected.push("obeys: the cancel must stop the work".to_owned());
        let text = picture(&story, Paint::PLAIN);
        assert!(text.ends_with("  not as expected\n  - obeys: the cancel must stop the work\n"), "{text}");
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
