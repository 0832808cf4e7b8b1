//! The second act: six calls through the shim, and what became of each.

mod client;
#[cfg(test)]
mod example;
mod expectations;
mod receipts;
mod recording;
mod script;
mod source;
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
        // What comes after that follows from it.
        Err(stopped) => vec![stopped.to_string()],
    };
    story.unexpected.extend(expectations::of_session(&story, &seen, &recording));
    Ok(story)
}

pub(crate) fn picture(story: &Story, paint: Paint) -> String {
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
    crate::disappointments(&story.unexpected, paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_where_all_went_well_is_told_at_a_glance() {
        assert_eq!(picture(&example::story(), Paint::PLAIN), include_str!("shim/example.txt"));
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
